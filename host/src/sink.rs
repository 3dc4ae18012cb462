//! Receiving half of a host: counts the frames of each stream.
//!
//! Frames sent before the sink was ready count as missed at the start, not as lost. The sink compares two durations:
//! from its own start to the first arrival, and from the sender's first frame to the sending of the frame that arrived
//! first. If the second is longer, all frames below the lowest received number were missed.

use std::collections::HashMap;
use std::sync::Arc;

use hdrhistogram::Histogram;

use crate::payload::{Arrival, FlowStamp, Parsed, Stamp, parse, span_48};
use crate::progress::Progress;
use crate::track::Tracker;
use xoff_wire::Header;
use xoff_wire::units::{Bytes, CLASSES, Class, MacAddr, Nanos};

const STREAMS_MAX: usize = 1024;
const FLOWS_MAX: usize = 4096;
/// Exclusive upper limits, in bytes, of the flow sizes that reports distinguish.
pub const FLOW_BUCKETS: [u32; 4] = [10_000, 100_000, 1_000_000, u32::MAX];

const LATENCY_MAX: u64 = 100 * 1_000_000_000;
const LATENCY_DIGITS: u8 = 2;

#[derive(Debug)]
pub struct Sink {
    address: MacAddr,
    promiscuous: bool,
    ready: Nanos,
    streams: Vec<Incoming>,
    places: HashMap<(u16, u8), usize>,
    last: usize,
    unsorted: Unsorted,
    progress: Arc<Progress>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsorted {
    pub foreign: u64,
    pub corrupt: u64,
    pub untracked: u64,
    pub other: u64,
}

#[derive(Debug)]
pub struct Incoming {
    pub sender: u16,
    pub stream: u8,
    /// Class whose pauses the stream's sender obeys.
    pub class: Class,
    progress_place: Option<usize>,
    pub frames: u64,
    /// Bytes with FCS.
    pub bytes: Bytes,
    /// Bytes with FCS, preamble and gap.
    pub line_bytes: Bytes,
    /// Bytes of UDP payload, without repetitions.
    pub payload: Bytes,
    pub tracker: Tracker,
    lowest: u64,
    /// Sending time of the frame received first, by the sender's clock.
    first_sent: Nanos,
    began: Option<Nanos>,
    watched: Nanos,
    /// Number of sent frames, from an end marker; `None` before one arrives.
    pub total: Option<u64>,
    pub first: Nanos,
    /// Bytes of the first frame (FCS, preamble and gap included); rates do not count this frame.
    pub first_line_bytes: Bytes,
    pub first_payload: Bytes,
    pub last: Nanos,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// Frames by PCP; the last element counts untagged frames.
    pub pcp: [u64; CLASSES + 1],
    pub dscp: [u64; 64],
    pub congested: u64,
    pub flows: Option<Box<FlowsReceived>>,
}

#[derive(Debug)]
pub struct FlowsReceived {
    incomplete: HashMap<u32, u32>,
    refused: Tracker,
    /// Completion times in nanoseconds, by size range ([`FLOW_BUCKETS`]).
    pub times: [Histogram<u64>; FLOW_BUCKETS.len()],
}

impl Sink {
    /// Creates a sink, ready from `ready` on. If `promiscuous`, it also accepts frames to other addresses.
    #[must_use]
    pub fn new(address: MacAddr, promiscuous: bool, ready: Nanos, progress: Arc<Progress>) -> Sink {
        Sink {
            address,
            promiscuous,
            ready,
            streams: Vec::with_capacity(STREAMS_MAX),
            places: HashMap::with_capacity(STREAMS_MAX),
            last: 0,
            unsorted: Unsorted::default(),
            progress,
        }
    }

    /// Counts a frame of `frame_len` bytes, without FCS. Returns whether it is data for this host.
    #[inline]
    pub fn receive(&mut self, now: Nanos, header: &Header, head: &[u8], frame_len: u32) -> bool {
        match parse(header, head, frame_len as usize) {
            Parsed::Data(arrival) => self.receive_data(now, &arrival, frame_len),
            Parsed::Corrupt => {
                self.unsorted.corrupt += 1;
                false
            }
            Parsed::Other => {
                self.unsorted.other += 1;
                false
            }
        }
    }

    #[must_use]
    pub fn streams(&self) -> &[Incoming] {
        &self.streams
    }

    #[must_use]
    pub const fn unsorted(&self) -> Unsorted {
        self.unsorted
    }

    #[inline]
    fn receive_data(&mut self, now: Nanos, arrival: &Arrival, frame_len: u32) -> bool {
        if !self.promiscuous && !arrival.dst.is_group() && arrival.dst != self.address {
            self.unsorted.foreign += 1;
            return false;
        }
        let Some(place) = self.place_of(&arrival.stamp) else {
            self.unsorted.untracked += 1;
            return false;
        };
        self.last = place;
        let stream = &mut self.streams[place];
        if arrival.stamp.end {
            stream.total = Some(arrival.stamp.sequence);
            stream.began = Some(arrival.stamp.sent);
            return true;
        }
        if stream.frames == 0 {
            stream.watched = now.since(self.ready);
        }
        stream.receive(now, arrival, frame_len);
        let on_line = Bytes::on_line(frame_len);
        self.progress.received[arrival.stamp.class.index()].add(on_line);
        if let Some(place) = stream.progress_place {
            self.progress.senders[place].1.add(on_line);
        }
        true
    }

    #[inline]
    fn place_of(&mut self, stamp: &Stamp) -> Option<usize> {
        let last = self.streams.get(self.last);
        if last.is_some_and(|stream| (stream.sender, stream.stream) == (stamp.sender, stamp.stream)) {
            return Some(self.last);
        }
        if let Some(&place) = self.places.get(&(stamp.sender, stamp.stream)) {
            return Some(place);
        }
        if self.streams.len() == STREAMS_MAX {
            return None;
        }
        let place = self.streams.len();
        self.streams.push(Incoming::new(stamp, self.progress.place_of(stamp.sender)));
        self.places.insert((stamp.sender, stamp.stream), place);
        Some(place)
    }
}

impl Incoming {
    fn new(stamp: &Stamp, progress_place: Option<usize>) -> Incoming {
        Incoming {
            sender: stamp.sender,
            stream: stamp.stream,
            class: stamp.class,
            progress_place,
            frames: 0,
            bytes: Bytes::ZERO,
            line_bytes: Bytes::ZERO,
            payload: Bytes::ZERO,
            tracker: Tracker::default(),
            lowest: u64::MAX,
            first_sent: Nanos::ZERO,
            began: None,
            watched: Nanos::ZERO,
            total: None,
            first: Nanos::ZERO,
            first_line_bytes: Bytes::ZERO,
            first_payload: Bytes::ZERO,
            last: Nanos::ZERO,
            latency: histogram(),
            pcp: [0; CLASSES + 1],
            dscp: [0; 64],
            congested: 0,
            flows: stamp.flow.map(|_| Box::default()),
        }
    }

    #[inline]
    fn receive(&mut self, now: Nanos, arrival: &Arrival, frame_len: u32) {
        let (on_line, payload) = (Bytes::on_line(frame_len), Bytes(arrival.payload as u64));
        if self.frames == 0 {
            (self.first, self.first_line_bytes, self.first_payload) = (now, on_line, payload);
            self.first_sent = arrival.stamp.sent;
        }
        self.lowest = self.lowest.min(arrival.stamp.sequence);
        self.last = now;
        self.frames += 1;
        self.bytes += Bytes::of_frame(frame_len);
        self.line_bytes += on_line;
        self.latency.saturating_record(span_48(now, arrival.stamp.sent).0);
        self.pcp[arrival.tag.map_or(CLASSES, |tag| tag.pcp().index())] += 1;
        self.dscp[usize::from(arrival.dscp & 63)] += 1;
        self.congested += u64::from(arrival.ecn == 0b11);
        if self.tracker.record(arrival.stamp.sequence) {
            self.payload += payload;
            if let (Some(flows), Some(flow)) = (&mut self.flows, &arrival.stamp.flow) {
                flows.receive(now, flow);
            }
        }
    }

    #[must_use]
    pub fn sent_at_least(&self) -> u64 {
        self.total.unwrap_or(0).max(self.tracker.sent_at_least())
    }

    #[must_use]
    pub fn missed_at_start(&self) -> u64 {
        let had_begun = |began| span_48(self.first_sent, began) > self.watched;
        if self.frames > 0 && self.began.is_some_and(had_begun) { self.lowest } else { 0 }
    }

    /// Returns the rate on the line in b/s, from the first to the last arrival.
    #[must_use]
    pub fn line_rate(&self) -> f64 {
        rate(self.line_bytes.saturating_sub(self.first_line_bytes), self.last.since(self.first))
    }

    /// Returns the rate of UDP payload in b/s, without repetitions.
    #[must_use]
    pub fn payload_rate(&self) -> f64 {
        rate(self.payload.saturating_sub(self.first_payload), self.last.since(self.first))
    }
}

impl Default for FlowsReceived {
    fn default() -> FlowsReceived {
        FlowsReceived {
            incomplete: HashMap::with_capacity(FLOWS_MAX),
            refused: Tracker::default(),
            times: std::array::from_fn(|_| histogram()),
        }
    }
}

impl FlowsReceived {
    fn receive(&mut self, now: Nanos, flow: &FlowStamp) {
        let left_before = self.incomplete.get(&flow.id).copied();
        let left = left_before.unwrap_or(flow.frames).saturating_sub(1);
        if left == 0 {
            self.incomplete.remove(&flow.id);
            let bucket =
                FLOW_BUCKETS.iter().position(|&end| flow.bytes < end).unwrap_or(FLOW_BUCKETS.len() - 1);
            self.times[bucket].saturating_record(span_48(now, flow.began).0);
        } else if left_before.is_some() || self.has_room_for(flow) {
            self.incomplete.insert(flow.id, left);
        } else {
            self.refused.record(flow.id.into());
        }
    }

    /// Returns whether the flow can be tracked. A flow without room at its first frame is never tracked.
    fn has_room_for(&self, flow: &FlowStamp) -> bool {
        self.incomplete.len() < FLOWS_MAX && !self.refused.may_know(flow.id.into())
    }

    #[must_use]
    pub const fn untracked(&self) -> u64 {
        self.refused.distinct()
    }

    #[must_use]
    pub fn incomplete(&self) -> usize {
        self.incomplete.len()
    }
}

/// Returns the rate in b/s; 0 if `span` is zero.
#[must_use]
pub fn rate(bytes: Bytes, span: Nanos) -> f64 {
    if span == Nanos::ZERO { 0.0 } else { bytes.0 as f64 * 8e9 / span.0 as f64 }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, LATENCY_DIGITS).expect("the histogram's bounds must be valid")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::payload::{Headers, Template};

    const ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn sink(promiscuous: bool) -> Sink {
        Sink::new(ADDRESS, promiscuous, Nanos::ZERO, Arc::default())
    }

    fn stamp(sequence: u64) -> Stamp {
        Stamp {
            sender: 1,
            stream: 0,
            class: Class::new(3).unwrap(),
            end: false,
            sequence,
            sent: Nanos(1000),
            flow: None,
        }
    }

    fn receive(sink: &mut Sink, now: u64, dst: MacAddr, stamp: &Stamp) -> bool {
        let template = Template::new(&Headers {
            dst,
            via: None,
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            tag: None,
            cn_tag: None,
            dscp: 24,
            ecn: 0,
            source_port: 1,
            destination_port: 2,
        });
        let mut frame = [0; 101];
        template.write(&mut frame, 101, stamp);
        sink.receive(Nanos(now), &Header::parse(&frame).unwrap(), &frame, 101)
    }

    #[test]
    fn sink_counts_losses_duplicates_and_reordering() {
        let mut sink = sink(false);
        for (now, sequence) in [(2000, 0), (3000, 3), (4000, 1), (5000, 1)] {
            assert!(receive(&mut sink, now, ADDRESS, &stamp(sequence)));
        }
        assert_eq!(sink.streams()[0].sent_at_least(), 4);
        receive(&mut sink, 6000, ADDRESS, &Stamp { end: true, ..stamp(6) });
        let stream = &sink.streams()[0];
        assert_eq!((stream.frames, stream.tracker.distinct()), (4, 3));
        assert_eq!((stream.tracker.duplicated(), stream.tracker.reordered()), (1, 1));
        assert_eq!((stream.sent_at_least(), stream.total), (6, Some(6)));
        assert_eq!((stream.dscp[24], stream.pcp[8]), (4, 4));
        assert_eq!(stream.latency.len(), 4);
        assert!(stream.latency.equivalent(stream.latency.min(), 1000));
        assert!(stream.latency.equivalent(stream.latency.max(), 4000));
        assert_eq!(stream.payload, Bytes(3 * (101 - 42)));
        assert!((stream.line_rate() - 1e9).abs() < 1.0, "the line rate must be 3 x 125 bytes in 3 us");
        assert!(
            (stream.payload_rate() - 2.0 * 59.0 * 8e9 / 3000.0).abs() < 1.0,
            "the payload rate must be 2 x 59 bytes in 3 us"
        );
    }

    #[test] // proves: traffic
    fn frames_sent_before_sink_start_count_as_missed() {
        // Frame 5 is sent 3000 ns after frame 0. The sink first receives frame `sequence`, `watched` ns after it became
        // ready.
        for (watched, sequence, missed) in [(2_999, 5, 5), (3_000, 5, 0), (10_000, 5, 0), (2_999, 0, 0)] {
            let ready = Nanos(50_000);
            let mut sink = Sink::new(ADDRESS, false, ready, Arc::default());
            let first = Stamp { sent: Nanos(4000), ..stamp(sequence) };
            receive(&mut sink, ready.0 + watched, ADDRESS, &first);
            assert_eq!(
                sink.streams()[0].missed_at_start(),
                0,
                "no frame may count as missed before the end marker arrives"
            );
            receive(&mut sink, ready.0 + 20_000, ADDRESS, &Stamp { end: true, ..stamp(8) });
            assert_eq!(sink.streams()[0].missed_at_start(), missed, "{watched}");
        }
    }

    #[test] // proves: experiments
    fn sink_counts_frames_of_each_chosen_sender_separately() {
        let progress = Arc::new(Progress::of_senders([1, 2]));
        let mut sink = Sink::new(ADDRESS, false, Nanos::ZERO, Arc::clone(&progress));
        for (sequence, sender) in [(0, 1), (0, 2), (1, 1), (0, 3)] {
            receive(&mut sink, 0, ADDRESS, &Stamp { sender, ..stamp(sequence) });
        }
        let from = |sender| progress.received_from(sender).map(|volume| volume.line_bytes.get());
        assert_eq!([1, 2, 3].map(from), [Some(2 * 125), Some(125), None]);
        assert_eq!(progress.received[3].frames.get(), 4);
    }

    #[test]
    fn promiscuous_sink_accepts_frames_to_other_hosts() {
        let other = MacAddr([2, 0, 0, 0, 0, 3]);
        let mut plain = sink(false);
        assert!(receive(&mut plain, 0, MacAddr::BROADCAST, &stamp(0)));
        assert!(!receive(&mut plain, 0, other, &stamp(1)));
        assert_eq!(plain.unsorted(), Unsorted { foreign: 1, ..Unsorted::default() });
        assert!(receive(&mut sink(true), 0, other, &stamp(0)));
    }

    #[test]
    fn flow_completes_when_all_frames_arrived_in_any_order() {
        let mut sink = sink(false);
        let flow = |id, frames, bytes| Some(FlowStamp { id, bytes, frames, began: Nanos(500) });
        let frames = [
            (1, flow(0, 2, 9_999)),
            (2, flow(1, 1, 10_000)),
            (2, flow(1, 1, 10_000)),
            (0, flow(0, 2, 9_999)),
        ];
        for (at, (sequence, flow)) in frames.into_iter().enumerate() {
            receive(&mut sink, 1000 + at as u64, ADDRESS, &Stamp { flow, ..stamp(sequence) });
        }
        let flows = sink.streams()[0].flows.as_ref().unwrap();
        assert_eq!(flows.incomplete(), 0);
        assert_eq!(
            (flows.times[0].len(), flows.times[1].len()),
            (1, 1),
            "one flow below 10 KB and one of 10 KB must be complete"
        );
        assert!(flows.times[0].equivalent(flows.times[0].max(), 503));
        assert!(flows.times[1].equivalent(flows.times[1].max(), 501));
    }

    #[test]
    fn flow_beyond_maximum_number_counts_once_as_untracked() {
        let flow = |id| FlowStamp { id, bytes: 300, frames: 3, began: Nanos(500) };
        let mut flows = FlowsReceived::default();
        let most = u32::try_from(FLOWS_MAX).unwrap();
        (0..=most).for_each(|id| flows.receive(Nanos(1000), &flow(id)));
        flows.receive(Nanos(1001), &flow(most));
        assert_eq!((flows.incomplete(), flows.untracked()), (FLOWS_MAX, 1));
        for _ in 0..2 {
            flows.receive(Nanos(1002), &flow(0));
        }
        flows.receive(Nanos(1003), &flow(most));
        assert_eq!(
            (flows.incomplete(), flows.untracked()),
            (FLOWS_MAX - 1, 1),
            "a flow that began while FLOWS_MAX flows were incomplete must stay untracked"
        );
        flows.receive(Nanos(1004), &flow(most + 1));
        assert_eq!((flows.incomplete(), flows.untracked()), (FLOWS_MAX, 1));
    }

    #[test]
    fn sink_counts_frames_of_streams_beyond_maximum_number() {
        let mut sink = sink(false);
        for sender in 0..=1024_u16 {
            receive(&mut sink, 0, ADDRESS, &Stamp { sender, ..stamp(0) });
        }
        assert_eq!((sink.streams().len(), sink.unsorted().untracked), (STREAMS_MAX, 1));
    }
}
