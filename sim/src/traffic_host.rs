//! A host of `xoff traffic`: the same streams, schedules, rate limiters, gates, sink and reports as over AF_XDP, driven by the
//! simulator.
//!
//! It looks at once at whatever comes, has one frame on its line and none waiting behind it. When it may send, and what, is decided by
//! [`Sender`] and [`Gate`] as in a live host, to the nanosecond; how long a frame takes is the line's, to the picosecond.

use std::sync::Arc;

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{BitRate, Bytes, MacAddr, Nanos, PortId};
use xoff_dataplane::wire::{Cnm, Header, MacControl};
use xoff_hosts::payload::HEAD_MAX;
use xoff_hosts::{
    Choice, Gate, HostParts, HostReport, Notices, Obedience, Progress, Sender, SenderSettings, Sink, Stream,
};

use crate::ends::Line;
use crate::node::{Net, Node, Place};
use crate::pool::Packet;
use crate::time::Picos;

/// The only port of a host.
const LINE: PortId = PortId(0);
/// The shortest frame, without FCS.
const FRAME_MIN: usize = 60;
const _: () = assert!(HEAD_MAX >= FRAME_MIN);

/// What a host is told.
#[derive(Clone, Debug)]
pub struct TrafficSettings {
    /// Its address.
    pub address: MacAddr,
    /// Its number in its frames.
    pub id: u16,
    /// How much of the time in which it was not let a stream with a rate makes up for.
    pub catch_up: Nanos,
    /// Streams carry a CN-TAG and slow down as CNMs ask; `None`: CNMs are counted only.
    pub qcn: Option<ReactionSettings>,
    /// What it sends.
    pub streams: Vec<Stream>,
    /// What it tells while it runs.
    pub progress: Arc<Progress>,
}

/// A host.
#[derive(Debug)]
pub struct TrafficHost {
    place: Place,
    line: BitRate,
    /// Nothing is on its line.
    is_free: bool,
    /// It is woken then, at the soonest.
    due: Nanos,
    /// Before it begins, nothing comes to it.
    running: Option<Box<Running>>,
}

#[derive(Debug)]
struct Running {
    address: MacAddr,
    id: u16,
    begin: Nanos,
    streams: Vec<Stream>,
    sender: Sender,
    sink: Sink,
    gate: Gate,
    notices: Notices,
}

impl TrafficHost {
    /// One that has nothing to do yet, on this line.
    #[must_use]
    pub const fn new(place: Place, line: Line) -> TrafficHost {
        TrafficHost { place, line: line.rate, is_free: true, due: Nanos::NEVER, running: None }
    }

    /// It begins to send, and to receive.
    pub fn begin(&mut self, settings: TrafficSettings, net: &mut Net) {
        let TrafficSettings { address, id, catch_up, qcn, streams, progress } = settings;
        let (line, begin) = (self.line, net.now().floor());
        let of_sender = SenderSettings { address, id, line, catch_up, end_markers: 0, qcn };
        self.running = Some(Box::new(Running {
            address,
            id,
            begin,
            sender: Sender::new(&streams, of_sender, begin, Arc::clone(&progress)),
            streams,
            sink: Sink::new(address, false, begin, progress),
            gate: Gate::new(line, Obedience::Obey, false),
            notices: Notices::new(qcn.is_some()),
        }));
        self.send(net);
    }

    /// A frame leaves, all of which this is: before it begins.
    ///
    /// # Panics
    /// If its line is not free.
    pub fn emit(&mut self, frame: &[u8], net: &mut Net) {
        assert!(self.is_free, "a frame is on the line");
        let packet = net.pool.add_whole(frame);
        net.start(self.place, LINE, packet);
        self.is_free = false;
    }

    /// What it has sent and received until now; that of nobody, before it has begun.
    #[must_use]
    pub fn report(&self, now: Picos) -> HostReport {
        self.running.as_ref().map_or_else(HostReport::default, |host| host.report(self.line, now.floor()))
    }

    /// The next frame starts if it may; else the host is woken when it may.
    fn send(&mut self, net: &mut Net) {
        let Some(host) = &mut self.running else { return };
        let now = net.now().floor();
        host.sender.advance(now);
        let mut next = host.sender.next_deadline();
        if self.is_free {
            let paused = host.gate.paused(now);
            match host.sender.choose(now, paused) {
                Choice::Send(turn) => {
                    let len = turn.frame_len();
                    let mut head = [0; HEAD_MAX];
                    host.gate.sent(now, host.sender.class(&turn), Bytes::on_line(len));
                    host.sender.send(&turn, now, &mut head);
                    let kept = HEAD_MAX.min(len as usize);
                    let packet = net.pool.add(&head[..kept], len);
                    net.start(self.place, LINE, packet);
                    self.is_free = false;
                }
                Choice::Wait(until) => next = next.min(until).min(host.gate.next_change()),
                Choice::Done => {}
            }
        }
        if next < self.due {
            self.due = next;
            net.wake(self.place, Picos::from(next));
        }
    }
}

impl Running {
    /// Whether the frame may change what is sent next. The line is free, or not.
    fn receive(&mut self, now: Nanos, head: &[u8], frame_len: u32, is_free: bool) -> bool {
        let Ok(header) = Header::parse(head) else { return false };
        if MacControl::is_mac_control(&header) {
            if is_free {
                // What was held until now has saved nothing up.
                self.sender.choose(now, self.gate.paused(now));
            }
            self.gate.receive(now, &header, head);
        } else if Cnm::is_cnm(&header) {
            let notice = self.notices.receive(now, self.address, &header, head);
            if let Some((rpid, feedback)) = notice
                && !self.sender.notified(now, rpid, feedback)
            {
                self.notices.note_unknown();
            }
        } else {
            self.sink.receive(now, &header, head, frame_len);
            return false;
        }
        true
    }

    fn report(&self, line: BitRate, now: Nanos) -> HostReport {
        let report = HostParts {
            address: self.address,
            id: self.id,
            line,
            streams: &self.streams,
            sender: &self.sender,
            sink: &self.sink,
            gate: &self.gate,
            notices: &self.notices,
        }
        .report(self.begin, now);
        HostReport { device: "simulated".to_owned(), ..report }
    }
}

impl Node for TrafficHost {
    fn arrived(&mut self, _: PortId, packet: Packet, net: &mut Net) {
        let is_free = self.is_free;
        let told = self
            .running
            .as_mut()
            .is_some_and(|host| host.receive(net.now().floor(), net.pool.head(packet), packet.len, is_free));
        net.pool.free(packet);
        if told {
            self.send(net);
        }
    }

    fn left(&mut self, _: PortId, net: &mut Net) {
        self.is_free = true;
        self.send(net);
    }

    fn due(&mut self, net: &mut Net) {
        if self.due <= net.now().floor() {
            self.due = Nanos::NEVER;
        }
        self.send(net);
    }

    fn holds(&self) -> u64 {
        0
    }
}
