// Tests for SPECIFICATION.md: slow-path

use super::*;

#[test]
fn frames_from_host_obey_pauses_and_limit_on_their_number() {
    let mut bench = RouterBench::new();
    let frame = |dst| {
        let mut bytes = packet(P1, dst, 64, 100);
        bytes[..6].copy_from_slice(&station(1).0);
        bytes[6..12].copy_from_slice(&router(P1).0);
        bytes
    };
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
    bench.receive(P1, &stop.encode(station(1)));
    let most = HOST_FRAMES_MAX as usize / 2;
    for _ in 0..most + 3 {
        bench.send_of_host(Site::Port(P1), P1, &frame([10, 1, 0, 5]));
    }
    assert_eq!(bench.counters.class(P1, C3).drops[DropReason::HostLimit.index()].get(), 3);
    let mut other = with_checksum({
        let mut bytes = frame([10, 1, 0, 5]);
        bytes[15] = 48 << 2; // DSCP 48: class 6
        bytes
    });
    bench.send_of_host(Site::Port(P1), P1, &other);
    assert_eq!(bench.sent(P1), [other.clone()], "paused host frames blocked another class");
    other.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    bench.send_of_host(Site::Port(P1), P1, &other);
    let refused = bench.counters.class(P1, Class::ALL[6]).drops[DropReason::NotMember.index()].get();
    assert_eq!(refused, 1, "a tagged host frame was accepted at a routed port");
    assert_eq!(bench.switch.buffer().ingress(P1, C3), Bytes::ZERO, "host frames count at the ingress");
    assert_eq!(bench.sent(P1), Vec::<Vec<u8>>::new(), "a frame left a paused class");
    let go = MacControl::Pfc(Pfc::default().with(C3, Quanta(0)));
    bench.receive(P1, &go.encode(station(1)));
    assert_eq!(bench.sent(P1), vec![frame([10, 1, 0, 5]); most]);
    bench.send_of_host(Site::Port(P1), P1, &frame([10, 1, 0, 5]));
    bench.switch.batch(bench.now).set_link(P1, false, &mut bench.store);
    bench.send_of_host(Site::Port(P1), P1, &frame([10, 1, 0, 5]));
    assert_eq!(
        (bench.store.in_use(), bench.switch.ledger().missing()),
        (0, 0),
        "host frames remained after the link was lost"
    );
}

#[test]
fn frames_from_host_to_unlearned_station_are_flooded() {
    let mut frame = packet(V4, [10, 7, 0, 9], 64, 100);
    frame[..6].copy_from_slice(&station(9).0);
    frame[6..12].copy_from_slice(&ROUTER.0);
    for accounting in [Accounting::UntilTransmitted, Accounting::UntilForwarded] {
        let mut bench = RouterBench::of(&SwitchSettings { accounting, ..settings() }, Spread::Flow);
        for round in 0..2 * HOST_FRAMES_MAX {
            bench.send_of_host(Site::Vlan(VID), V4, &frame);
            assert_eq!(bench.all_sent().len(), 2, "the frame was not flooded to both ports in round {round}");
        }
        assert_eq!((bench.store.in_use(), bench.punted().len()), (0, 0), "the flood returned to the host");
        assert_eq!(bench.switch.buffer().ingress(V4, C3), Bytes::ZERO, "host frames count at the ingress");
    }
}

#[test]
fn frames_from_host_never_halt_transit_frames() {
    let mut settings = settings();
    settings.when_full = WhenFull::Stop;
    settings.ports[V4.index()].classes[C3.index()].egress_max = Bytes(250);
    let mut bench = RouterBench::of(&settings, Spread::Flow);
    let mut frame = packet(V4, [10, 7, 0, 9], 64, 100);
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&ROUTER.0);
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
    bench.receive(V4, &stop.encode(station(4)));
    (0..5).for_each(|_| bench.send_of_host(Site::Vlan(VID), V4, &frame));
    assert_eq!(bench.all_sent().iter().map(|(port, _)| *port).collect::<Vec<_>>(), [V5; 5]);
    bench.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 100));
    assert_eq!(bench.sent(P1).len(), 1, "a waiting host frame blocked a transit frame");
}

fn of_router(to: MacAddr) -> Vec<u8> {
    let mut frame = packet(V4, [10, 7, 0, 9], 64, 100);
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&ROUTER.0);
    frame
}

/// Milliseconds of pause after which a port is certainly at a standstill.
const ROUNDS: u64 = 600;

fn bring_v4_to_a_standstill(bench: &mut RouterBench, mut every_ms: impl FnMut(&mut RouterBench)) {
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX))).encode(station(4));
    for ms in 0..ROUNDS {
        if ms % 20 == 0 {
            bench.receive(V4, &stop);
        }
        bench.now += Nanos::from_millis(1);
        bench.switch.batch(bench.now).advance(&mut bench.store);
        every_ms(bench);
    }
    bench.receive(V4, &stop);
}

fn drops(bench: &RouterBench, port: PortId, reason: DropReason) -> u64 {
    bench.counters.class(port, C3).drops[reason.index()].get()
}

#[test] // proves: stalled-floods
fn floods_of_router_skip_long_paused_port() {
    let mut bench = RouterBench::new();
    for (port, number) in [(V4, 4), (V5, 5)] {
        let mut hello = of_router(MacAddr::BROADCAST);
        hello[6..12].copy_from_slice(&station(number).0);
        bench.receive(port, &hello);
    }
    bench.all_sent();
    let all = of_router(MacAddr::BROADCAST);
    bring_v4_to_a_standstill(&mut bench, |bench| {
        bench.send_of_host(Site::Vlan(VID), V4, &all);
        bench.sent(V5);
    });
    let missed = drops(&bench, V4, DropReason::HostLimit);
    assert_eq!(missed, ROUNDS, "the number of drops at port V4 differs from that of floods");
    assert_eq!(bench.store.in_use(), 0, "a host frame is still queued");
    for _ in 0..HOST_FRAMES_MAX {
        bench.send_of_host(Site::Vlan(VID), V4, &all);
        bench.send_of_host(Site::Vlan(VID), V4, &of_router(station(4)));
        bench.send_of_host(Site::Vlan(VID), V4, &of_router(station(5)));
        assert_eq!(bench.all_sent(), [(V5, all.clone()), (V5, of_router(station(5)))].map(tagged));
    }
    let frames = u64::from(HOST_FRAMES_MAX);
    assert_eq!(drops(&bench, V4, DropReason::HostLimit) - missed, 2 * frames);
    assert_eq!(drops(&bench, V4, DropReason::FloodPaused), 0);
    let go = MacControl::Pfc(Pfc::default().with(C3, Quanta(0)));
    bench.receive(V4, &go.encode(station(4)));
    bench.send_of_host(Site::Vlan(VID), V4, &all);
    assert_eq!(bench.all_sent(), [(V4, all.clone()), tagged((V5, all))]);
}

#[test] // proves: stalled-floods
fn removing_svi_drains_its_queued_frames() {
    let mut bench = RouterBench::new();
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
    bench.receive(V4, &stop.encode(station(4)));
    bench.send_of_host(Site::Vlan(VID), V4, &of_router(MacAddr::BROADCAST));
    bench.sent(V5);
    assert_eq!(bench.store.in_use(), 1, "no host frame is queued at the paused port");
    let without = SwitchSettings { routed_vlans: Vec::new(), ..settings() };
    let revision = Box::new(Revision::new(without, &Workers::single(6), SLOTS));
    drop(bench.switch.batch(bench.now).revise(revision));
    bring_v4_to_a_standstill(&mut bench, |_| ());
    assert_eq!((bench.store.in_use(), drops(&bench, V4, DropReason::HostLimit)), (0, 1));
}

#[test] // proves: stalled-floods
fn two_port_switch_drops_floods_to_paused_port_only_with_svi() {
    for (routers, waits) in [(vec![(VID, ROUTER)], false), (Vec::new(), true)] {
        let mut both = settings();
        both.ports.drain(..usize::from(V4.0));
        both.vlans = vec![VlanSettings { vid: VID, tagged: vec![], untagged: vec![P0, P1] }];
        both.ports.iter_mut().for_each(|port| port.pvid = Some(VID));
        let counters = Counters::new(2);
        let mut switch = Switch::new(&both, SLOTS, Workers::single(2), Arc::clone(&counters));
        let mut store = MemoryStore::new(SLOTS - CONTROL_SLOTS, CONTROL_SLOTS, 16, 1600);
        let mut now = Nanos(0);
        let revised = SwitchSettings { routed_vlans: routers, ..both };
        let revision = Box::new(Revision::new(revised, &Workers::single(2), SLOTS));
        drop(switch.batch(now).revise(revision));
        let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX))).encode(station(1));
        let receive = |switch: &mut Switch, store: &mut MemoryStore, now, port, bytes: &[u8]| {
            let frame = store.fill(bytes).expect("no slot is free");
            switch.batch(now).receive(port, frame, store);
            while switch.batch(now).forward(store) {}
        };
        for ms in 0..ROUNDS {
            if ms % 20 == 0 {
                receive(&mut switch, &mut store, now, P1, &stop);
            }
            now += Nanos::from_millis(1);
            switch.batch(now).advance(&mut store);
        }
        receive(&mut switch, &mut store, now, P1, &stop);
        let mut frame = of_router(MacAddr::BROADCAST);
        frame[6..12].copy_from_slice(&station(4).0);
        (0..400).for_each(|_| receive(&mut switch, &mut store, now, P0, &frame));
        let dropped =
            [P0, P1].map(|port| counters.class(port, C3).drops[DropReason::FloodPaused.index()].get());
        assert_eq!(dropped == [0, 0], waits, "{dropped:?}");
        switch.batch(now).set_link(P1, false, &mut store);
        assert_eq!(switch.ledger().missing(), 0);
    }
}

fn tagged((port, mut frame): (PortId, Vec<u8>)) -> (PortId, Vec<u8>) {
    frame.splice(12..12, [0x81, 0x00, 3 << 5, 7]);
    (port, frame)
}

#[test] // proves: stalled-floods
fn host_flood_does_not_reduce_limit_of_network_floods() {
    let dropped = |has_host: bool| {
        let mut settings = settings();
        let class = &mut settings.ports[V5.index()].classes[C3.index()];
        (class.xoff, class.xon) = (Bytes(2_000), Bytes(1_000));
        let mut bench = RouterBench::of(&settings, Spread::Flow);
        let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
        bench.receive(V4, &stop.encode(station(4)));
        if has_host {
            bench.send_of_host(Site::Vlan(VID), V5, &of_router(MacAddr::BROADCAST));
        }
        let mut flood = of_router(MacAddr::BROADCAST);
        flood[6..12].copy_from_slice(&station(5).0);
        (0..10).for_each(|_| bench.receive(V5, &tagged((V5, flood.clone())).1));
        bench.all_sent();
        bring_v4_to_a_standstill(&mut bench, |_| ());
        [DropReason::FloodPaused, DropReason::HostLimit].map(|reason| drops(&bench, V4, reason))
    };
    let [missed, none] = dropped(false);
    assert!(missed > 0 && missed < 10 && none == 0, "{missed} {none}");
    assert_eq!(dropped(true), [missed, 1]);
}

#[test]
fn frames_from_host_cannot_be_pauses_or_cnms() {
    let pause = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX))).encode(router(P1)).to_vec();
    let mut to_station = pause.clone();
    to_station[..6].copy_from_slice(&station(1).0);
    let mut tagged = pause.clone();
    tagged.splice(12..12, [0x81, 0x00, 3 << 5, 0]);
    let mut lldp = vec![0; 60];
    lldp[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    lldp[6..14].copy_from_slice(&[2, 0, 0, 1, 0, 1, 0x88, 0xcc]);
    for speaker in [Lldp::Off, Lldp::Switch, Lldp::Kernel] {
        let mut settings = settings();
        settings.ports[P1.index()].lldp = speaker;
        let mut bench = RouterBench::of(&settings, Spread::Flow);
        for frame in [&pause, &to_station, &tagged, &lldp] {
            bench.send_of_host(Site::Port(P1), P1, frame);
        }
        let sent: &[Vec<u8>] = if speaker == Lldp::Kernel { std::slice::from_ref(&lldp) } else { &[] };
        assert_eq!(bench.sent(P1), sent, "{speaker:?}");
        let refused: u64 = Class::ALL
            .iter()
            .map(|&class| bench.counters.class(P1, class).drops[DropReason::HostControl.index()].get())
            .sum();
        assert_eq!(refused, 4 - sent.len() as u64, "{speaker:?}");
    }
}
