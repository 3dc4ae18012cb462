use xoff_netns_tests::frames::{self, BROADCAST, Frame};
use xoff_netns_tests::{Bed, Switch, wait_for};

use crate::{bed, frame};

fn poll(bed: &Bed, poll: &str) -> Switch {
    bed.start(&bed.config("speed = \"100M\"").switch(&format!("poll = \"{poll}\"")))
}

fn free_memory(switch: &Switch) -> Vec<(u64, u64)> {
    switch.status().workers.iter().map(|worker| (worker.frames_free, worker.cells_free)).collect()
}

#[test] // proves: ledger
fn last_frames_of_a_burst_are_sent_without_further_traffic() {
    for mode in ["adaptive", "busy"] {
        let bed = bed(2).build();
        let switch = poll(&bed, mode);
        let (a, b) = (bed.host(1), bed.host(2));
        b.send(frame(b, a, 0, 0)); // learned
        a.tap().numbered(0);
        let mut number = 0;
        for burst in [1, 2, 16, 17, 31, 33, 63, 65, 129] {
            for _ in 0..burst {
                number += 1;
                a.send(frame(a, b, 3, number));
            }
            b.tap().wait(number as usize, |frame| frames::sequence(frame).is_some());
        }
        assert_eq!(b.tap().numbers(), (1..=number).collect::<Vec<_>>(), "{mode}");
        bed.finish(switch);
    }
}

#[test] // proves: ledger
fn all_packet_memory_is_free_after_traffic() {
    for workers in [1, 2] {
        let bed = bed(3).mtu(9000).build();
        let config = bed.config("speed = \"1G\"\nmtu = 9000\nuntagged = [1]\ntagged = [7]");
        let switch =
            bed.start(&config.switch(&format!("workers = {workers}")).port(3, "rewrite_pcp = \"class\""));
        let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
        let baseline = free_memory(&switch);
        assert_eq!(baseline.len(), workers);
        let (mut to_b, mut flooded) = (0, 0);
        for round in 1..=40_u32 {
            for n in 0..round % 17 {
                a.send(a.to(b).tag(3, 7).numbered(round).build_len(60 + 550 * n as usize));
                to_b += 1;
            }
            for n in 0..round % 5 {
                let bytes = Frame::new(c.mac(), BROADCAST).numbered(round).build_len(1800 * (n as usize + 1));
                c.send(bytes);
                flooded += 1;
            }
            b.send(frames::pfc(b.mac(), &[(3, 100)]));
            b.send(b.to(a).payload(frames::MAC_CONTROL, &[0; 60]).build()); // malformed
            b.send(b.to(b).numbered(round).build()); // to its own port
        }
        b.tap().wait(to_b + flooded, |frame| frames::sequence(frame).is_some());
        a.tap().wait(flooded, |frame| frames::sequence(frame).is_some());
        wait_for("free memory to return", || (free_memory(&switch) == baseline).then_some(()));
        bed.finish(switch);
    }
}
