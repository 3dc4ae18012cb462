use proptest::prelude::*;
use xoff_explore::explore;

use super::*;

const PORTS: [PortId; 6] = [P0, P1, P2, P3, V4, V5];

#[derive(Clone, Debug)]
enum RouterStep {
    Comes { port: PortId, mac: MacAddr, dst: [u8; 4], ttl: u8, len: u16, by_host: bool },
    Pause(PortId, u16),
    Link(PortId, bool),
    Leaves(PortId),
    Table(u8),
    Time(u16),
}

fn any_port() -> impl Strategy<Value = PortId> {
    prop::sample::select(PORTS.to_vec())
}

fn comes() -> impl Strategy<Value = RouterStep> {
    let macs = PORTS.map(router).into_iter().chain([ROUTER, station(4), station(5), MacAddr::BROADCAST]);
    let dsts = [
        [10, 1, 0, 5],
        [10, 7, 0, 4],
        [10, 7, 0, 5],
        [10, 7, 0, 6],
        [10, 7, 0, 9],
        [10, 8, 1, 1],
        [10, 9, 0, 1],
        [10, 0, 0, 1],
        [9; 4],
    ];
    let (mac, dst) = (prop::sample::select(macs.collect::<Vec<_>>()), prop::sample::select(dsts.to_vec()));
    let ttl = prop::sample::select(vec![0, 1, 2, 64]);
    (any_port(), mac, any::<bool>(), dst, ttl, 46..1_100_u16, prop::bool::weighted(0.3)).prop_map(
        |(port, mac, to_its_router, dst, ttl, len, by_host)| {
            let mac = if to_its_router { router(port) } else { mac };
            RouterStep::Comes { port, mac, dst, ttl, len, by_host }
        },
    )
}

fn any_step() -> impl Strategy<Value = RouterStep> {
    prop_oneof![
        8 => comes(),
        2 => (any_port(), prop::sample::select(vec![0, 9, u16::MAX])).prop_map(|(port, quanta)| RouterStep::Pause(port, quanta)),
        1 => (any_port(), any::<bool>()).prop_map(|(port, is_up)| RouterStep::Link(port, is_up)),
        2 => any_port().prop_map(RouterStep::Leaves),
        1 => (0..3_u8).prop_map(RouterStep::Table),
        1 => any::<u16>().prop_map(RouterStep::Time),
    ]
}

impl RouterBench {
    fn step(&mut self, step: &RouterStep) {
        match *step {
            RouterStep::Comes { port, mac, dst, ttl, len, by_host } => {
                let mut bytes = packet(port, dst, ttl, len);
                bytes[..6].copy_from_slice(&mac.0);
                let site = if [V4, V5].contains(&port) { Site::Vlan(VID) } else { Site::Port(port) };
                if by_host {
                    self.send_of_host(site, port, &bytes);
                } else {
                    self.receive(port, &bytes);
                }
            }
            RouterStep::Pause(port, quanta) => {
                let pause = MacControl::Pfc(Pfc::default().with(C3, Quanta(quanta)));
                self.receive(port, &pause.encode(station(port.0)));
            }
            RouterStep::Link(port, is_up) => {
                self.switch.batch(self.now).set_link(port, is_up, &mut self.store);
            }
            RouterStep::Leaves(port) => _ = self.sent(port),
            RouterStep::Table(number) => {
                let table = match number {
                    0 => Arc::default(),
                    1 => fib(Spread::Flow),
                    _ => unresolved::resolved(),
                };
                self.route_by(table);
            }
            RouterStep::Time(micros) => {
                self.now += Nanos::from_micros(micros.into());
                self.advance();
            }
        }
        assert_eq!(self.switch.ledger().missing(), 0, "{step:?}");
    }
}

explore! {
    #[test] // proves: ledger
    fn random_router_traffic_leaves_no_unaccounted_frame(
        steps in prop::collection::vec(any_step(), 0..100), stops in any::<bool>(), is_short in any::<bool>()
    ) {
        let mut settings = settings();
        settings.when_full = if stops { WhenFull::Stop } else { WhenFull::Drop };
        for port in settings.ports.iter_mut().filter(|_| is_short) {
            port.classes[C3.index()].egress_max = Bytes(2_500);
        }
        let mut bench = RouterBench::of(&settings, Spread::Flow);
        steps.iter().for_each(|step| bench.step(step));
        for port in PORTS {
            bench.step(&RouterStep::Link(port, true));
            bench.step(&RouterStep::Pause(port, 0));
        }
        // Let all frames leave: some wait for queue space, others for a neighbour until their deadline.
        while !bench.all_sent().is_empty() {}
        bench.now += NEIGHBOUR_WAIT;
        bench.advance();
        while !bench.all_sent().is_empty() {}
        prop_assert_eq!(bench.store.in_use(), 0);
        prop_assert_eq!(bench.switch.ledger().missing(), 0);
    }
}
