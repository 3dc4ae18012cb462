//! What the control thread can see of a running switch, and by whom each part is written.

use std::sync::Arc;
use std::time::SystemTime;

use xoff_dataplane::counter::{Counter, FineHistogram};
use xoff_dataplane::counters::{ClassCounters, Counters};
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{Class, Nanos, PortId};

use super::current::Current;
use super::judged::GoingOn;
use super::loss_books::LossBooks;
use super::mailbox::Mailbox;
use super::policy_cells::PolicyCells;
use super::port_view::PauseTimes;
use super::unseen::Unseen;
use crate::bell::Bell;
use crate::lldp::Neighbors;
use crate::router::RouterView;

pub use super::port_view::{Link, PortDevice, PortView, ProgramState};

/// A running switch, as seen from outside its workers.
#[derive(Debug)]
pub struct SwitchView {
    /// The switch's name.
    pub name: String,
    /// What the dataplane was told last.
    pub configured: Current<SwitchSettings>,
    /// The policy of each class now.
    pub policies: PolicyCells,
    /// Written by the workers.
    pub counters: Arc<Counters>,
    /// One for each port of `settings`: for each place that a port may have.
    pub ports: Vec<PortView>,
    /// The threads that forward.
    pub workers: Vec<WorkerView>,
    /// A worker's longest pause between two loops through which nothing lossless is lost.
    pub stall_budget: Nanos,
    /// The clock that the workers tell time by.
    pub clock: fn() -> Nanos,
    /// When the switch was started, by that clock.
    pub started_at: Nanos,
    /// And by the wall clock, which may have been set since.
    pub started: SystemTime,
    /// The router, if there is one.
    pub router: Option<RouterView>,
    /// What lossless classes have lost.
    pub books: LossBooks,
    /// What goes wrong now. Written by the control thread.
    pub going_on: GoingOn,
    /// What ports say by LLDP, and hear. Written by the host path.
    pub neighbors: Neighbors,
    /// Wakes the host path.
    pub host_bell: Arc<Bell>,
}

impl SwitchView {
    /// What the dataplane was told last.
    #[must_use]
    pub fn settings(&self) -> Arc<SwitchSettings> {
        self.configured.get()
    }

    /// The name of a port.
    #[must_use]
    pub fn name_of(&self, port: PortId) -> &str {
        self.ports[port.index()].name()
    }

    /// All ports that are there, with what is seen of each.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, &PortView)> {
        self.places().filter(|(_, port)| port.is_there())
    }

    /// All places for ports, those of which are none, or no more, included.
    pub fn places(&self) -> impl Iterator<Item = (PortId, &PortView)> {
        (0..=u8::MAX).map(PortId).zip(&self.ports)
    }

    /// How long the peer of `port` has been held, and has held it, for `class`, and how long the pipeline was halted for that
    /// queue; what lasts is included.
    pub(super) fn pause_times(&self, port: PortId, class: Class) -> PauseTimes {
        let counters = self.counters.class(port, class);
        self.ports[port.index()].pause_times((self.clock)(), class, counters)
    }

    /// Frames that this port lost unseen.
    pub(super) fn unseen_at(&self, id: PortId) -> Unseen {
        self.ports[id.index()].unseen(id, &self.counters, &self.configured, self.clock)
    }

    /// Frames that were lost unseen, for each place for a port.
    pub(super) fn unseen(&self) -> Vec<Unseen> {
        self.places().map(|(id, _)| self.unseen_at(id)).collect()
    }

    /// Least headroom left so far, over all lossless classes, those that are none any more included; `None`: there were none.
    #[must_use]
    pub fn headroom_least_free(&self) -> Option<u64> {
        let ports =
            self.ports().flat_map(|(port, _)| Class::ALL.map(|class| self.headroom_free(port, class)));
        ports.flatten().chain(self.books.headroom_free_min()).min()
    }

    /// Least headroom left in the last five minutes, to the minute, in a lossless class.
    pub(super) fn headroom_free_recent(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let counters = self.counters.class(port, class);
        let used = counters.headroom_recent.get((self.clock)().0).max(counters.headroom_bytes.get());
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// Least headroom left so far in a lossless class.
    pub(super) fn headroom_free(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let used = self.counters.class(port, class).headroom_watermark.get();
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// All classes of all ports.
    pub fn classes(&self) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
        let of = move |port| {
            Class::ALL.into_iter().map(move |class| (port, class, self.counters.class(port, class)))
        };
        self.ports().flat_map(move |(port, _)| of(port))
    }
}

/// A worker: a thread and what it tells.
#[derive(Debug)]
pub struct WorkerView {
    /// The core that it is pinned to, if it is.
    pub core: Option<usize>,
    /// How many slots its store has.
    pub slots: u32,
    /// Written by the worker.
    pub facts: Arc<WorkerFacts>,
    /// Messages to the worker.
    pub mailbox: Mailbox,
}

/// What a worker writes about itself.
#[derive(Debug, Default)]
pub struct WorkerFacts {
    /// Loops so far.
    pub loops: Counter,
    /// Most time between two loops of an awake worker, in nanoseconds.
    pub longest_gap: Counter,
    /// Gaps longer than the stall budget.
    pub stalls: Counter,
    /// Time between two loops, in nanoseconds.
    pub gaps: FineHistogram,
    /// From the start of the loop in which a threshold was crossed until the kernel has taken the frame
    /// that stops the peer, in nanoseconds: an upper bound of the reaction.
    pub pause_reaction: FineHistogram,
    /// From the last look before a pause frame came to when it was obeyed, in nanoseconds: an upper
    /// bound of how long frames of its class were still handed over.
    pub obey_reaction: FineHistogram,
    /// What the worker's ledger misses, as an absolute number: zero unless the switch has a bug.
    /// Written shortly after frames have moved, and for each `/status`.
    pub frames_missing: Counter,
    /// Frames that its buffer memory has room for. Written shortly after frames have moved, and for each `/status`.
    pub frames_free: Counter,
    /// Free cells of its buffer memory. Written at the same times.
    pub cells_free: Counter,
}

impl WorkerFacts {
    /// Counts a loop that began `gap` after the one before; time asleep does not belong to it. Only
    /// the worker calls it.
    #[inline]
    pub fn looped(&self, gap: Nanos, stall_budget: Nanos) {
        self.loops.add(1);
        self.gaps.record(gap.0);
        self.longest_gap.raise(gap.0);
        if gap > stall_budget {
            self.stalls.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_stall_beyond_the_budget_only() {
        let facts = WorkerFacts::default();
        facts.looped(Nanos(1000), Nanos(1000));
        assert_eq!(facts.stalls.get(), 0);
        facts.looped(Nanos(1001), Nanos(1000));
        assert_eq!((facts.stalls.get(), facts.longest_gap.get(), facts.loops.get()), (1, 1001, 2));
    }
}
