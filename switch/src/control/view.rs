use std::sync::Arc;
use std::time::SystemTime;

use xoff_flow_control::counter::{Counter, FineHistogram};
use xoff_flow_control::counters::{ClassCounters, Counters};
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Class, Nanos, PortId};

use super::current::Current;
use super::external_losses::ExternalLosses;
use super::judged::OngoingConditions;
use super::loss_books::LossBooks;
use super::mailbox::Mailbox;
use super::policy_cells::PolicyCells;
use super::port_view::PauseTimes;
use crate::bell::Bell;
use crate::lldp::Neighbors;
use crate::router::RouterView;

pub use super::port_view::{Link, PortDevice, PortView, ProgramState};

/// Running switch as seen from outside its workers.
#[derive(Debug)]
pub struct SwitchView {
    /// Switch.
    pub name: String,
    /// Dataplane settings.
    pub configured: Current<SwitchSettings>,
    /// Policy of each class.
    pub policies: PolicyCells,
    /// Counters. Written by the workers.
    pub counters: Arc<Counters>,
    /// Ports and vacant places.
    pub ports: Vec<PortView>,
    /// Workers.
    pub workers: Vec<WorkerView>,
    /// Longest stall without loss in a lossless class.
    pub stall_budget: Nanos,
    /// Clock of the workers.
    pub clock: fn() -> Nanos,
    /// Start by that clock.
    pub started_at: Nanos,
    /// Start by the wall clock, possibly set since.
    pub started: SystemTime,
    /// Router, if any.
    pub router: Option<RouterView>,
    /// Losses of lossless classes.
    pub books: LossBooks,
    /// Current conditions. Written by the control thread.
    pub ongoing: OngoingConditions,
    /// LLDP of the ports. Written by the host path.
    pub neighbors: Neighbors,
    /// Wakes the host path.
    pub host_bell: Arc<Bell>,
}

impl SwitchView {
    /// Returns the dataplane's settings.
    #[must_use]
    pub fn settings(&self) -> Arc<SwitchSettings> {
        self.configured.get()
    }

    /// Returns a port's name.
    #[must_use]
    pub fn name_of(&self, port: PortId) -> &str {
        self.ports[port.index()].name()
    }

    /// Returns all existing ports.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, &PortView)> {
        self.places().filter(|(_, port)| port.is_there())
    }

    /// Returns all ports and vacant places.
    pub fn places(&self) -> impl Iterator<Item = (PortId, &PortView)> {
        (0..=u8::MAX).map(PortId).zip(&self.ports)
    }

    pub(super) fn pause_times(&self, port: PortId, class: Class) -> PauseTimes {
        let counters = self.counters.class(port, class);
        self.ports[port.index()].pause_times((self.clock)(), class, counters)
    }

    pub(super) fn unseen_at(&self, id: PortId) -> ExternalLosses {
        self.ports[id.index()].unseen(id, &self.counters, &self.configured, self.clock)
    }

    pub(super) fn unseen(&self) -> Vec<ExternalLosses> {
        self.places().map(|(id, _)| self.unseen_at(id)).collect()
    }

    /// Returns the minimum headroom left in all classes that are or were lossless.
    #[must_use]
    pub fn headroom_least_free(&self) -> Option<u64> {
        let ports =
            self.ports().flat_map(|(port, _)| Class::ALL.map(|class| self.headroom_free(port, class)));
        ports.flatten().chain(self.books.headroom_free_min()).min()
    }

    /// Returns the minimum of five minutes, with a resolution of a minute; `None` for a lossy class.
    pub(super) fn headroom_free_recent(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let counters = self.counters.class(port, class);
        let used = counters.headroom_recent.get((self.clock)().0).max(counters.headroom_bytes.get());
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// Returns the minimum so far; `None` for a lossy class.
    pub(super) fn headroom_free(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let used = self.counters.class(port, class).headroom_watermark.get();
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// Returns all classes of all ports.
    pub fn classes(&self) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
        let of = move |port| {
            Class::ALL.into_iter().map(move |class| (port, class, self.counters.class(port, class)))
        };
        self.ports().flat_map(move |(port, _)| of(port))
    }
}

/// Worker as seen from outside.
#[derive(Debug)]
pub struct WorkerView {
    /// Core of the worker, if pinned.
    pub core: Option<usize>,
    /// Slots of its store.
    pub slots: u32,
    /// Published facts.
    pub facts: Arc<WorkerFacts>,
    /// Requests.
    pub mailbox: Mailbox,
}

/// Facts that a worker publishes.
#[derive(Debug, Default)]
pub struct WorkerFacts {
    /// Loops.
    pub loops: Counter,
    /// Longest time between two loops while awake, in nanoseconds.
    pub longest_gap: Counter,
    /// Gaps longer than the stall budget.
    pub stalls: Counter,
    /// Time between two loops, in nanoseconds.
    pub gaps: FineHistogram,
    /// Upper bound of the reaction to a crossed threshold, in nanoseconds: from the start of that loop until the kernel
    /// has the pause frame.
    pub pause_reaction: FineHistogram,
    /// Upper bound of the reaction to a pause frame, in nanoseconds: from the poll before its arrival until it was obeyed.
    pub obey_reaction: FineHistogram,
    /// Frames missing from the ledger, as an absolute number: zero without a bug. Written after frames have moved, and for each `/status`.
    pub frames_missing: Counter,
    /// Free frames of the buffer memory, written as `frames_missing`.
    pub frames_free: Counter,
    /// Free cells of the buffer memory, written as `frames_missing`.
    pub cells_free: Counter,
}

impl WorkerFacts {
    /// Counts a loop `gap` after the preceding one, without sleep. Only for the worker.
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
