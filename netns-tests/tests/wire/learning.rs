// Tests for SPECIFICATION.md: bridging

use std::thread;
use std::time::Duration;

use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::{Bed, Host, Switch, wait_for};
use xoff_wire::units::MacAddr;

use crate::{bed, frame};

fn learned_ports(switch: &Switch, mac: MacAddr) -> Vec<String> {
    switch.status().fdb.into_iter().filter(|entry| entry.mac == mac.to_string()).map(|it| it.port).collect()
}

/// Sends a frame; returns which of hosts 2 and 3 receive it before a later broadcast.
fn receivers(bed: &Bed, to: MacAddr, number: u32) -> Vec<usize> {
    let a = bed.host(1);
    a.send(Frame::new(a.mac(), to).numbered(number).build());
    a.send(Frame::new(a.mac(), frames::BROADCAST).numbered(number + 10_000).build());
    [2, 3].into_iter().filter(|&host| has_arrived(bed.host(host), number)).collect()
}

fn has_arrived(host: &Host, number: u32) -> bool {
    host.tap().numbered(number + 10_000);
    host.tap().numbers().contains(&number)
}

#[test]
fn frames_to_unknown_or_aged_addresses_are_flooded() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").more("[fdb]\nageing = \"1s\""));
    let (a, b) = (bed.host(1), bed.host(2));
    assert_eq!(receivers(&bed, b.mac(), 1), [2, 3]);
    b.send(frame(b, a, 0, 99));
    a.tap().numbered(99);
    assert_eq!(learned_ports(&switch, b.mac()), ["p2"]);
    assert_eq!(receivers(&bed, b.mac(), 2), [2]);
    assert_eq!(
        bed.host(3).tap().count(|bytes| frames::sequence(bytes) == Some(99)),
        0,
        "host 1 was not learned"
    );
    wait_for("the end of its age", || learned_ports(&switch, b.mac()).is_empty().then_some(()));
    assert_eq!(receivers(&bed, b.mac(), 3), [2, 3]);
    bed.finish(switch);
}

#[test]
fn address_of_host_that_keeps_sending_does_not_age() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").more("[fdb]\nageing = \"2s\""));
    let (a, b) = (bed.host(1), bed.host(2));
    for number in 0..12 {
        b.send(frame(b, a, 0, 100 + number));
        assert_eq!(learned_ports(&switch, b.mac()), ["p2"], "after {} ms", number * 250);
        thread::sleep(Duration::from_millis(250));
    }
    assert_eq!(receivers(&bed, b.mac(), 1), [2]);
    bed.finish(switch);
}

#[test]
fn moved_host_is_relearned_at_its_new_port() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    let station = MacAddr([2, 0, 0, 0, 9, 9]);
    for (host, number) in [(b, 1), (c, 2), (b, 3), (c, 4)] {
        host.send(Frame::new(station, a.mac()).numbered(number).build());
        a.tap().numbered(number);
        let place = if host.mac() == b.mac() { 2 } else { 3 };
        assert_eq!(learned_ports(&switch, station), [format!("p{place}")]);
        assert_eq!(receivers(&bed, station, 100 + number), [place]);
    }
    let status = bed.finish(switch);
    assert_eq!([1, 2].map(|port: usize| status.ports[port].station_moves), [1, 2]);
}

#[test]
fn invalid_source_address_is_not_learned() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").port(2, "learning = false"));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    b.send(frame(b, a, 0, 1));
    for (number, source) in
        [(2, MacAddr([3, 0, 0, 0, 0, 7])), (3, frames::BROADCAST), (4, MacAddr::default())]
    {
        c.send(Frame::new(source, a.mac()).numbered(number).build());
    }
    (1..5).for_each(|number| _ = a.tap().numbered(number));
    assert_eq!(switch.status().fdb, []);
    assert_eq!(receivers(&bed, b.mac(), 5), [2, 3]);
    bed.finish(switch);
}

#[test]
fn static_address_never_moves_to_another_port() {
    let bed = bed(3).build();
    let b = bed.host(2).mac();
    let entry = format!("[[fdb.static]]\nmac = \"{b}\"\nport = \"p3\"");
    let switch = bed.start(&bed.config("speed = \"1G\"").more(&entry));
    assert_eq!(receivers(&bed, b, 1), [3]);
    bed.host(2).send(frame(bed.host(2), bed.host(1), 0, 99));
    bed.host(1).tap().numbered(99);
    assert_eq!(receivers(&bed, b, 2), [3]);
    bed.finish(switch);
}
