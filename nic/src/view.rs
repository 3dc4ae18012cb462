//! State of a running agent, written by the agent's threads and read by any. [`NicStatus`](crate::serve::NicStatus) explains the counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use xoff_config::format::span;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::Counters;
use xoff_switch::control::Current;
use xoff_switch::lldp::Neighbors;
use xoff_wire::units::{CLASSES, Class, ClassSet, MacAddr, Nanos};

use crate::config::NicSettings;
use crate::egress::Defects;
use crate::guard;
use crate::response::Response;

#[derive(Debug)]
pub struct NicView {
    pub settings: NicSettings,
    /// `settings`, with those that follow the switch (DCBX).
    pub in_force: Current<NicSettings>,
    /// LLDP state of the device, the only port.
    pub neighbors: Neighbors,
    pub ifindex: u32,
    pub(crate) address: Counter,
    /// Kind of leaf: `plug` or `tbf`.
    pub leaf: &'static str,
    /// Counters of the port. Those that the kernel keeps are read every second.
    pub counters: Arc<Counters>,
    pub response: Response,
    pub waiting_frames: [Counter; CLASSES],
    pub dropped: [Counter; CLASSES],
    /// Frames of `dropped` from before their class became lossless.
    pub(crate) dropped_lossy: [Counter; CLASSES],
    pub cnms: [Counter; CLASSES],
    pub longest_pause: [Counter; CLASSES],
    pub refused: Counter,
    pub(crate) unsettled: Counter,
    pub repairs: Counter,
    pub(crate) defects: Counter,
    pub disobeyed: [Counter; CLASSES],
    pub deleted: [Counter; CLASSES],
    pub missed: Counter,
    pub guards_lost: Counter,
    pub receive_backlog: Counter,
    /// Number of checks of the queues, which happen every second.
    pub looks: Counter,
    pub real_time: AtomicBool,
    /// Time of the start, on the clock of the counters.
    pub started_at: Nanos,
    pub started: SystemTime,
}

impl NicView {
    pub(crate) fn new(
        settings: NicSettings,
        ifindex: u32,
        leaf: &'static str,
        response: Response,
    ) -> NicView {
        NicView {
            in_force: Current::new(settings.clone()),
            neighbors: Neighbors::new(1),
            settings,
            ifindex,
            address: Counter::default(),
            leaf,
            counters: Counters::new(1),
            response,
            waiting_frames: Default::default(),
            dropped: Default::default(),
            dropped_lossy: Default::default(),
            cnms: Default::default(),
            longest_pause: Default::default(),
            refused: Counter::default(),
            unsettled: Counter::default(),
            repairs: Counter::default(),
            defects: Counter::default(),
            disobeyed: Default::default(),
            deleted: Default::default(),
            missed: Counter::default(),
            guards_lost: Counter::default(),
            receive_backlog: Counter::default(),
            looks: Counter::default(),
            real_time: AtomicBool::default(),
            started_at: guard::now(),
            started: SystemTime::now(),
        }
    }

    /// Returns the `peer_response` that the switch's port needs.
    #[must_use]
    pub fn peer_response(&self) -> Nanos {
        self.response.recommended().unwrap_or_else(|| self.expected_response())
    }

    /// Returns the `peer_response` that the switch's port presumably has.
    #[must_use]
    pub fn expected_response(&self) -> Nanos {
        let expected = || self.response.expected(self.real_time.load(Relaxed));
        self.settings.peer_response.unwrap_or_else(expected)
    }

    #[must_use]
    pub fn address(&self) -> MacAddr {
        MacAddr::from_number(self.address.get())
    }

    /// Returns the number of lossless frames that the host's queues dropped.
    #[must_use]
    pub fn dropped_lossless(&self) -> u64 {
        let dropped = |class: Class| {
            self.dropped[class.index()].get().saturating_sub(self.dropped_lossy[class.index()].get())
        };
        self.in_force.get().lossless.iter().map(dropped).sum()
    }

    /// Describes the faults that keep the agent from obeying pauses.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let (dropped, missed) = (self.dropped_lossless(), self.missed.get());
        let faults = [
            (missed, "pause frames and CNMs were lost, because they arrived faster than the agent read them"),
            (dropped, "frames of lossless classes were dropped in the host's queues"),
        ];
        let faults = faults.iter().filter(|(count, _)| *count > 0);
        let faults = faults.map(|(count, what)| format!("{count} {what}"));
        let own = [self.unsettled(), self.broken(), self.disobedience(), self.deletions()];
        own.into_iter().flatten().chain(faults).collect()
    }

    fn unsettled(&self) -> Option<String> {
        let classes = ClassSet(u8::try_from(self.unsettled.get()).unwrap_or(u8::MAX));
        (!classes.is_empty()).then(|| {
            format!(
                "the kernel refuses to change the queue of class {}; the agent tries again, and the log has the reason",
                list(classes)
            )
        })
    }

    #[must_use]
    pub fn defects(&self) -> Defects {
        Defects::from_number(self.defects.get())
    }

    /// Describes queues that could not be repaired.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let defects = self.defects();
        (!defects.is_empty()).then(|| {
            format!("queues are missing or changed, and cannot be repaired ({defects}): frames of paused classes may leave")
        })
    }

    /// Describes which queues of lossless classes were deleted.
    #[must_use]
    pub fn deletions(&self) -> Option<String> {
        let lossless = self.in_force.get().lossless;
        let classes = lossless.iter().filter(|class| self.deleted[class.index()].get() > 0);
        let classes: ClassSet = classes.collect();
        (!classes.is_empty()).then(|| {
            format!(
                "another program deleted the queue of class {}; its frames are lost and were not counted",
                list(classes)
            )
        })
    }

    /// Describes pauses that the host did not obey.
    #[must_use]
    pub fn disobedience(&self) -> Option<String> {
        let times = Class::ALL.into_iter().zip(&self.disobeyed).filter(|(_, time)| time.get() > 0);
        let times: Vec<String> =
            times.map(|(class, time)| format!("class {class} for up to {}", span(time.get()))).collect();
        (!times.is_empty()).then(|| {
            format!(
                "pauses were not enforced: {}; because another program had changed the queues, frames of paused classes may have left",
                times.join(", ")
            )
        })
    }
}

pub(crate) fn list(classes: ClassSet) -> String {
    classes.iter().map(|class| class.to_string()).collect::<Vec<_>>().join(", ")
}
