use crate::flows::{Arrivals, Flow};
use crate::pacer::Pacer;
use crate::payload::{FlowStamp, Template};
use crate::stream::{Pattern, Stream};
use xoff_wire::units::{Bytes, Nanos};

const FLOWS_ACTIVE_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Since(Nanos),
    At(Nanos),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextFrame {
    pub len: u32,
    pub flow: Option<FlowStamp>,
}

#[derive(Debug)]
pub struct Schedule {
    rate: Option<Pacer>,
    start: Nanos,
    end: Nanos,
    frame_len: u32,
    catch_up: Nanos,
    left: u64,
    pattern: State,
}

#[derive(Debug)]
enum State {
    Constant,
    OnOff { on: Nanos, off: Nanos },
    Incast { frames: u64, every: Nanos, next: Nanos, waiting: u64 },
    Flows(Box<Flows>),
}

#[derive(Debug)]
struct Flows {
    arrivals: Arrivals,
    payload_max: u32,
    len_min: u32,
    active: Vec<ActiveFlow>,
    turn: usize,
    busy_since: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct ActiveFlow {
    stamp: FlowStamp,
    frames_left: u32,
}

impl Schedule {
    /// Creates a stream's schedule. By a burst, the stream makes up for at most `catch_up` of a delay.
    #[must_use]
    pub fn new(stream: &Stream, template: &Template, now: Nanos, catch_up: Nanos) -> Schedule {
        let start = now.after(stream.start);
        let pattern = State::new(stream, template, start);
        let rate = match pattern {
            State::Flows(_) => None, // the arrivals determine the rate
            _ => stream.rate.map(|rate| Pacer::new(rate, start)),
        };
        Schedule {
            rate,
            start,
            end: stream.duration.map_or(Nanos::NEVER, |duration| start.after(duration)),
            frame_len: stream.frame_len(),
            catch_up,
            left: stream.count.unwrap_or(u64::MAX),
            pattern,
        }
    }

    #[must_use]
    pub const fn is_rated(&self) -> bool {
        self.rate.is_some()
    }

    #[inline]
    pub fn due(&mut self, now: Nanos) -> Due {
        if now >= self.end {
            return Due::Over;
        }
        let earliest = self.rate.as_ref().map_or(self.start, Pacer::free_at).max(self.start);
        let due = match &mut self.pattern {
            State::Flows(flows) => return flows.due(now, &mut self.left),
            _ if self.left == 0 => return Due::Over,
            State::Constant => earliest,
            State::OnOff { on, off } => due_on_off(self.start, earliest, now, *on, *off),
            State::Incast { frames, every, next, waiting } => {
                if *next <= now {
                    let bursts = (now.since(*next).0 / every.0) + 1;
                    *waiting += bursts * *frames;
                    *next = next.after(Nanos(bursts * every.0));
                }
                if *waiting > 0 { earliest.max(Nanos(next.0 - every.0)) } else { *next }
            }
        };
        if due <= now { Due::Since(due) } else { Due::At(due) }
    }

    /// Returns the next frame. Call this only after [`Due::Since`].
    #[inline]
    #[must_use]
    pub fn next_frame(&self) -> NextFrame {
        match &self.pattern {
            State::Flows(flows) => flows.next_frame(self.frame_len),
            _ => NextFrame { len: self.frame_len, flow: None },
        }
    }

    #[inline]
    pub fn sent(&mut self, now: Nanos, since: Nanos) {
        if let Some(rate) = &mut self.rate {
            let earliest = since.max(Nanos(now.0.saturating_sub(self.catch_up.0)));
            rate.occupy(earliest, Bytes::on_line(self.frame_len));
        }
        match &mut self.pattern {
            State::Flows(flows) => return flows.sent(),
            State::Incast { waiting, .. } => *waiting -= 1,
            State::Constant | State::OnOff { .. } => {}
        }
        self.left -= 1;
    }

    pub fn stop(&mut self) {
        self.end = Nanos::ZERO;
    }
}

impl State {
    fn new(stream: &Stream, template: &Template, start: Nanos) -> State {
        match &stream.pattern {
            Pattern::Constant => State::Constant,
            &Pattern::OnOff { on, off } => State::OnOff { on, off },
            &Pattern::Incast { burst, every } => State::Incast {
                frames: burst.0.div_ceil(u64::from(stream.size)).max(1),
                every,
                next: Nanos(start.0.div_ceil(every.0) * every.0),
                waiting: 0,
            },
            Pattern::Flows { .. } => State::Flows(Box::new(Flows::new(stream, template, start))),
        }
    }
}

fn due_on_off(start: Nanos, earliest: Nanos, now: Nanos, on: Nanos, off: Nanos) -> Nanos {
    let candidate = earliest.max(now);
    let into = candidate.since(start).0 % (on.0 + off.0);
    let phase = candidate.0 - into;
    if into >= on.0 { Nanos(phase).after(on + off) } else { earliest.max(Nanos(phase)) }
}

impl Flows {
    fn new(stream: &Stream, template: &Template, start: Nanos) -> Flows {
        let Pattern::Flows { sizes, seed } = &stream.pattern else {
            unreachable!("the stream has no flows");
        };
        let fits = |len: usize| u32::try_from(len).expect("the frame length must fit into 32 bits");
        let (frame_len, len_min) = (stream.frame_len(), fits(template.len_min(true)));
        let payload_max = fits(template.payload_of(frame_len as usize));
        let on_line = |bytes: u64| {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let whole = f64::from(bytes / payload_max) * Bytes::on_line(frame_len).0 as f64;
            let rest = bytes % payload_max;
            let rest_len = (frame_len - payload_max + rest).max(len_min);
            whole + if rest > 0 { Bytes::on_line(rest_len).0 as f64 } else { 0.0 }
        };
        let rate = stream.rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
        let interval = sizes.mean_of(on_line) * 8e9 / rate;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float cast saturates
        let interval = Nanos(interval as u64);
        Flows {
            arrivals: Arrivals::new(sizes.clone(), interval, start, *seed),
            payload_max,
            len_min,
            active: Vec::with_capacity(FLOWS_ACTIVE_MAX),
            turn: 0,
            busy_since: start,
        }
    }

    fn due(&mut self, now: Nanos, left: &mut u64) -> Due {
        while *left > 0 && self.active.len() < FLOWS_ACTIVE_MAX && self.arrivals.peek().began <= now {
            *left -= 1;
            self.admit();
        }
        if !self.active.is_empty() {
            return Due::Since(self.busy_since);
        }
        if *left == 0 { Due::Over } else { Due::At(self.arrivals.peek().began) }
    }

    fn admit(&mut self) {
        let Flow { id, bytes, began } = self.arrivals.take();
        if self.active.is_empty() {
            self.busy_since = began;
        }
        let frames = bytes.div_ceil(self.payload_max);
        self.active.push(ActiveFlow { stamp: FlowStamp { id, bytes, frames, began }, frames_left: frames });
    }

    fn next_frame(&self, frame_len: u32) -> NextFrame {
        let flow = &self.active[self.turn];
        let last = flow.stamp.bytes - (flow.stamp.frames - 1) * self.payload_max;
        let len = if flow.frames_left > 1 {
            frame_len
        } else {
            (frame_len - self.payload_max + last).max(self.len_min)
        };
        NextFrame { len, flow: Some(flow.stamp) }
    }

    fn sent(&mut self) {
        let flow = &mut self.active[self.turn];
        flow.frames_left -= 1;
        if flow.frames_left == 0 {
            self.active.swap_remove(self.turn);
        } else {
            self.turn += 1;
        }
        if self.turn >= self.active.len() {
            self.turn = 0;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::payload::Headers;
    use crate::sizes::{Between, Sizes};
    use std::collections::HashMap;
    use xoff_wire::units::{BitRate, MacAddr};

    fn template() -> Template {
        Template::new(&Headers {
            dst: MacAddr::BROADCAST,
            via: None,
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            tag: None,
            cn_tag: None,
            dscp: 0,
            ecn: 0,
            source_port: 1,
            destination_port: 2,
        })
    }

    fn microsecond_frames(pattern: Pattern) -> Stream {
        Stream { size: 105, rate: Some(BitRate::from_gbps(1)), pattern, ..Stream::default() }
    }

    fn schedule(stream: &Stream) -> Schedule {
        Schedule::new(stream, &template(), Nanos::from_secs(1), Nanos::from_micros(10))
    }

    fn run(schedule: &mut Schedule, until_us: u64) -> Vec<u64> {
        let start = Nanos::from_secs(1);
        let (mut now, mut sent) = (start, Vec::new());
        loop {
            match schedule.due(now) {
                Due::Since(since) => {
                    schedule.sent(now, since);
                    sent.push(now.since(start).0 / 1000);
                }
                Due::At(at) if at < start.after(Nanos::from_micros(until_us)) => now = at,
                _ => return sent,
            }
        }
    }

    #[test]
    fn constant_pattern_spaces_frames_evenly_until_count() {
        let stream = microsecond_frames(Pattern::Constant);
        assert_eq!(run(&mut schedule(&stream), 4), [0, 1, 2, 3]);
        let counted = Stream { count: Some(2), ..stream.clone() };
        assert_eq!(run(&mut schedule(&counted), 4), [0, 1]);
        let timed = Stream { duration: Some(Nanos::from_micros(3)), start: Nanos::from_micros(2), ..stream };
        assert_eq!(run(&mut schedule(&timed), 100), [2, 3, 4]);
    }

    #[test]
    fn delayed_stream_catches_up_by_at_most_its_time_limit() {
        let mut schedule = schedule(&microsecond_frames(Pattern::Constant));
        let now = Nanos::from_secs(2);
        let mut burst = 0;
        while let Due::Since(since) = schedule.due(now) {
            schedule.sent(now, since);
            burst += 1;
        }
        assert_eq!(burst, 11); // ten for the 10 us, and the one that is due now
    }

    #[test]
    fn on_off_pattern_sends_only_in_on_phases() {
        let (on, off) = (Nanos::from_micros(2), Nanos::from_micros(3));
        let stream = microsecond_frames(Pattern::OnOff { on, off });
        assert_eq!(run(&mut schedule(&stream), 12), [0, 1, 5, 6, 10, 11]);
        let mut late = schedule(&stream);
        let in_off = Nanos(1_000_000_000 + 2_000);
        assert_eq!(late.due(in_off), Due::At(Nanos(1_000_000_000 + 5_000)));
    }

    #[test]
    fn incast_pattern_begins_bursts_at_multiples_of_interval() {
        let pattern = Pattern::Incast { burst: Bytes(211), every: Nanos::from_micros(10) };
        let mut stream = microsecond_frames(pattern);
        for (start, expected) in [(0, vec![0, 1, 2, 10, 11, 12]), (4, vec![10, 11, 12])] {
            stream.start = Nanos::from_micros(start); // 211 bytes: two frames are not enough
            assert_eq!(run(&mut schedule(&stream), 20), expected);
        }
    }

    #[test]
    fn flow_pattern_sends_flows_round_robin_to_last_byte() {
        let sizes = Sizes::parse("100 20\n10000 100", Between::Linear).unwrap();
        let stream = Stream {
            pattern: Pattern::Flows { sizes, seed: 3 },
            rate: Some(BitRate::from_gbps(1)),
            count: Some(500),
            ..Stream::default()
        };
        let (template, mut schedule) = (template(), schedule(&stream));
        let mut flows: HashMap<u32, (FlowStamp, u32, usize)> = HashMap::new();
        let mut now = Nanos::from_secs(1);
        loop {
            match schedule.due(now) {
                Due::Since(since) => {
                    let frame = schedule.next_frame();
                    let flow = frame.flow.unwrap();
                    assert!(flow.began <= now && frame.len <= 1514);
                    let entry = flows.entry(flow.id).or_insert((flow, 0, 0));
                    entry.1 += 1;
                    entry.2 += template.payload_of(frame.len as usize);
                    schedule.sent(now, since);
                }
                Due::At(at) => now = at,
                Due::Over => break,
            }
        }
        assert_eq!(flows.len(), 500);
        for (flow, frames, payload) in flows.values() {
            assert_eq!(*frames, flow.frames);
            assert!((flow.bytes as usize..flow.bytes as usize + 36).contains(payload), "{flow:?}: {payload}");
        }
        let load = flows.values().map(|(flow, ..)| u64::from(flow.bytes)).sum::<u64>() * 8000
            / now.since(Nanos::from_secs(1)).0;
        assert!(
            (850..=1050).contains(&load),
            "a stream of 1 Gb/s must offer 850 to 1050 Mb/s of payload, not {load}"
        );
    }
}
