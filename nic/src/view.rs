//! What can be seen of a running agent: the counters of a port ([`Counters`]), written by the agent's threads and read by
//! anyone, and what only a host has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use xoff_config::NicSettings;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::Counters;
use xoff_dataplane::units::{CLASSES, MacAddr, Nanos};

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
        let refused = self.refused.get();
        let dropped: u64 = self.settings.lossless.iter().map(|class| self.dropped[class.index()].get()).sum();
        let missed = self.missed.get();
        let faults = [
            (refused, "changes of queues were refused by the kernel; the log says why"),
            (missed, "pause frames and CNMs came faster than they could be read, and were lost"),
            (dropped, "frames of lossless classes were dropped in the host's queues"),
        ];
        faults.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
    }
}
