use xoff_sim::flows::{Control, DcqcnSettings, FlowFabric, HostSettings, RoceSettings, Transport};
use xoff_sim::topology::{Build, FatTree};
use xoff_sim::{Picos, Seed};

use super::{LINE, flow};

/// A few allocations are allowed, because one of the calendar's two thousand buckets may still grow after the warm-up.
#[test]
fn frames_of_flows_allocate_no_memory() {
    let plan = FatTree::regular(4, LINE).plan(&Build::ideal());
    for control in [Control::None, Control::Dcqcn(DcqcnSettings::default())] {
        let transport = Transport::Roce(RoceSettings { control, ..RoceSettings::default() });
        let mut fabric =
            FlowFabric::new(&plan, Seed(1), HostSettings { transport, ..HostSettings::default() });
        for from in 0..8 {
            (8..11).for_each(|to| _ = fabric.add(flow(from, to, 1 << 40)));
        }
        fabric.run_until(Picos::from_micros(3_000));
        let before = fabric.fabric().tally().hops;
        let info = allocation_counter::measure(|| fabric.run_until(Picos::from_micros(4_000)));
        let hops = fabric.fabric().tally().hops - before;
        assert!(hops > 50_000 && info.count_total < hops / 1_000, "{} for {hops} hops", info.count_total);
    }
}
