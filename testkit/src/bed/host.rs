//! Host of the test bed: sends streams, obeys pauses, limits rates after CNMs, and checks received frames.
//!
//! The host passes frames to the wire one by one, so that pauses take effect after the current frame.

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

/// Obedience of a host to pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Obeys {
    AtOnce,
    Late(Nanos),
    Never,
}

/// Stream of frames of one class to one address.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Stream {
    pub to: MacAddr,
    /// Class of the frames, sent as PCP.
    pub class: Class,
    pub len: u32,
    pub count: u64,
    /// Rate, preamble and gap included; `None` for line rate.
    pub rate: Option<BitRate>,
    /// Time at which the first frame is due.
    pub from: Nanos,
    /// Settings of the stream's QCN reaction point, which slows the stream after CNMs. With these settings, frames carry the stream's
    /// number as CN-TAG.
    pub qcn: Option<ReactionSettings>,
}

impl Stream {
    /// Creates a stream of `count` MTU-sized frames of class 3, at line rate from time `from` on.
    pub fn new(to: MacAddr, count: u64, from: Nanos) -> Stream {
        Stream { to, class: Class::ALL[3], len: MTU_FRAME, count, rate: None, from, qcn: None }
    }
}

#[derive(Debug)]
struct Sending {
    id: u32,
    stream: Stream,
    sent: u64,
    limiter: Option<(ReactionPoint, Nanos)>,
}

/// Frames received from a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Received {
    pub frames: u64,
    pub bytes: u64,
    /// Frames that were duplicates or arrived after a later frame.
    pub late_or_twice: u64,
    pub last: Option<u64>,
    pub last_at: Nanos,
}

/// Host of a test bed.
#[derive(Debug)]
#[allow(missing_docs)] // the names say it
pub struct Host {
    pub mac: MacAddr,
    rate: BitRate,
    obeys: Obeys,
    paused: Paused,
    rates: Option<Rates>,
    streams: Vec<Sending>,
    turn: usize,
    urgent: VecDeque<Vec<u8>>,
    to_heed: VecDeque<(Nanos, Vec<u8>)>,
    up: bool,
    received: BTreeMap<u32, Received>,
    /// Frames received from hosts of the test bed, with arrival times.
    pub arrivals: Vec<(Nanos, Mark)>,
    /// Received pause frames, with arrival times.
    pub controls: Vec<(Nanos, Vec<u8>)>,
    /// Received CNMs, with arrival times.
    pub notices: Vec<(Nanos, Vec<u8>)>,
    /// Received frames that no host of the test bed sent.
    pub strange: Vec<Vec<u8>>,
    /// First frame that was a duplicate or out of order, with the highest sequence number before it.
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
            received: BTreeMap::new(),
            arrivals: Vec::new(),
            controls: Vec::new(),
            notices: Vec::new(),
            strange: Vec::new(),
            disorder: None,
        }
    }

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

    /// Returns the number of frames sent by a stream.
    pub fn sent(&self, id: u32) -> u64 {
        self.streams.iter().filter(|sending| sending.id == id).map(|sending| sending.sent).sum()
    }

    /// Returns the frames received from a stream.
    pub fn received(&self, id: u32) -> Received {
        self.received.get(&id).copied().unwrap_or_default()
    }

    /// Returns the paused classes.
    pub fn paused(&self, now: Nanos) -> ClassSet {
        let mut paused = self.paused.clone();
        paused.expire(now);
        paused.classes()
    }

    /// Returns the received pause frames, parsed.
    pub fn pauses(&self) -> Vec<(Nanos, MacControl)> {
        let read = |bytes: &[u8]| {
            let header = Header::parse(bytes).expect("the frame must have a valid header");
            MacControl::parse(&header, bytes).expect("the switch must send only valid MAC control")
        };
        self.controls.iter().map(|(at, bytes)| (*at, read(bytes))).collect()
    }

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

    /// Returns the received CNMs, parsed.
    pub fn cnms(&self) -> Vec<(Header, Cnm)> {
        let read = |(_, bytes): &(Nanos, Vec<u8>)| {
            let header = Header::parse(bytes).expect("the frame must have a valid header");
            (header, Cnm::parse(&header, bytes).expect("the switch must send only valid CNMs"))
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

    pub(super) fn heed_due(&mut self, now: Nanos) {
        while self.to_heed.front().is_some_and(|(when, _)| *when <= now)
            && let Some((_, bytes)) = self.to_heed.pop_front()
        {
            self.heed(now, &bytes);
        }
    }

    fn heed(&mut self, now: Nanos, bytes: &[u8]) {
        let header = Header::parse(bytes).expect("the frame must have a valid header");
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
        let received = self.received.entry(mark.stream).or_default();
        received.frames += 1;
        received.bytes += len as u64;
        received.last_at = now;
        if received.last.is_some_and(|last| mark.sequence <= last) {
            received.late_or_twice += 1;
            self.disorder = self.disorder.or(received.last.map(|last| (mark, last)));
        }
        received.last = received.last.max(Some(mark.sequence));
    }
}

fn cn_tag(id: u32) -> CnTag {
    CnTag(u16::try_from(id).expect("the number of streams must fit in 16 bits"))
}

impl Sending {
    fn note_sent(&mut self, now: Nanos) {
        self.sent += 1;
        let size = Bytes::on_line(self.stream.len);
        if let Some((point, next)) = &mut self.limiter {
            point.advance(now);
            point.sent(size);
            // Count the interval from the due time: if other streams delayed this frame, the next one follows sooner.
            let interval = point.rate().time_of(size);
            *next = (*next).max(Nanos(now.0.saturating_sub(interval.0))).after(interval);
        }
    }

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
