//! B6: a port learns no more stations than it may, and isolated ports exchange nothing.

use xoff_dataplane::units::MacAddr;
use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::wait_for;

use crate::{bed, frame};

#[test]
fn stations_beyond_the_limit_are_forwarded_but_not_learned() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").port(2, "learn_limit = 3"));
    let (a, b) = (bed.host(1), bed.host(2));
    let station = |number: u32| MacAddr([2, 0, 0, 0, 8, u8::try_from(number).unwrap()]);
    for number in 0..10 {
        b.send(Frame::new(station(number), a.mac()).numbered(number).build());
        a.tap().numbered(number);
    }
    wait_for("the count", || (switch.port(2).learn_refused == 7).then_some(()));
    let mut known: Vec<String> = switch.status().fdb.into_iter().map(|entry| entry.mac).collect();
    known.sort_unstable();
    assert_eq!(known, [0, 1, 2].map(|number| station(number).to_string()));
    bed.finish(switch);
}

#[test]
fn isolated_ports_reach_all_others_and_not_each_other() {
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
        let mut seen = bed.host(host).tap().numbers();
        seen.sort_unstable();
        let mut expected = [*flooded, direct].concat();
        expected.sort_unstable();
        assert_eq!(seen, expected, "host {host}");
    }
    bed.finish(switch);
}
