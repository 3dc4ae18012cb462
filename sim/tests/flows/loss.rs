// Tests for SPECIFICATION.md: sim-hosts

use std::collections::VecDeque;

use proptest::prelude::*;
use xoff_explore::explore;
use xoff_flow_control::settings::SwitchSettings;
use xoff_sim::flows::{
    Control, DcqcnSettings, FlowFabric, FlowPlan, HostSettings, RoceSettings, SwiftSettings, TimelySettings,
    Transport,
};
use xoff_sim::{Net, Node, Packet, Picos, Place, Seed, SlotCounts};
use xoff_wire::units::{Bytes, PortId};

use super::{LINE, LOSSY, as_they_are, dropped, flow, run, star};

pub(super) struct Repeater {
    pub(super) place: Place,
    rng: fastrand::Rng,
    lost_percent: u8,
    lines: [(VecDeque<Packet>, bool); 2],
}

impl Repeater {
    pub(super) fn new(place: Place, seed: u64, lost_percent: u8) -> Repeater {
        Repeater { place, rng: fastrand::Rng::with_seed(seed), lost_percent, lines: Default::default() }
    }

    fn go_on(&mut self, port: usize, net: &mut Net) {
        let (waiting, is_busy) = &mut self.lines[port];
        if !*is_busy && let Some(packet) = waiting.pop_front() {
            *is_busy = true;
            net.start(self.place, PortId(u8::try_from(port).expect("port number exceeds 8 bits")), packet);
        }
    }
}

impl Node for Repeater {
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        if self.rng.u8(..100) < self.lost_percent {
            return net.pool.free(packet);
        }
        let other = 1 - port.index();
        self.lines[other].0.push_back(packet);
        self.go_on(other, net);
    }

    fn left(&mut self, port: PortId, net: &mut Net) {
        self.lines[port.index()].1 = false;
        self.go_on(port.index(), net);
    }

    fn due(&mut self, _: &mut Net) {}

    fn holds(&self) -> u64 {
        self.lines.iter().map(|(waiting, _)| waiting.len() as u64).sum()
    }
}

fn controls() -> [Control; 4] {
    [
        Control::None,
        Control::Dcqcn(DcqcnSettings::default()),
        Control::Swift(SwiftSettings::default()),
        Control::Timely(TimelySettings::default()),
    ]
}

explore! {
    #[test]
    fn flows_complete_over_link_that_loses_frames(
        seed: u64,
        lost_percent in 0_u8..30,
        sizes in prop::collection::vec(0_u64..60_000, 1..6),
        ack_every in 1_u32..9,
        window in prop::option::of(1_000_u64..40_000),
        control in 0_usize..4,
    ) {
        let roce = RoceSettings {
            ack_every,
            window: window.map(Bytes),
            timeout: Picos::from_micros(50),
            control: controls()[control],
            ..RoceSettings::default()
        };
        // A flow whose window is shorter than the interval of acknowledgements would wait forever.
        let roce = if roce.window.is_some() || control == 2 { RoceSettings { ack_every: 1, ..roce } } else { roce };
        let settings = HostSettings { transport: Transport::Roce(roce), ..HostSettings::default() };
        let repeater = |place, _: SwitchSettings, _: SlotCounts| Repeater::new(place, seed, lost_percent);
        let mut fabric = FlowFabric::of(&star(&[LINE; 2], as_they_are), Seed(seed), settings, repeater);
        for (number, bytes) in (0..).zip(&sizes) {
            let start = Picos::from_nanos(700 * u64::from(number));
            fabric.add(FlowPlan { start, ..flow(number % 2, 1 - number % 2, *bytes) });
        }
        prop_assert!(fabric.run_to_end(Picos::from_micros(10_000_000)));
        fabric.fabric_mut().run_to_rest();
        prop_assert_eq!(fabric.fabric().missing(), 0);
        for record in fabric.records() {
            let frames = u32::try_from(record.bytes.div_ceil(1_456).max(1)).expect("few");
            prop_assert_eq!(fabric.received(record.flow), frames);
            prop_assert_eq!(record.frames_sent - record.frames_resent, frames);
            prop_assert!(lost_percent > 0 || record.frames_resent == 0);
            prop_assert!(record.took() >= Some(record.ideal));
        }
    }
}

#[test]
fn flows_complete_although_switch_drops_frames() {
    for control in controls() {
        let roce = RoceSettings { control, ..RoceSettings::default() };
        let settings = HostSettings { transport: Transport::Roce(roce), ..HostSettings::default() };
        let mut fabric = FlowFabric::new(&star(&[LINE; 9], as_they_are), Seed(1), settings);
        (1..9).for_each(|from| _ = fabric.add(FlowPlan { class: LOSSY, ..flow(from, 0, 500_000) }));
        let records = run(&mut fabric);
        assert!(dropped(&fabric) > 0, "{control:?}");
        assert!(records.iter().any(|record| record.frames_resent > 0), "{control:?}");
        assert!(records.iter().all(|record| record.finish.is_some()));
    }
}

#[test]
fn lost_last_frame_is_resent_exactly_at_timeout() {
    struct Once(Repeater, bool);
    impl Node for Once {
        fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
            if std::mem::replace(&mut self.1, false) {
                return net.pool.free(packet);
            }
            self.0.arrived(port, packet, net);
        }
        fn left(&mut self, port: PortId, net: &mut Net) {
            self.0.left(port, net);
        }
        fn due(&mut self, net: &mut Net) {
            self.0.due(net);
        }
        fn holds(&self) -> u64 {
            self.0.holds()
        }
    }
    let timeout = Picos(123_456_789);
    let roce = RoceSettings { timeout, ..RoceSettings::default() };
    let settings = HostSettings { transport: Transport::Roce(roce), ..HostSettings::default() };
    let once = |place, _: SwitchSettings, _: SlotCounts| Once(Repeater::new(place, 1, 0), true);
    let mut fabric = FlowFabric::of(&star(&[LINE; 2], as_they_are), Seed(1), settings, once);
    fabric.add(flow(0, 1, 1_000));
    assert!(fabric.run_to_end(Picos::from_micros(1_000)));
    let record = fabric.record(0);
    assert_eq!(record.took(), Some(record.ideal.after(timeout)));
    assert_eq!((record.timeouts, record.frames_sent, record.frames_resent), (1, 2, 1));
}
