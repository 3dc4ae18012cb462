//! What the kernel sends by its interfaces beside the switch.

use super::*;

#[test]
fn what_the_host_sends_leaves_in_its_class_obeys_pauses_and_is_bounded() {
    let mut driver = Driver::new();
    let frame = |dst| {
        let mut bytes = packet(P1, dst, 64, 100);
        bytes[..6].copy_from_slice(&station(1).0);
        bytes[6..12].copy_from_slice(&router(P1).0);
        bytes
    };
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
    driver.receive(P1, &stop.encode(station(1)));
    let most = HOST_FRAMES_MAX as usize / 2;
    for _ in 0..most + 3 {
        driver.send_of_host(Site::Port(P1), P1, &frame([10, 1, 0, 5]));
    }
    assert_eq!(driver.counters.class(P1, C3).drops[DropReason::HostLimit.index()].get(), 3);
    let mut other = with_checksum({
        let mut bytes = frame([10, 1, 0, 5]);
        bytes[15] = 48 << 2; // DSCP 48: class 6
        bytes
    });
    driver.send_of_host(Site::Port(P1), P1, &other);
    assert_eq!(driver.sent(P1), [other.clone()], "what is paused leaves room for others");
    other.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    driver.send_of_host(Site::Port(P1), P1, &other);
    let refused = driver.counters.class(P1, Class::ALL[6]).drops[DropReason::NotMember.index()].get();
    assert_eq!(refused, 1, "a VLAN's, where there is none");
    assert_eq!(
        driver.switch.buffer().ingress(P1, C3),
        Bytes::ZERO,
        "it takes nothing of what peers may send"
    );
    assert_eq!(driver.sent(P1), Vec::<Vec<u8>>::new(), "paused");
    let go = MacControl::Pfc(Pfc::default().with(C3, Quanta(0)));
    driver.receive(P1, &go.encode(station(1)));
    assert_eq!(driver.sent(P1), vec![frame([10, 1, 0, 5]); most]);
    driver.send_of_host(Site::Port(P1), P1, &frame([10, 1, 0, 5]));
    driver.switch.batch(driver.now).set_link(P1, false, &mut driver.store);
    driver.send_of_host(Site::Port(P1), P1, &frame([10, 1, 0, 5]));
    assert_eq!((driver.store.in_use(), driver.switch.ledger().missing()), (0, 0), "gone with the link");
}

#[test]
fn what_the_host_sends_to_a_vlan_is_flooded_or_goes_to_who_is_known() {
    let mut frame = packet(V4, [10, 7, 0, 9], 64, 100);
    frame[..6].copy_from_slice(&station(9).0);
    frame[6..12].copy_from_slice(&ROUTER.0);
    for accounting in [Accounting::UntilTransmitted, Accounting::UntilForwarded] {
        let mut driver = Driver::of(&SwitchSettings { accounting, ..settings() }, Spread::Flow);
        for round in 0..2 * HOST_FRAMES_MAX {
            driver.send_of_host(Site::Vlan(VID), V4, &frame);
            assert_eq!(driver.all_sent().len(), 2, "round {round}: to nobody that is known");
        }
        assert_eq!((driver.store.in_use(), driver.punted().len()), (0, 0), "and not back to it");
        assert_eq!(driver.switch.buffer().ingress(V4, C3), Bytes::ZERO, "it came in nowhere");
    }
}

#[test]
fn what_the_host_sends_waits_for_no_room_and_holds_nobody_up() {
    for when_full in [WhenFull::Stop, WhenFull::StopClass] {
        let mut settings = settings();
        settings.when_full = when_full;
        settings.ports[V4.index()].classes[C3.index()].egress_max = Bytes(250);
        let mut driver = Driver::of(&settings, Spread::Flow);
        let mut frame = packet(V4, [10, 7, 0, 9], 64, 100);
        frame[..6].fill(0xff);
        frame[6..12].copy_from_slice(&ROUTER.0);
        let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
        driver.receive(V4, &stop.encode(station(4)));
        (0..5).for_each(|_| driver.send_of_host(Site::Vlan(VID), V4, &frame));
        assert_eq!(driver.all_sent().iter().map(|(port, _)| *port).collect::<Vec<_>>(), [V5; 5]);
        driver.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 100));
        assert_eq!(driver.sent(P1).len(), 1, "{when_full:?}: nothing waits before it");
    }
}
