use std::sync::Arc;

use xoff_flow_control::settings::{Spread, Turns};
use xoff_sim::flows::{Alone, FlowFabric, HostSettings, RoceSettings, Transport};
use xoff_sim::ideal::Ideal;
use xoff_sim::load::{Listed, permutation, ring};
use xoff_sim::topology::{self, Build, FatTree, Graph, LeafSpine, Ring};
use xoff_sim::{At, Line, Picos, Plan, Seed};
use xoff_wire::units::{Bytes, ClassSet, PortId};

use super::{LINE, LOSSLESS, check, dropped, line, run};

fn rates(plan: &Plan, from: u32, to: u32) -> Vec<u64> {
    let way =
        Alone::new(plan, &HostSettings::default()).way((from, 0), to).expect("no path between the hosts");
    way.iter().map(|line: &Line| line.rate.bits_per_second() / 1_000_000_000).collect()
}

#[test] // proves: sim-fabrics
fn ofc_fat_tree_has_size_and_oversubscription_of_paper() {
    let tree = FatTree::ofc(line(40, 20));
    assert_eq!((tree.hosts(), tree.cores), (256, 32));
    assert_eq!((tree.pods * tree.edges, tree.pods * tree.aggregations), (16, 32));
    assert_eq!(
        (tree.hosts, tree.aggregations),
        (16, 4),
        "wrong number of hosts or aggregation switches per edge switch"
    );
    let plan = tree.plan(&Build::ideal());
    assert_eq!((plan.hosts(), plan.switches()), (256, 80));
    assert_eq!(rates(&plan, 0, 255), [40, 80, 80, 80, 80, 40]);
    assert_eq!(rates(&plan, 0, 31), [40, 80, 80, 40]);
    assert_eq!(rates(&plan, 0, 15), [40, 40]);
}

#[test] // proves: sim-fabrics
fn topology_gives_each_switch_its_line_rates_and_layer() {
    let tree = FatTree { host_line: line(10, 1), core_line: line(40, 1), ..FatTree::regular(4, line(25, 1)) };
    let kinds = std::sync::Mutex::new(std::collections::BTreeMap::new());
    let build = Build::new(|lines: &[Line], layer| {
        let rates: Vec<u64> = lines.iter().map(|line| line.rate.bits_per_second() / 1_000_000_000).collect();
        *kinds.lock().expect("another thread panicked").entry((layer, rates)).or_insert(0) += 1;
        Arc::new(Ideal::of(lines, ClassSet::NONE))
    });
    drop(tree.plan(&build));
    drop(build);
    let expected = [((0, vec![10, 10, 25, 25]), 8), ((1, vec![25, 25, 40, 40]), 8), ((2, vec![40; 4]), 4)];
    assert_eq!(kinds.into_inner().expect("another thread panicked"), expected.into());
}

#[test]
fn ofc_figure_1_has_hosts_and_shared_links_of_paper() {
    let plan = topology::ofc_fig1(line(40, 20), &Build::ideal());
    assert_eq!((plan.hosts(), plan.switches()), (10, 3));
    let links = [(0, 8), (1, 9), (7, 9)].map(|(from, to)| rates(&plan, from, to).len());
    assert_eq!(links, [4, 4, 2]);
}

#[test] // proves: sim-fabrics
fn leaf_spine_traffic_bypasses_failed_lines() {
    let leaf_spine = LeafSpine {
        leaves: 4,
        spines: 2,
        hosts: 2,
        host_line: LINE,
        spine_line: LINE,
        without: vec![(0, 1), (1, 0)],
    };
    let plan = leaf_spine.plan(&Build::ideal());
    assert_eq!(rates(&plan, 0, 2).len(), 6, "wrong number of links on the path around the failed lines");
    let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::default());
    for from in 0..8 {
        (0..8).filter(|to| *to != from).for_each(|to| _ = fabric.add(super::flow(from, to, 3_000)));
    }
    assert_eq!(run(&mut fabric).len(), 56);
    assert_eq!(dropped(&fabric), 0);
}

#[test]
fn flows_around_a_ring_can_deadlock_without_loss() {
    let shape = Ring { switches: 4, hosts: 1, host_line: LINE, ring_line: LINE };
    let plan = shape.plan(&Build::ideal());
    assert_eq!(
        (rates(&plan, 0, 3).len(), rates(&plan, 3, 0).len()),
        (5, 3),
        "wrong number of links around the ring in both directions"
    );
    let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::default());
    fabric.add_load(Listed(ring(4, 2, LOSSLESS, 10_000_000, Picos::ZERO)));
    assert!(!fabric.run_to_end(Picos::from_micros(5_000)));
    let before: Vec<u32> = (0..4).map(|flow| fabric.received(flow)).collect();
    fabric.run_until(Picos::from_micros(8_000));
    let after: Vec<u32> = (0..4).map(|flow| fabric.received(flow)).collect();
    assert_eq!(before, after, "frames arrived although the ring is deadlocked");
    check(&fabric);
    assert_eq!(dropped(&fabric), 0);
}

fn racks(build: &Build) -> Plan {
    let mut graph = Graph::default();
    let racks = [[0; 2]; 2].map(|pair| pair.map(|layer| graph.add_switch(layer)));
    let spines = [1; 2].map(|layer| graph.add_switch(layer));
    for [one, other] in racks {
        for _ in 0..4 {
            let host = graph.add_host(one, LINE);
            graph.attach(host, other, LINE);
        }
    }
    racks.iter().flatten().for_each(|at| spines.iter().for_each(|spine| graph.link(*at, *spine, LINE)));
    graph.plan(build)
}

#[test] // proves: sim-fabrics
fn dual_homed_hosts_use_both_links_without_reordering() {
    for roce in [false, true] {
        let plan = racks(&Build::ideal());
        assert_eq!([(0, 3), (0, 4)].map(|(from, to)| rates(&plan, from, to).len()), [2, 4]);
        let transport = if roce { Transport::Roce(RoceSettings::default()) } else { Transport::LineRate };
        let mut fabric =
            FlowFabric::new(&plan, Seed(1), HostSettings { transport, ..HostSettings::default() });
        for from in 0..8 {
            let others = (0..24).map(|flow| flow % 8).filter(|to| *to != from);
            others.for_each(|to| _ = fabric.add(super::flow(from, to, 20_000)));
        }
        let records = run(&mut fabric);
        assert_eq!(records.iter().map(|record| record.out_of_order).sum::<u32>(), 0);
        assert_eq!(dropped(&fabric), 0);
        for switch in &fabric.fabric().switches()[..4] {
            let frames = |port| {
                let counters = switch.counters().class(PortId(port), LOSSLESS);
                [counters.rx_frames.get(), counters.tx_frames.get()]
            };
            assert!((0..4).map(frames).all(|[rx, tx]| rx > 0 && tx > 0), "a link of a host is idle");
        }
    }
}

#[test]
fn flow_of_dual_homed_host_keeps_to_one_link() {
    let mut fabric = FlowFabric::new(&racks(&Build::ideal()), Seed(1), HostSettings::default());
    (0..16).for_each(|_| _ = fabric.add(super::flow(0, 5, 30_000)));
    fabric.fabric_mut().set_link(At::Host(0, 1), false);
    assert!(!fabric.run_to_end(Picos::from_micros(500)));
    let ended = fabric.records().filter(|record| record.finish.is_some()).count();
    assert!((4..=12).contains(&ended), "{ended} of 16 flows have ended although link 1 is down");
    let alone = |host| {
        let mut fabric = FlowFabric::new(&racks(&Build::ideal()), Seed(1), HostSettings::default());
        fabric.add(super::flow(host, 5, 30_000));
        run(&mut fabric)[0]
    };
    (0..4).for_each(|host| assert_eq!(alone(host).took(), Some(alone(host).ideal)));
}

#[test]
fn only_spreading_by_frame_reorders_frames_of_a_flow() {
    let out_of_order = |spread| {
        let build = Build::ideal().spreading(move |_| spread);
        let plan = FatTree::regular(4, LINE).plan(&build);
        let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::default());
        fabric.add_load(Listed(permutation(16, LOSSLESS, 300_000, Picos::ZERO, Seed(1))));
        let records = run(&mut fabric);
        assert_eq!(dropped(&fabric), 0);
        records.iter().map(|record| record.out_of_order).sum::<u32>()
    };
    let adaptive = Spread::Adaptive { low: Bytes(16_384), high: Bytes(32_768) };
    assert_eq!(out_of_order(Spread::Flow), 0);
    assert!(out_of_order(Spread::Frame(Turns::RoundRobin)) > 0);
    assert!(out_of_order(adaptive) > 0);
}

#[test]
fn go_back_n_completes_although_frames_are_reordered() {
    let build = Build::ideal().spreading(|_| Spread::Frame(Turns::Random));
    let plan = FatTree::regular(4, LINE).plan(&build);
    let settings =
        HostSettings { transport: Transport::Roce(RoceSettings::default()), ..HostSettings::default() };
    let mut fabric = FlowFabric::new(&plan, Seed(1), settings);
    fabric.add_load(Listed(permutation(16, LOSSLESS, 100_000, Picos::ZERO, Seed(1))));
    let records = run(&mut fabric);
    assert!(records.iter().any(|record| record.frames_resent > 0));
}
