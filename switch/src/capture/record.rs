use std::fmt;
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::tap::{FrameEvent, Sighting, Tap};
use xoff_flow_control::counter::Counter;
use xoff_flow_control::drop_reason::DropReason;
use xoff_recording::pcapng::Packet;
use xoff_wire::units::{Class, Nanos, PortId, PortSet};

use super::filter::Filter;

/// Maximum captured bytes of a frame; larger than any MTU.
const FRAME_MAX: usize = 16 << 10;

const HEAD: usize = 40;

const NONE: u8 = u8::MAX;

const RECEIVED: u8 = 0;
const SENT: u8 = 1;
const DROPPED: u8 = 2;

/// For each port: how many frames the capture selected, and how many of them were lost because the ring was full.
#[derive(Debug)]
pub struct CaptureCounts(Box<[(Counter, Counter)]>);

impl CaptureCounts {
    #[must_use]
    pub fn new(ports: usize) -> Arc<CaptureCounts> {
        Arc::new(CaptureCounts((0..ports).map(|_| Default::default()).collect()))
    }

    #[must_use]
    pub fn wanted(&self, port: PortId) -> u64 {
        self.0[port.index()].0.get()
    }

    #[must_use]
    pub fn missed(&self, port: PortId) -> u64 {
        self.0[port.index()].1.get()
    }

    pub fn add(&self, port: PortId, wanted: u64, missed: u64) {
        let counts = &self.0[port.index()];
        counts.0.add(wanted);
        counts.1.add(missed);
    }
}

pub struct Probe {
    ports: PortSet,
    filter: Filter,
    ring: Producer<u8>,
    scratch: Box<[u8]>,
    counts: Arc<CaptureCounts>,
    missed: Box<[u32]>,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("ports", &self.ports)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct CaptureReader {
    ring: Consumer<u8>,
    bytes: Vec<u8>,
}

#[must_use]
pub fn channel(
    ports: PortSet,
    filter: Filter,
    snap: usize,
    room: usize,
    counts: Arc<CaptureCounts>,
) -> (Probe, CaptureReader) {
    let (mut producer, mut consumer) = RingBuffer::new(room);
    // Touch every page of the ring, so that the worker never waits for a page fault.
    if let Ok(all) = producer.write_chunk(room) {
        all.commit_all();
    }
    if let Ok(all) = consumer.read_chunk(room) {
        all.commit_all();
    }
    let scratch = vec![0; HEAD + snap.min(FRAME_MAX)].into_boxed_slice();
    let missed = vec![0; counts.0.len()].into_boxed_slice();
    let probe = Probe { ports, filter, ring: producer, scratch, counts, missed };
    (probe, CaptureReader { ring: consumer, bytes: Vec::with_capacity(room) })
}

impl Tap for Probe {
    fn ports(&self) -> PortSet {
        self.ports
    }

    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore) {
        if !self.filter.wants(sighting) {
            return;
        }
        let port = sighting.port.index();
        let (wanted, missed) = &self.counts.0[port];
        wanted.add(1);
        let (head, body) = self.scratch.split_at_mut(HEAD);
        let most = body.len().min(frame.len() as usize);
        if self.ring.slots() < HEAD + most {
            missed.add(1);
            self.missed[port] = self.missed[port].saturating_add(1);
            return;
        }
        let kept = store.read(frame, &mut body[..most]);
        let missed_before = std::mem::take(&mut self.missed[port]);
        write_head(head, sighting, frame.len(), kept, missed_before);
        self.ring
            .push_entire_slice(&self.scratch[..HEAD + kept])
            .expect("the capture ring must have the room that was just checked");
    }
}

fn write_head(head: &mut [u8], sighting: &Sighting, len: u32, kept: usize, missed_before: u32) {
    let (what, reason, after) = match sighting.event {
        FrameEvent::Received { dropped } => (RECEIVED, dropped, Nanos::ZERO),
        FrameEvent::Sent { after } => (SENT, None, after),
        FrameEvent::Dropped { reason, after } => (DROPPED, Some(reason), after),
    };
    #[allow(clippy::cast_possible_truncation)] // few, and at most FRAME_MAX
    let (reason, kept) = (reason.map_or(NONE, |reason| reason.index() as u8), kept as u32);
    head[..8].copy_from_slice(&sighting.at.0.to_ne_bytes());
    head[8..16].copy_from_slice(&after.0.to_ne_bytes());
    head[16..20].copy_from_slice(&len.to_ne_bytes());
    head[20..24].copy_from_slice(&kept.to_ne_bytes());
    head[24..28].copy_from_slice(&missed_before.to_ne_bytes());
    let class = sighting.class.map_or(NONE, Class::get);
    head[28..33].copy_from_slice(&[sighting.port.0, class, sighting.is_control.into(), what, reason]);
}

fn read(bytes: &[u8]) -> Option<(Packet<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| head[at + index]));
    let short = |at: usize| u32::from_ne_bytes(std::array::from_fn(|index| head[at + index]));
    let (bytes, rest) = rest.split_at_checked(short(20) as usize)?;
    let (after, dropped) = (Nanos(long(8)), DropReason::ALL.get(usize::from(head[32])).copied());
    let event = match (head[31], dropped) {
        (SENT, _) => FrameEvent::Sent { after },
        (DROPPED, Some(reason)) => FrameEvent::Dropped { reason, after },
        _ => FrameEvent::Received { dropped },
    };
    let sighting = Sighting {
        at: Nanos(long(0)),
        port: PortId(head[28]),
        class: Class::new(head[29]),
        is_control: head[30] != 0,
        event,
    };
    Some((Packet { sighting, len: short(16), missed_before: short(24), bytes }, rest))
}

impl CaptureReader {
    pub fn take(&mut self) -> bool {
        self.bytes.clear();
        // Read all bytes: the probe writes only whole records.
        if let Ok(chunk) = self.ring.read_chunk(self.ring.slots()) {
            let (first, second) = chunk.as_slices();
            self.bytes.extend_from_slice(first);
            self.bytes.extend_from_slice(second);
            chunk.commit_all();
        }
        !self.bytes.is_empty()
    }

    pub fn records(&self) -> impl Iterator<Item = Packet<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (record, following) = read(rest)?;
            rest = following;
            Some(record)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_xdp::Store;

    use super::*;

    const PORT: PortId = PortId(1);
    const ROOM: usize = 4 * (HEAD + 60) + 99;

    fn pair(snap: usize) -> (Probe, CaptureReader, Arc<CaptureCounts>) {
        let counts = CaptureCounts::new(2);
        let (probe, reader) =
            channel([PORT].into_iter().collect(), Filter::ALL, snap, ROOM, Arc::clone(&counts));
        (probe, reader, counts)
    }

    fn see(probe: &mut Probe, at: u64, event: FrameEvent, len: u32) {
        let mut store = Store::with_frames(16);
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(len as usize).collect();
        let frame = store.make(&bytes).unwrap();
        let sighting = Sighting { at: Nanos(at), port: PORT, class: Class::new(3), is_control: false, event };
        probe.see(&sighting, &frame, &store);
        store.free(frame);
    }

    #[test]
    fn capture_record_shows_if_frame_was_received_sent_or_dropped() {
        let (mut probe, mut reader, counts) = pair(100);
        let all = [
            FrameEvent::Received { dropped: None },
            FrameEvent::Received { dropped: Some(DropReason::TooLong) },
            FrameEvent::Sent { after: Nanos(u64::MAX) },
            FrameEvent::Dropped { reason: DropReason::FloodPaused, after: Nanos(7) },
        ];
        for round in 0..9 {
            for (at, event) in (0..).zip(all) {
                see(&mut probe, at, event, 50 + round);
            }
            assert!(reader.take());
            let records: Vec<_> = reader.records().collect();
            assert_eq!(records.len(), all.len());
            for ((at, event), record) in (0..).zip(all).zip(records) {
                assert_eq!((record.sighting.at, record.sighting.event), (Nanos(at), event));
                assert_eq!((record.sighting.port, record.sighting.class), (PORT, Class::new(3)));
                assert_eq!((record.len, record.missed_before), (50 + round, 0));
                assert!(record.bytes.iter().copied().eq(0..50 + u8::try_from(round).unwrap()));
            }
        }
        assert_eq!((counts.wanted(PORT), counts.missed(PORT)), (36, 0));
        assert!(!reader.take() && reader.records().next().is_none());
    }

    #[test]
    fn capture_keeps_first_bytes_of_multi_chunk_frame() {
        let (mut probe, mut reader, _) = pair(200);
        see(&mut probe, 1, FrameEvent::Received { dropped: None }, 5_000);
        assert!(reader.take());
        let record = reader.records().next().unwrap();
        assert_eq!((record.len, record.bytes.len()), (5_000, 200));
        let counts = CaptureCounts::new(2);
        let (mut probe, mut reader) = channel(PortSet::ALL, Filter::ALL, 9_000, 9_000, counts);
        see(&mut probe, 1, FrameEvent::Received { dropped: None }, 5_000);
        assert!(reader.take());
        let record = reader.records().next().unwrap();
        assert!(record.bytes.iter().enumerate().all(|(at, byte)| at % 256 == usize::from(*byte)));
        assert_eq!(record.bytes.len(), 5_000);
    }

    #[test] // proves: capture
    fn capture_record_has_number_of_frames_lost_before_it() {
        let (mut probe, mut reader, counts) = pair(100);
        for at in 0..7 {
            see(&mut probe, at, FrameEvent::Received { dropped: None }, 60);
        }
        assert_eq!((counts.wanted(PORT), counts.missed(PORT)), (7, 3));
        assert!(reader.take());
        assert!(reader.records().map(|record| record.sighting.at.0).eq(0..4));
        see(&mut probe, 7, FrameEvent::Received { dropped: None }, 60);
        see(&mut probe, 8, FrameEvent::Received { dropped: None }, 60);
        assert!(reader.take());
        assert!(reader.records().map(|record| record.missed_before).eq([3, 0]));
    }
}
