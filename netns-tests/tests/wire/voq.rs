use xoff_netns_tests::{frames, wait_for};

use crate::{bed, frame};

fn order(queue: &str) -> Vec<u32> {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"10M\"").more(&format!("[class.3]\nqueue = \"{queue}\"")));
    let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
    sink.send(frame(sink, a, 0, 0)); // learned
    sink.send(frames::pfc(sink.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(3, 3).pause_received.now.then_some(()));
    for (port, host) in [(1, a), (2, b)] {
        (1..=4).for_each(|number| host.send(frame(host, sink, 3, 10 * port + number)));
        wait_for("its frames", || (switch.class(port as usize, 3).rx_frames == 4).then_some(()));
    }
    sink.send(frames::pfc(sink.mac(), &[(3, 0)]));
    sink.tap().wait(8, |frame| frames::sequence(frame).is_some());
    bed.finish(switch);
    sink.tap().numbers()
}

#[test]
fn fifo_queue_sends_frames_in_order_of_arrival() {
    assert_eq!(order("fifo"), [11, 12, 13, 14, 21, 22, 23, 24]);
}

#[test] // proves: scheduling
fn voq_serves_its_input_ports_in_turn() {
    let order = order("voq");
    let from = |port: u32| order.iter().copied().filter(|number| number / 10 == port).collect::<Vec<_>>();
    assert_eq!((from(1), from(2)), (vec![11, 12, 13, 14], vec![21, 22, 23, 24]));
    assert!(order.windows(2).all(|pair| pair[0] / 10 != pair[1] / 10), "{order:?}");
}
