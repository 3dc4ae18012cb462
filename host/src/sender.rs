//! Sending half of a host: chooses and writes frames.
//!
//! Streams with a configured rate come first, of these the stream that has waited longest. Other streams share the line
//! round robin. After a pause, only streams with a rate catch up, for a limited time.
//!
//! A completed stream sends end markers with its number of frames, from which sinks compute losses.

use std::mem;
use std::sync::Arc;

use crate::limiter::{Limiter, LimiterReport};
use crate::pacer::Pacer;
use crate::payload::{Headers, Stamp, Template};
use crate::progress::Progress;
use crate::schedule::{Due, NextFrame, Schedule};
use crate::stream::Stream;
use xoff_flow_control::congestion::ReactionSettings;
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, MacAddr, Nanos};
use xoff_wire::{CnTag, FlowKey};

/// Number of end markers of a stream; more than one, because markers may be lost.
pub const END_MARKERS: u8 = 3;
const END_MARKER_INTERVAL: Nanos = Nanos::from_millis(1);
/// UDP source port of the first flow of stream 0: the first dynamic port.
const PORT_BASE: u16 = 49152;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Send(Turn),
    /// Wait until this time, or until a pause begins or ends.
    Wait(Nanos),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    stream: usize,
    since: Nanos,
    frame: NextFrame,
    end: bool,
}

impl Turn {
    /// Returns the length in bytes, without FCS.
    #[must_use]
    pub const fn frame_len(&self) -> u32 {
        self.frame.len
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderSettings {
    pub address: MacAddr,
    pub id: u16,
    pub line: BitRate,
    /// Maximum part of a delay of the host that streams recover by bursts.
    pub catch_up: Nanos,
    pub end_markers: u8,
    /// Settings of rate limiters. With `None`, streams have neither rate limiter nor CN-TAG.
    pub qcn: Option<ReactionSettings>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub frames: u64,
    /// Bytes with FCS.
    pub bytes: Bytes,
    /// Bytes with FCS, preamble and gap.
    pub line_bytes: Bytes,
    pub first: Nanos,
    pub last: Nanos,
    pub end_markers: u8,
}

#[derive(Debug)]
pub struct Sender {
    settings: SenderSettings,
    line: Pacer,
    streams: Vec<Outgoing>,
    turn: usize,
    progress: Arc<Progress>,
}

/// Rank of a stream; the lowest sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Rated(Nanos),
    TakesTurns,
}

#[derive(Debug)]
struct Outgoing {
    class: Class,
    template: Template,
    schedule: Schedule,
    limiter: Option<Limiter>,
    source_port: Option<u16>,
    /// Key by which a switch pauses the stream as a single flow; flows with source ports of their own do not match.
    flow: FlowKey,
    held: bool,
    is_blocked: bool,
    let_go: Nanos,
    end_markers: u8,
    next_marker: Option<Nanos>,
    sent: Sent,
}

impl Sender {
    #[must_use]
    pub fn new(streams: &[Stream], settings: SenderSettings, now: Nanos, progress: Arc<Progress>) -> Sender {
        let outgoing = |(index, stream)| Outgoing::new(index, stream, &settings, now);
        Sender {
            settings,
            line: Pacer::new(settings.line, now),
            streams: streams.iter().enumerate().map(outgoing).collect(),
            turn: 0,
            progress,
        }
    }

    #[inline]
    pub fn choose(&mut self, now: Nanos, paused: ClassSet) -> Choice {
        if self.line.free_at() > now {
            return Choice::Wait(self.line.free_at());
        }
        let mut wake: Option<Nanos> = None;
        let mut best: Option<(Rank, Nanos, usize)> = None;
        let count = self.streams.len();
        for index in (self.turn..count).chain(0..self.turn) {
            let stream = &mut self.streams[index];
            match stream.due(now) {
                Due::Since(_) if stream.held || paused.contains(stream.class) => {
                    stream.is_blocked = true;
                    wake = wake.or(Some(Nanos::NEVER));
                }
                Due::Since(since) => {
                    if mem::take(&mut stream.is_blocked) {
                        stream.let_go = now;
                    }
                    let rank = stream.rank(since);
                    if best.is_none_or(|best| rank < best.0) {
                        best = Some((rank, since, index));
                    }
                }
                Due::At(at) => wake = Some(wake.map_or(at, |wake| wake.min(at))),
                Due::Over => {}
            }
        }
        match (best, wake) {
            (Some((_, since, index)), _) => Choice::Send(self.streams[index].turn(index, since)),
            (None, Some(wake)) => Choice::Wait(wake),
            (None, None) => {
                self.progress.all_sent.set(1);
                Choice::Done
            }
        }
    }

    #[must_use]
    pub fn class(&self, turn: &Turn) -> Class {
        self.streams[turn.stream].class
    }

    /// Writes the headers of the frame of `turn`, and counts this frame as sent.
    #[inline]
    pub fn send(&mut self, turn: &Turn, now: Nanos, frame: &mut [u8]) {
        let stream = &mut self.streams[turn.stream];
        stream.write(turn, self.settings.id, now, frame);
        let bytes = Bytes::on_line(turn.frame.len);
        let catch_up_from = Nanos(now.0.saturating_sub(self.settings.catch_up.0));
        let earliest = turn.since.max(stream.let_go).max(catch_up_from);
        self.line.occupy(earliest, bytes);
        if let Some(limiter) = &mut stream.limiter {
            limiter.sent(earliest, bytes);
        }
        self.turn = turn.stream + 1;
        if turn.end {
            stream.note_marker(now);
        } else {
            stream.note_frame(turn, now);
            self.progress.sent[stream.class.index()].add(bytes);
        }
    }

    pub fn advance(&mut self, now: Nanos) {
        self.streams
            .iter_mut()
            .filter_map(|stream| stream.limiter.as_mut())
            .for_each(|limiter| limiter.advance(now));
    }

    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let limiters = self.streams.iter().filter_map(|stream| stream.limiter.as_ref());
        limiters.map(Limiter::next_deadline).min().unwrap_or(Nanos::NEVER)
    }

    /// Passes a CNM to the stream whose CN-TAG is `rpid`. Returns false if no stream has it.
    pub fn notified(&mut self, now: Nanos, rpid: u16, feedback: u8) -> bool {
        let stream = self.streams.get_mut(usize::from(rpid));
        let limiter = stream.and_then(|stream| stream.limiter.as_mut());
        limiter.map(|limiter| limiter.notified(now, feedback)).is_some()
    }

    pub fn limiters(&self) -> impl Iterator<Item = Option<LimiterReport>> {
        self.streams.iter().map(|stream| stream.limiter.as_ref().map(Limiter::report))
    }

    /// Pauses the streams with flows for which `holds` returns true, and resumes all others.
    pub fn hold_flows(&mut self, holds: impl Fn(Class, &FlowKey) -> bool) {
        for stream in &mut self.streams {
            stream.held = holds(stream.class, &stream.flow);
        }
    }

    /// Ends all streams: then only end markers are sent.
    pub fn stop(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.schedule.stop());
    }

    pub fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.streams.iter().map(|stream| &stream.sent)
    }
}

impl Outgoing {
    fn new(index: usize, stream: &Stream, settings: &SenderSettings, now: Nanos) -> Outgoing {
        let rpid = u16::try_from(index).unwrap_or(0);
        let own_port = PORT_BASE + rpid;
        let template = Template::new(&Headers {
            dst: stream.dst,
            via: stream.via,
            src: stream.src.unwrap_or(settings.address),
            tag: stream.tag,
            cn_tag: settings.qcn.map(|_| CnTag(rpid)),
            dscp: stream.dscp,
            ecn: stream.ecn,
            source_port: stream.source_port.unwrap_or(own_port),
            destination_port: stream.destination_port,
        });
        Outgoing {
            class: stream.class,
            schedule: Schedule::new(stream, &template, now, settings.catch_up),
            flow: template.flow(),
            held: false,
            template,
            limiter: settings.qcn.map(|qcn| Limiter::new(&qcn, index, settings.line, now)),
            source_port: stream.source_port,
            is_blocked: false,
            let_go: Nanos::ZERO,
            end_markers: settings.end_markers,
            next_marker: None,
            sent: Sent::default(),
        }
    }

    #[inline]
    fn due(&mut self, now: Nanos) -> Due {
        match (self.schedule.due(now), &self.limiter) {
            (Due::Over, _) => self.marker_due(now),
            (Due::Since(_), Some(limiter)) if limiter.free_at() > now => Due::At(limiter.free_at()),
            (Due::Since(since), Some(limiter)) => Due::Since(since.max(limiter.free_at())),
            (due, _) => due,
        }
    }

    fn marker_due(&mut self, now: Nanos) -> Due {
        if self.sent.end_markers == self.end_markers || self.sent.frames == 0 {
            return Due::Over;
        }
        let at = *self.next_marker.get_or_insert(now);
        if at <= now { Due::Since(at) } else { Due::At(at) }
    }

    fn rank(&self, since: Nanos) -> Rank {
        let is_limited = self.limiter.as_ref().is_some_and(Limiter::is_limiting);
        if self.schedule.is_rated() || is_limited { Rank::Rated(since) } else { Rank::TakesTurns }
    }

    fn turn(&self, stream: usize, since: Nanos) -> Turn {
        let end = self.next_marker.is_some();
        let frame = if end {
            let len =
                u32::try_from(self.template.len_min(false)).expect("the frame length must fit into 32 bits");
            NextFrame { len, flow: None }
        } else {
            self.schedule.next_frame()
        };
        Turn { stream, since, frame, end }
    }

    #[inline]
    fn write(&self, turn: &Turn, sender: u16, now: Nanos, frame: &mut [u8]) {
        let stamp = Stamp {
            sender,
            stream: u8::try_from(turn.stream).unwrap_or(u8::MAX),
            class: self.class,
            end: turn.end,
            sequence: self.sent.frames,
            sent: if turn.end { self.sent.first } else { now },
            flow: turn.frame.flow,
        };
        let len = turn.frame.len as usize;
        match (turn.frame.flow, self.source_port) {
            (Some(flow), None) => {
                let port = PORT_BASE | u16::try_from(flow.id & 0x3fff).unwrap_or(0);
                self.template.write_from_port(frame, len, &stamp, port);
            }
            _ => self.template.write(frame, len, &stamp),
        }
    }

    #[inline]
    fn note_frame(&mut self, turn: &Turn, now: Nanos) {
        if self.sent.frames == 0 {
            self.sent.first = now;
        }
        self.sent.last = now;
        self.sent.frames += 1;
        self.sent.bytes += Bytes::of_frame(turn.frame.len);
        self.sent.line_bytes += Bytes::on_line(turn.frame.len);
        self.schedule.sent(now, turn.since);
    }

    fn note_marker(&mut self, now: Nanos) {
        self.sent.end_markers += 1;
        self.next_marker = Some(now.after(END_MARKER_INTERVAL));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::payload::{Parsed, parse};
    use crate::stream::parse_streams;
    use xoff_wire::Header;

    const T0: Nanos = Nanos::from_secs(1);

    fn sender(streams: &[&str]) -> Sender {
        sender_with(streams, None)
    }

    fn sender_with(streams: &[&str], qcn: Option<ReactionSettings>) -> Sender {
        let settings = SenderSettings {
            address: MacAddr([2, 0, 0, 0, 0, 1]),
            id: 7,
            line: BitRate::from_gbps(1),
            catch_up: Nanos::from_micros(20),
            end_markers: END_MARKERS,
            qcn,
        };
        let streams: Vec<String> = streams.iter().map(|stream| format!("{stream},dst=broadcast")).collect();
        Sender::new(&parse_streams(&streams).unwrap(), settings, T0, Arc::default())
    }

    fn at(micros: u64) -> Nanos {
        T0.after(Nanos::from_micros(micros))
    }

    fn drain(sender: &mut Sender, now: Nanos, paused: ClassSet) -> (Vec<u8>, Choice) {
        let mut sent = Vec::new();
        loop {
            match sender.choose(now, paused) {
                Choice::Send(turn) => {
                    let mut frame = [0; 128];
                    sender.send(&turn, now, &mut frame);
                    let header = Header::parse(&frame).unwrap();
                    let Parsed::Data(arrival) = parse(&header, &frame, turn.frame_len() as usize) else {
                        panic!("the sender must write data frames only")
                    };
                    let (stamp, began) = (arrival.stamp, sender.sent().nth(turn.stream).unwrap().first);
                    assert_eq!((stamp.sender, stamp.sent), (7, if stamp.end { began } else { now }));
                    sent.push(arrival.stamp.stream + if arrival.stamp.end { 100 } else { 0 });
                }
                other => return (sent, other),
            }
        }
    }

    #[test]
    fn sender_never_exceeds_line_rate() {
        let mut sender = sender(&["size=105"]); // 1 us of a gigabit
        let mut sent = 0;
        for micro in 0..1000 {
            sent += drain(&mut sender, at(micro), ClassSet::NONE).0.len() as u64;
            assert_eq!(sent, micro + 1);
        }
    }

    #[test]
    fn sender_of_delayed_host_catches_up_within_its_limit() {
        let mut sender = sender(&["size=105"]);
        let (sent, next) = drain(&mut sender, at(1000), ClassSet::NONE);
        assert_eq!(sent.len(), 21);
        assert_eq!(next, Choice::Wait(at(1001)));
    }

    #[test]
    fn stream_slowed_by_cnms_yields_line_to_others() {
        let qcn = ReactionSettings { decrease_divisor: 64, decrease_percent_max: 50, ..Default::default() };
        let mut sender = sender_with(&["size=105", "size=105"], Some(qcn));
        assert!(!sender.notified(T0, 2, 63), "a CNM for a missing stream must be rejected");
        for _ in 0..2 {
            assert!(sender.notified(T0, 1, 63)); // half, then half of that: 250 Mb/s
        }
        let sent: Vec<_> =
            (0..80).flat_map(|micro| drain(&mut sender, at(micro), ClassSet::NONE).0).collect();
        let slow = sent.iter().filter(|&&stream| stream == 1).count();
        assert!((19..=21).contains(&slow), "{slow} of {}", sent.len());
        assert!(sent.len() >= 79);
        let reports: Vec<_> = sender.limiters().flatten().map(|report| report.cnms).collect();
        assert_eq!(reports, [0, 2]);
    }

    #[test] // proves: sim-hosts
    fn line_rate_stream_does_not_catch_up_after_a_pause() {
        let mut sender = sender(&["class=3,size=105,rate=line", "class=4,size=105,start=1s"]);
        let c3 = ClassSet(1 << 3);
        for micro in 0..100 {
            assert_eq!(drain(&mut sender, at(micro), c3), (vec![], Choice::Wait(at(1_000_000))));
        }
        assert_eq!(drain(&mut sender, at(100), ClassSet::NONE).0.len(), 1);
        assert_eq!(drain(&mut sender, at(101), c3).0.len(), 0);
    }

    #[test] // proves: sim-hosts
    fn stream_of_sleeping_host_sends_no_burst_after_pause() {
        let c3 = ClassSet(1 << 3);
        for flow in [false, true] {
            let mut sender = sender(&["class=3,size=105"]);
            assert_eq!(drain(&mut sender, at(0), ClassSet::NONE).0.len(), 1);
            let paused = |sender: &mut Sender, is: bool| {
                sender.hold_flows(|_, _| flow && is);
                if is && !flow { c3 } else { ClassSet::NONE }
            };
            let none = paused(&mut sender, true);
            assert_eq!(drain(&mut sender, at(1), none).1, Choice::Wait(Nanos::NEVER));
            let again = paused(&mut sender, false);
            let (sent, next) = drain(&mut sender, at(1_000), again);
            assert_eq!(
                (sent.len(), next),
                (1, Choice::Wait(at(1_001))),
                "right after a pause, the stream must send a single frame, although its host slept"
            );
            assert_eq!(
                drain(&mut sender, at(1_010), again).0.len(),
                10,
                "a host that wakes 10 us after its last frame must send the 10 frames of 1 us due since then"
            );
        }
    }

    #[test]
    fn stream_keeps_its_rate_while_other_class_is_paused() {
        let mut sender = sender(&["class=3,size=105", "class=4,size=105,rate=500M"]);
        let both: Vec<_> = (0..8).flat_map(|micro| drain(&mut sender, at(micro), ClassSet::NONE).0).collect();
        assert_eq!(both, [1, 0, 1, 0, 1, 0, 1, 0]);
        let alone: Vec<_> =
            (8..16).flat_map(|micro| drain(&mut sender, at(micro), ClassSet(1 << 3)).0).collect();
        assert_eq!(alone, [1, 1, 1, 1]);
    }

    #[test]
    fn line_rate_streams_send_frames_alternately() {
        let mut sender = sender(&["size=105", "size=105", "size=105,start=1s"]);
        let sent: Vec<_> = (0..6).flat_map(|micro| drain(&mut sender, at(micro), ClassSet::NONE).0).collect();
        assert_eq!(sent, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn end_markers_carry_number_of_frames_of_stream() {
        let mut sender = sender(&["size=105,count=2"]);
        let mut sent = Vec::new();
        let mut now = T0;
        loop {
            let (more, next) = drain(&mut sender, now, ClassSet::NONE);
            sent.extend(more);
            match next {
                Choice::Wait(at) => now = at,
                _ => break,
            }
        }
        assert_eq!(sent, [0, 0, 100, 100, 100]);
        let sent = sender.sent().next().unwrap();
        assert_eq!((sent.frames, sent.bytes, sent.line_bytes), (2, Bytes(210), Bytes(250)));
    }

    #[test]
    fn stopped_sender_sends_end_markers_of_begun_streams_only() {
        let mut sender = sender(&["size=105", "size=105,start=1s"]);
        drain(&mut sender, T0, ClassSet::NONE);
        sender.stop();
        for micros in [1, 1001, 2001] {
            assert_eq!(drain(&mut sender, at(micros), ClassSet::NONE).0, [100]);
        }
        assert_eq!(drain(&mut sender, at(4000), ClassSet::NONE), (vec![], Choice::Done));
    }
}
