//! Thread of a delay line: receives frames at two AF_XDP ports, and sends each frame at the other port when the frame's delay has passed.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use xoff_dataplane::driver::Port as _;
use xoff_dataplane::frame::{Frame, FrameStore as _};
use xoff_flow_control::classify::Classifier;
use xoff_wire::units::{BitRate, Bytes, ClassSet, Nanos, PortId};
use xoff_wire::{Header, MacControl};
use xoff_xdp::clock::now;
use xoff_xdp::host::run_in_real_time;
use xoff_xdp::sleeper::{Sleeper, duplicates};
use xoff_xdp::{Port, Store};

use super::LineState;
use super::carrier::Carrier;
use super::counts::{Kind, Loss};
use super::impairment::Impairment;
use super::waiting::{Draws, Waiting};

const BATCH: u32 = 128;
const PRIORITY: i32 = 1;
/// Maximum sleep of the thread, so that it notices commands.
const SLEEP_MAX: Nanos = Nanos::from_millis(20);
const BUSY: Nanos = Nanos::from_micros(20);

pub(super) struct Relay {
    pub(super) store: Store,
    pub(super) ports: [Port; 2],
    pub(super) carrier: Carrier,
    pub(super) classifier: Classifier,
    pub(super) lossless: ClassSet,
    pub(super) state: Arc<LineState>,
    waiting: [Waiting<Frame>; 2],
    draws: [Draws; 2],
    impairments: [Impairment; 2],
    version: u64,
    is_taken_down: bool,
    received: Vec<Frame>,
}

pub(super) struct RelayParts {
    pub(super) store: Store,
    pub(super) ports: [Port; 2],
    pub(super) carrier: Carrier,
    pub(super) classifier: Classifier,
    pub(super) lossless: ClassSet,
    pub(super) capacity: Bytes,
    pub(super) rate: BitRate,
    pub(super) seed: u64,
}

impl Relay {
    pub(super) fn new(parts: RelayParts, state: Arc<LineState>) -> Relay {
        let RelayParts { store, ports, carrier, classifier, lossless, capacity, rate, seed } = parts;
        Relay {
            store,
            ports,
            carrier,
            classifier,
            lossless,
            waiting: [Waiting::new(capacity, rate), Waiting::new(capacity, rate)],
            draws: [Draws::new(seed), Draws::new(!seed)],
            impairments: state.impairments(),
            version: state.version.load(Relaxed),
            is_taken_down: false,
            received: Vec::with_capacity(BATCH as usize),
            state,
        }
    }

    pub(super) fn run(mut self) -> io::Result<()> {
        let ended = self.work();
        self.ports.into_iter().for_each(Port::close);
        ended
    }

    fn work(&mut self) -> io::Result<()> {
        let sockets = self.ports.iter().flat_map(Port::sockets);
        let wakers = duplicates(self.carrier.changes().chain(sockets))?;
        let mut sleeper = Sleeper::new(&wakers);
        // Ignore a refusal: without real-time priority, frames are only late, by milliseconds on a busy machine.
        let _ = run_in_real_time(PRIORITY);
        while !self.state.stop.load(Relaxed) {
            let down = self.state.is_down.load(Relaxed);
            if down != mem::replace(&mut self.is_taken_down, down)
                || (0..2).any(|end| sleeper.found_readable(end))
            {
                self.carrier.follow(down)?;
                self.state.carries.store(self.carrier.carries(), Relaxed);
                if !self.carrier.carries() {
                    self.ports.iter_mut().for_each(Port::link_lost);
                }
            }
            let version = self.state.version.load(Relaxed);
            if version != self.version {
                (self.version, self.impairments) = (version, self.state.impairments());
            }
            let until = self.turn();
            if self.ports.iter().any(|port| port.is_removed()) {
                self.carrier.follow(true)?;
                self.state.carries.store(false, Relaxed);
                return Ok(());
            }
            sleeper.sleep(until.since(now()).min(SLEEP_MAX))?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Nanos {
        for from in 0..2 {
            self.receive(from);
        }
        let mut until = Nanos::NEVER;
        for from in 0..2 {
            self.send(from);
            let is_unsent = self.ports[1 - from].is_unsent();
            until = until.min(if is_unsent { now().after(BUSY) } else { self.waiting[from].next_due() });
        }
        until
    }

    fn receive(&mut self, from: usize) {
        let mut received = mem::take(&mut self.received);
        self.ports[from].receive(&mut self.store, BATCH, |_, frame| received.push(frame));
        self.ports[from].refill(&mut self.store);
        let now = now();
        let (carries, loss_down) = (self.carrier.carries(), self.loss_down());
        let impairment = self.impairments[from];
        for frame in received.drain(..) {
            let (kind, bytes) = (self.kind(&frame), Bytes::on_line(frame.len()));
            let waiting = &mut self.waiting[from];
            let added = match kind {
                _ if !carries => Err((loss_down, frame)),
                Kind::MacControl if impairment.spares_mac_control => {
                    waiting.push_express(now, bytes, frame).map_err(|frame| (Loss::Full, frame))
                }
                _ => match self.draws[from].next(&impairment) {
                    None => Err((Loss::Purpose, frame)),
                    Some(delay) => {
                        waiting.push(now, delay, bytes, frame).map_err(|frame| (Loss::Full, frame))
                    }
                },
            };
            if let Err((why, frame)) = added {
                self.state.counts[from].lose(why, kind);
                self.store.free(frame);
            }
        }
        self.received = received;
    }

    fn loss_down(&self) -> Loss {
        if self.is_taken_down { Loss::TakenDown } else { Loss::Down }
    }

    fn kind(&self, frame: &Frame) -> Kind {
        match Header::parse(self.store.head(frame)) {
            Ok(header) if MacControl::is_mac_control(&header) => Kind::MacControl,
            Ok(header) if self.lossless.contains(self.classifier.classify(&header)) => Kind::Lossless,
            _ => Kind::Lossy,
        }
    }

    fn send(&mut self, from: usize) {
        let Relay { store, ports, .. } = self;
        ports[1 - from].reap(store, |store, frame| store.free(frame));
        let now = now();
        while self.ports[1 - from].room() > 0
            && let Some((due, frame)) = self.waiting[from].pop(now)
        {
            match self.ports[1 - from].send(&mut self.store, frame) {
                Ok(()) => {
                    let late = now.since(due).0;
                    let counts = &self.state.counts[from];
                    counts.frames.add(1);
                    counts.late_ns.add(late);
                    counts.late_ns_max.raise(late);
                }
                Err(frame) => {
                    let kind = self.kind(&frame);
                    self.state.counts[from].lose(Loss::Full, kind);
                    self.store.free(frame);
                }
            }
        }
        self.ports[1 - from].flush();
        if !self.carrier.carries() {
            for frame in self.waiting[from].drain().collect::<Vec<_>>() {
                let kind = self.kind(&frame);
                self.state.counts[from].lose(self.loss_down(), kind);
                self.store.free(frame);
            }
        }
        self.state.counts[from].waiting.set(self.waiting[from].len() as u64);
    }
}

pub(super) const PORTS: [PortId; 2] = [PortId(0), PortId(1)];
