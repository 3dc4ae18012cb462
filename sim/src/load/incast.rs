use std::collections::HashMap;

use xoff_wire::units::Class;

use super::closed::Times;
use super::{Load, NewFlows, Query};
use crate::flows::FlowPlan;
use crate::seed::{Purpose, Seed};
use crate::time::Picos;
use xoff_host::sizes::Sizes;

#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct IncastSettings {
    pub askers: Vec<u32>,
    pub servers: Vec<u32>,
    /// Servers per query, drawn from `servers` without the querying host.
    pub fan_in: u32,
    pub class: Class,
    /// Bytes of a request; with 0, servers answer at once, without a request.
    pub question: u64,
    pub answer: Sizes,
    /// Gap before each query of a host. It begins at the end of the host's previous query (with `is_open`, at its
    /// start); the first gap begins at `from`.
    pub gap: Times,
    pub is_open: bool,
    pub deadline: Option<Picos>,
    pub from: Picos,
    pub until: Picos,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Question { query: usize },
    Answer { query: usize },
}

/// Load of incast queries, which several servers answer at the same time.
#[derive(Debug)]
pub struct Incast {
    settings: IncastSettings,
    rng: fastrand::Rng,
    queries: Vec<Query>,
    parts: HashMap<u32, Part>,
}

impl Incast {
    /// Creates an incast load. The seed determines gaps, servers and sizes.
    #[must_use]
    pub fn new(settings: IncastSettings, seed: Seed) -> Incast {
        Incast { settings, rng: seed.stream(Purpose::Load), queries: Vec::new(), parts: HashMap::new() }
    }

    fn add_query(&mut self, asker: u32, from: Picos, new_flows: &mut NewFlows) -> Option<Picos> {
        let start = from.after(self.settings.gap.draw(&mut self.rng));
        if start >= self.settings.until {
            return None;
        }
        let servers = self.servers(asker);
        let query = self.queries.len();
        let deadline = self.settings.deadline.map(|deadline| start.after(deadline));
        let open = u32::try_from(servers.len()).expect("the number of servers must fit into 32 bits");
        self.queries.push(Query { asker, start, finish: None, deadline, open });
        for server in servers {
            let bytes = self.settings.question;
            let class = self.settings.class;
            if bytes == 0 {
                self.add_answer(query, server, asker, start, new_flows);
            } else {
                let question = FlowPlan { from: asker, to: server, class, bytes, start, tag: 0 };
                self.parts.insert(new_flows.add(question), Part::Question { query });
            }
        }
        Some(start)
    }

    fn add_answer(&mut self, query: usize, server: u32, asker: u32, start: Picos, new_flows: &mut NewFlows) {
        let bytes = self.settings.answer.draw(&mut self.rng);
        let class = self.settings.class;
        let answer = FlowPlan { from: server, to: asker, class, bytes, start, tag: 0 };
        self.parts.insert(new_flows.add(answer), Part::Answer { query });
    }

    fn servers(&mut self, asker: u32) -> Vec<u32> {
        let mut servers: Vec<u32> =
            self.settings.servers.iter().copied().filter(|server| *server != asker).collect();
        self.rng.shuffle(&mut servers);
        servers.truncate(self.settings.fan_in as usize);
        servers
    }
}

impl Load for Incast {
    fn begin(&mut self, new_flows: &mut NewFlows) {
        let from = self.settings.from.max(new_flows.now());
        for asker in self.settings.askers.clone() {
            let mut next = self.add_query(asker, from, new_flows);
            while let Some(start) = next.filter(|_| self.settings.is_open) {
                next = self.add_query(asker, start, new_flows);
            }
        }
    }

    fn listens(&self) -> bool {
        true
    }

    fn ended(&mut self, flow: u32, plan: &FlowPlan, new_flows: &mut NewFlows) {
        match self.parts.remove(&flow) {
            None => {}
            Some(Part::Question { query }) => {
                self.add_answer(query, plan.to, plan.from, new_flows.now(), new_flows)
            }
            Some(Part::Answer { query }) => {
                let query = &mut self.queries[query];
                query.open -= 1;
                if query.open == 0 {
                    query.finish = Some(new_flows.now());
                    let asker = query.asker;
                    if !self.settings.is_open {
                        self.add_query(asker, new_flows.now(), new_flows);
                    }
                }
            }
        }
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }
}
