use xoff_host::tcp::TcpSettings;
use xoff_sim::flows::{Control, DcqcnSettings, FlowFabric, HostSettings, RoceSettings, Transport};
use xoff_sim::topology::{Build, FatTree};
use xoff_sim::{Picos, Seed};
use xoff_wire::units::Bytes;

use super::{LINE, flow};

/// A few allocations are allowed, because one of the calendar's 2,000 buckets may still grow after warm-up.
#[test]
fn forwarding_frames_of_flows_allocates_no_memory() {
    let plan = FatTree::regular(4, LINE).plan(&Build::ideal());
    let roce = |control| {
        let transport = Transport::Roce(RoceSettings { control, ..RoceSettings::default() });
        HostSettings { transport, ..HostSettings::default() }
    };
    let tcp = HostSettings::tcp(TcpSettings { window: Bytes(256 << 10), ..TcpSettings::default() });
    for settings in [roce(Control::None), roce(Control::Dcqcn(DcqcnSettings::default())), tcp] {
        let mut fabric = FlowFabric::new(&plan, Seed(1), settings);
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
