//! The two ends of what is between a worker and the host path: a ring of punted frames out, a ring of frames to be told in.
//!
//! A worker makes no system call for a frame: it looks once in a turn whether it has punted any, and rings only then, and only
//! where the host path sleeps.

use std::sync::Arc;

use xoff_dataplane::counter::Counter;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::punt::{Punt, PuntReason, PuntSink};
use xoff_dataplane::switch::WorkerId;
use xoff_dataplane::units::{Nanos, PortId, Site};

use super::ring::{Head, Reader, Writer, ring};
use crate::bell::Bell;
use crate::handoff::Bells;

/// Bytes between a worker and the host path, in each direction: a hundred frames of the usual MTU and more.
const ROOM: usize = 256 << 10;

/// What becomes of frames that are to be told, by port. Written by the worker that owns the port.
#[derive(Debug)]
pub struct TellCounts(Box<[(Counter, Counter)]>);

impl TellCounts {
    /// Of so many ports.
    #[must_use]
    pub fn new(ports: usize) -> Arc<TellCounts> {
        Arc::new(TellCounts((0..ports).map(|_| Default::default()).collect()))
    }

    /// Frames that were sent by `port`.
    #[must_use]
    pub fn told(&self, port: PortId) -> u64 {
        self.0[port.index()].0.get()
    }

    /// Frames that could not be: the port had no link, or too much to tell.
    #[must_use]
    pub fn untold(&self, port: PortId) -> u64 {
        self.0[port.index()].1.get()
    }
}

/// Punts into the ring.
#[derive(Debug)]
struct Sink {
    ring: Writer,
    punted: Arc<Counter>,
}

impl PuntSink for Sink {
    fn take(&mut self, punt: &Punt, frame: &Frame, store: &dyn FrameStore) -> bool {
        let Punt { at, port, vid, reason } = *punt;
        #[allow(clippy::cast_possible_truncation)] // few
        let head = Head { at, port, vid, about: reason.index() as u8 };
        let is_taken = self.ring.put(head, frame.len() as usize, |into| store.read(frame, into));
        self.punted.add(u64::from(is_taken));
        is_taken
    }
}

/// What the host path has for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A frame that the peer of this port is to be told.
    Tell(PortId, &'a [u8]),
    /// A frame that the host sends by its interface there, to be counted at this port.
    Frame(Site, PortId, &'a [u8]),
}

/// What stands in the head of a frame that is given to a worker.
const TELL: u8 = 0;
const FRAME: u8 = 1;

/// The worker's end.
#[derive(Debug)]
pub struct WorkerEnd {
    inbound: Reader,
    punted: Arc<Counter>,
    /// How many were punted when the host path was told last.
    rung_for: u64,
    bell: Arc<Bell>,
    counts: Arc<TellCounts>,
}

impl WorkerEnd {
    /// Whether something is to be told.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// The next frame that it is given.
    #[inline]
    pub fn next_given(&mut self) -> Option<Given<'_>> {
        if self.inbound.is_empty() {
            return None;
        }
        let (Head { port, about, vid, .. }, bytes) = self.inbound.take()?;
        let site = if vid == 0 { Site::Port(port) } else { Site::Vlan(vid) };
        Some(if about == FRAME { Given::Frame(site, port, bytes) } else { Given::Tell(port, bytes) })
    }

    /// One was, or could not be.
    pub fn count(&self, port: PortId, is_told: bool) {
        let (told, untold) = &self.counts.0[port.index()];
        if is_told { told } else { untold }.add(1);
    }

    /// The turn is over: who sleeps and has been given something is woken.
    #[inline]
    pub fn ring(&mut self) {
        let punted = self.punted.get();
        if punted != self.rung_for {
            self.rung_for = punted;
            self.bell.ring();
        }
    }
}

/// The host path's end: of all workers.
#[derive(Debug)]
pub struct HostEnd {
    /// By worker.
    rings: Vec<Reader>,
    /// What goes back.
    pub outbox: Outbox,
}

/// What a worker is given: where its dataplane punts to, and its own end.
pub type WorkerSide = (Box<dyn PuntSink>, WorkerEnd);

/// Makes the ends of workers that own ports as `owners` says. `bell` wakes the host path.
#[must_use]
pub fn ends(
    bells: &Arc<Bells>,
    owners: Box<[WorkerId]>,
    workers: usize,
    bell: &Arc<Bell>,
    counts: &Arc<TellCounts>,
) -> (HostEnd, Vec<WorkerSide>) {
    let (mut rings, mut inward, mut of_workers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..workers {
        let ((sink, punts), (tells, inbound)) = (ring(ROOM), ring(ROOM));
        rings.push(punts);
        inward.push(tells);
        let punted = Arc::new(Counter::default());
        let sink: Box<dyn PuntSink> = Box::new(Sink { ring: sink, punted: Arc::clone(&punted) });
        let (bell, counts) = (Arc::clone(bell), Arc::clone(counts));
        of_workers.push((sink, WorkerEnd { inbound, punted, rung_for: 0, bell, counts }));
    }
    let unrung = vec![false; workers];
    let outbox = Outbox { bells: Arc::clone(bells), owners, rings: inward, unrung };
    (HostEnd { rings, outbox }, of_workers)
}

impl HostEnd {
    /// Whether nothing was punted that is not taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rings.iter().all(Reader::is_empty)
    }

    /// Gives out what was punted, at most `most` frames of each worker. True where there may be more.
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

/// Where the host path puts what is to be told.
#[derive(Debug)]
pub struct Outbox {
    bells: Arc<Bells>,
    /// By port.
    owners: Box<[WorkerId]>,
    /// By worker.
    rings: Vec<Writer>,
    /// Workers that have something to tell since they were woken last.
    unrung: Vec<bool>,
}

/// A frame that came out of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punted<'a> {
    /// What is said of it.
    pub punt: Punt,
    /// All of it.
    pub bytes: &'a [u8],
}

impl Outbox {
    /// Has the worker of `port` send a frame before data; false where there is no room now.
    pub fn tell(&mut self, at: Nanos, port: PortId, bytes: &[u8]) -> bool {
        self.put(Head { at, port, vid: 0, about: TELL }, bytes)
    }

    /// Has the worker of `port` send a frame of the host by its interface at `site`; false where there is no room now.
    pub fn send(&mut self, at: Nanos, site: Site, port: PortId, bytes: &[u8]) -> bool {
        let vid = match site {
            Site::Port(_) => 0,
            Site::Vlan(vid) => vid,
        };
        self.put(Head { at, port, vid, about: FRAME }, bytes)
    }

    /// Whether there is room for any frame to the worker of `port`.
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

    /// Wakes the workers that have something to tell.
    pub fn ring(&mut self) {
        for (worker, unrung) in (0..=u8::MAX).map(WorkerId).zip(&mut self.unrung) {
            if std::mem::take(unrung) {
                self.bells.of(worker).ring();
            }
        }
    }

    /// Whether the workers have taken all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rings.iter().all(Writer::is_empty)
    }
}
