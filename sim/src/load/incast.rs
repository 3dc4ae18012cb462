//! Incast: somebody asks many at once, and they all answer at once. A query has ended when the last answer has come, and is of use
//! where that is within its deadline.

use std::collections::HashMap;

use xoff_dataplane::units::Class;

use super::closed::Times;
use super::sizes::Sizes;
use super::{Asked, Load, Query};
use crate::flows::FlowPlan;
use crate::seed::{Purpose, Seed};
use crate::time::Picos;

/// Queries.
#[derive(Clone, Debug)]
pub struct IncastSettings {
    /// Who asks, each by itself.
    pub askers: Vec<u32>,
    /// Who may be asked.
    pub servers: Vec<u32>,
    /// So many of these are, by chance; whoever asks is not.
    pub fan_in: u32,
    /// The class of questions and answers.
    pub class: Class,
    /// The question to each, in bytes; 0: there is none, and answers begin at once.
    pub question: u64,
    /// How large each answer is.
    pub answer: Sizes,
    /// From one query to the next: after its end, or where queries are open, after its begin. The first begins so long after `from`, too.
    pub gap: Times,
    /// Queries begin whether or not those before them have ended.
    pub is_open: bool,
    /// How long a query may take; `None`: as long as it takes.
    pub deadline: Option<Picos>,
    /// No query begins before.
    pub from: Picos,
    /// No query begins at this time or later.
    pub until: Picos,
}

/// What a flow of a query is.
#[derive(Clone, Copy, Debug)]
enum Part {
    Question { query: usize },
    Answer { query: usize },
}

/// The load.
#[derive(Debug)]
pub struct Incast {
    settings: IncastSettings,
    rng: fastrand::Rng,
    queries: Vec<Query>,
    parts: HashMap<u32, Part>,
}

impl Incast {
    /// By the seed.
    #[must_use]
    pub fn new(settings: IncastSettings, seed: Seed) -> Incast {
        Incast { settings, rng: seed.stream(Purpose::Load), queries: Vec::new(), parts: HashMap::new() }
    }

    /// One query after `from`, if it is not too late for it; answers when it begins.
    fn ask(&mut self, asker: u32, from: Picos, asked: &mut Asked) -> Option<Picos> {
        let start = from.after(self.settings.gap.draw(&mut self.rng));
        if start >= self.settings.until {
            return None;
        }
        let servers = self.servers(asker);
        let query = self.queries.len();
        let deadline = self.settings.deadline.map(|deadline| start.after(deadline));
        let open = u32::try_from(servers.len()).expect("few servers");
        self.queries.push(Query { asker, start, finish: None, deadline, open });
        for server in servers {
            let bytes = self.settings.question;
            let class = self.settings.class;
            if bytes == 0 {
                self.answer(query, server, asker, start, asked);
            } else {
                let question = FlowPlan { from: asker, to: server, class, bytes, start, tag: 0 };
                self.parts.insert(asked.add(question), Part::Question { query });
            }
        }
        Some(start)
    }

    fn answer(&mut self, query: usize, server: u32, asker: u32, start: Picos, asked: &mut Asked) {
        let bytes = self.settings.answer.draw(&mut self.rng);
        let class = self.settings.class;
        let answer = FlowPlan { from: server, to: asker, class, bytes, start, tag: 0 };
        self.parts.insert(asked.add(answer), Part::Answer { query });
    }

    /// Who is asked: some by chance, each once.
    fn servers(&mut self, asker: u32) -> Vec<u32> {
        let mut servers: Vec<u32> =
            self.settings.servers.iter().copied().filter(|server| *server != asker).collect();
        self.rng.shuffle(&mut servers);
        servers.truncate(self.settings.fan_in as usize);
        servers
    }
}

impl Load for Incast {
    fn begin(&mut self, asked: &mut Asked) {
        let from = self.settings.from.max(asked.now());
        for asker in self.settings.askers.clone() {
            let mut next = self.ask(asker, from, asked);
            while let Some(start) = next.filter(|_| self.settings.is_open) {
                next = self.ask(asker, start, asked);
            }
        }
    }

    fn listens(&self) -> bool {
        true
    }

    fn ended(&mut self, flow: u32, plan: &FlowPlan, asked: &mut Asked) {
        match self.parts.remove(&flow) {
            None => {}
            Some(Part::Question { query }) => self.answer(query, plan.to, plan.from, asked.now(), asked),
            Some(Part::Answer { query }) => {
                let query = &mut self.queries[query];
                query.open -= 1;
                if query.open == 0 {
                    query.finish = Some(asked.now());
                    let asker = query.asker;
                    if !self.settings.is_open {
                        self.ask(asker, asked.now(), asked);
                    }
                }
            }
        }
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }
}
