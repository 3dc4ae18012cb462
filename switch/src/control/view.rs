use std::sync::Arc;

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
use crate::lacp::LacpPorts;
use crate::lldp::Neighbors;
use crate::router::RouterView;
use crate::snooping::Snooping;

pub use super::port_view::{Link, PortDevice, PortView, ProgramState};

#[derive(Debug)]
pub struct SwitchView {
    pub name: String,
    pub(crate) configured: Current<SwitchSettings>,
    pub(crate) policies: PolicyCells,
    pub counters: Arc<Counters>,
    pub ports: Vec<PortView>,
    pub workers: Vec<WorkerView>,
    pub(crate) stall_budget: Nanos,
    pub(crate) clock: fn() -> Nanos,
    pub(crate) started_at: Nanos,
    pub router: Option<RouterView>,
    pub(crate) books: LossBooks,
    pub(crate) ongoing: OngoingConditions,
    pub(crate) neighbors: Neighbors,
    pub(crate) snooping: Snooping,
    pub(crate) lacp: LacpPorts,
    pub(crate) host_bell: Arc<Bell>,
}

impl SwitchView {
    #[must_use]
    pub fn settings(&self) -> Arc<SwitchSettings> {
        self.configured.get()
    }

    #[must_use]
    pub fn name_of(&self, port: PortId) -> &str {
        self.ports[port.index()].name()
    }

    pub fn ports(&self) -> impl Iterator<Item = (PortId, &PortView)> {
        self.places().filter(|(_, port)| port.is_there())
    }

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

    #[must_use]
    pub fn headroom_least_free(&self) -> Option<u64> {
        let ports =
            self.ports().flat_map(|(port, _)| Class::ALL.map(|class| self.headroom_free(port, class)));
        ports.flatten().chain(self.books.headroom_free_min()).min()
    }

    pub(super) fn headroom_free_recent(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let counters = self.counters.class(port, class);
        let used = counters.headroom_recent.get((self.clock)().0).max(counters.headroom_bytes.get());
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    pub(super) fn headroom_free(&self, port: PortId, class: Class) -> Option<u64> {
        let settings = self.settings().ports[port.index()].classes[class.index()];
        let used = self.counters.class(port, class).headroom_watermark.get();
        settings.lossless.then(|| settings.headroom.0.saturating_sub(used))
    }

    /// Returns the number of received data frames, well-formed MAC control frames, and frames to reserved addresses (LLDP, LACP).
    #[must_use]
    pub fn frames_received(&self, port: PortId) -> u64 {
        let counters = self.counters.port(port);
        let data = Class::ALL.into_iter().map(|class| self.counters.class(port, class).rx_frames.get());
        // Do not add rate frames: the counter of PFC frames includes them.
        let others =
            [&counters.pfc_frames_received, &counters.pause_frames_received, &counters.reserved_frames];
        data.chain(others.into_iter().map(Counter::get)).sum()
    }

    pub fn classes(&self) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
        let of = move |port| {
            Class::ALL.into_iter().map(move |class| (port, class, self.counters.class(port, class)))
        };
        self.ports().flat_map(move |(port, _)| of(port))
    }
}

#[derive(Debug)]
pub struct WorkerView {
    pub core: Option<usize>,
    pub slots: u32,
    pub facts: Arc<WorkerFacts>,
    pub mailbox: Mailbox,
}

#[derive(Debug, Default)]
pub struct WorkerFacts {
    pub loops: Counter,
    pub longest_gap: Counter,
    pub stalls: Counter,
    pub gaps: FineHistogram,
    /// Time from a crossed threshold until the kernel has the pause frame, in nanoseconds; an upper bound, measured
    /// from the start of the worker's iteration.
    pub pause_reaction: FineHistogram,
    /// Time from a pause frame's arrival until the worker obeys it, in nanoseconds; an upper bound, measured from the preceding poll.
    pub obey_reaction: FineHistogram,
    /// Number of frames unaccounted for, or counted in excess. Updated after frames have moved, and for each `/status`.
    pub frames_missing: Counter,
    pub frames_free: Counter,
    pub cells_free: Counter,
}

impl WorkerFacts {
    /// Counts a loop iteration that began `gap` after the preceding one, without sleep. Only the worker may call this.
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
    fn worker_loop_gap_above_stall_budget_counts_as_stall() {
        let facts = WorkerFacts::default();
        facts.looped(Nanos(1000), Nanos(1000));
        assert_eq!(facts.stalls.get(), 0);
        facts.looped(Nanos(1001), Nanos(1000));
        assert_eq!((facts.stalls.get(), facts.longest_gap.get(), facts.loops.get()), (1, 1001, 2));
    }
}
