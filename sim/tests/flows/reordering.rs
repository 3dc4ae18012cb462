//! TCP over paths that reorder: the experiment `balance` with simulated hosts.
// Tests for SPECIFICATION.md: tcp

use std::sync::Arc;

use xoff_flow_control::settings::{Spread, Turns};
use xoff_host::tcp::{Detection, TcpSettings};
use xoff_sim::flows::{FlowFabric, HostSettings};
use xoff_sim::ideal::Ideal;
use xoff_sim::topology::{Build, Graph};
use xoff_sim::{Line, Picos, Plan, Seed, Stalls};
use xoff_wire::units::{BitRate, Bytes, ClassSet, Nanos};

use super::{LOSSLESS, dropped, flow};

const NIC: u8 = 2;
const SECONDS: u64 = 2;
/// Random stalls of the switches, at most as long as on a real machine.
const STALLS: Stalls = Stalls {
    gap: Nanos::from_millis(1_000),
    length: Nanos::ZERO..=Nanos::from_millis(15),
    until: Nanos::NEVER,
};

/// Four senders at one leaf, each behind a NIC, and their receivers at another leaf; four spines, lines of 50 Mb/s.
fn paths(spread: Spread) -> Plan {
    let [slow, fast] =
        [50, 10_000].map(|mbps| Line { rate: BitRate::from_mbps(mbps), delay: Picos::from_micros(50) });
    let mut graph = Graph::default();
    let leaves = [0; 2].map(|layer| graph.add_switch(layer));
    let spines = [1; 4].map(|layer| graph.add_switch(layer));
    leaves.iter().for_each(|leaf| spines.iter().for_each(|spine| graph.link(*leaf, *spine, slow)));
    for _ in 0..4 {
        let nic = graph.add_switch(NIC);
        graph.add_host(nic, fast);
        graph.link(nic, leaves[0], slow);
    }
    (0..4).for_each(|_| _ = graph.add_host(leaves[1], slow));
    let build = Build::new(|lines, layer| {
        let mut kind = Ideal::of(lines, ClassSet::NONE);
        let (xoff, xon) = if layer == NIC { (200_000, 100_000) } else { (25_000, 20_000) };
        for port in &mut kind.settings.ports {
            let class = &mut port.classes[LOSSLESS.index()];
            (class.xoff, class.xon, class.xoff_frames) = (Bytes(xoff), Bytes(xon), 10_000);
            class.egress_max = Bytes(2_000_000);
            class.headroom = Bytes(300_000);
        }
        kind.slots.data += 20_000;
        kind.slots.rings = lines.iter().map(|_| 2_000).collect();
        Arc::new(kind)
    });
    graph.plan(&build.spreading(|_| spread))
}

/// Expected goodput (Mb/s) and share of retransmissions (percent) are from the kernel's TCP (docs/groups.md).
#[test]
fn tcp_goodput_over_reordering_paths_is_near_that_of_kernel() {
    let adaptive = Spread::Adaptive { low: Bytes(16_384), high: Bytes(32_768) };
    let frame = Spread::Frame(Turns::RoundRobin);
    let dupack = Detection::Duplicates(3);
    let runs = [
        (frame, Detection::Rack, 187.0, 0.09),
        (adaptive, Detection::Rack, 184.0, 1.7),
        (adaptive, dupack, 169.0, 7.9),
        (adaptive, Detection::Never, 187.0, 0.0),
    ];
    let mut results = Vec::new();
    for (spread, detection, live, live_resent) in runs {
        let sack = detection == Detection::Rack;
        let tcp = TcpSettings { sack, detection, window: Bytes(64_000), ..TcpSettings::default() };
        let mut fabric = FlowFabric::new(&paths(spread), Seed(1), HostSettings::tcp(tcp));
        for switch in 0..10 {
            fabric.fabric_mut().at_switch(switch, |node, net| {
                node.wake_after(Nanos::from_micros(50), net);
                node.stall_at_random(STALLS, Seed(1), net);
            });
        }
        (0..4).for_each(|from| _ = fabric.add(flow(from, from + 4, 1 << 36)));
        let received = |fabric: &FlowFabric| (0..4).map(|flow| fabric.received_bytes(flow)).sum::<u64>();
        fabric.run_until(Picos::from_micros(500_000));
        let before = received(&fabric);
        fabric.run_until(Picos::from_micros(500_000 + SECONDS * 1_000_000));
        let mbps = (received(&fabric) - before) as f64 * 8.0 / (SECONDS as f64 * 1e6);
        let sum = |of: fn(&xoff_sim::flows::FlowRecord) -> u32| {
            fabric.records().map(|record| of(&record)).sum::<u32>()
        };
        let (sent, resent) = (sum(|record| record.frames_sent), sum(|record| record.frames_resent));
        let percent = 100.0 * f64::from(resent) / f64::from(sent);
        results.push((
            spread.name(),
            detection,
            mbps,
            mbps / live,
            percent,
            live_resent,
            sum(|record| record.timeouts),
        ));
        assert_eq!(dropped(&fabric), 0);
    }
    assert!(results.iter().all(|result| (result.3 - 1.0).abs() < 0.1), "{results:#?}");
    // Under round robin (first run), stalls reorder frames more than on the real machine.
    assert!(results[0].4 < 4.0, "{results:#?}");
    assert!(results[1..].iter().all(|result| (result.4 - result.5).abs() < 0.6), "{results:#?}");
}
