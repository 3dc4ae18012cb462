//! Host with a simulated `xoff traffic`, which sleeps and stalls like the real one, so that received frames wait. It
//! hands frames to its driver in batches, which a pause then cannot stop.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::payload::HEAD_MAX;
use xoff_host::{
    Choice, Gate, HostParts, HostReport, Notices, Obedience, Progress, Sender, SenderSettings, Sink, Stream,
};
use xoff_wire::units::{BitRate, Bytes, MacAddr, Nanos, PortId};
use xoff_wire::{Cnm, Header, MacControl};

use crate::ends::Line;
use crate::node::{Net, Node, Place};
use crate::pool::Packet;
use crate::seed::{Purpose, Seed};
use crate::stalls::{StallTimes, Stalls};
use crate::time::Picos;

const LINE: PortId = PortId(0);
const FRAME_MIN: usize = 60;
const _: () = assert!(HEAD_MAX >= FRAME_MIN);

#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct TrafficSettings {
    pub address: MacAddr,
    pub id: u16,
    /// Maximum part of a delay that a stream with a rate recovers by bursts.
    pub catch_up: Nanos,
    /// Settings of QCN reaction points; with them, frames carry a CN-TAG.
    pub qcn: Option<ReactionSettings>,
    pub streams: Vec<Stream>,
    /// Totals of sent and received frames, readable by other threads.
    pub progress: Arc<Progress>,
    /// Maximum sending rate, at most line rate.
    pub rate: BitRate,
    pub habits: Habits,
    pub stalls: Option<(Stalls, Seed)>,
}

/// Timing of the traffic program on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Minimum sleep: after received data until the next poll, and after sending until another timer may expire.
    pub nap: Nanos,
    /// Delay from the traffic program's wakeup until it runs.
    pub wake: Nanos,
    /// Bytes in the driver at which the program hands over no more frames.
    pub commit: Bytes,
}

impl Habits {
    /// Timing of a program that never sleeps, and hands over one frame at a time.
    pub const IDEAL: Habits = Habits { nap: Nanos::ZERO, wake: Nanos::ZERO, commit: Bytes(1) };
}

/// Simulated host that runs `xoff traffic`.
#[derive(Debug)]
pub struct TrafficHost {
    place: Place,
    sending: VecDeque<Packet>,
    due: Nanos,
    running: Option<Box<Running>>,
}

#[derive(Debug)]
struct Running {
    address: MacAddr,
    id: u16,
    line: BitRate,
    habits: Habits,
    stalls: Option<StallTimes>,
    looks_from: Nanos,
    longest_stall: Nanos,
    arrived: VecDeque<Packet>,
    committed: Bytes,
    begin: Nanos,
    streams: Vec<Stream>,
    sender: Sender,
    sink: Sink,
    gate: Gate,
    notices: Notices,
}

impl TrafficHost {
    /// Creates a host that neither sends nor receives until [`TrafficHost::begin`].
    #[must_use]
    pub const fn new(place: Place, _: &[Line]) -> TrafficHost {
        TrafficHost { place, sending: VecDeque::new(), due: Nanos::NEVER, running: None }
    }

    /// Starts the traffic program, which sends the host's streams and receives.
    pub fn begin(&mut self, settings: TrafficSettings, net: &mut Net) {
        let TrafficSettings { address, id, catch_up, qcn, streams, progress, rate: line, habits, stalls } =
            settings;
        let begin = net.now().floor();
        let of_sender = SenderSettings { address, id, line, catch_up, end_markers: 0, qcn };
        let drawn = |(stalls, seed): (Stalls, Seed)| {
            let number = seed.number(self.place.id(), Purpose::Stalls);
            StallTimes::new(stalls, begin, fastrand::Rng::with_seed(number))
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

    /// Sends a single frame before the traffic program starts. Panics if the line is busy.
    pub fn emit(&mut self, frame: &[u8], net: &mut Net) {
        assert!(self.sending.is_empty(), "the line must be free, but it still carries a frame");
        let packet = net.pool.add_whole(frame);
        net.start(self.place, LINE, packet);
        self.sending.push_back(packet);
    }

    /// Returns the host's report of sent and received frames up to `now`.
    #[must_use]
    pub fn report(&self, now: Picos) -> HostReport {
        self.running.as_ref().map_or_else(HostReport::default, |host| host.report(now.floor()))
    }

    fn poll_after_wakeup(&mut self, something: bool, net: &mut Net) {
        match self.running.as_ref().map_or(Nanos::ZERO, |host| host.habits.wake) {
            Nanos::ZERO => self.poll(something, net),
            wake => self.wake(net.now().floor().after(wake), net),
        }
    }

    fn poll(&mut self, something: bool, net: &mut Net) {
        let now = net.now().floor();
        let Some(host) = &mut self.running else { return };
        if let Some(from) = host.sleeps(now) {
            return self.wake(from, net);
        }
        let (mut may_send, mut has_data) = (something, false);
        while let Some(packet) = host.arrived.pop_front() {
            match host.receive(now, net.pool.head(packet), packet.len) {
                true => may_send = true,
                false => has_data = true,
            }
            net.pool.free(packet);
        }
        if has_data {
            host.looks_from = now.after(host.habits.nap).after(host.habits.wake);
        }
        if may_send {
            self.send(net);
        }
    }

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
    fn sleeps(&mut self, now: Nanos) -> Option<Nanos> {
        if let Some(stalls) = &mut self.stalls {
            while let Some(end) = stalls.begin(now) {
                self.looks_from = self.looks_from.max(end);
                self.longest_stall = self.longest_stall.max(end.since(now));
            }
        }
        (now < self.looks_from).then_some(self.looks_from)
    }

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
        self.poll_after_wakeup(false, net);
    }

    fn left(&mut self, _: PortId, net: &mut Net) {
        let left = self.sending.pop_front();
        if let Some(next) = self.sending.front() {
            net.start(self.place, LINE, *next);
        }
        if let (Some(host), Some(packet)) = (&mut self.running, left) {
            host.committed = host.committed.saturating_sub(Bytes::on_line(packet.len));
        }
        self.poll_after_wakeup(true, net);
    }

    fn due(&mut self, net: &mut Net) {
        if self.due > net.now().floor() {
            return;
        }
        self.due = Nanos::NEVER;
        self.poll(true, net);
    }

    fn holds(&self) -> u64 {
        let arrived = self.running.as_ref().map_or(0, |host| host.arrived.len());
        (arrived + self.sending.len().saturating_sub(1)) as u64
    }
}
