use xoff_wire::units::Nanos;
use xoff_xdp::clock::now;

use super::*;

fn take(bench: &mut Bench) -> Vec<(Vec<u8>, Option<Nanos>)> {
    let mut received = Vec::new();
    bench.ports[0].receive(&mut bench.store, 64, |store, frame| {
        let stamp = store.take_stamp(&frame);
        assert_eq!(store.take_stamp(&frame), None, "a taken stamp must not stay in the chunk");
        received.push((store.fragments(&frame).flatten().copied().collect(), stamp));
        store.free(frame);
    });
    bench.ports[0].refill(&mut bench.store);
    received
}

fn received_late(bench: &mut Bench, len: usize) -> (Option<Nanos>, Nanos, Nanos) {
    let sent = now();
    bench.hosts[0].send(&frame(1, len));
    wait_for_mut(|| !bench.ports[0].is_received());
    let pending = now();
    thread::sleep(Duration::from_millis(20));
    let mut received = Vec::new();
    wait_for_mut(|| {
        received.extend(take(bench));
        !received.is_empty()
    });
    assert!(received[0].0 == frame(1, len), "the stamp must not change the frame");
    (received[0].1, sent, pending)
}

#[test] // proves: conformance
fn receive_stamp_of_frame_is_earlier_than_a_late_poll() {
    for mode in [Mode::Native, Mode::Generic] {
        let mut bench = Bench::new(&VethOptions::default(), |port| {
            (port.receive_size, port.mode) = (ReceiveChunks::Stamped, Some(mode));
        });
        for len in [60, 500, 1514] {
            let (stamp, sent, pending) = received_late(&mut bench, len);
            let stamp = stamp.expect("the frame must have a stamp");
            assert!(
                (sent..=pending).contains(&stamp),
                "{mode}: {stamp:?} is not from {sent:?} to {pending:?}"
            );
        }
        bench.assert_clean();
    }
}

#[test]
fn stamps_of_successive_frames_increase() {
    let mut bench = Bench::new(&VethOptions::default(), |port| port.receive_size = ReceiveChunks::Stamped);
    let mut stamps = Vec::new();
    // Send more frames than there are chunks, so that chunks are used again.
    for _ in 0..3 * RING / 32 {
        let before = stamps.len();
        (0..32).for_each(|n| bench.hosts[0].send(&frame(n, 60)));
        wait_for_mut(|| {
            stamps.extend(
                take(&mut bench).into_iter().map(|(_, stamp)| stamp.expect("the frame must have a stamp")),
            );
            stamps.len() == before + 32
        });
    }
    assert!(stamps.is_sorted(), "{stamps:?}");
    assert!(stamps.first() < stamps.last());
}

#[test]
fn frames_of_a_switch_port_have_no_stamps() {
    for receive_size in [ReceiveChunks::Whole, ReceiveChunks::Small] {
        let mut bench = Bench::new(&VethOptions::default(), |port| port.receive_size = receive_size);
        assert_eq!(received_late(&mut bench, 60).0, None, "{receive_size:?}");
    }
}

#[test]
fn frame_in_several_chunks_has_no_stamp() {
    let mut bench = Bench::new(&VethOptions { mtu: 9000, ..VethOptions::default() }, |port| {
        (port.receive_size, port.multi_buffer) = (ReceiveChunks::Stamped, true);
    });
    assert_eq!(received_late(&mut bench, 9014).0, None);
    bench.assert_clean();
}
