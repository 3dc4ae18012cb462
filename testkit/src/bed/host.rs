//! A host: streams that it sends, pauses that it obeys (at once, late, or not at all), rate limiters
//! that CNMs rule, and a sink that checks what comes in.
//!
//! It holds no more than the frame that is on its wire, so a pause that it obeys stops it at the end
//! of that frame.

use std::collections::{BTreeMap, VecDeque};

use xoff_flow_control::congestion::{ReactionPoint, ReactionSettings};
use xoff_flow_control::pause::Paused;
use xoff_wire::header::Header;
use xoff_wire::mac_control::MacControl;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, Quanta};
use xoff_wire::{CnTag, Cnm};

use super::payload::{self, Mark};
use super::plan::MTU_FRAME;
use super::rates::Rates;

/// How a host takes pause frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obeys {
    /// As soon as they have come.
    AtOnce,
    /// So long after.
    Late(Nanos),
    /// Not at all.
    Never,
}

/// Frames of one class to one address.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Where they go.
    pub to: MacAddr,
    /// Told by the PCP.
    pub class: Class,
    /// Bytes of each, without FCS.
    pub len: u32,
    /// How many.
    pub count: u64,
    /// Layer-1 rate; `None`: as fast as the line.
    pub rate: Option<BitRate>,
    /// When the first is due.
    pub from: Nanos,
    /// It carries a CN-TAG, its number, and slows down as CNMs ask.
    pub qcn: Option<ReactionSettings>,
}

impl Stream {
    /// MTU-sized frames of class 3 as fast as the line.
    pub fn new(to: MacAddr, count: u64, from: Nanos) -> Stream {
        Stream { to, class: Class::ALL[3], len: MTU_FRAME, count, rate: None, from, qcn: None }
    }
}

#[derive(Debug)]
struct Sending {
    id: u32,
    stream: Stream,
    sent: u64,
    /// The rate limiter, and when it lets the next frame go.
    limiter: Option<(ReactionPoint, Nanos)>,
}

/// What a sink has seen of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many.
    pub frames: u64,
    /// How long they were together.
    pub bytes: u64,
    /// Frames that came behind a later one, or again.
    pub late_or_twice: u64,
    /// The highest sequence number.
    pub last: Option<u64>,
    /// When the last one came.
    pub last_at: Nanos,
}

/// A host: what it sends, what it obeys, what it has seen.
#[derive(Debug)]
pub struct Host {
    /// Its address.
    pub mac: MacAddr,
    rate: BitRate,
    obeys: Obeys,
    paused: Paused,
    /// What it is asked for, where it keeps rates (GFC).
    rates: Option<Rates>,
    streams: Vec<Sending>,
    turn: usize,
    /// Frames to send before all others, whatever is paused.
    urgent: VecDeque<Vec<u8>>,
    /// Pause frames that are yet to be obeyed, and when.
    to_heed: VecDeque<(Nanos, Vec<u8>)>,
    up: bool,
    seen: BTreeMap<u32, Seen>,
    /// When frames of each class came in.
    pub arrivals: Vec<(Nanos, Mark)>,
    /// Pause frames that came in.
    pub controls: Vec<(Nanos, Vec<u8>)>,
    /// CNMs that came in.
    pub notices: Vec<(Nanos, Vec<u8>)>,
    /// Frames that no host of the bed has made.
    pub strange: Vec<Vec<u8>>,
    /// The first that came behind a later one, or again, and that one.
    pub(super) disorder: Option<(Mark, u64)>,
}

impl Host {
    pub(super) fn new(mac: MacAddr, rate: BitRate, obeys: Obeys) -> Host {
        Host {
            mac,
            rate,
            obeys,
            paused: Paused::new(rate),
            rates: None,
            streams: Vec::new(),
            turn: 0,
            urgent: VecDeque::new(),
            to_heed: VecDeque::new(),
            up: true,
            seen: BTreeMap::new(),
            arrivals: Vec::new(),
            controls: Vec::new(),
            notices: Vec::new(),
            strange: Vec::new(),
            disorder: None,
        }
    }

    /// From here on it keeps the rates that it is asked for.
    pub(super) fn keep_rates(&mut self) {
        self.rates = Some(Rates::new(self.rate, MTU_FRAME));
    }

    pub(super) fn send(&mut self, id: u32, stream: Stream) {
        assert!(stream.len >= payload::LEN_MIN);
        let line = stream.rate.unwrap_or(self.rate);
        let limiter = stream.qcn.map(|qcn| (ReactionPoint::new(&qcn, line, id.into()), stream.from));
        self.streams.push(Sending { id, stream, sent: 0, limiter });
    }

    pub(super) fn send_first(&mut self, bytes: Vec<u8>) {
        self.urgent.push_back(bytes);
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.up = up;
        self.paused = Paused::new(self.rate);
        self.rates = self.rates.take().map(|_| Rates::new(self.rate, MTU_FRAME));
    }

    /// Frames of stream `id` that were sent.
    pub fn sent(&self, id: u32) -> u64 {
        self.streams.iter().filter(|sending| sending.id == id).map(|sending| sending.sent).sum()
    }

    /// What came in of stream `id`.
    pub fn seen(&self, id: u32) -> Seen {
        self.seen.get(&id).copied().unwrap_or_default()
    }

    /// Classes that it may not send now.
    pub fn paused(&self, now: Nanos) -> ClassSet {
        let mut paused = self.paused.clone();
        paused.expire(now);
        paused.classes()
    }

    /// Pause frames that came in, read.
    pub fn pauses(&self) -> Vec<(Nanos, MacControl)> {
        let read = |bytes: &[u8]| {
            let header = Header::parse(bytes).expect("it was read before");
            MacControl::parse(&header, bytes).expect("a switch sends good MAC control")
        };
        self.controls.iter().map(|(at, bytes)| (*at, read(bytes))).collect()
    }

    /// The next frame for the wire, which is free.
    pub(super) fn next_frame(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if !self.up {
            return None;
        }
        if let Some(bytes) = self.urgent.pop_front() {
            return Some(bytes);
        }
        self.paused.expire(now);
        let count = self.streams.len();
        let ready = |place: &usize| {
            let sending = &self.streams[*place];
            let class = sending.stream.class;
            let in_rate = self.rates.as_ref().is_none_or(|rates| rates.let_pass(now, class));
            sending.due() <= now && !self.paused.classes().contains(class) && in_rate
        };
        let place = (0..count).map(|n| (self.turn + n) % count).find(ready)?;
        self.turn = (place + 1) % count;
        let sending = &mut self.streams[place];
        let Stream { to, class, len, .. } = sending.stream;
        let cn_tag = sending.limiter.as_ref().map(|_| cn_tag(sending.id));
        let mark = Mark { class, cn_tag, stream: sending.id, sequence: sending.sent };
        sending.note_sent(now);
        if let Some(rates) = &mut self.rates {
            rates.sent(now, class, len as usize);
        }
        Some(payload::encode(to, self.mac, mark, len))
    }

    /// When it could send next: a stream becomes due, or a pause expires. What has expired while its wire is busy, or
    /// down, is found when that ends.
    pub(super) fn next_wake(&self, now: Nanos) -> Nanos {
        let expiry = Some(self.paused.next_expiry()).filter(|expiry| *expiry > now).unwrap_or(Nanos::NEVER);
        let wake = |due: Nanos| if due > now { due } else { expiry };
        let in_rate = |class| self.rates.as_ref().map_or(Nanos::ZERO, |rates| rates.next_pass(class));
        let due = self.streams.iter().filter(|sending| sending.due() != Nanos::NEVER);
        due.map(|sending| sending.due().max(in_rate(sending.stream.class)))
            .map(wake)
            .min()
            .unwrap_or(Nanos::NEVER)
    }

    /// A frame has come in. Where it is a pause to be obeyed later, says when.
    pub(super) fn arrived(&mut self, now: Nanos, bytes: &[u8]) -> Option<Nanos> {
        let Ok(header) = Header::parse(bytes) else {
            self.strange.push(bytes.to_vec());
            return None;
        };
        if MacControl::is_mac_control(&header) {
            self.controls.push((now, bytes.to_vec()));
            return self.take_pause(now, bytes);
        }
        if Cnm::is_cnm(&header) {
            self.notices.push((now, bytes.to_vec()));
            self.take_notice(now, &header, bytes);
            return None;
        }
        match payload::decode(bytes) {
            Some(mark) => self.take_in(now, mark, bytes.len()),
            None => self.strange.push(bytes.to_vec()),
        }
        None
    }

    /// CNMs that came in, read.
    pub fn cnms(&self) -> Vec<(Header, Cnm)> {
        let read = |(_, bytes): &(Nanos, Vec<u8>)| {
            let header = Header::parse(bytes).expect("it was read before");
            (header, Cnm::parse(&header, bytes).expect("a switch sends good CNMs"))
        };
        self.notices.iter().map(read).collect()
    }

    fn take_notice(&mut self, now: Nanos, header: &Header, bytes: &[u8]) {
        let Ok(cnm) = Cnm::parse(header, bytes) else { return };
        let named = |sending: &&mut Sending| header.cn_tag == Some(cn_tag(sending.id));
        if let Some(sending) = self.streams.iter_mut().find(named)
            && let Some((point, _)) = &mut sending.limiter
        {
            point.notified(now, cnm.feedback);
        }
    }

    fn take_pause(&mut self, now: Nanos, bytes: &[u8]) -> Option<Nanos> {
        match self.obeys {
            Obeys::AtOnce => self.heed(now, bytes),
            Obeys::Late(span) => {
                self.to_heed.push_back((now.after(span), bytes.to_vec()));
                return Some(now.after(span));
            }
            Obeys::Never => {}
        }
        None
    }

    /// Obeys what it is to obey by now.
    pub(super) fn heed_due(&mut self, now: Nanos) {
        while self.to_heed.front().is_some_and(|(when, _)| *when <= now)
            && let Some((_, bytes)) = self.to_heed.pop_front()
        {
            self.heed(now, &bytes);
        }
    }

    /// Obeys a pause frame.
    fn heed(&mut self, now: Nanos, bytes: &[u8]) {
        let header = Header::parse(bytes).expect("it was read before");
        if let Some(rates) = &mut self.rates {
            let control = MacControl::parse(&header, bytes);
            let harmed =
                matches!(control, Ok(MacControl::Pfc(pfc)) if xoff_wire::Rates::parse(&pfc, bytes).is_err());
            if harmed || rates.received(now, bytes, ClassSet::ALL) {
                return;
            }
        }
        let (classes, times): (ClassSet, [Quanta; CLASSES]) = match MacControl::parse(&header, bytes) {
            Ok(MacControl::Pfc(pfc)) => (pfc.classes, pfc.times),
            Ok(MacControl::Pause(time)) => (ClassSet::ALL, [time; CLASSES]),
            Err(_) => return,
        };
        self.paused.receive(now, classes, &times);
    }

    fn take_in(&mut self, now: Nanos, mark: Mark, len: usize) {
        self.arrivals.push((now, mark));
        let seen = self.seen.entry(mark.stream).or_default();
        seen.frames += 1;
        seen.bytes += len as u64;
        seen.last_at = now;
        if seen.last.is_some_and(|last| mark.sequence <= last) {
            seen.late_or_twice += 1;
            self.disorder = self.disorder.or(seen.last.map(|last| (mark, last)));
        }
        seen.last = seen.last.max(Some(mark.sequence));
    }
}

/// The CN-TAG of a stream.
fn cn_tag(id: u32) -> CnTag {
    CnTag(u16::try_from(id).expect("few streams"))
}

impl Sending {
    /// A frame of it leaves now.
    fn note_sent(&mut self, now: Nanos) {
        self.sent += 1;
        let size = Bytes::on_line(self.stream.len);
        if let Some((point, next)) = &mut self.limiter {
            point.advance(now);
            point.sent(size);
            // A frame that another stream's held up is made up for by the next.
            let interval = point.rate().time_of(size);
            *next = (*next).max(Nanos(now.0.saturating_sub(interval.0))).after(interval);
        }
    }

    /// When its next frame is due: what a pause holds up is sent after it.
    fn due(&self) -> Nanos {
        if self.sent == self.stream.count {
            return Nanos::NEVER;
        }
        if let Some((_, next)) = self.limiter {
            return next;
        }
        let interval = |rate: BitRate| rate.time_of(Bytes(Bytes::on_line(self.stream.len).0 * self.sent));
        self.stream.from.after(self.stream.rate.map_or(Nanos::ZERO, interval))
    }
}
