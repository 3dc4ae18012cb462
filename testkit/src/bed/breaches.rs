use std::fmt;

use xoff_wire::units::Nanos;

/// Promises of switches and policies, which the test bed checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// No frame of a lossless class is dropped.
    NoLosslessDrop,
    /// All sent lossless frames arrive.
    Delivery,
    /// Frames of a stream keep their order.
    Order,
    /// No frame arrives twice.
    Once,
    /// No frame stays in a switch.
    NothingStranded,
    /// No pause, sent or obeyed, outlasts the queued frames.
    PausesEnd,
    /// The switch obeys pauses in time, and sends, refreshes and ends its own pauses in time.
    PausesKept,
    /// Queues stay within their limits.
    Bounds,
    /// The switch pauses a peer from XOFF on, and not below XON.
    Thresholds,
    /// Every frame is in exactly one place, and the ledger agrees.
    Ledger,
    /// A policy's margin is correct: it decides about the frames of a batch as if each were a batch of its own.
    Batches,
    /// The steps of a driver's turn are in order: release, receive, forward, send pause frames, send data.
    Turns,
    /// A class with a frame that it may send waits at most one turn of each other class.
    Served,
    /// No action repeats endlessly at one instant.
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
            Promise::NothingStranded => "frames are stranded in a switch",
            Promise::PausesEnd => "a pause never ends",
            Promise::PausesKept => "a pause was not obeyed, sent or refreshed in time",
            Promise::Bounds => "a queue exceeds its limit",
            Promise::Thresholds => "a pause does not match its threshold",
            Promise::Ledger => "the ledger does not balance",
            Promise::Batches => "a large batch led to other decisions",
            Promise::Turns => "the steps of a driver's turn are out of order",
            Promise::Served => "a class waits too long for its turn",
            Promise::Rest => "an action repeats endlessly at one instant",
            Promise::NoPanic => "the policy or the switch panicked",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBreach {
    Panic,
    /// Record the first breach of each promise, but no thresholds: a policy under test may have its own.
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

    /// Records a breach unless `kept`.
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
