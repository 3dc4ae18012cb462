//! Time stamps that the XDP program writes in front of received frames.

use xoff_wire::units::Nanos;
use xoff_xdp::clock::now;

use super::*;

/// Sends a frame to the first port, which takes it from the ring only later. Returns the frame, the time before it was sent, and a time at
/// which it was in the ring.
fn received_late(bench: &mut Bench, len: usize) -> (Frame, Nanos, Nanos) {
    let sent = now();
    bench.hosts[0].send(&frame(1, len));
    wait_for_mut(|| !bench.ports[0].is_received());
    let pending = now();
    thread::sleep(Duration::from_millis(20));
    let mut received = Vec::new();
    wait_for_mut(|| {
        bench.ports[0].receive(&mut bench.store, 64, |_, frame| received.push(frame));
        !received.is_empty()
    });
    bench.ports[0].refill(&mut bench.store);
    (received.remove(0), sent, pending)
}

#[test] // proves: conformance
fn stamp_of_frame_precedes_a_late_poll() {
    for mode in [Mode::Native, Mode::Generic] {
        let mut bench = Bench::new(&VethOptions::default(), |port| {
            (port.receive_size, port.mode) = (ReceiveChunks::Stamped, Some(mode));
        });
        for len in [60, 500, 1514] {
            let (received, sent, pending) = received_late(&mut bench, len);
            let stamp = bench.store.take_stamp(&received).expect("the frame has no stamp");
            assert!(
                (sent..=pending).contains(&stamp),
                "{mode}: {stamp:?} is not from {sent:?} to {pending:?}"
            );
            assert_eq!(
                bench.store.take_stamp(&received),
                None,
                "the next frame in this chunk may have this stamp"
            );
            assert_eq!(bench.store.head(&received)[..len], frame(1, len));
            bench.store.free(received);
        }
        bench.assert_clean();
    }
}

#[test]
fn stamps_of_successive_frames_increase() {
    let mut bench = Bench::new(&VethOptions::default(), |port| port.receive_size = ReceiveChunks::Stamped);
    let mut stamps = Vec::new();
    // More frames than chunks, so that chunks are used again.
    for _ in 0..3 * RING / 32 {
        (0..32).for_each(|n| bench.hosts[0].send(&frame(n, 60)));
        let mut received = Vec::new();
        wait_for_mut(|| {
            bench.ports[0].receive(&mut bench.store, 32, |_, frame| received.push(frame));
            received.len() == 32
        });
        for frame in received {
            stamps.push(bench.store.take_stamp(&frame).expect("the frame has no stamp"));
            bench.store.free(frame);
        }
        bench.ports[0].refill(&mut bench.store);
    }
    assert!(stamps.is_sorted(), "{stamps:?}");
    assert!(stamps.first() < stamps.last());
}

#[test]
fn frames_of_a_switch_port_have_no_stamps() {
    for receive_size in [ReceiveChunks::Whole, ReceiveChunks::Small] {
        let mut bench = Bench::new(&VethOptions::default(), |port| port.receive_size = receive_size);
        let (received, ..) = received_late(&mut bench, 60);
        assert_eq!(bench.store.take_stamp(&received), None, "{receive_size:?}");
        bench.store.free(received);
    }
}

#[test]
fn frame_in_several_chunks_has_no_stamp() {
    let mut bench = Bench::new(&VethOptions { mtu: 9000, ..VethOptions::default() }, |port| {
        (port.receive_size, port.multi_buffer) = (ReceiveChunks::Stamped, true);
    });
    let (received, ..) = received_late(&mut bench, 9014);
    assert_eq!(bench.store.take_stamp(&received), None);
    let bytes: Vec<u8> = bench.store.fragments(&received).flatten().copied().collect();
    assert!(bytes == frame(1, 9014), "the stamp changed the frame");
    bench.store.free(received);
    bench.assert_clean();
}
