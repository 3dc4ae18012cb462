//! Report of a host, also as JSON (`--json`) with stable keys.
//!
//! * `bytes` include FCS.
//! * `mbps` are rates of layer 1 (FCS, preamble and gap), `goodput_mbps` of UDP payload without repetitions, from the
//!   end of the first frame to the end of the last.
//! * `lost` frames never arrived. Until an end marker arrives or [`settle`] is called, `sent_known` is false, and
//!   `sent` is the highest received sequence number plus one.
//! * `missed_at_start` frames were sent before the host was ready ([`Incoming::missed_at_start`]).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::gate::PauseCounts;
use crate::limiter::LimiterReport;
use crate::notices::CnmReport;
use crate::sender::Sent;
use crate::sink::{FLOW_BUCKETS, FlowsReceived, Incoming, Unsorted, rate};
use crate::stream::Stream;
use xoff_wire::MacControlError;
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    pub device: String,
    pub address: String,
    pub sender: u16,
    pub line_mbps: f64,
    pub elapsed_ns: u64,
    /// Longest time for which the host's program was not scheduled.
    pub longest_gap_ns: u64,
    /// Median delay of the program's wakeups.
    #[serde(default)]
    pub usual_gap_ns: u64,
    pub sent: Vec<SentStream>,
    pub received: Vec<ReceivedStream>,
    pub pauses: PauseReport,
    pub cnms: CnmReport,
    pub unsorted: UnsortedReport,
    pub drops: DropReport,
    pub device_gone: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentStream {
    pub stream: u8,
    pub class: u8,
    pub dst: String,
    pub size: u32,
    pub frames: u64,
    pub bytes: u64,
    pub mbps: f64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub end_markers: u8,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qcn: Option<LimiterReport>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedStream {
    pub sender: u16,
    pub stream: u8,
    pub class: u8,
    pub sent: u64,
    pub sent_known: bool,
    pub frames: u64,
    pub lost: u64,
    #[serde(default)]
    pub missed_at_start: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Frames so late that the receiver cannot tell whether they are repetitions.
    pub beyond_window: u64,
    pub bytes: u64,
    pub mbps: f64,
    pub goodput_mbps: f64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub latency_ns: Distribution,
    /// Numbers of frames by PCP at receipt; key `untagged` for frames without tag.
    pub pcp: BTreeMap<String, u64>,
    pub dscp: BTreeMap<String, u64>,
    /// Frames with the ECN mark CE (congestion experienced).
    pub congested: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows: Option<FlowReport>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    pub completed: u64,
    pub incomplete: u64,
    /// Flows whose completion was not tracked, because too many others were incomplete.
    pub untracked: u64,
    pub completion_ns: Distribution,
    pub by_size: Vec<FlowBucket>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowBucket {
    /// Exclusive upper limit of flow sizes in bytes; `None` for the last range.
    pub below_bytes: Option<u32>,
    pub completion_ns: Distribution,
}

/// Summary of a histogram; its values are accurate to one percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub count: u64,
    pub min: u64,
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PauseReport {
    pub pfc_frames: u64,
    /// Received and obeyed frames with rate requests (GFC).
    pub rate_frames: u64,
    /// Received and obeyed frames with pauses or resumes of single flows (OFC).
    pub flow_frames: u64,
    /// 802.3x PAUSE frames received.
    pub pause_frames: u64,
    /// MAC control frames without effect, by reason.
    pub refused: BTreeMap<String, u64>,
    pub classes: Vec<ClassPauseReport>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassPauseReport {
    pub class: u8,
    pub xoff: u64,
    pub xon: u64,
    pub paused_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnsortedReport {
    /// Data frames addressed to another host.
    pub foreign: u64,
    /// Data frames with a wrong length or IPv4 checksum.
    pub corrupt: u64,
    /// Data frames of streams beyond the maximum number that a host tracks.
    pub untracked: u64,
    pub other: u64,
    pub announcements_sent: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropReport {
    pub counters: BTreeMap<String, u64>,
    /// Sum of `counters` except `rx_too_long`; a frame may be in several counters.
    pub total: u64,
    /// Counters that could not be read, and may therefore hide losses.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unread: Vec<String>,
}

impl SentStream {
    #[must_use]
    pub fn new(index: usize, stream: &Stream, sent: &Sent) -> SentStream {
        let (frames, last_line) = (sent.frames, sent.line_bytes.0 / sent.frames.max(1));
        let measured = Bytes(sent.line_bytes.0 - last_line);
        SentStream {
            stream: u8::try_from(index).unwrap_or(u8::MAX),
            class: stream.class.get(),
            dst: stream.dst.to_string(),
            size: stream.size,
            frames,
            bytes: sent.bytes.0,
            mbps: rate(measured, sent.last.since(sent.first)) / 1e6,
            first_ns: sent.first.0,
            last_ns: sent.last.0,
            end_markers: sent.end_markers,
            qcn: None,
        }
    }
}

impl From<&Incoming> for ReceivedStream {
    fn from(stream: &Incoming) -> ReceivedStream {
        let tracker = &stream.tracker;
        let (sent, missed_at_start) = (stream.sent_at_least(), stream.missed_at_start());
        let named = |(code, &frames): (usize, &u64)| {
            let name = if code == CLASSES { "untagged".to_owned() } else { code.to_string() };
            (frames > 0).then_some((name, frames))
        };
        ReceivedStream {
            sender: stream.sender,
            stream: stream.stream,
            class: stream.class.get(),
            sent,
            sent_known: stream.total.is_some(),
            frames: stream.frames,
            lost: lost(sent - missed_at_start, stream.frames, tracker.duplicated() + tracker.beyond_window()),
            missed_at_start,
            duplicated: tracker.duplicated(),
            reordered: tracker.reordered(),
            beyond_window: tracker.beyond_window(),
            bytes: stream.bytes.0,
            mbps: stream.line_rate() / 1e6,
            goodput_mbps: stream.payload_rate() / 1e6,
            first_ns: stream.first.0,
            last_ns: stream.last.0,
            latency_ns: Distribution::from(&stream.latency),
            pcp: stream.pcp.iter().enumerate().filter_map(named).collect(),
            dscp: stream
                .dscp
                .iter()
                .enumerate()
                .filter(|(_, frames)| **frames > 0)
                .map(|(code, &frames)| (code.to_string(), frames))
                .collect(),
            congested: stream.congested,
            flows: stream.flows.as_deref().map(FlowReport::from),
        }
    }
}

fn lost(sent: u64, frames: u64, repeated: u64) -> u64 {
    sent.saturating_sub(frames - repeated)
}

impl ReceivedStream {
    #[must_use]
    pub const fn distinct(&self) -> u64 {
        self.frames.saturating_sub(self.duplicated).saturating_sub(self.beyond_window)
    }

    /// Returns the last frame's arrival time; `None` until `count` different frames (at least one) have arrived.
    #[must_use]
    pub fn completed(&self, count: u64) -> Option<Nanos> {
        (self.frames > 0 && self.distinct() >= count).then_some(Nanos(self.last_ns))
    }

    /// Corrects `sent` and `lost`, given the number of `frames` that the sender reports.
    pub fn settle(&mut self, frames: u64) {
        self.sent = frames;
        self.sent_known = true;
        self.lost = lost(
            frames.saturating_sub(self.missed_at_start),
            self.frames,
            self.duplicated + self.beyond_window,
        );
    }

    #[must_use]
    pub fn violation(&self) -> Option<String> {
        let wrong: Vec<String> = [
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("arrived too late to be distinguished from repetitions", self.beyond_window),
            ("sent before this host was ready", self.missed_at_start),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
        let unknown = (!self.sent_known).then_some("the sender's end marker is missing".to_owned());
        let wrong: Vec<String> = wrong.into_iter().chain(unknown).collect();
        (!wrong.is_empty()).then(|| {
            format!(
                "sender {} stream {} (class {}): {}",
                self.sender,
                self.stream,
                self.class,
                wrong.join(", ")
            )
        })
    }
}

impl HostReport {
    #[must_use]
    pub fn violations(&self, classes: ClassSet) -> Vec<String> {
        let of_interest =
            |stream: &&ReceivedStream| Class::new(stream.class).is_some_and(|c| classes.contains(c));
        let streams: Vec<&ReceivedStream> = self.received.iter().filter(of_interest).collect();
        let mut violations: Vec<String> = streams.iter().filter_map(|stream| stream.violation()).collect();
        if streams.is_empty() {
            violations.push("no data was received".to_owned());
        }
        if self.unsorted.untracked > 0 {
            let frames = self.unsorted.untracked;
            violations
                .push(format!("{frames} frames belong to streams beyond the maximum that a host can track"));
        }
        if self.drops.total > 0 {
            violations.push(format!(
                "{} frames dropped at the host: {}",
                self.drops.total,
                listed(&self.drops.counters)
            ));
        }
        violations.extend(
            self.drops.unread.iter().map(|unread| format!("the host may have lost frames: {unread}")),
        );
        violations
    }
}

pub(crate) fn listed(counts: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// Corrects receivers' reports by senders' reports, and adds streams of which no frame arrived.
pub fn settle(reports: &mut [HostReport]) {
    let sent: Vec<(u16, SentStream)> = reports
        .iter()
        .flat_map(|report| report.sent.iter().map(|stream| (report.sender, stream.clone())))
        .collect();
    for report in reports {
        for (sender, stream) in &sent {
            let key = (*sender, stream.stream);
            match report.received.iter_mut().find(|received| (received.sender, received.stream) == key) {
                Some(received) => received.settle(stream.frames),
                None if stream.dst == report.address => report.received.push(nothing_of(*sender, stream)),
                None => {}
            }
        }
    }
}

fn nothing_of(sender: u16, stream: &SentStream) -> ReceivedStream {
    let mut received =
        ReceivedStream { sender, stream: stream.stream, class: stream.class, ..ReceivedStream::default() };
    received.settle(stream.frames);
    received
}

impl From<&FlowsReceived> for FlowReport {
    fn from(flows: &FlowsReceived) -> FlowReport {
        let mut all = flows.times[0].clone();
        flows.times[1..].iter().for_each(|times| all += times);
        FlowReport {
            completed: all.len(),
            incomplete: flows.incomplete() as u64,
            untracked: flows.untracked(),
            completion_ns: Distribution::from(&all),
            by_size: FLOW_BUCKETS
                .iter()
                .zip(&flows.times)
                .map(|(&end, times)| FlowBucket {
                    below_bytes: (end != u32::MAX).then_some(end),
                    completion_ns: Distribution::from(times),
                })
                .collect(),
        }
    }
}

impl From<&Histogram<u64>> for Distribution {
    fn from(histogram: &Histogram<u64>) -> Distribution {
        if histogram.is_empty() {
            return Distribution::default();
        }
        Distribution {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

impl From<&PauseCounts> for PauseReport {
    fn from(counts: &PauseCounts) -> PauseReport {
        let refused = MacControlError::ALL.iter().map(|r| (r.name().to_owned(), counts.refused[r.index()]));
        let classes = Class::ALL.iter().zip(&counts.classes).map(|(class, of)| ClassPauseReport {
            class: class.get(),
            xoff: of.xoff,
            xon: of.xon,
            paused_ns: of.paused.0,
        });
        PauseReport {
            pfc_frames: counts.pfc_frames,
            rate_frames: counts.rate_frames,
            flow_frames: counts.flow_frames,
            pause_frames: counts.pause_frames,
            refused: refused.filter(|(_, frames)| *frames > 0).collect(),
            classes: classes.collect(),
        }
    }
}

impl UnsortedReport {
    #[must_use]
    pub fn new(unsorted: Unsorted, announcements_sent: u64) -> UnsortedReport {
        let Unsorted { foreign, corrupt, untracked, other } = unsorted;
        UnsortedReport { foreign, corrupt, untracked, other, announcements_sent }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn host(sender: u16, address: &str) -> HostReport {
        HostReport { sender, address: address.to_owned(), ..HostReport::default() }
    }

    fn sent(stream: u8, dst: &str, frames: u64) -> SentStream {
        SentStream { stream, class: 3, dst: dst.to_owned(), frames, ..SentStream::default() }
    }

    #[test]
    fn corrected_report_counts_missing_frames_and_streams_as_lost() {
        let mut reports = [host(1, "a"), host(2, "b"), host(3, "c")];
        reports[0].sent = vec![sent(0, "b", 10), sent(1, "b", 5), sent(2, "c", 0)];
        let came = ReceivedStream {
            sender: 1,
            stream: 0,
            class: 3,
            sent: 8,
            frames: 9,
            duplicated: 1,
            ..Default::default()
        };
        reports[1].received = vec![came];
        settle(&mut reports);
        let lost: Vec<_> = reports[1].received.iter().map(|r| (r.stream, r.sent, r.lost)).collect();
        assert_eq!(lost, [(0, 10, 2), (1, 5, 5)]);
        assert_eq!(reports[2].received.len(), 1);
        assert_eq!(reports[2].violations(ClassSet::ALL), Vec::<String>::new());
    }

    #[test] // proves: experiments
    fn stream_completes_only_once_each_frame_has_arrived() {
        let of = |frames, duplicated| ReceivedStream { frames, duplicated, last_ns: 7, ..Default::default() };
        let completed = [of(10, 0), of(9, 0), of(10, 1), of(11, 1), of(0, 0)].map(|of| of.completed(10));
        assert_eq!(completed, [Some(Nanos(7)), None, None, Some(Nanos(7)), None]);
        assert_eq!(of(0, 0).completed(0), None, "a stream without frames must have no completion time");
    }

    #[test]
    fn run_is_lossless_only_if_each_frame_arrives_once_in_order() {
        let good = ReceivedStream { class: 3, sent: 5, sent_known: true, frames: 5, ..Default::default() };
        assert_eq!(good.violation(), None);
        for bad in [
            ReceivedStream { lost: 1, ..good.clone() },
            ReceivedStream { duplicated: 1, ..good.clone() },
            ReceivedStream { reordered: 1, ..good.clone() },
            ReceivedStream { beyond_window: 1, ..good.clone() },
            ReceivedStream { sent_known: false, ..good.clone() },
        ] {
            assert!(bad.violation().is_some(), "{bad:?}");
            let report = HostReport { received: vec![good.clone(), bad], ..host(1, "a") };
            assert_eq!(report.violations(ClassSet(1 << 3)).len(), 1);
            assert_eq!(report.violations(ClassSet(1 << 4)), ["no data was received"]);
        }
    }

    #[test] // proves: verdict
    fn run_with_drops_at_the_host_is_not_lossless() {
        let good = ReceivedStream { sent_known: true, ..Default::default() };
        let drops = DropReport { total: 1, ..Default::default() };
        let report = HostReport { received: vec![good.clone()], drops, ..host(1, "a") };
        assert_eq!(report.violations(ClassSet::ALL).len(), 1);
        let drops = DropReport { unread: vec!["its drop counters".to_owned()], ..Default::default() };
        let report = HostReport { received: vec![good], drops, ..host(1, "a") };
        assert_eq!(report.violations(ClassSet::ALL), ["the host may have lost frames: its drop counters"]);
    }

    #[test]
    fn run_with_untracked_streams_is_not_lossless() {
        let good = ReceivedStream { sent_known: true, ..Default::default() };
        let unsorted = UnsortedReport { untracked: 1, ..Default::default() };
        let report = HostReport { received: vec![good], unsorted, ..host(1, "a") };
        assert_eq!(report.violations(ClassSet::ALL).len(), 1);
    }

    #[test]
    fn report_is_unchanged_after_encoding_and_parsing_as_json() {
        let mut report = host(1, "a");
        report.sent = vec![sent(0, "b", 3)];
        report.received = vec![ReceivedStream::default()];
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<HostReport>(&json).unwrap(), report);
    }
}
