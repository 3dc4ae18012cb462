use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::wait_for;

use crate::{bed, frame};

const TWO: &str = "workers = [{ ports = [\"p1\", \"p3\"] }, { ports = [\"p2\"] }]";

#[test]
fn all_workers_forward_to_an_address_that_one_worker_learned() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").switch(TWO));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    let broadcast = |number| Frame::new(a.mac(), frames::BROADCAST).numbered(number).build();
    for (station, host) in [(7, b), (8, c), (7, c), (8, b)] {
        let mac = xoff_wire::units::MacAddr([2, 0, 0, 0, 9, station]);
        let number = bed.host(2).tap().numbers().len() as u32 * 10;
        host.send(Frame::new(mac, a.mac()).numbered(number).build());
        a.tap().numbered(number);
        a.send(Frame::new(a.mac(), mac).numbered(number + 1).build());
        a.send(broadcast(number + 2));
        for other in [b, c] {
            other.tap().numbered(number + 2);
            let came = other.tap().numbers().contains(&(number + 1));
            assert_eq!(came, other.mac() == host.mac(), "station {station} at host {}", host.mac());
        }
    }
    let fdb = switch.status().fdb;
    assert_eq!(fdb.len(), 3, "{fdb:?}");
    bed.finish(switch);
}

#[test]
fn congestion_pauses_sender_at_port_of_another_worker() {
    let bed = bed(3).build();
    let config = bed.config("speed = \"1M\"").switch(TWO).more("[class.3]\nxoff = 4000\nxon = 2000");
    let switch = bed.start(&config);
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0));
    a.tap().numbered(0);
    b.send(frames::pfc(b.mac(), &[(3, u16::MAX)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    (1..=3).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1_500)));
    let pauses = a.tap().wait(1, frames::is_pfc);
    assert_eq!(pauses[0].bytes, frames::pfc(bed.port(1).mac(), &[(3, u16::MAX)]));
    assert_eq!(switch.class(1, 3).ingress.bytes, 3 * 1_504, "frames counted at the ingress port");
    assert_eq!(switch.class(2, 3).egress.bytes, 3 * 1_504, "bytes queued at the egress port");
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    a.tap().wait(1, |bytes| frames::pfc_time(bytes, 3) == Some(0));
    b.tap().numbered(3);
    wait_for("the end of the account", || (switch.class(1, 3).ingress.bytes == 0).then_some(()));
    bed.finish(switch);
}

#[test]
fn workers_exchange_flooded_jumbo_and_retagged_frames() {
    let bed = bed(3).mtu(9_000).build();
    let config = bed
        .config("speed = \"1G\"\nmtu = 9000")
        .switch(TWO)
        .port(2, "untagged = []\ntagged = [1]\npvid = \"none\"");
    let switch = bed.start(&config);
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    for (number, len) in (0..).step_by(2).zip([60, 1_514, 3_840, 9_014]) {
        let sent = |frame: Frame, number| frame.numbered(number).build_len(len);
        a.send(sent(Frame::new(a.mac(), frames::BROADCAST), number));
        assert_eq!(c.tap().numbered(number).bytes, sent(Frame::new(a.mac(), frames::BROADCAST), number));
        let arrived = b.tap().numbered(number).bytes;
        assert_eq!((frames::tag_of(&arrived), arrived.len()), (Some((0, 1)), len + 4));
        let back = b.to(a).tag(0, 1).numbered(number + 1).build_len(len + 4);
        b.send(back);
        assert_eq!(a.tap().numbered(number + 1).bytes, sent(b.to(a), number + 1));
    }
    bed.finish(switch);
}
