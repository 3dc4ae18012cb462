//! A host of `xoff traffic`: the same streams, schedules, rate limiters, gates, sink and reports as over AF_XDP, driven by the
//! simulator.
//!
//! When it may send, and what, is decided by [`Sender`] and [`Gate`] as in a live host, to the nanosecond; how long a frame takes is the
//! line's, to the picosecond. One of [ideal hardware](Habits::IDEAL) looks at once at whatever comes, has one frame on its line and none
//! waiting behind it. One that is a program naps and stalls, and hands several frames at a time to its driver: what comes meanwhile waits,
//! and what has been handed over leaves whatever comes.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{BitRate, Bytes, MacAddr, Nanos, PortId};
use xoff_dataplane::wire::{Cnm, Header, MacControl};
use xoff_host::payload::HEAD_MAX;
use xoff_host::{
    Choice, Gate, HostParts, HostReport, Notices, Obedience, Progress, Sender, SenderSettings, Sink, Stream,
};

use crate::ends::Line;
use crate::node::{Net, Node, Place};
use crate::pool::Packet;
use crate::seed::{Purpose, Seed};
use crate::stalls::{Drawn, Stalls};
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
    /// The rate that it keeps to, whatever its line would take.
    pub rate: BitRate,
    /// How it runs.
    pub habits: Habits,
    /// What keeps it from running, and what decides when; `None`: nothing.
    pub stalls: Option<(Stalls, Seed)>,
}

/// How a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// It sleeps so long at least: after data have come, and until a time of its own.
    pub nap: Nanos,
    /// It takes so long to wake.
    pub wake: Nanos,
    /// It hands over no frame while its driver has so much.
    pub commit: Bytes,
}

impl Habits {
    /// It never sleeps, and has one frame on its line and none behind it.
    pub const IDEAL: Habits = Habits { nap: Nanos::ZERO, wake: Nanos::ZERO, commit: Bytes(1) };
}

/// A host.
#[derive(Debug)]
pub struct TrafficHost {
    place: Place,
    /// Frames that have been handed over; the first is on the line.
    sending: VecDeque<Packet>,
    /// It is woken then, at the soonest.
    due: Nanos,
    /// Before it begins, nothing comes to it.
    running: Option<Box<Running>>,
}

#[derive(Debug)]
struct Running {
    address: MacAddr,
    id: u16,
    line: BitRate,
    habits: Habits,
    stalls: Option<Drawn>,
    /// It looks at nothing before.
    looks_from: Nanos,
    /// The longest that it was kept from looking at anything.
    longest_stall: Nanos,
    /// What has come since it looked last.
    arrived: VecDeque<Packet>,
    /// What the frames are that have been handed over, on the line.
    committed: Bytes,
    begin: Nanos,
    streams: Vec<Stream>,
    sender: Sender,
    sink: Sink,
    gate: Gate,
    notices: Notices,
}

impl TrafficHost {
    /// One that has nothing to do yet.
    #[must_use]
    pub const fn new(place: Place, _: Line) -> TrafficHost {
        TrafficHost { place, sending: VecDeque::new(), due: Nanos::NEVER, running: None }
    }

    /// It begins to send, and to receive.
    pub fn begin(&mut self, settings: TrafficSettings, net: &mut Net) {
        let TrafficSettings { address, id, catch_up, qcn, streams, progress, rate: line, habits, stalls } =
            settings;
        let begin = net.now().floor();
        let of_sender = SenderSettings { address, id, line, catch_up, end_markers: 0, qcn };
        let drawn = |(stalls, seed): (Stalls, Seed)| {
            let number = seed.number(self.place.id(), Purpose::Stalls);
            Drawn::new(stalls, begin, fastrand::Rng::with_seed(number))
        };
        self.running = Some(Box::new(Running {
            address,
            id,
            line,
            habits,
            stalls: stalls.map(drawn),
            looks_from: begin,
            longest_stall: Nanos::ZERO,
            arrived: VecDeque::new(),
            committed: Bytes::ZERO,
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
        assert!(self.sending.is_empty(), "a frame is on the line");
        let packet = net.pool.add_whole(frame);
        net.start(self.place, LINE, packet);
        self.sending.push_back(packet);
    }

    /// What it has sent and received until now; that of nobody, before it has begun.
    #[must_use]
    pub fn report(&self, now: Picos) -> HostReport {
        self.running.as_ref().map_or_else(HostReport::default, |host| host.report(now.floor()))
    }

    /// What happens wakes it: it looks as soon as it is awake.
    fn rouse(&mut self, something: bool, net: &mut Net) {
        match self.running.as_ref().map_or(Nanos::ZERO, |host| host.habits.wake) {
            Nanos::ZERO => self.look(something, net),
            wake => self.wake(net.now().floor().after(wake), net),
        }
    }

    /// Looks at what has come, and sends where that, or `something` else, may have changed what may be sent; unless it sleeps.
    fn look(&mut self, something: bool, net: &mut Net) {
        let now = net.now().floor();
        let Some(host) = &mut self.running else { return };
        if let Some(from) = host.sleeps(now) {
            return self.wake(from, net);
        }
        let (mut told, mut has_data) = (something, false);
        while let Some(packet) = host.arrived.pop_front() {
            match host.receive(now, net.pool.head(packet), packet.len) {
                true => told = true,
                false => has_data = true,
            }
            net.pool.free(packet);
        }
        if has_data {
            host.looks_from = now.after(host.habits.nap).after(host.habits.wake);
        }
        if told {
            self.send(net);
        }
    }

    /// Frames are handed over as long as they may be; then the host is woken when the next may.
    fn send(&mut self, net: &mut Net) {
        let Some(host) = &mut self.running else { return };
        let now = net.now().floor();
        host.sender.advance(now);
        let mut next = host.sender.next_deadline();
        while host.committed < host.habits.commit {
            let paused = host.gate.paused(now);
            match host.sender.choose(now, paused) {
                Choice::Send(turn) => {
                    let len = turn.frame_len();
                    let mut head = [0; HEAD_MAX];
                    host.gate.sent(now, host.sender.class(&turn), Bytes::on_line(len));
                    host.sender.send(&turn, now, &mut head);
                    let kept = HEAD_MAX.min(len as usize);
                    let packet = net.pool.add(&head[..kept], len);
                    host.committed += Bytes::on_line(len);
                    if self.sending.is_empty() {
                        net.start(self.place, LINE, packet);
                    }
                    self.sending.push_back(packet);
                }
                Choice::Wait(until) => {
                    next = next.min(until).min(host.gate.next_change());
                    break;
                }
                Choice::Done => break,
            }
        }
        let next = next.max(now.after(host.habits.nap)).after(host.habits.wake);
        self.wake(next, net);
    }

    fn wake(&mut self, at: Nanos, net: &mut Net) {
        if at < self.due {
            self.due = at;
            net.wake(self.place, Picos::from(at));
        }
    }
}

impl Running {
    /// Until when it looks at nothing, if it does not now.
    fn sleeps(&mut self, now: Nanos) -> Option<Nanos> {
        if let Some(stalls) = &mut self.stalls {
            while let Some(end) = stalls.begin(now) {
                self.looks_from = self.looks_from.max(end);
                self.longest_stall = self.longest_stall.max(end.since(now));
            }
        }
        (now < self.looks_from).then_some(self.looks_from)
    }

    /// Whether the frame may change what is sent next.
    fn receive(&mut self, now: Nanos, head: &[u8], frame_len: u32) -> bool {
        let Ok(header) = Header::parse(head) else { return false };
        if MacControl::is_mac_control(&header) {
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

    fn report(&self, now: Nanos) -> HostReport {
        let report = HostParts {
            address: self.address,
            id: self.id,
            line: self.line,
            streams: &self.streams,
            sender: &self.sender,
            sink: &self.sink,
            gate: &self.gate,
            notices: &self.notices,
        }
        .report(self.begin, now);
        HostReport {
            device: "simulated".to_owned(),
            longest_gap_ns: self.longest_stall.max(self.habits.wake).0,
            usual_gap_ns: self.habits.wake.0,
            ..report
        }
    }
}

impl Node for TrafficHost {
    fn arrived(&mut self, _: PortId, packet: Packet, net: &mut Net) {
        let Some(host) = &mut self.running else { return net.pool.free(packet) };
        host.arrived.push_back(packet);
        self.rouse(false, net);
    }

    fn left(&mut self, _: PortId, net: &mut Net) {
        let left = self.sending.pop_front();
        if let Some(next) = self.sending.front() {
            net.start(self.place, LINE, *next);
        }
        if let (Some(host), Some(packet)) = (&mut self.running, left) {
            host.committed = host.committed.saturating_sub(Bytes::on_line(packet.len));
        }
        self.rouse(true, net);
    }

    fn due(&mut self, net: &mut Net) {
        // Something else has woken it since it asked to be woken now, and it has asked for another time.
        if self.due > net.now().floor() {
            return;
        }
        self.due = Nanos::NEVER;
        self.look(true, net);
    }

    fn holds(&self) -> u64 {
        let arrived = self.running.as_ref().map_or(0, |host| host.arrived.len());
        (arrived + self.sending.len().saturating_sub(1)) as u64
    }
}
