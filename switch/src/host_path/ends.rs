use std::sync::Arc;

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::punt::{Punt, PuntSink};
use xoff_dataplane::switch::WorkerId;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::units::{Nanos, PortId, Site};

use super::ring::{Head, RingReader, RingWriter, ring};
use crate::bell::Bell;
use crate::handoff::Bells;

/// Size of a ring in bytes.
const ROOM: usize = 256 << 10;

/// Numbers of frames of the host path, by port: those that the port sent, and those that it could not send.
#[derive(Debug)]
pub struct SendCounts(Box<[(Counter, Counter)]>);

impl SendCounts {
    #[must_use]
    pub fn new(ports: usize) -> Arc<SendCounts> {
        Arc::new(SendCounts((0..ports).map(|_| Default::default()).collect()))
    }

    #[cfg(test)]
    pub fn sent(&self, port: PortId) -> u64 {
        self.0[port.index()].0.get()
    }

    #[must_use]
    pub fn unsent(&self, port: PortId) -> u64 {
        self.0[port.index()].1.get()
    }
}

#[derive(Debug)]
struct RingSink {
    ring: RingWriter,
    punted: Arc<Counter>,
}

impl PuntSink for RingSink {
    fn take(&mut self, punt: &Punt, frame: &Frame, store: &dyn FrameStore) -> bool {
        let Punt { at, port, vid, reason } = *punt;
        #[allow(clippy::cast_possible_truncation)]
        let head = Head { at, port, vid, about: reason.index() as u8 };
        let is_taken = self.ring.put(head, frame.len() as usize, |into| store.read(frame, into));
        self.punted.add(u64::from(is_taken));
        is_taken
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFrame<'a> {
    ToPeer(PortId, &'a [u8]),
    FromInterface(Site, PortId, &'a [u8]),
}

const TO_PEER: u8 = 0;
const FROM_INTERFACE: u8 = 1;

#[derive(Debug)]
pub struct WorkerEnd {
    inbound: RingReader,
    punted: Arc<Counter>,
    rung_for: u64,
    bell: Arc<Bell>,
    counts: Arc<SendCounts>,
}

impl WorkerEnd {
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> bool {
        !self.inbound.is_empty()
    }

    #[inline]
    pub fn next_frame(&mut self) -> Option<HostFrame<'_>> {
        if self.inbound.is_empty() {
            return None;
        }
        let (Head { port, about, vid, .. }, bytes) = self.inbound.take()?;
        let site = if vid == 0 { Site::Port(port) } else { Site::Vlan(vid) };
        Some(if about == FROM_INTERFACE {
            HostFrame::FromInterface(site, port, bytes)
        } else {
            HostFrame::ToPeer(port, bytes)
        })
    }

    pub fn count(&self, port: PortId, is_sent: bool) {
        let (sent, unsent) = &self.counts.0[port.index()];
        if is_sent { sent } else { unsent }.add(1);
    }

    #[inline]
    pub fn ring(&mut self) {
        let punted = self.punted.get();
        if punted != self.rung_for {
            self.rung_for = punted;
            self.bell.ring();
        }
    }
}

#[derive(Debug)]
pub struct HostEnd {
    rings: Vec<RingReader>,
    pub outbox: Outbox,
}

pub type WorkerSide = (Box<dyn PuntSink>, WorkerEnd);

#[must_use]
pub fn ends(
    bells: &Arc<Bells>,
    owners: Box<[WorkerId]>,
    workers: usize,
    bell: &Arc<Bell>,
    counts: &Arc<SendCounts>,
) -> (HostEnd, Vec<WorkerSide>) {
    let (mut rings, mut inward, mut of_workers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..workers {
        let ((sink, punts), (senders, inbound)) = (ring(ROOM), ring(ROOM));
        rings.push(punts);
        inward.push(senders);
        let punted = Arc::new(Counter::default());
        let sink: Box<dyn PuntSink> = Box::new(RingSink { ring: sink, punted: Arc::clone(&punted) });
        let (bell, counts) = (Arc::clone(bell), Arc::clone(counts));
        of_workers.push((sink, WorkerEnd { inbound, punted, rung_for: 0, bell, counts }));
    }
    let unrung = vec![false; workers];
    let outbox = Outbox { bells: Arc::clone(bells), owners, rings: inward, unrung };
    (HostEnd { rings, outbox }, of_workers)
}

impl HostEnd {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rings.iter().all(RingReader::is_empty)
    }

    /// Passes at most `most` frames of each worker to `give`. Returns whether further frames may be queued.
    pub fn take(&mut self, most: usize, mut give: impl FnMut(&Punted<'_>, &mut Outbox)) -> bool {
        let HostEnd { rings, outbox } = self;
        for ring in &mut *rings {
            for _ in 0..most {
                let Some((Head { at, port, vid, about }, bytes)) = ring.take() else { break };
                if let Some(&reason) = PuntReason::ALL.get(usize::from(about)) {
                    give(&Punted { punt: Punt { at, port, vid, reason }, bytes }, outbox);
                }
            }
        }
        !self.is_empty()
    }
}

#[derive(Debug)]
pub struct Outbox {
    bells: Arc<Bells>,
    owners: Box<[WorkerId]>,
    rings: Vec<RingWriter>,
    unrung: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punted<'a> {
    pub punt: Punt,
    pub bytes: &'a [u8],
}

impl Outbox {
    /// Queues a frame for the port's peer. The port sends it before data. Returns false if the ring is full.
    pub fn tell(&mut self, at: Nanos, port: PortId, bytes: &[u8]) -> bool {
        self.put(Head { at, port, vid: 0, about: TO_PEER }, bytes)
    }

    pub fn send(&mut self, at: Nanos, site: Site, port: PortId, bytes: &[u8]) -> bool {
        let vid = match site {
            Site::Port(_) => 0,
            Site::Vlan(vid) => vid,
        };
        self.put(Head { at, port, vid, about: FROM_INTERFACE }, bytes)
    }

    #[must_use]
    pub fn has_room(&self, port: PortId) -> bool {
        self.rings[self.owners[port.index()].index()].has_room()
    }

    fn put(&mut self, head: Head, bytes: &[u8]) -> bool {
        let worker = self.owners[head.port.index()].index();
        let is_put = self.rings[worker].put(head, bytes.len(), |into| {
            into.copy_from_slice(bytes);
            bytes.len()
        });
        self.unrung[worker] |= is_put;
        is_put
    }

    pub fn ring(&mut self) {
        for (worker, unrung) in (0..=u8::MAX).map(WorkerId).zip(&mut self.unrung) {
            if std::mem::take(unrung) {
                self.bells.of(worker).ring();
            }
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rings.iter().all(RingWriter::is_empty)
    }
}
