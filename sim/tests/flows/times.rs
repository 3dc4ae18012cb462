// Tests for SPECIFICATION.md: sim-timing

use xoff_sim::flows::{
    Control, DcqcnSettings, FlowFabric, FlowPlan, Framing, HostSettings, Load, NewFlows, RoceSettings,
    Transport, frame_len,
};
use xoff_sim::load::{Between, Listed, Poisson, Sizes, poisson};
use xoff_sim::topology::{self, Build, Dumbbell, FatTree, LeafSpine, Ring};
use xoff_sim::{Pace, Picos, Plan, Seed};
use xoff_wire::units::Bytes;

use super::{LINE, LOSSLESS, as_they_are, check, dropped, flow, line, run, star};

fn plans() -> Vec<(&'static str, Plan)> {
    let odd = line(7, 333); // a byte does not take a whole number of picoseconds
    let tree = FatTree {
        pods: 3,
        edges: 2,
        aggregations: 3,
        cores: 6,
        hosts: 4,
        host_line: line(100, 20),
        edge_line: line(40, 700),
        core_line: line(25, 3_000),
    };
    let leaf_spine = LeafSpine {
        leaves: 4,
        spines: 2,
        hosts: 3,
        host_line: line(10, 100),
        spine_line: line(40, 900),
        without: vec![(0, 1), (2, 0)],
    };
    let dumbbell = Dumbbell { left: 3, right: 2, host_line: line(100, 50), trunk: odd };
    let ring = Ring { switches: 5, hosts: 2, host_line: line(40, 10), ring_line: line(100, 100) };
    let text = "h0 s0 100 500\nh1 s2 10 500\ns0 s1 25 100\ns1 s2 400 100\nh2 s1 1 0\n";
    vec![
        ("single", topology::single(4, LINE)),
        ("chain", topology::chain(4, odd)),
        ("fat-tree", topology::fat_tree(4, LINE)),
        ("irregular fat-tree", tree.plan(&Build::ideal())),
        ("leaf-spine with two failed lines", leaf_spine.plan(&Build::ideal())),
        ("dumbbell", dumbbell.plan(&Build::ideal())),
        ("ring", ring.plan(&Build::ideal())),
        ("Fig. 1 of OFC", topology::ofc_fig1(line(40, 20), &Build::ideal())),
        ("text", topology::edge_list(text, &Build::ideal()).expect("the edge list is invalid")),
    ]
}

fn transports() -> [Transport; 3] {
    let roce = RoceSettings::default();
    let dcqcn = RoceSettings { control: Control::Dcqcn(DcqcnSettings::default()), ack_every: 7, ..roce };
    [Transport::LineRate, Transport::Roce(roce), Transport::Roce(dcqcn)]
}

#[test]
fn lone_flow_takes_exactly_its_ideal_time() {
    for (name, plan) in plans() {
        let last = plan.hosts() - 1;
        for transport in transports() {
            for (from, to) in [(0, last), (last, 0), (1.min(last), 0)] {
                for bytes in [0, 1, 1_456, 1_457, 300_000] {
                    let settings = HostSettings { transport, ..HostSettings::default() };
                    let mut fabric = FlowFabric::new(&plan, Seed(1), settings);
                    fabric.add(flow(from, to, bytes));
                    let records = run(&mut fabric);
                    let of = format!("{name}: {bytes} bytes from {from} to {to}, {transport:?}");
                    assert_eq!(records[0].took(), Some(records[0].ideal), "{of}");
                    assert_eq!((records[0].out_of_order, records[0].frames_resent), (0, 0), "{of}");
                    assert!((records[0].slowdown().expect("the flow has not ended") - 1.0).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn ideal_completion_time_follows_the_slowest_line() {
    let mut fabric = FlowFabric::new(
        &star(&[line(100, 500), line(10, 250)], as_they_are),
        Seed(1),
        HostSettings::default(),
    );
    fabric.add(flow(0, 1, 2 * 1_456 + 10));
    let [long, short] = [1_456, 10].map(|payload| Bytes::on_line(frame_len(payload)).0);
    assert_eq!([long, short], [1_538, 94]);
    let expected = long * 80 + 500_000 + 2 * long * 800 + short * 800 + 250_000;
    assert_eq!(run(&mut fabric)[0].took(), Some(Picos(expected)));
}

#[test]
fn paused_incast_keeps_receiver_line_busy_without_gap() {
    for transport in transports() {
        let plan = star(&[LINE; 3], as_they_are);
        let mut fabric =
            FlowFabric::new(&plan, Seed(1), HostSettings { transport, ..HostSettings::default() });
        let frames = 2_000;
        (1..3).for_each(|from| _ = fabric.add(flow(from, 0, frames * 1_456)));
        let records = run(&mut fabric);
        let frame = Pace::of(LINE.rate).time_of(Bytes::on_line(1_514)).0;
        let last = records.iter().filter_map(|record| record.finish).max();
        assert_eq!(last, Some(Picos(77 + 2 * (frame + LINE.delay.0) + (2 * frames - 1) * frame)));
        let sent = fabric.fabric().switches()[0].counters().class(xoff_wire::units::PortId(1), LOSSLESS);
        assert!(sent.xoff_sent.get() > 0);
        assert_eq!(dropped(&fabric), 0);
    }
}

#[test]
fn flows_of_a_host_share_its_line_equally() {
    let plan = star(&[LINE; 4], as_they_are);
    let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::default());
    (1..4).for_each(|to| _ = fabric.add(flow(0, to, 1_456 * 900)));
    let records = run(&mut fabric);
    let frame = Pace::of(LINE.rate).time_of(Bytes::on_line(1_514)).0;
    let ends: Vec<u64> = records.iter().filter_map(|record| record.finish).map(|finish| finish.0).collect();
    assert_eq!([ends[1] - ends[0], ends[2] - ends[1]], [frame, frame]);
}

fn empty(plan: &Plan, seed: u64) -> FlowFabric {
    let settings =
        HostSettings { transport: Transport::Roce(RoceSettings::default()), ..HostSettings::default() };
    FlowFabric::new(plan, Seed(seed), settings)
}

fn arrivals(hosts: u32, seed: u64) -> Vec<FlowPlan> {
    let load = Poisson {
        hosts: (0..hosts).collect(),
        class: LOSSLESS,
        sizes: Sizes::named("edu1", Between::Log).expect("the table of sizes is unknown"),
        load: 0.5,
        line: LINE.rate,
        framing: Framing::roce(1_456),
        from: Picos::ZERO,
        until: Picos::from_micros(300),
    };
    poisson(&load, Seed(seed))
}

fn universities(seed: u64) -> FlowFabric {
    let plan = topology::fat_tree(4, LINE);
    let mut fabric = empty(&plan, seed);
    fabric.add_load(Listed(arrivals(plan.hosts(), seed)));
    fabric
}

#[test] // proves: sim-results
fn flow_records_depend_only_on_the_seed() {
    let records = |seed| {
        let mut fabric = universities(seed);
        (run(&mut fabric), fabric.fabric().digest())
    };
    let one = records(1);
    assert_eq!(one, records(1));
    assert_ne!(one.1, records(2).1);
    assert!(one.0.len() > 100, "{} flows", one.0.len());
    assert!(one.0.iter().all(|record| record.slowdown().is_some_and(|slowdown| slowdown >= 1.0)));
}

#[test] // proves: sim-results
fn run_stopped_and_continued_equals_run_without_stops() {
    let (mut whole, mut parts) = (universities(3), universities(3));
    whole.run_until(Picos::from_micros(500));
    (1..=500_000).step_by(77).for_each(|nanos| parts.run_until(Picos::from_nanos(nanos)));
    parts.run_until(Picos::from_micros(500));
    assert!(whole.records().eq(parts.records()));
    assert_eq!(whole.fabric().digest(), parts.fabric().digest());
    check(&whole);
}

struct Plain {
    flows: Listed,
    listens: bool,
}

fn plain(listens: bool, flows: Vec<FlowPlan>) -> Plain {
    Plain { flows: Listed(flows), listens }
}

impl Load for Plain {
    fn begin(&mut self, new_flows: &mut NewFlows) {
        self.flows.begin(new_flows);
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn ended(&mut self, flow: u32, _: &FlowPlan, _: &mut NewFlows) {
        assert!(self.listens, "load that does not listen was called at the end of flow {flow}");
    }
}

#[test]
fn run_ends_at_last_flow_only_if_loads_react_to_flow_ends() {
    let limit = Picos::from_micros(10_000);
    let ring = Ring { switches: 3, hosts: 2, host_line: LINE, ring_line: LINE };
    let small = [topology::fat_tree(4, LINE), ring.plan(&Build::ideal())].map(|plan| (plan, 2));
    for (plan, lead) in small.into_iter().chain([(topology::fat_tree(10, LINE), 3)]) {
        let [mut silent, mut parts, mut listening, mut listening_parts] =
            [false, false, true, true].map(|listens| {
                let mut fabric = empty(&plan, 3);
                fabric.add_load(plain(listens, arrivals(plan.hosts(), 3)));
                fabric
            });
        assert!(silent.run_to_end(limit) && listening.run_to_end(limit));
        let last = listening.records().filter_map(|record| record.finish).max().expect("flows");
        assert_eq!(listening.fabric().now(), last);
        let end = last.after(Picos(lead * silent.fabric().reach().0));
        assert_eq!(silent.fabric().now(), end);
        for nanos in (0..last.0 / 1_000).step_by(777) {
            let until = Picos::from_nanos(nanos);
            assert!(!parts.run_to_end(until) && !listening_parts.run_to_end(until));
        }
        assert!(!listening_parts.run_to_end(Picos(last.0 - 1)) && listening_parts.run_to_end(last));
        assert_eq!(listening_parts.fabric().digest(), listening.fabric().digest());
        assert!(!parts.run_to_end(last) && !parts.run_to_end(Picos(end.0 - 1)) && parts.run_to_end(end));
        listening.run_until(end);
        let results = |fabric: &FlowFabric| (fabric.fabric().digest(), fabric.fabric().tally());
        assert_eq!([results(&silent), results(&parts)], [results(&listening); 2]);
        assert!(silent.records().eq(listening.records()));
        silent.add(FlowPlan { start: end, ..flow(0, 1, 1_456) });
        assert!(!silent.run_to_end(end) && silent.run_to_end(limit) && silent.fabric().now() > end);
    }
}

#[test]
fn flow_that_ended_in_an_earlier_run_counts_as_ended() {
    let mut fabric = empty(&topology::single(2, LINE), 1);
    fabric.add(flow(0, 1, 1_456));
    fabric.fabric_mut().run_to_rest();
    assert!(fabric.run_to_end(Picos::from_micros(1_000)));
}

#[test]
fn only_loads_that_react_to_flow_ends_learn_of_them() {
    let plan = topology::single(3, LINE);
    for has_listener in [false, true] {
        let mut fabric = empty(&plan, 1);
        fabric.add_load(plain(false, vec![flow(0, 1, 1_456)]));
        if has_listener {
            fabric.add_load(plain(true, vec![flow(1, 2, 14_560)]));
        }
        assert!(fabric.run_to_end(Picos::from_micros(1_000)));
    }
}

#[test]
#[should_panic(expected = "among 4 hosts")]
fn flow_to_missing_host_is_refused() {
    let mut fabric = FlowFabric::new(&topology::single(4, LINE), Seed(1), HostSettings::default());
    fabric.add(FlowPlan { to: 4, ..flow(0, 1, 1) });
}
