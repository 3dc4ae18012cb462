//! What a slow receiver does with what comes: it takes frames no faster than it can, keeps the others meanwhile, and holds its switch to
//! the classes of which too many wait, by PFC as a switch would ([`Held`]).
//!
//! Only data waits: what is said of flows that are sent there is dealt with at once.

use std::collections::VecDeque;

use xoff_dataplane::pause::Held;
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, Quanta};
use xoff_dataplane::wire::mac_control::LEN;
use xoff_dataplane::wire::{MacControl, Pfc};

use super::segment::Segment;
use crate::time::{Pace, Picos};

/// For how long a pause holds unless it is refreshed, which it is at half of that.
const PAUSE: Quanta = Quanta(u16::MAX);

/// A host that is slow to take what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReceiver {
    /// It takes frames no faster, headers and gaps included.
    pub rate: BitRate,
    /// Bytes of a class for which it has room, FCS included; a frame that finds less is lost.
    pub buffer: Bytes,
    /// The switch is held to a class of which so many bytes wait ..
    pub xoff: Bytes,
    /// .. until there are fewer than these.
    pub xon: Bytes,
    /// It is slow from then on ..
    pub begin: Picos,
    /// .. until then. What waits then it takes as fast as its line brings it.
    pub end: Picos,
}

/// A pause that a slow receiver has asked its switch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverPause {
    /// The class that is to stop.
    pub class: Class,
    /// When its XOFF began to leave.
    pub start: Nanos,
    /// When its XON did, or its switch forgot it with the link.
    pub end: Option<Nanos>,
    /// How often the XOFF was repeated.
    pub refreshes: u64,
}

/// A frame of data that has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) segment: Segment,
    pub(super) is_marked: bool,
    pub(super) class: Class,
    /// Its length, without FCS.
    pub(super) len: u32,
}

impl Arrived {
    const fn bytes(&self) -> u64 {
        Bytes::of_frame(self.len).0
    }
}

/// What waits at a slow receiver.
#[derive(Debug)]
pub(super) struct Intake {
    told: SlowReceiver,
    slow: Pace,
    line: Pace,
    address: MacAddr,
    waiting: VecDeque<Arrived>,
    /// By class.
    bytes: [u64; CLASSES],
    /// When the first that waits is taken.
    next: Picos,
    held: Held,
    /// In the order of their starts.
    pauses: Vec<ReceiverPause>,
    /// By class, frames that found no room.
    dropped: [u64; CLASSES],
}

impl Intake {
    pub(super) fn new(told: SlowReceiver, line: Pace, address: MacAddr) -> Intake {
        Intake {
            told,
            slow: Pace::of(told.rate),
            line,
            address,
            waiting: VecDeque::new(),
            bytes: [0; CLASSES],
            next: Picos::NEVER,
            held: Held::new(Nanos(line.rate().time_of_quanta(PAUSE).0 / 2)),
            pauses: Vec::new(),
            dropped: [0; CLASSES],
        }
    }

    /// A frame comes. It is answered where it is taken at once.
    pub(super) fn offer(&mut self, frame: Arrived, now: Picos) -> Option<Arrived> {
        if self.waiting.is_empty() && !self.is_slow(now) {
            return Some(frame);
        }
        let waits = &mut self.bytes[frame.class.index()];
        if *waits + frame.bytes() > self.told.buffer.0 {
            self.dropped[frame.class.index()] += 1;
            return None;
        }
        *waits += frame.bytes();
        if *waits >= self.told.xoff.0 {
            self.held.xoff(now.floor(), frame.class);
        }
        if self.waiting.is_empty() {
            self.next = now.after(self.time_of(&frame, now));
        }
        self.waiting.push_back(frame);
        None
    }

    /// The next frame that it has taken by `now`.
    pub(super) fn take(&mut self, now: Picos) -> Option<Arrived> {
        let taken = self.next;
        let frame = if taken <= now { self.waiting.pop_front() } else { None }?;
        let waits = &mut self.bytes[frame.class.index()];
        *waits -= frame.bytes();
        if *waits < self.told.xon.0 {
            self.held.xon(now.floor(), frame.class);
        }
        self.next = self.waiting.front().map_or(Picos::NEVER, |next| taken.after(self.time_of(next, taken)));
        Some(frame)
    }

    /// The pause frame that is due.
    pub(super) fn announce(&mut self, now: Nanos) -> Option<[u8; LEN]> {
        self.held.advance(now);
        let told = self.held.announce(now)?;
        for class in told.vector().iter() {
            self.note(now, class, told.xon.contains(class));
        }
        let time = |class| if told.xon.contains(class) { Quanta(0) } else { PAUSE };
        let pfc = told.vector().iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time(class)));
        Some(MacControl::Pfc(pfc).encode(self.address))
    }

    /// A pause begins, goes on or ends.
    fn note(&mut self, now: Nanos, class: Class, ends: bool) {
        let open = self.pauses.iter_mut().rev().find(|pause| pause.class == class);
        match open.filter(|pause| pause.end.is_none()) {
            Some(open) if ends => open.end = Some(now),
            Some(open) => open.refreshes += 1,
            None if ends => (),
            None => self.pauses.push(ReceiverPause { class, start: now, end: None, refreshes: 0 }),
        }
    }

    /// What it has asked its switch for.
    pub(super) fn pauses(&self) -> &[ReceiverPause] {
        &self.pauses
    }

    /// When it has something to do by itself. A refresh that is due waits for the line, and for no time.
    pub(super) fn next(&mut self, now: Nanos) -> Picos {
        self.held.advance(now);
        self.next.min(Picos::from(self.held.next_refresh()))
    }

    /// Its switch knows nothing of what it is held to any more.
    pub(super) fn link_changed(&mut self, now: Nanos) {
        self.pauses.iter_mut().filter(|pause| pause.end.is_none()).for_each(|pause| pause.end = Some(now));
        self.held.forget_told();
    }

    /// Frames of a class that found no room.
    pub(super) const fn dropped(&self, class: Class) -> u64 {
        self.dropped[class.index()]
    }

    fn is_slow(&self, now: Picos) -> bool {
        (self.told.begin..self.told.end).contains(&now)
    }

    fn time_of(&self, frame: &Arrived, from: Picos) -> Picos {
        let pace = if self.is_slow(from) { self.slow } else { self.line };
        pace.time_of(Bytes::on_line(frame.len))
    }
}
