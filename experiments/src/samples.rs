//! Samples of a running fabric, as raw data. Sampling disturbs no thread. A pause that begins and ends between two
//! samples shows only in the numbers of XOFFs and XONs.

use std::collections::BTreeMap;
use std::mem;

use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::ClassCounters;
use xoff_wire::units::{Class, Nanos, PortId};

use crate::account::Account;
use crate::counted::{Counted, settled};
use crate::load::Load;
use crate::plan::{HostId, Plan, PortOf, SwitchId};
use crate::raw::RawRows;
use crate::results::Row;

type QueueKey = (usize, PortId, Class);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseFrame {
    Xoff,
    Xon,
}

#[derive(Debug, Default)]
pub(crate) struct Samples {
    queues: Vec<(Nanos, QueueKey, u64)>,
    pauses: Vec<(Nanos, QueueKey, PauseFrame, u64)>,
    before: BTreeMap<QueueKey, QueueHistory>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QueueHistory {
    sample: QueueSample,
    is_paused: bool,
    last_event_at: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QueueSample {
    bytes: u64,
    xoffs: u64,
    xons: u64,
    held_since: u64,
}

impl QueueSample {
    fn of(counters: &ClassCounters) -> QueueSample {
        let pauses =
            settled(|| [&counters.xoff_sent, &counters.xon_sent, &counters.held_since].map(Counter::get));
        let [xoffs, xons, held_since] = pauses;
        QueueSample { bytes: counters.egress_bytes.get(), xoffs, xons, held_since }
    }
}

impl Samples {
    pub(crate) fn sample(&mut self, switches: &[Counted], now: Nanos, begin: Nanos) {
        for (switch, counted) in switches.iter().enumerate() {
            for (port, class, counters) in counted.classes() {
                self.record(now, begin, (switch, port, class), QueueSample::of(counters));
            }
        }
    }

    fn record(&mut self, now: Nanos, begin: Nanos, place: QueueKey, sample: QueueSample) {
        let before = self.before.entry(place).or_default();
        let was = mem::replace(&mut before.sample, sample);
        if sample == was {
            return;
        }
        if sample.bytes != was.bytes {
            self.queues.push((now, place, sample.bytes));
        }
        let (xons, xoffs) = (sample.xons - was.xons, sample.xoffs - was.xoffs);
        if xons + xoffs == 0 {
            return;
        }
        // XOFF and XON alternate, so the class is paused if XOFFs outnumber XONs in total.
        before.is_paused = xoffs + u64::from(before.is_paused) > xons;
        let last = u64::from(before.is_paused && xoffs > 0);
        let at = match sample.held_since {
            0 => now,
            since => Nanos(since).since(begin).min(now),
        };
        before.last_event_at = at.max(before.last_event_at);
        let frames = [(PauseFrame::Xoff, xoffs - last), (PauseFrame::Xon, xons), (PauseFrame::Xoff, last)];
        let frames = frames.into_iter().filter(|(_, count)| *count > 0);
        self.pauses.extend(frames.map(|(event, count)| (before.last_event_at, place, event, count)));
    }
}

pub(crate) fn rows(plan: &Plan, load: &Load, account: &Account, begin: Nanos, samples: Samples) -> RawRows {
    let place = |(switch, port, class): QueueKey| {
        let at = PortOf { switch: SwitchId(switch), port };
        [plan.switch_name(at.switch).to_owned(), plan.port_name(at).to_owned(), class.to_string()]
    };
    let row = |at: Nanos, of, more: &[String]| [&[at.0.to_string()], &place(of)[..], more].concat();
    let queue = |(at, place, bytes): (Nanos, QueueKey, u64)| row(at, place, &[bytes.to_string()]);
    let pause = |(at, place, frame, count): (Nanos, QueueKey, PauseFrame, u64)| {
        let event = match frame {
            PauseFrame::Xoff => "xoff",
            PauseFrame::Xon => "xon",
        };
        row(at, place, &[event.to_owned(), count.to_string()])
    };
    [
        plan.hosts().flat_map(|host| completions(plan, load, account, begin, host)).collect(),
        samples.queues.into_iter().map(queue).collect(),
        samples.pauses.into_iter().map(pause).collect(),
    ]
}

fn completions(plan: &Plan, load: &Load, account: &Account, begin: Nanos, from: HostId) -> Vec<Row> {
    let name = |host: HostId| plan.host_of(host).name.clone();
    let of = |(number, stream): (usize, &xoff_host::Stream)| {
        let to = plan.hosts().find(|host| host.address() == stream.dst)?;
        let number = u8::try_from(number).ok()?;
        let sent = account.host(from).sent.get(usize::from(number)).map_or(0, |sent| sent.frames);
        let lost = account.stream(from, to, number).map_or(sent, |came| came.lost);
        let due = load.due(account, from, number).filter(|_| sent > 0).map(|due| due.since(begin));
        let times = [due, load.completion(account, from, to, number)];
        let times = times.map(|time| time.map_or(String::new(), |time| time.0.to_string()));
        let numbers = [sent, lost].map(|frames| frames.to_string());
        let place = [name(from), name(to), number.to_string(), stream.class.to_string()];
        Some([&place[..], &numbers, &times].concat())
    };
    load.of(from).iter().enumerate().filter_map(of).collect()
}

// Tests for SPECIFICATION.md: experiments
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_host::report::{ReceivedStream, SentStream};
    use xoff_host::{HostReport, Stream};
    use xoff_wire::units::{BitRate, CLASSES};

    use super::*;
    use crate::load::lossless;

    const BEGIN: Nanos = Nanos::from_millis(1000);
    const PLACE: QueueKey = (0, PortId(1), Class::ALL[3]);

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn events_of(readings: &[(u64, u64, u64, u64)]) -> Vec<(u64, PauseFrame, u64)> {
        let mut samples = Samples::default();
        for &(at, xoffs, xons, since) in readings {
            let held_since = if since == 0 { 0 } else { BEGIN.after(Nanos::from_micros(since)).0 };
            samples.record(ms(at), BEGIN, PLACE, QueueSample { bytes: 0, xoffs, xons, held_since });
        }
        let event = |(at, place, event, count): (Nanos, QueueKey, PauseFrame, u64)| {
            assert_eq!((place, at.0 % 1_000), (PLACE, 0), "{at:?}");
            (at.0 / 1_000, event, count)
        };
        samples.pauses.into_iter().map(event).collect()
    }

    #[test]
    fn samples_of_a_queue_record_only_its_changes() {
        let mut samples = Samples::default();
        let mut sample = |at, bytes, xoffs, xons, held_since| {
            samples.record(ms(at), BEGIN, PLACE, QueueSample { bytes, xoffs, xons, held_since });
        };
        sample(1, 0, 0, 0, 0);
        sample(2, 5000, 0, 0, 0);
        sample(3, 5000, 1, 0, BEGIN.0 + 2_300_000);
        sample(4, 5000, 1, 0, BEGIN.0 + 2_300_000);
        sample(5, 0, 3, 3, 0);
        assert_eq!(samples.queues, [(ms(2), PLACE, 5000), (ms(5), PLACE, 0)]);
        let first = (Nanos(2_300_000), PLACE, PauseFrame::Xoff, 1);
        assert_eq!(
            samples.pauses,
            [first, (ms(5), PLACE, PauseFrame::Xoff, 2), (ms(5), PLACE, PauseFrame::Xon, 3)]
        );
    }

    #[test]
    fn samples_record_pause_at_the_time_of_its_xoff() {
        let wanted_before_its_xoff = (6, 2, 1, 5_900);
        let samples =
            [(3, 1, 0, 2_300), (5, 2, 1, 4_700), wanted_before_its_xoff, (7, 3, 2, 5_900), (8, 3, 3, 0)];
        let events = [
            (2_300, PauseFrame::Xoff),
            (4_700, PauseFrame::Xon),
            (4_700, PauseFrame::Xoff),
            (5_900, PauseFrame::Xon),
            (5_900, PauseFrame::Xoff),
            (8_000, PauseFrame::Xon),
        ];
        assert_eq!(events_of(&samples), events.map(|(at, event)| (at, event, 1)));
    }

    #[test]
    fn recorded_pause_frames_are_in_time_order() {
        let before_the_last_sample = (6, 2, 1, 4_900);
        let next_before_its_xoff = (8, 2, 2, 7_100);
        let samples =
            [(3, 1, 0, 2_300), (5, 1, 1, 0), before_the_last_sample, next_before_its_xoff, (9, 3, 2, 7_100)];
        let events = [
            (2_300, PauseFrame::Xoff),
            (5_000, PauseFrame::Xon),
            (5_000, PauseFrame::Xoff),
            (7_100, PauseFrame::Xon),
            (7_100, PauseFrame::Xoff),
        ];
        assert_eq!(events_of(&samples), events.map(|(at, event)| (at, event, 1)));
    }

    #[test]
    fn recorded_xon_follows_its_xoff() {
        let (xoff, xon) = (PauseFrame::Xoff, PauseFrame::Xon);
        assert_eq!(events_of(&[(1, 2, 1, 400)]), [(400, xoff, 1), (400, xon, 1), (400, xoff, 1)]);
        let before_its_xoff = [(1, 1, 1, 400), (2, 2, 1, 400)];
        assert_eq!(events_of(&before_its_xoff), [(400, xoff, 1), (400, xon, 1), (400, xoff, 1)]);
        assert_eq!(
            events_of(&[(1, 1, 0, 0), (2, 2, 2, 0)]),
            [(1_000, xoff, 1), (2_000, xoff, 1), (2_000, xon, 2)]
        );
        assert_eq!(
            events_of(&[(1, 1, 0, 400), (2, 3, 3, 0)]),
            [(400, xoff, 1), (2_000, xoff, 2), (2_000, xon, 3)]
        );
    }

    #[test]
    fn raw_data_lists_flows_and_queues() {
        let mut plan = Plan::new(BitRate::from_mbps(100)).at_point("senders=1");
        let switch = plan.switch("switch");
        let [from, to] = ["sender", "receiver"].map(|name| plan.host(name, switch));
        let mut load = Load::default();
        for start in [0, 50] {
            load.send(from, Stream { count: Some(10), start: ms(start), ..lossless(to) });
        }
        let mut hosts = vec![HostReport::default(); 2];
        let sent = |stream, at: u64| SentStream {
            stream,
            frames: 10,
            first_ns: BEGIN.after(ms(at)).0,
            ..SentStream::default()
        };
        hosts[0].sent = vec![sent(0, 2), sent(1, 52)];
        let came = |stream, frames, last: u64| {
            let mut of =
                ReceivedStream { sender: from.number(), stream, frames, ..ReceivedStream::default() };
            of.last_ns = BEGIN.after(ms(last)).0;
            of.settle(10);
            of
        };
        hosts[1].received = vec![came(0, 10, 9), came(1, 8, 70)];
        let account = Account::of_hosts(hosts, [0; CLASSES]);
        let mut samples = Samples::default();
        samples.record(ms(4), BEGIN, PLACE, QueueSample { bytes: 1518, ..QueueSample::default() });
        let [completions, queues, pauses] = rows(&plan, &load, &account, BEGIN, samples);
        assert_eq!(queues, [["4000000", "switch", "receiver", "3", "1518"]]);
        let flow = |stream, lost, due, took| ["sender", "receiver", stream, "3", "10", lost, due, took];
        assert_eq!(completions, [flow("0", "0", "2000000", "7000000"), flow("1", "2", "52000000", "")]);
        assert!(pauses.is_empty());
    }
}
