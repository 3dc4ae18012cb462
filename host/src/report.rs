//! What a host reports: the shape of `--json`, whose key names are stable.
//!
//! Conventions: `bytes` count frames with FCS; rates in `mbps` count layer 1 (FCS, preamble and gap) and
//! `goodput_mbps` UDP payload that arrived for the first time; times are nanoseconds. A rate is taken
//! from the end of the first frame to that of the last.
//!
//! `lost` is what was sent and never came. How much was sent is known where an end marker came
//! through or where sender and sink were settled with each other ([`settle`]); until then
//! `sent_known` is false, and `sent` is the highest sequence number seen. What was sent before a host was ready is
//! `missed_at_start`, and not lost ([`Incoming::missed_at_start`]).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::gate::PauseCounts;
use crate::limiter::LimiterReport;
use crate::notices::CnmReport;
use crate::sender::Sent;
use crate::sink::{FLOW_BUCKETS, FlowsReceived, Incoming, Unsorted, rate};
use crate::stream::Stream;
use xoff_dataplane::units::{Bytes, CLASSES, Class, ClassSet, Nanos};
use xoff_dataplane::wire::MacControlError;

/// One host's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Its interface.
    pub device: String,
    /// Its address.
    pub address: String,
    /// Its number in the frames that it sends.
    pub sender: u16,
    /// Rate of its line.
    pub line_mbps: f64,
    /// How long it ran.
    pub elapsed_ns: u64,
    /// Longest time that the machine kept it from running.
    pub longest_gap_ns: u64,
    /// How long it took to run once a time that it had slept until had come: the median.
    #[serde(default)]
    pub usual_gap_ns: u64,
    /// What it sent, by stream.
    pub sent: Vec<SentStream>,
    /// What it received, by sender and stream.
    pub received: Vec<ReceivedStream>,
    /// Pause frames that it received.
    pub pauses: PauseReport,
    /// Congestion notifications that it received.
    pub cnms: CnmReport,
    /// Frames that belong to no stream of this host.
    pub unsorted: UnsortedReport,
    /// Frames that were lost between the wire and this host.
    pub drops: DropReport,
    /// Whether its interface was deleted while it ran, and so ended it.
    pub device_gone: bool,
}

/// What one stream sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it; units in the module's text
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
    /// Its rate limiter, where it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qcn: Option<LimiterReport>,
}

/// What arrived of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it; units in the module's text
pub struct ReceivedStream {
    pub sender: u16,
    pub stream: u8,
    pub class: u8,
    pub sent: u64,
    pub sent_known: bool,
    pub frames: u64,
    pub lost: u64,
    /// Sent before this host was ready, and so not received; not among those lost.
    #[serde(default)]
    pub missed_at_start: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// So late that repeated and new could not be told apart.
    pub beyond_window: u64,
    pub bytes: u64,
    pub mbps: f64,
    pub goodput_mbps: f64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub latency_ns: Distribution,
    /// Frames by the PCP that they arrived with; `untagged` without.
    pub pcp: BTreeMap<String, u64>,
    /// Frames by the DSCP that they arrived with.
    pub dscp: BTreeMap<String, u64>,
    /// Frames marked "congestion experienced".
    pub congested: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows: Option<FlowReport>,
}

/// Flows of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct FlowReport {
    pub completed: u64,
    pub incomplete: u64,
    /// Not followed, because too many were incomplete at a time.
    pub untracked: u64,
    /// Completion times of all.
    pub completion_ns: Distribution,
    /// Completion times by flow size.
    pub by_size: Vec<FlowBucket>,
}

/// Flows up to a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowBucket {
    /// They are shorter than this; absent where there is no limit.
    pub below_bytes: Option<u32>,
    /// Completion times.
    pub completion_ns: Distribution,
}

/// A histogram in a few numbers, within one percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
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

/// Pause frames received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PauseReport {
    /// PFC frames.
    pub pfc_frames: u64,
    /// Those of them with rates (GFC) that were obeyed.
    pub rate_frames: u64,
    /// Those of them that carried lists of flows and were obeyed as such.
    pub flow_frames: u64,
    /// 802.3x PAUSE frames.
    pub pause_frames: u64,
    /// MAC control that pauses nothing, by reason.
    pub refused: BTreeMap<String, u64>,
    /// By class, 0 to 7.
    pub classes: Vec<ClassPauseReport>,
}

/// Pause frames received for one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct ClassPauseReport {
    pub class: u8,
    pub xoff: u64,
    pub xon: u64,
    pub paused_ns: u64,
}

/// Frames that belong to no stream of this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnsortedReport {
    /// Data frames to another host.
    pub foreign: u64,
    /// Data frames with a wrong length or IPv4 checksum.
    pub corrupt: u64,
    /// Data frames of more streams than a sink tells apart.
    pub untracked: u64,
    /// Frames of other kinds.
    pub other: u64,
    /// Frames by which this host made its address known.
    pub announcements_sent: u64,
}

/// Frames lost between the wire and the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropReport {
    /// XDP and device drop counters by name, as far as they moved during the run.
    pub counters: BTreeMap<String, u64>,
    /// All that count losses added up (`rx_too_long` does not). The kernel counts some in two or three of them.
    pub total: u64,
    /// What could not be read of them: there may have been more.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unread: Vec<String>,
}

impl SentStream {
    /// Of stream number `index`.
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

/// Frames sent that never came; `repeated` ones are among `frames`.
fn lost(sent: u64, frames: u64, repeated: u64) -> u64 {
    sent.saturating_sub(frames - repeated)
}

impl ReceivedStream {
    /// Frames that came for the first time.
    #[must_use]
    pub const fn distinct(&self) -> u64 {
        self.frames.saturating_sub(self.duplicated).saturating_sub(self.beyond_window)
    }

    /// When the last of its frames came, where all `count` of them did.
    #[must_use]
    pub fn completed(&self, count: u64) -> Option<Nanos> {
        (self.frames > 0 && self.distinct() >= count).then_some(Nanos(self.last_ns))
    }

    /// Takes what its sender says: it sent `frames`.
    pub fn settle(&mut self, frames: u64) {
        self.sent = frames;
        self.sent_known = true;
        self.lost = lost(
            frames.saturating_sub(self.missed_at_start),
            self.frames,
            self.duplicated + self.beyond_window,
        );
    }

    /// What a lossless network never does, if it did; `None` where all frames came once and in order.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        let wrong: Vec<String> = [
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("beyond the window", self.beyond_window),
            ("sent before this host was ready", self.missed_at_start),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
        let unknown = (!self.sent_known).then_some("no end marker came".to_owned());
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
    /// Why the run was not lossless in `classes`: nothing received, a stream that lost, repeated or
    /// reordered frames, streams that nobody followed, or drops at the host itself.
    #[must_use]
    pub fn violations(&self, classes: ClassSet) -> Vec<String> {
        let of_interest =
            |stream: &&ReceivedStream| Class::new(stream.class).is_some_and(|c| classes.contains(c));
        let streams: Vec<&ReceivedStream> = self.received.iter().filter(of_interest).collect();
        let mut violations: Vec<String> = streams.iter().filter_map(|stream| stream.violation()).collect();
        if streams.is_empty() {
            violations.push("nothing was received".to_owned());
        }
        if self.unsorted.untracked > 0 {
            let frames = self.unsorted.untracked;
            violations.push(format!("{frames} frames of more streams than a host tells apart"));
        }
        if self.drops.total > 0 {
            violations.push(format!(
                "{} frames dropped at the host: {}",
                self.drops.total,
                listed(&self.drops.counters)
            ));
        }
        violations.extend(self.drops.unread.iter().map(|unread| format!("not proved at the host: {unread}")));
        violations
    }
}

/// Counts with their names, as a person reads them.
pub(crate) fn listed(counts: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// Settles senders and sinks with each other: every sink learns how much each stream that it received,
/// or that was addressed to it and never arrived, had.
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
    /// From a sink's counts.
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
    fn settling_finds_tails_and_whole_streams_that_never_came() {
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

    #[test]
    fn a_stream_is_complete_once_all_its_frames_have_come() {
        let of = |frames, duplicated| ReceivedStream { frames, duplicated, last_ns: 7, ..Default::default() };
        let completed = [of(10, 0), of(9, 0), of(10, 1), of(11, 1), of(0, 0)].map(|of| of.completed(10));
        assert_eq!(completed, [Some(Nanos(7)), None, None, Some(Nanos(7)), None]);
        assert_eq!(of(0, 0).completed(0), None, "nothing came, so it came at no time");
    }

    #[test]
    fn lossless_means_all_of_it_once_in_order_and_known() {
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
            assert_eq!(report.violations(ClassSet(1 << 4)), ["nothing was received"]);
        }
    }

    #[test]
    fn drops_at_the_host_are_never_lossless() {
        let good = ReceivedStream { sent_known: true, ..Default::default() };
        let drops = DropReport { total: 1, ..Default::default() };
        let report = HostReport { received: vec![good.clone()], drops, ..host(1, "a") };
        assert_eq!(report.violations(ClassSet::ALL).len(), 1);
        let drops = DropReport { unread: vec!["its drop counters".to_owned()], ..Default::default() };
        let report = HostReport { received: vec![good], drops, ..host(1, "a") };
        assert_eq!(report.violations(ClassSet::ALL), ["not proved at the host: its drop counters"]);
    }

    #[test]
    fn what_nobody_followed_is_never_lossless() {
        let good = ReceivedStream { sent_known: true, ..Default::default() };
        let unsorted = UnsortedReport { untracked: 1, ..Default::default() };
        let report = HostReport { received: vec![good], unsorted, ..host(1, "a") };
        assert_eq!(report.violations(ClassSet::ALL).len(), 1);
    }

    #[test]
    fn json_goes_out_and_comes_back() {
        let mut report = host(1, "a");
        report.sent = vec![sent(0, "b", 3)];
        report.received = vec![ReceivedStream::default()];
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<HostReport>(&json).unwrap(), report);
    }
}
