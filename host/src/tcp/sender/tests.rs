// Tests for SPECIFICATION.md: tcp

mod linux;

use std::collections::VecDeque;

use super::super::control::Algorithm;
use super::super::receiver::{Arrival, Blocks, Receiver};
use super::super::wire::timestamp;
use super::*;

fn settings(control: Algorithm) -> TcpSettings {
    TcpSettings { control, ack_every: 1, ..TcpSettings::default() }
}

fn range(text: &str) -> (u32, u32) {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    (from.parse().expect("not a number"), to.parse().expect("not a number"))
}

/// Runs a script with one step per line:
///
/// * `w 9`: the application has written 9 segments; `+ 5`: 5 ms pass;
/// * `flow 9`: a flow of 9 segments begins on the connection, idle since the last acknowledgement;
/// * `> 0-3`: transmissions of segments 0 to 3 are expected;
/// * `< 2 4-6`: segments before 2, and 4 to 6 (SACK), are acknowledged;
/// * `<< 2`: the acknowledgement echoes the first transmission's timestamp (with `<`, the last one's);
/// * `window 7`, `threshold 7`, `flight 7`: the sender must have these values.
fn run_script(name: &str, settings: &TcpSettings, script: &str) {
    let mut now = Nanos::from_secs(1);
    let mut sender = Sender::new(settings, 0, now, None);
    let mut sent: Vec<u32> = Vec::new();
    let (mut used, mut last) = (now, now);
    for (number, line) in script.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
        let at = format!("{name}, line {number}: {line}");
        let (step, rest) = line.split_at(line.find([' ', '+']).map_or(line.len(), |at| at.max(1)));
        let words: Vec<&str> = rest.split_whitespace().collect();
        if step != ">" {
            assert!(sent.is_empty(), "unexpected transmissions before {at}: {sent:?}");
        }
        match step {
            "w" => sender.segments = words[0].parse().expect("not a number"),
            "+" => {
                now = now.after(Nanos::from_millis(words[0].parse().expect("not a number")));
                if sender.deadline() <= now {
                    sender.expire(now);
                }
            }
            "flow" => {
                let segments = words[0].parse().expect("not a number");
                sender = Sender::new(settings, segments, now, Some(sender.into_path(used)));
            }
            "<" | "<<" => {
                used = now;
                let mut blocks = Blocks::default();
                words[1..].iter().map(|word| range(word)).for_each(|(from, to)| blocks.push((from, to + 1)));
                let ack = Ack { next: words[0].parse().expect("not a number"), blocks, ..Ack::default() };
                let echo = if step == "<" { last } else { Nanos::from_secs(1) };
                sender.acknowledged(now, &ack, now.since(echo));
            }
            ">" => {
                let expected: Vec<u32> =
                    words.iter().map(|word| range(word)).flat_map(|(from, to)| from..=to).collect();
                assert_eq!(std::mem::take(&mut sent), expected, "{at}");
            }
            "window" => assert_eq!(sender.window().to_string(), words[0], "{at}"),
            "flight" => assert_eq!(sender.board.in_flight().to_string(), words[0], "{at}"),
            "threshold" => assert_eq!(sender.threshold().to_string(), words[0], "{at}"),
            _ => panic!("unknown step in {at}"),
        }
        let before = sent.len();
        sent.extend(std::iter::from_fn(|| sender.send(now)).filter_map(|sent| sent.segment));
        last = if sent.len() > before { now } else { last };
    }
    assert!(sent.is_empty(), "{name}: unexpected transmissions at the end: {sent:?}");
}

/// Eifel (RFC 3522, RFC 4015): the timestamp of a delayed segment reveals that its retransmission was needless.
#[test]
fn needless_recovery_restores_the_tcp_window() {
    let reno = settings(Algorithm::Reno);
    let no_sack = TcpSettings { sack: false, detection: Detection::Duplicates(3), ..reno };
    for (settings, acks) in [(reno, ["< 0 1", "< 0 1-2", "< 0 1-3"]), (no_sack, ["< 0"; 3])] {
        let [one, two, three] = acks;
        let begin =
            format!("w 20\n> 0-9\n+ 100\n{one}\n> 10\n{two}\n> 11\n{three}\n> 0\nthreshold 5\n+ 10\n");
        run_script("delayed", &settings, &format!("{begin}<< 4\n> 12-14\nwindow 11\nthreshold 4294967295"));
        run_script("lost", &settings, &format!("{begin}< 12\n> 12-17\nwindow 6\nthreshold 5"));
        if settings.sack {
            let reordered = format!("{begin}< 4\nwindow 8\n<< 12\n> 12-17\nwindow 6\nthreshold 5");
            run_script("lost, and a later segment delayed", &settings, &reordered);
            let plain = TcpSettings { undo: false, ..settings };
            run_script("delayed, without undo", &plain, &format!("{begin}<< 4\nwindow 8\nthreshold 5"));
        }
    }
}

#[test]
fn undone_tcp_recovery_sends_no_cwr_flag() {
    let reno = TcpSettings { ecn: true, ..settings(Algorithm::Reno) };
    let [begin, loss, end] = [1_000, 1_100, 1_110].map(Nanos::from_millis);
    let mut sender = Sender::new(&reno, 100, begin, None);
    let drain = |sender: &mut Sender, now| -> Vec<_> {
        std::iter::from_fn(|| sender.send(now)).map(|sent| (sent.segment, sent.is_reduced)).collect()
    };
    assert_eq!(drain(&mut sender, begin).len(), 10);
    for (after, segment) in [(2, 10), (3, 11), (4, 0)] {
        let mut blocks = Blocks::default();
        blocks.push((1, after));
        sender.acknowledged(loss, &Ack { blocks, ..Ack::default() }, loss.since(begin));
        assert_eq!(drain(&mut sender, loss), [(Some(segment), false)]);
    }
    assert_eq!((sender.threshold(), sender.resent()), (5, 1));
    sender.acknowledged(end, &Ack { next: 4, ..Ack::default() }, end.since(begin));
    assert_eq!(sender.window(), 11);
    assert_eq!(drain(&mut sender, end), [12, 13, 14].map(|segment| (Some(segment), false)));
}

/// RFC 6582: a partial acknowledgement reveals the next loss. Without SACK, each duplicate acknowledgement permits a
/// new segment.
#[test]
fn newreno_repairs_one_loss_per_round_trip() {
    let reno = TcpSettings { sack: false, detection: Detection::Duplicates(3), ..settings(Algorithm::Reno) };
    let script = "w 30\n> 0-9\n+ 100\n< 0\n> 10\n< 0\n> 11\n< 0\n> 0\n< 0\nwindow 8\n< 0\n> 12\n< 0\nwindow 7\n< 0\n> 13
        + 100\n< 4\nwindow 5\n< 4\n> 4";
    run_script("partial acknowledgement", &reno, script);
}

#[test]
fn tcp_sender_without_loss_detection_ignores_duplicate_acks() {
    let never = TcpSettings { sack: false, detection: Detection::Never, ..settings(Algorithm::Reno) };
    run_script("never", &never, "w 12\n> 0-9\n+ 100\n< 0\n> 10\n< 0\n> 11\n< 0\n< 0\n< 0\n< 0\n< 0\n< 12");
}

#[test]
fn ecn_marks_reduce_tcp_window_once_per_window_of_data() {
    let reno = TcpSettings { ecn: true, ..settings(Algorithm::Reno) };
    let now = Nanos::from_secs(1);
    let mut sender = Sender::new(&reno, 100, now, None);
    assert!(std::iter::from_fn(|| sender.send(now)).all(|sent| sent.is_ecn_capable && !sent.is_reduced));
    // Segments 0 to 9 were sent before the first reduction: their marks report the same congestion.
    for (next, is_marked, window, sent) in [
        (2, true, 5, vec![]),
        (4, true, 5, vec![]),
        (6, true, 5, vec![(10, true)]),
        (10, true, 5, vec![(11, false), (12, false), (13, false), (14, false)]),
        (11, true, 2, vec![]),
    ] {
        sender.acknowledged(now, &Ack { next, is_marked, ..Ack::default() }, Nanos(1));
        let after =
            std::iter::from_fn(|| sender.send(now)).filter_map(|sent| Some((sent.segment?, sent.is_reduced)));
        assert_eq!((after.collect::<Vec<_>>(), sender.window()), (sent, window), "{next}");
    }
}

#[test]
fn tcp_timeout_doubles_and_window_restarts_at_one_segment() {
    let reno = TcpSettings { rto_max: Nanos::from_secs(6), ..settings(Algorithm::Reno) };
    let mut now = Nanos::from_secs(1);
    let mut sender = Sender::new(&reno, 10, now, None);
    let drain = |sender: &mut Sender, now| -> Vec<_> {
        std::iter::from_fn(|| sender.send(now)).filter_map(|sent| sent.segment).collect()
    };
    assert_eq!(drain(&mut sender, now), (0..10).collect::<Vec<_>>());
    for (at, threshold) in [(2, 5), (4, 5), (8, 5), (14, 5), (20, 5)] {
        assert_eq!(sender.deadline(), Nanos::from_secs(at), "{at}");
        now = sender.deadline();
        sender.expire(Nanos(now.0 - 1));
        assert!(drain(&mut sender, now).is_empty());
        sender.expire(now);
        assert_eq!((drain(&mut sender, now), sender.window(), sender.threshold()), (vec![0], 1, threshold));
    }
    assert_eq!((sender.timeouts(), sender.resent()), (5, 5));
    // The first acknowledgement echoes a timestamp, which yields a round-trip time and so ends the backoff.
    let ack = |next| Ack { next, ..Ack::default() };
    now = now.after(Nanos::from_millis(10));
    sender.acknowledged(now, &ack(1), Nanos::from_millis(10));
    assert_eq!((drain(&mut sender, now), sender.window()), (vec![1, 2], 2));
    assert_eq!(sender.deadline(), now.after(Nanos::from_millis(200)));
    sender.acknowledged(now, &ack(10), Nanos::from_millis(10));
    assert!(sender.is_done() && sender.deadline() == Nanos::NEVER);
}

/// RFC 5681 section 3.1: a time-out during a recovery belongs to the same congestion; a time-out after new
/// acknowledgements does not.
#[test]
fn tcp_timeout_in_recovery_keeps_threshold_until_progress() {
    let script =
        "w 10\n> 0-9\n+ 100\n< 0 1\n< 0 1-2\n< 0 1-3\n> 0\nthreshold 5\n+ 2000\n> 0\nwindow 1\nthreshold 5
        + 10\n< 4\n> 4-5\nwindow 2\nthreshold 5\n+ 400\n> 4\nwindow 1\nthreshold 2";
    run_script("time-out in recovery", &settings(Algorithm::Reno), script);
}

#[test]
fn tcp_window_grows_by_newly_delivered_segments() {
    let never = TcpSettings { detection: Detection::Never, ..settings(Algorithm::Reno) };
    let script =
        "w 10\n> 0-9\n+ 100\n< 0 5-9\n+ 1000\n> 0\nwindow 1\nthreshold 5\n+ 100\n< 1 5-9\n> 1-2\nwindow 2
        < 3 5-9\n> 3-4\nwindow 4\n< 10\nwindow 5";
    run_script("SACK before the time-out", &never, script);
}

/// The most recent SACK block comes first; RACK must not take that for reordering.
#[test]
fn rack_processes_sack_blocks_in_ascending_order() {
    run_script("three gaps", &settings(Algorithm::Cubic), "w 10\n> 0-9\n+ 100\n< 0 6 4 2\n> 0-1 3");
}

#[test]
fn first_new_tcp_segment_after_timeout_has_cwr_flag() {
    let reno = TcpSettings { ecn: true, ..settings(Algorithm::Reno) };
    let now = Nanos::from_secs(1);
    let mut sender = Sender::new(&reno, 100, now, None);
    while sender.send(now).is_some() {}
    let now = sender.deadline();
    sender.expire(now);
    let drain = |sender: &mut Sender| -> Vec<_> {
        std::iter::from_fn(|| sender.send(now)).map(|sent| (sent.segment, sent.is_reduced)).collect()
    };
    assert_eq!(drain(&mut sender), [(Some(0), false)]);
    sender.acknowledged(now, &Ack { next: 10, ..Ack::default() }, Nanos(1));
    let sent = drain(&mut sender);
    assert_eq!(sent[..2], [(Some(10), true), (Some(11), false)]);
    assert!(sent[2..].iter().all(|sent| !sent.1), "{sent:?}");
}

#[test]
fn lost_syn_leaves_a_window_of_one_segment() {
    let settings = TcpSettings { handshake: true, ..settings(Algorithm::Reno) };
    let mut now = Nanos::from_secs(1);
    let mut sender = Sender::new(&settings, 20, now, None);
    for _ in 0..2 {
        assert_eq!(sender.send(now).map(|sent| sent.segment), Some(None), "SYN");
        now = sender.deadline();
        sender.expire(now);
    }
    assert!(sender.send(now).is_some());
    sender.connected(now);
    assert_eq!(std::iter::from_fn(|| sender.send(now)).count(), 1);
}

#[test]
fn idle_tcp_connection_keeps_window_until_a_timeout_passes() {
    let settings = TcpSettings { handshake: true, ..settings(Algorithm::Reno) };
    let now = Nanos::from_secs(1);
    let mut sender = Sender::new(&settings, 20, now, None);
    assert_eq!(sender.send(now).map(|sent| sent.segment), Some(None), "SYN");
    assert_eq!(sender.send(now), None);
    let now = now.after(Nanos::from_millis(1));
    sender.connected(now);
    while sender.send(now).is_some() {}
    sender.acknowledged(now, &Ack { next: 10, ..Ack::default() }, Nanos(1));
    let path = sender.into_path(now);
    for (idle, window) in [(1, 20), (200, 20), (201, 10)] {
        let later = now.after(Nanos::from_millis(idle));
        let mut next = Sender::new(&settings, 100, later, Some(path.clone()));
        let first = std::iter::from_fn(|| next.send(later)).count();
        assert_eq!((next.window(), first), (window, window as usize), "{idle}");
    }
}

/// Simulated path with one queue. Acknowledgements have the same delay as data.
struct Pipe<'a> {
    settings: TcpSettings,
    sender: Sender,
    receiver: Receiver,
    now: Nanos,
    /// Transmission time of a segment, in nanoseconds.
    span: u64,
    delay: u64,
    free: Nanos,
    data: VecDeque<(Nanos, Arrival)>,
    acks: VecDeque<(Nanos, Ack)>,
    /// Queue length in segments from which segments are marked.
    mark_from: u64,
    loses: Box<dyn FnMut(&Transmission) -> bool + 'a>,
}

impl Pipe<'_> {
    fn new<'a>(settings: TcpSettings, segments: u32, [span, delay]: [u64; 2]) -> Pipe<'a> {
        Pipe {
            settings,
            sender: Sender::new(&settings, segments, Nanos::ZERO, None),
            receiver: Receiver::new(&settings),
            now: Nanos::ZERO,
            span,
            delay,
            free: Nanos::ZERO,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            mark_from: u64::MAX,
            loses: Box::new(|_| false),
        }
    }

    fn queue(&self) -> u64 {
        if self.span == 0 { 0 } else { self.free.since(self.now).0.div_ceil(self.span) }
    }

    fn send(&mut self) {
        while let Some(sent) = self.sender.send(self.now) {
            let is_marked = sent.is_ecn_capable && self.queue() >= self.mark_from;
            self.free = self.free.max(self.now).after(Nanos(self.span));
            let segment = sent.segment.expect("no handshake");
            if !(self.loses)(&sent) {
                let timestamp = timestamp(self.now);
                let arrival = Arrival { segment, is_marked, is_reduced: sent.is_reduced, timestamp };
                self.data.push_back((self.free.after(Nanos(self.delay)), arrival));
            }
        }
    }

    fn step(&mut self) -> bool {
        self.send();
        let first = |next: Option<Nanos>| next.unwrap_or(Nanos::NEVER);
        let (data, ack) = (first(self.data.front().map(|at| at.0)), first(self.acks.front().map(|at| at.0)));
        let timers = self.sender.deadline().min(self.receiver.deadline());
        self.now = data.min(ack).min(timers);
        let (settings, now) = (self.settings, self.now);
        let back = now.after(Nanos(self.delay));
        if now == Nanos::NEVER {
            return false;
        }
        if data == now
            && let Some((_, arrival)) = self.data.pop_front()
        {
            let (_, acks) = self.receiver.receive(&settings, now, &arrival);
            self.acks.extend(acks.into_iter().flatten().map(|ack| (back, ack)));
        }
        self.acks.extend(self.receiver.expire(&settings, now).map(|ack| (back, ack)));
        if ack == now
            && let Some((_, ack)) = self.acks.pop_front()
        {
            let micros = timestamp(now).wrapping_sub(ack.echo);
            self.sender.acknowledged(now, &ack, Nanos::from_micros(micros.into()));
        }
        self.sender.expire(now);
        true
    }

    fn run_until(&mut self, end: Nanos) {
        while self.now < end && self.step() {}
    }
}

/// Windows of 10, 20 and 40 segments send 70 segments in three round trips. With `ack_every` 2, the
/// receiver delays the acknowledgement of the last of 11 segments by 40 ms.
#[test]
fn lone_tcp_flow_takes_expected_number_of_slow_start_rounds() {
    for (segments, ack_every, rounds, waits) in
        [(70, 1, 3, 0), (71, 1, 4, 0), (10, 2, 1, 0), (11, 2, 2, 40_000_000)]
    {
        let settings = TcpSettings { ack_every, quick_acks: 0, ..settings(Algorithm::Cubic) };
        let mut pipe = Pipe::new(settings, segments, [0, 5_000]);
        while !pipe.sender.is_done() && pipe.step() {}
        assert_eq!(pipe.now, Nanos(rounds * 10_000 + waits), "{segments}");
        assert_eq!((pipe.sender.resent(), pipe.sender.sent()), (0, segments));
    }
}

/// Mathis et al. (1997): with one loss per 1/p segments, the mean window is sqrt(3 / (2 p)) segments.
#[test]
fn reno_rate_follows_square_root_of_loss_within_5_percent() {
    for (detection, sack) in [(Detection::Rack, true), (Detection::Duplicates(3), false)] {
        let period = 4_000;
        let settings = TcpSettings {
            detection,
            sack,
            window: xoff_wire::units::Bytes(1 << 30),
            ..settings(Algorithm::Reno)
        };
        let mut pipe = Pipe::new(settings, u32::MAX, [10, 50_000_000]);
        let mut count = 0;
        pipe.loses = Box::new(move |sent| {
            count += u32::from(!sent.is_again);
            !sent.is_again && count.is_multiple_of(period)
        });
        pipe.run_until(Nanos::from_secs(100));
        let before = pipe.sender.first();
        pipe.run_until(Nanos::from_secs(1_100));
        let window = f64::from(pipe.sender.first() - before) / 10_000.0;
        let ratio = window / (1.5 * f64::from(period)).sqrt();
        assert!((ratio - 1.0).abs() < 0.05, "{detection:?}: {window}, {ratio}");
        assert_eq!(pipe.sender.timeouts(), 0);
    }
}

/// Returns the reduction per cycle of one DCTCP flow in equilibrium: R = `window * alpha / 2` segments. In each
/// cycle, the window grows by one in R round trips, and stays in two more; one round trip has marks.
fn reduction_of_cycle(window: f64) -> f64 {
    let mut alpha = 1.0_f64;
    for _ in 0..200 {
        let rounds = window * alpha / 2.0 + 2.0;
        alpha = (alpha + (1.0 - alpha) / 16.0) * (15.0_f64 / 16.0).powf(rounds - 1.0);
    }
    window * alpha / 2.0
}

/// SIGCOMM 2010, section 3.3: one flow's mean alpha is sqrt(2/W), with W the window at the marking threshold. The queue
/// oscillates by less than the paper's sqrt(2W)/2, because alpha decays between reductions.
#[test]
fn dctcp_alpha_and_queue_of_one_flow_swing_as_predicted() {
    let mut results = Vec::new();
    for (mark_from, in_flight) in [(65, 100), (100, 140)] {
        let settings = TcpSettings { ecn: true, ..settings(Algorithm::Dctcp) };
        let span = 1_200;
        let mut pipe = Pipe::new(settings, u32::MAX, [span, in_flight * span / 2]);
        pipe.mark_from = mark_from;
        pipe.run_until(Nanos::from_millis(200));
        let (mut alphas, mut swings, mut least, mut most) = (Vec::new(), Vec::new(), u64::MAX, 0);
        let mut was_reducing = false;
        while pipe.now < Nanos::from_millis(600) && pipe.step() {
            alphas.push(pipe.sender.control().alpha().expect("DCTCP"));
            let (queue, reduces) = (pipe.queue(), pipe.sender.state == State::Reducing);
            (least, most) = (least.min(queue), most.max(queue));
            if reduces && !was_reducing {
                swings.push((most - least) as f64);
                (least, most) = (u64::MAX, 0);
            }
            was_reducing = reduces;
        }
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        let window = (mark_from + in_flight) as f64;
        results
            .push([mean(&alphas) / (2.0 / window).sqrt(), mean(&swings[1..]) / reduction_of_cycle(window)]);
    }
    assert!(results.iter().flatten().all(|ratio| (ratio - 1.0).abs() < 0.1), "alpha, queue: {results:?}");
}
