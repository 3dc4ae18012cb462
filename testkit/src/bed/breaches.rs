//! Broken promises: a test panics at once, a check continues and reports.

use std::fmt;

use xoff_wire::units::Nanos;

/// Promises of switches and policies.
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
    /// The switch obeys pauses in time; it sends, refreshes and ends its own in time.
    PausesKept,
    /// Queues stay within their limits.
    Bounds,
    /// Peers are paused from XOFF on, and not below XON.
    Thresholds,
    /// Every frame is in one place, and the ledger agrees.
    Ledger,
    /// A policy's margin is correct: frames of one batch are treated as if each had its own.
    Batches,
    /// A driver releases, receives, forwards, sends pause frames and then data.
    Turns,
    /// A sendable frame leaves within the turns of all other classes.
    Served,
    /// Work comes to an end.
    Rest,
    /// Nothing panics.
    NoPanic,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::NoLosslessDrop => "a lossless frame was dropped",
            Promise::Delivery => "lost",
            Promise::Order => "out of order",
            Promise::Once => "twice",
            Promise::NothingStranded => "stranded",
            Promise::PausesEnd => "a pause that never ends",
            Promise::PausesKept => "a pause was not kept",
            Promise::Bounds => "a queue holds too much",
            Promise::Thresholds => "a threshold was passed",
            Promise::Ledger => "the ledger does not balance",
            Promise::Batches => "batches change what is decided",
            Promise::Turns => "a turn out of order",
            Promise::Served => "a class waits for too long",
            Promise::Rest => "no end",
            Promise::NoPanic => "panicked",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBreach {
    Panic,
    /// The first breach of each promise. Thresholds are not judged: a policy under test may have its own.
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
