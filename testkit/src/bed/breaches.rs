use std::fmt;

use xoff_wire::units::Nanos;

/// Promise of a switch that the test bed checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Promise {
    NoLosslessDrop,
    /// All lossless frames arrive.
    Delivery,
    Order,
    /// No frame arrives more than once.
    Once,
    /// No frame stays in a switch forever.
    NothingStranded,
    /// No pause lasts longer than the queued frames that caused it.
    PausesEnd,
    /// The switch obeys pauses in time, and sends, refreshes and ends its own pauses in time.
    PausesKept,
    /// Queues stay within their limits.
    Bounds,
    /// The switch pauses a peer when a queue reaches XOFF, and resumes it below XON.
    Thresholds,
    /// Every frame in the switch is in exactly one place, and the switch's count of its frames (ledger) agrees.
    Ledger,
    /// A policy decides the same with large batches as frame by frame. In large batches, the switch does not report queue changes within
    /// the margin that the policy declares.
    Batches,
    /// A worker's driver does its steps in order: release, receive, forward, send pause frames, send data.
    Turns,
    /// A class that could send waits at most one round of its port's scheduler.
    Served,
    /// Virtual time advances: no action repeats endlessly at one instant.
    Rest,
    /// Neither policy nor switch panics.
    NoPanic,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::NoLosslessDrop => "a lossless frame was dropped",
            Promise::Delivery => "lossless frames were lost",
            Promise::Order => "a frame arrived out of order",
            Promise::Once => "a frame arrived twice",
            Promise::NothingStranded => "frames stay in a switch forever",
            Promise::PausesEnd => "a pause never ends",
            Promise::PausesKept => "a pause was not obeyed, sent or refreshed in time",
            Promise::Bounds => "a queue exceeds its limit",
            Promise::Thresholds => "a pause does not match the XOFF or XON threshold",
            Promise::Ledger => "the frames in a switch do not match its ledger (count of frames)",
            Promise::Batches => "the policy decided differently in large batches than frame by frame",
            Promise::Turns => "the steps of a driver, such as receive and send, are out of order",
            Promise::Served => "a class with queued frames waits too long to send",
            Promise::Rest => "an action repeats endlessly at one instant",
            Promise::NoPanic => "the policy or the switch panicked",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBreach {
    Panic,
    /// Records the first breach of each promise. Does not check thresholds: a policy under test may have its own.
    Note,
    NoteAll,
}

#[derive(Clone, Debug)]
pub(super) struct Breaches {
    pub(super) on_breach: OnBreach,
    pub(super) now: Nanos,
    noted: Vec<(Nanos, Promise, String)>,
}

impl Breaches {
    pub(super) const fn new(on_breach: OnBreach) -> Breaches {
        Breaches { on_breach, now: Nanos::ZERO, noted: Vec::new() }
    }

    #[track_caller]
    pub(super) fn expect(&mut self, kept: bool, promise: Promise, what: impl FnOnce() -> String) {
        if kept {
            return;
        }
        let (now, what) = (self.now, what());
        assert!(self.on_breach != OnBreach::Panic, "at {} ns: {promise}: {what}", now.0);
        if !self.noted.iter().any(|(_, it, _)| *it == promise) {
            self.noted.push((now, promise, what));
        }
    }

    pub(super) fn noted(&self) -> &[(Nanos, Promise, String)] {
        &self.noted
    }
}
