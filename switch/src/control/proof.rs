//! Gaps in the proof that the switch lost no frame, such as an unreadable counter; acknowledged past gaps are left out.

use xoff_flow_control::counter::Counter;
use xoff_wire::units::PortId;

use super::external_losses::{Acknowledged, ExternalLosses};
use super::view::{Link, PortView, ProgramState, SwitchView};

pub(super) fn gaps(view: &SwitchView, unseen: &[ExternalLosses]) -> Vec<Vec<String>> {
    view.places().map(|(id, port)| of_port(port, unseen[id.index()])).collect()
}

pub(super) fn with_names(view: &SwitchView, gaps: &[Vec<String>]) -> impl Iterator<Item = String> {
    named(view, |id, _| gaps[id.index()].clone())
}

pub(super) fn acknowledged(view: &SwitchView) -> impl Iterator<Item = String> {
    named(view, |_, port| {
        let past = past(port).into_iter().filter_map(|past| past.describe(past.acknowledged.get()));
        let Acknowledged { unknown, ambiguous, .. } = &port.acknowledged;
        let unseen = ExternalLosses {
            unknown: unknown.get(),
            ambiguous: ambiguous.get(),
            ..ExternalLosses::default()
        };
        past.chain(unseen.unproved_in_words()).collect()
    })
}

pub(super) fn acknowledge(view: &SwitchView) -> Vec<String> {
    let of_port = |id, port: &PortView| {
        let over = past(port).into_iter().filter(|past| !past.lasts);
        let unseen = view.unseen_at(id);
        let unproved = unseen.without(&port.acknowledged);
        port.acknowledged.unknown.set(unseen.unknown);
        port.acknowledged.ambiguous.set(unseen.ambiguous);
        over.filter_map(|past| past.acknowledge()).chain(unproved.unproved_in_words()).collect()
    };
    named(view, of_port).collect()
}

fn named<F: Fn(PortId, &PortView) -> Vec<String>>(
    view: &SwitchView,
    of_port: F,
) -> impl Iterator<Item = String> {
    view.places().flat_map(move |(id, port)| {
        let name = view.name_of(id);
        of_port(id, port).into_iter().map(move |gap| format!("{name}: {gap}"))
    })
}

fn of_port(port: &PortView, unseen: ExternalLosses) -> Vec<String> {
    let unfollowed = port.unfollowed.get();
    let missing = (port.link.get() == Link::Gone && unfollowed.is_none())
        .then(|| format!("the device {} is gone; its last drop counters are lost", port.device.get()));
    let device = port.device_drops().err().map(|unread| unread.to_string()).filter(|_| missing.is_none());
    let sockets = port.xdp_statistics().and_then(|_| port.arrivals()).err();
    let sockets =
        sockets.map(|error| format!("the drop counters of the port's sockets cannot be read: {error}"));
    let past = past(port).into_iter().filter_map(|past| past.describe(past.open()));
    let unseen = unseen.without(&port.acknowledged);
    let gaps = [missing, unfollowed, device, sockets].into_iter().flatten();
    gaps.chain(unseen.unproved_in_words()).chain(past).collect()
}

struct PastGaps<'a> {
    times: u64,
    acknowledged: &'a Counter,
    lasts: bool,
    what: &'static str,
    and: &'static str,
}

fn past(port: &PortView) -> [PastGaps<'_>; 4] {
    [
        PastGaps {
            times: port.returns.get(),
            acknowledged: &port.acknowledged.returns,
            lasts: false,
            what: "the device was gone",
            and: "its last drop counters are lost",
        },
        PastGaps {
            times: port.program_detached.get(),
            acknowledged: &port.acknowledged.program_detached,
            lasts: port.program.get() != ProgramState::Attached,
            what: "the XDP program was removed",
            and: "frames received meanwhile were not counted",
        },
        PastGaps {
            times: port.requeued.get(),
            acknowledged: &port.acknowledged.requeued,
            lasts: port.unfollowed.get().is_some(),
            what: "the number of receive queues of the device changed",
            and: "frames of queues without a socket were not counted",
        },
        PastGaps {
            times: port.removed_unread.get(),
            acknowledged: &port.acknowledged.removed_unread,
            lasts: false,
            what: "the port was removed",
            and: "its last drop counters could not be read",
        },
    ]
}

impl PastGaps<'_> {
    fn open(&self) -> u64 {
        self.times.saturating_sub(self.acknowledged.get())
    }

    fn describe(&self, times: u64) -> Option<String> {
        let PastGaps { what, and, .. } = self;
        match times {
            0 => None,
            1 => Some(format!("{what} once; {and}")),
            times => Some(format!("{what} {times} times; {and}")),
        }
    }

    fn acknowledge(&self) -> Option<String> {
        let description = self.describe(self.open());
        self.acknowledged.set(self.times);
        description
    }
}
