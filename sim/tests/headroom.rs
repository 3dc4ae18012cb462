//! Checks that computed PFC headroom suffices for a standard peer's worst case, and that one byte less loses a frame.
//!
//! Port 0 is paused, so frames from the station at port 1 fill their queue to one byte below XOFF; then a frame of
//! maximum length crosses XOFF. A picosecond earlier, another frame starts toward the station, and delays the pause
//! frame. The station starts frames until the standard's last picosecond; the last frame has maximum length.
#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: headroom

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_config::{Config, Hardware, Machine};
use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::{
    Fabric, Forwarding, Line, Net, Node, Pace, Packet, Picos, Place, Plan, Seed, SwitchNode, address, ideal,
};
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, MacAddr, PortId, Quanta, TAGS};

const LOSSLESS: Class = Class::ALL[3];
/// Maximum frame length in bytes without FCS, for an MTU of 1500 and two tags.
const LONGEST: u32 = 1_514 + TAGS;
const SHORTEST: u32 = 60;
const PFC_FRAME: u32 = 60;
const XOFF: u64 = 40_000;
const BEGIN: Picos = Picos::from_micros(10);

/// Maximum response times of 802.3 31B.3.7, as (Gb/s, quanta), from a pause frame's last bit to the last start of a
/// frame.
const RESPONSES: [(u64, u64); 5] = [(1, 2), (10, 60), (40, 118), (100, 394), (400, 905)];

/// Station that obeys a pause exactly at the end of its response time.
#[derive(Debug)]
struct Station {
    place: Place,
    is_free: bool,
    response: Picos,
    frames: VecDeque<(Picos, Vec<u8>)>,
    xoff_received_at: Option<Picos>,
    starts: Vec<Picos>,
}

impl Station {
    fn new(place: Place) -> Station {
        let (frames, starts) = (VecDeque::new(), Vec::new());
        Station { place, is_free: true, response: Picos::ZERO, frames, xoff_received_at: None, starts }
    }

    fn begin(&mut self, response: Picos, frames: impl IntoIterator<Item = (Picos, Vec<u8>)>, net: &mut Net) {
        self.response = response;
        self.frames.extend(frames);
        self.send(net);
    }

    fn send(&mut self, net: &mut Net) {
        let Some((from, _)) = self.frames.front().filter(|_| self.is_free) else { return };
        if net.now() < *from {
            return net.wake(self.place, *from);
        }
        if self
            .xoff_received_at
            .is_some_and(|xoff_received_at| net.now() >= xoff_received_at.after(self.response))
        {
            return;
        }
        let (_, bytes) = self.frames.pop_front().unwrap();
        let packet = net.pool.add_whole(&bytes);
        self.starts.push(net.now());
        self.is_free = false;
        net.start(self.place, PortId(0), packet);
    }
}

impl Node for Station {
    fn arrived(&mut self, _: PortId, packet: Packet, net: &mut Net) {
        let pauses = net.pool.head(packet)[12..18] == [0x88, 0x08, 1, 1, 0, 1 << LOSSLESS.get()];
        net.pool.free(packet);
        if pauses {
            self.xoff_received_at.get_or_insert(net.now());
        }
    }

    fn left(&mut self, _: PortId, net: &mut Net) {
        self.is_free = true;
        self.send(net);
    }

    fn due(&mut self, net: &mut Net) {
        self.send(net);
    }

    fn linked(&mut self, _: PortId, _: bool, _: &mut Net) {}

    fn holds(&self) -> u64 {
        0
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    gbps: u64,
    quanta: u64,
    metres: u64,
}

/// Cable of 100 km at 1 Gb/s, which alone needs 125,000 bytes of headroom.
const LONG: Case = Case { gbps: 1, quanta: 2, metres: 100_000 };

fn cases() -> impl Iterator<Item = Case> {
    RESPONSES
        .into_iter()
        .flat_map(|(gbps, quanta)| [0, 3, 100, 500].map(|metres| Case { gbps, quanta, metres }))
        .chain([LONG])
}

impl Case {
    fn line(self) -> Line {
        Line { rate: BitRate::from_gbps(self.gbps), delay: Picos::from_nanos(5 * self.metres) }
    }

    fn time_of(self, bytes: Bytes) -> Picos {
        Pace::of(self.line().rate).time_of(bytes)
    }

    fn response(self) -> Picos {
        self.time_of(Bytes(self.quanta * 512 / 8))
    }

    fn configured(self, class: &str) -> Config {
        let Case { gbps, metres, .. } = self;
        let defaults = format!("[defaults]\nspeed = \"{gbps}G\"\ncable = \"{metres}m\"\ndefault_class = 3\n");
        let ports: String = ["a", "b", "c"]
            .map(|port| format!("[[port]]\nname = \"{port}\"\ndevice = \"{port}\"\n"))
            .concat();
        let text = format!("{defaults}{class}{ports}");
        Config::from_toml_on(Hardware::Ideal, "test", &text, Machine::default()).unwrap()
    }

    fn computed(self) -> u64 {
        self.configured("").switch.ports[1].classes[LOSSLESS.index()].headroom.0
    }

    /// Returns the time from the end of the frame that crosses XOFF until the station stops: cable twice, rest of the
    /// frame that delays the pause frame, pause frame, response.
    fn window(self) -> Picos {
        let waits = self.time_of(Bytes::on_line(LONGEST)).0 - 1;
        let pause = self.time_of(Bytes::on_line(PFC_FRAME)).0;
        Picos(waits + pause + 2 * self.line().delay.0 + self.response().0)
    }

    fn behind(self) -> u64 {
        (self.window().0 - 1) / self.time_of(Bytes(1)).0
    }

    /// Returns the exact headroom in bytes: the frame that crosses XOFF (without the byte that reaches XOFF), the bytes
    /// sent in the window (without preambles and gaps), and the last frame.
    fn exact(self) -> u64 {
        let frames = self.behind().div_ceil(Bytes::on_line(LONGEST).0);
        let longest = Bytes::of_frame(LONGEST).0;
        longest - 1 + self.behind() - frames * Bytes::BETWEEN_FRAMES + longest
    }
}

fn frame(to: u32, from: u32, len: u64) -> Vec<u8> {
    let tags = [0x88, 0xa8, 0, 0, 0x81, 0, 0, 0, 0x88, 0xb5];
    let mut bytes = [&address(to).0[..], &address(from).0, &tags].concat();
    bytes.resize(usize::try_from(len).unwrap(), 0);
    bytes
}

fn parts(total: u64, most: u64) -> impl Iterator<Item = u64> {
    let count = total.div_ceil(most);
    (0..count).map(move |part| total / count + u64::from(part < total % count))
}

#[derive(Debug, PartialEq)]
struct Outcome {
    lost: u64,
    headroom_used: u64,
    xoff_received_at: Picos,
    last_start: Picos,
}

/// Runs a case: the station sends frames of the lengths `lens`, then of maximum length. At the time `delaying`, another
/// frame starts toward the station.
fn run(case: Case, headroom: u64, lens: impl Iterator<Item = u64>, delaying: Picos) -> Outcome {
    let class = format!("[class.3]\nxoff = {XOFF}\nxon = 20000\nheadroom = {headroom}\n");
    let kind = Arc::new(ideal::kind(&case.configured(&class), ClassSet::NONE));
    let mut plan = Plan::default();
    let switch = plan.add_switch(&kind, Forwarding::default());
    for port in 0..3 {
        let host = plan.add_host(switch, port, case.line());
        plan.lead(switch, address(host), PortId(port));
    }
    let make = |at, settings, slots| SwitchNode::new(at, &settings, slots);
    let mut fabric = Fabric::of(&plan, Seed(1), make, |at, _| Station::new(at));
    let stop = MacControl::Pfc(Pfc::default().with(LOSSLESS, Quanta(u16::MAX))).encode(MacAddr([2; 6]));
    fabric.at_host(0, |at, net| at.begin(Picos::ZERO, [(Picos::ZERO, stop.to_vec())], net));
    let way = case.time_of(Bytes::on_line(LONGEST)).after(case.line().delay);
    let meets = (delaying.since(way), frame(1, 2, LONGEST.into()));
    fabric.at_host(2, |at, net| at.begin(Picos::ZERO, [meets], net));
    let more = usize::try_from(case.behind() / 1_000).unwrap() + 30;
    let lens = lens.chain(std::iter::repeat_n(LONGEST.into(), more));
    let frames: Vec<_> = lens.map(|len| (BEGIN, frame(0, 1, len))).collect();
    fabric.at_host(1, |at, net| at.begin(case.response(), frames, net));
    fabric.run_until(Picos(BEGIN.0 + case.time_of(Bytes(200_000)).0 + case.window().0));
    let counters = fabric.switches()[0].counters();
    assert_eq!(fabric.switches()[0].receive_drops(), 0);
    assert!(fabric.hosts()[0].starts.len() == 1 && !fabric.hosts()[1].frames.is_empty());
    Outcome {
        lost: counters.dropped(DropReason::HeadroomExhausted),
        headroom_used: counters.class(PortId(1), LOSSLESS).headroom_watermark.get(),
        xoff_received_at: fabric.hosts()[1].xoff_received_at.unwrap(),
        last_start: *fabric.hosts()[1].starts.last().unwrap(),
    }
}

fn worst(case: Case, headroom: u64) -> Outcome {
    let (of_frame, on_line) = (Bytes::of_frame(LONGEST).0, Bytes::on_line(LONGEST).0);
    let fills = parts(XOFF - 1, of_frame).map(|bytes| bytes + u64::from(LONGEST) - of_frame);
    let fills: Vec<u64> = fills.collect();
    let filled: u64 = fills.iter().map(|len| len + on_line - u64::from(LONGEST)).sum();
    let crossed = Picos(BEGIN.0 + case.time_of(Bytes(filled + on_line)).0);
    let behind = parts(case.behind(), on_line).map(|bytes| bytes + u64::from(LONGEST) - on_line);
    let lens = fills.into_iter().chain([LONGEST.into()]).chain(behind);
    let outcome = run(case, headroom, lens, Picos(crossed.0 + case.line().delay.0 - 1));
    let stops = crossed.after(case.window());
    assert_eq!(outcome.xoff_received_at.after(case.response()), stops, "{case:?}");
    let spare = stops.since(outcome.last_start);
    assert!(
        Picos::ZERO < spare && spare <= case.time_of(Bytes(1)),
        "{case:?}: the last frame started {spare:?} before the limit"
    );
    outcome
}

#[test]
fn exact_worst_case_fills_headroom_to_last_byte() {
    for case in cases() {
        let exact = case.exact();
        let Outcome { lost, headroom_used, .. } = worst(case, exact);
        assert_eq!((lost, headroom_used), (0, exact), "{case:?}");
        let Outcome { lost, headroom_used, .. } = worst(case, exact - 1);
        assert_eq!(
            (lost, headroom_used),
            (1, exact - u64::from(LONGEST) - 4),
            "{case:?}: loss with one byte less headroom"
        );
    }
}

/// Computed headroom includes preambles and gaps, which take no buffer memory, and is rounded up to nanoseconds and
/// bytes.
#[test]
fn computed_headroom_exceeds_need_only_by_interframe_gaps() {
    for case in cases() {
        let gaps = case.behind().div_ceil(Bytes::on_line(LONGEST).0) * Bytes::BETWEEN_FRAMES;
        let spare = case.computed().checked_sub(case.exact() + gaps);
        let nanosecond = 1_000 / case.time_of(Bytes(1)).0;
        assert!(spare.is_some_and(|spare| (1..=nanosecond + 5).contains(&spare)), "{case:?}: {spare:?}");
        let Outcome { lost, headroom_used, .. } = worst(case, case.computed());
        assert_eq!((lost, headroom_used), (0, case.exact()), "{case:?}");
    }
}

#[test]
fn random_traffic_needs_no_more_headroom_than_worst_case() {
    for seed in xoff_explore::seeds(0..4) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for case in cases() {
            let lens: Vec<u64> = (0..60).map(|_| rng.u32(SHORTEST..=LONGEST).into()).collect();
            let crosses = case.time_of(Bytes(XOFF)).0;
            let delaying = Picos(BEGIN.0 + rng.u64(crosses / 2..crosses * 2));
            let lost = run(case, case.exact(), lens.into_iter(), delaying).lost;
            assert_eq!(lost, 0, "{case:?}");
        }
    }
}
