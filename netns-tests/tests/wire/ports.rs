use std::sync::atomic::AtomicBool;

use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::wait_for;
use xoff_traffic::emit::{Link, Timing, emit};
use xoff_wire::units::{MacAddr, Nanos};

use crate::{bed, frame};

#[test] // proves: bridging
fn addresses_beyond_limit_of_port_are_not_learned() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").port(2, "learn_limit = 3"));
    let (a, b) = (bed.host(1), bed.host(2));
    let station = |number: u32| MacAddr([2, 0, 0, 0, 8, u8::try_from(number).unwrap()]);
    for number in 0..10 {
        b.send(Frame::new(station(number), a.mac()).numbered(number).build());
        a.tap().numbered(number);
    }
    wait_for("the count", || (switch.port(2).learn_refused == 7).then_some(()));
    let mut learned: Vec<String> = switch.status().fdb.into_iter().map(|entry| entry.mac).collect();
    learned.sort_unstable();
    assert_eq!(learned, [0, 1, 2].map(|number| station(number).to_string()));
    bed.finish(switch);
}

#[test] // proves: verdict
fn losslessness_is_broken_after_a_device_drops_a_frame() {
    let bed = bed(1).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    // Lower the peer's MTU, so that the veth drops longer frames.
    bed.host(1).run("ip", &["link", "set", "eth0", "mtu", "1000"]);
    let frame = Frame::new(bed.port(1).mac(), bed.host(1).mac()).build_len(1400);
    let once = Timing { every: Nanos::ZERO, count: Some(1), duration: None };
    let send = || emit(&Link::open("p1").unwrap(), &[frame], &once, &AtomicBool::new(false));
    assert_eq!(bed.namespace().run(|| send().unwrap()), 1);
    let lost = wait_for("the drop", || switch.port(1).device_drops.filter(|drops| drops.lost() > 0));
    assert_eq!((lost.tx_dropped, lost.lost()), (1, 1));
    let status = switch.status();
    assert_eq!(status.ports[0].xdp_statistics.unwrap().lost(), 0);
    assert_eq!(
        (status.verdict.lossless, status.verdict.lossless_lost, status.verdict.unseen_lost),
        (false, 0, 1)
    );
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
}

#[test] // proves: bridging
fn isolated_ports_do_not_reach_each_other() {
    let bed = bed(4).build();
    let config = bed.config("speed = \"1G\"").port(2, "isolated = true").port(3, "isolated = true");
    let switch = bed.start(&config);
    for from in 1..=4 {
        let host = bed.host(from);
        host.send(Frame::new(host.mac(), frames::BROADCAST).numbered(10 * from as u32).build());
    }
    let flooded: [&[u32]; 4] = [&[20, 30, 40], &[10, 40], &[10, 40], &[10, 20, 30]];
    for (host, numbers) in (1..).zip(flooded) {
        numbers.iter().for_each(|&number| _ = bed.host(host).tap().numbered(number));
    }
    for (from, to) in [(2, 3), (3, 2), (2, 1), (1, 3), (3, 4), (4, 2)] {
        bed.host(from).send(frame(bed.host(from), bed.host(to), 0, (10 * from + to) as u32));
    }
    let direct: [&[u32]; 4] = [&[21], &[42], &[13], &[34]];
    for (host, numbers) in (1..).zip(direct) {
        numbers.iter().for_each(|&number| _ = bed.host(host).tap().numbered(number));
    }
    wait_for("both refusals", || {
        ([2, 3].iter().all(|&port| switch.class(port, 0).drops["isolated"] == 1)).then_some(())
    });
    for (host, (flooded, direct)) in (1..).zip(flooded.iter().zip(direct)) {
        let mut received = bed.host(host).tap().numbers();
        received.sort_unstable();
        let mut expected = [*flooded, direct].concat();
        expected.sort_unstable();
        assert_eq!(received, expected, "host {host}");
    }
    bed.finish(switch);
}
