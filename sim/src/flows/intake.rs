//! Slow receiver: buffers frames that arrive faster than it processes them, and pauses its switch by PFC ([`Held`]).
//! Acknowledgements and CNPs are processed at once.

use std::collections::VecDeque;

use xoff_flow_control::pause::Held;
use xoff_wire::mac_control::LEN;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, Quanta};
use xoff_wire::{MacControl, Pfc};

use super::segment::Content;
use crate::time::{Pace, Picos};

/// Duration of a pause that an XOFF requests. After half of it, the XOFF is repeated.
const PAUSE: Quanta = Quanta(u16::MAX);

/// Parameters of a slow receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReceiver {
    /// Maximum processing rate, headers and gaps included.
    pub rate: BitRate,
    /// Buffer size per class, FCS included; frames that do not fit are dropped.
    pub buffer: Bytes,
    /// Buffered bytes of a class from which on XOFF is sent.
    pub xoff: Bytes,
    /// Buffered bytes of a class below which XON is sent.
    pub xon: Bytes,
    /// Start of the slow period.
    pub begin: Picos,
    /// End of the slow period, from which on buffered frames are processed at line rate.
    pub end: Picos,
}

/// Pause that a slow receiver sent to its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ReceiverPause {
    pub class: Class,
    pub start: Nanos,
    /// Time at which an XON or a link change ended the pause.
    pub end: Option<Nanos>,
    pub refreshes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) content: Content,
    pub(super) is_marked: bool,
    pub(super) class: Class,
    pub(super) len: u32,
}

impl Arrived {
    const fn bytes(&self) -> u64 {
        Bytes::of_frame(self.len).0
    }
}

#[derive(Debug)]
pub(super) struct Intake {
    receiver: SlowReceiver,
    slow: Pace,
    line: Pace,
    address: MacAddr,
    waiting: VecDeque<Arrived>,
    bytes: [u64; CLASSES],
    next: Picos,
    held: Held,
    pauses: Vec<ReceiverPause>,
    dropped: [u64; CLASSES],
}

impl Intake {
    pub(super) fn new(receiver: SlowReceiver, line: Pace, address: MacAddr) -> Intake {
        Intake {
            receiver,
            slow: Pace::of(receiver.rate),
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

    pub(super) fn offer(&mut self, frame: Arrived, now: Picos) -> Option<Arrived> {
        if self.waiting.is_empty() && !self.is_slow(now) {
            return Some(frame);
        }
        let waits = &mut self.bytes[frame.class.index()];
        if *waits + frame.bytes() > self.receiver.buffer.0 {
            self.dropped[frame.class.index()] += 1;
            return None;
        }
        *waits += frame.bytes();
        if *waits >= self.receiver.xoff.0 {
            self.held.xoff(now.floor(), frame.class);
        }
        if self.waiting.is_empty() {
            self.next = now.after(self.time_of(&frame, now));
        }
        self.waiting.push_back(frame);
        None
    }

    pub(super) fn take(&mut self, now: Picos) -> Option<Arrived> {
        let taken = self.next;
        let frame = if taken <= now { self.waiting.pop_front() } else { None }?;
        let waits = &mut self.bytes[frame.class.index()];
        *waits -= frame.bytes();
        if *waits < self.receiver.xon.0 {
            self.held.xon(now.floor(), frame.class);
        }
        self.next = self.waiting.front().map_or(Picos::NEVER, |next| taken.after(self.time_of(next, taken)));
        Some(frame)
    }

    pub(super) fn announce(&mut self, now: Nanos) -> Option<[u8; LEN]> {
        self.held.advance(now);
        let announcement = self.held.announce(now)?;
        for class in announcement.vector().iter() {
            self.note(now, class, announcement.xon.contains(class));
        }
        let time = |class| if announcement.xon.contains(class) { Quanta(0) } else { PAUSE };
        let pfc =
            announcement.vector().iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time(class)));
        Some(MacControl::Pfc(pfc).encode(self.address))
    }

    fn note(&mut self, now: Nanos, class: Class, ends: bool) {
        let open = self.pauses.iter_mut().rev().find(|pause| pause.class == class);
        match open.filter(|pause| pause.end.is_none()) {
            Some(open) if ends => open.end = Some(now),
            Some(open) => open.refreshes += 1,
            None if ends => (),
            None => self.pauses.push(ReceiverPause { class, start: now, end: None, refreshes: 0 }),
        }
    }

    pub(super) fn pauses(&self) -> &[ReceiverPause] {
        &self.pauses
    }

    pub(super) fn next(&mut self, now: Nanos) -> Picos {
        self.held.advance(now);
        self.next.min(Picos::from(self.held.next_refresh()))
    }

    pub(super) fn link_changed(&mut self, now: Nanos) {
        self.pauses.iter_mut().filter(|pause| pause.end.is_none()).for_each(|pause| pause.end = Some(now));
        self.held.forget_announced();
    }

    pub(super) const fn dropped(&self, class: Class) -> u64 {
        self.dropped[class.index()]
    }

    fn is_slow(&self, now: Picos) -> bool {
        (self.receiver.begin..self.receiver.end).contains(&now)
    }

    fn time_of(&self, frame: &Arrived, from: Picos) -> Picos {
        let pace = if self.is_slow(from) { self.slow } else { self.line };
        pace.time_of(Bytes::on_line(frame.len))
    }
}
