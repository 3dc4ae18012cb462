//! What can be seen of a running agent: the counters of a port ([`Counters`]), written by the agent's threads and read by
//! anyone, and what only a host has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use xoff_config::format::span;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::Counters;
use xoff_dataplane::units::{CLASSES, Class, ClassSet, MacAddr, Nanos};

use crate::config::NicSettings;
use crate::egress::Defects;
use crate::guard;
use crate::response::Response;

/// A running agent.
#[derive(Debug)]
pub struct NicView {
    /// What it was told.
    pub settings: NicSettings,
    /// Index of its device.
    pub ifindex: u32,
    /// The device's address, as a number.
    pub(crate) address: Counter,
    /// What stops a class: `plug`, `tbf`, ...
    pub leaf: &'static str,
    /// Of one port. What is sent, waits and is dropped is read from the queueing disciplines every second.
    pub counters: Arc<Counters>,
    /// From frame to stopped queue.
    pub response: Response,
    /// Frames that wait, by class.
    pub waiting_frames: [Counter; CLASSES],
    /// What the kernel dropped in a class's leaf.
    pub dropped: [Counter; CLASSES],
    /// CNMs received, by the class that they slow down.
    pub cnms: [Counter; CLASSES],
    /// The longest pause at a stretch, in nanoseconds, by class.
    pub longest_pause: [Counter; CLASSES],
    /// Changes that the kernel refused.
    pub refused: Counter,
    /// The classes whose last change it refused.
    pub(crate) unsettled: Counter,
    /// Times that the queues were repaired after somebody else had changed them.
    pub repairs: Counter,
    /// What of the queues is missing or changed, as a number.
    pub(crate) defects: Counter,
    /// Nanoseconds for which frames of each class may have left while it was paused.
    pub disobeyed: [Counter; CLASSES],
    /// Times that somebody else had deleted the queue of each class, with the frames in it.
    pub deleted: [Counter; CLASSES],
    /// MAC control and CNMs that came faster than they were read, and were lost.
    pub missed: Counter,
    /// Times that the process had ended that guards the queues.
    pub guards_lost: Counter,
    /// What waits in the fullest UDP socket, where that is looked at.
    pub receive_backlog: Counter,
    /// Times that it has looked after its queues, once a second while it lives.
    pub looks: Counter,
    /// Whether the agent has real-time priority.
    pub real_time: AtomicBool,
    /// When the agent was started, by the clock of its counters.
    pub started_at: Nanos,
    /// And by the wall clock, which may have been set since.
    pub started: SystemTime,
}

impl NicView {
    /// Creates the view of an agent that starts now, on the device of this index. `leaf` is the queueing discipline that pauses a class.
    pub(crate) fn new(
        settings: NicSettings,
        ifindex: u32,
        leaf: &'static str,
        response: Response,
    ) -> NicView {
        NicView {
            settings,
            ifindex,
            address: Counter::default(),
            leaf,
            counters: Counters::new(1),
            response,
            waiting_frames: Default::default(),
            dropped: Default::default(),
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

    /// What the switch's port has to reckon with, by what was measured or else by what is expected.
    #[must_use]
    pub fn peer_response(&self) -> Nanos {
        self.response.recommended().unwrap_or_else(|| self.expected_response())
    }

    /// What the switch's port is taken to reckon with.
    #[must_use]
    pub fn expected_response(&self) -> Nanos {
        let expected = || self.response.expected(self.real_time.load(Relaxed));
        self.settings.peer_response.unwrap_or_else(expected)
    }

    /// The device's address by now.
    #[must_use]
    pub fn address(&self) -> MacAddr {
        MacAddr::from_number(self.address.get())
    }

    /// What keeps the agent from doing its work, in words.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let dropped: u64 = self.settings.lossless.iter().map(|class| self.dropped[class.index()].get()).sum();
        let missed = self.missed.get();
        let faults = [
            (missed, "pause frames and CNMs came faster than they could be read, and were lost"),
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
                "the kernel refuses changes of class {}; the log says why, and they are tried again",
                list(classes)
            )
        })
    }

    /// What of the queues is missing or changed.
    #[must_use]
    pub fn defects(&self) -> Defects {
        Defects::from_number(self.defects.get())
    }

    /// What of the queues is missing or changed and could not be repaired, in words.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let defects = self.defects();
        (!defects.is_empty()).then(|| {
            format!("queues are missing or changed, and cannot be repaired ({defects}): frames of paused classes may leave")
        })
    }

    /// The lossless classes whose queue somebody deleted, in words.
    #[must_use]
    pub fn deletions(&self) -> Option<String> {
        let classes = self.settings.lossless.iter().filter(|class| self.deleted[class.index()].get() > 0);
        let classes: ClassSet = classes.collect();
        (!classes.is_empty()).then(|| {
            format!(
                "somebody deleted the queue of class {}: frames that were queued in it are lost, and nobody has counted them",
                list(classes)
            )
        })
    }

    /// The classes whose frames may have left while they were paused, and for how long, in words.
    #[must_use]
    pub fn disobedience(&self) -> Option<String> {
        let times = Class::ALL.into_iter().zip(&self.disobeyed).filter(|(_, time)| time.get() > 0);
        let times: Vec<String> =
            times.map(|(class, time)| format!("class {class} for up to {}", span(time.get()))).collect();
        (!times.is_empty()).then(|| {
            format!(
                "did not obey: {}; somebody had changed the queues, and frames may have left in a pause",
                times.join(", ")
            )
        })
    }
}

/// "3, 4".
pub(crate) fn list(classes: ClassSet) -> String {
    classes.iter().map(|class| class.to_string()).collect::<Vec<_>>().join(", ")
}
