//! Broken promises: where a test is to stop at once, and where a check goes on and reports.

use std::fmt;

use xoff_wire::units::Nanos;

/// What a switch promises, whatever its policy; and what a policy promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// No frame of a lossless class is dropped.
    NoLosslessDrop,
    /// What is sent in a lossless class comes.
    Delivery,
    /// Frames of a stream come in order.
    Order,
    /// No frame comes twice.
    Once,
    /// No frame stays in a switch.
    NothingStranded,
    /// Nobody is held, and nobody stands still, when nothing waits any more.
    PausesEnd,
    /// What a peer asks for is kept, and what it is asked for is told at once, kept alive and ended.
    PausesKept,
    /// Queues hold no more than they may.
    Bounds,
    /// Peers are held from the byte of XOFF on, and not below XON.
    Thresholds,
    /// Every frame is in one place, and the books say so.
    Ledger,
    /// Frames that are taken in one batch fare as if each were taken in a batch of its own: a policy's margin holds.
    Batches,
    /// A driver releases, receives, forwards, sends pause frames and then data.
    Turns,
    /// What waits and may be sent is sent within the turns of all others.
    Served,
    /// There is an end to what has to be done.
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

/// What a bed does about a broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBreach {
    Panic,
    /// The first of each promise is kept. A policy that is on trial may have thresholds of its own: they are not judged.
    Note,
    /// The first of each promise is kept, whatever it is about.
    NoteAll,
}

/// Broken promises, so far.
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

    /// A promise that is to hold now.
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
