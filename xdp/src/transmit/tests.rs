use xoff_dataplane::frame::FrameStore;

use super::*;
use crate::chunks::PacketMemory;
use crate::layout::ReceiveChunks;
use crate::ring::memory::Rings;

const P0: PortId = PortId(0);
const FRAMES: u32 = 64;

fn transmitter(size: u32) -> (Rings, Transmitter<Rings, Rings>, Store) {
    let rings = Rings::new(size as usize);
    let transmitter = Transmitter::new(rings.clone(), rings.clone(), size, 5);
    let mut store = Store::with_frames(FRAMES);
    store.add_memory(P0, Box::new(PacketMemory::new(2048, ReceiveChunks::Whole, [1, 1, size]).unwrap()));
    (rings, transmitter, store)
}

fn assert_all_free(store: &mut Store, size: u32) {
    assert_eq!((store.free_frames(), store.memory(P0).free_transmit()), (FRAMES, size));
}

fn reap_all(transmitter: &mut Transmitter<Rings, Rings>, store: &mut Store) -> Vec<u32> {
    let mut lens = Vec::new();
    transmitter.reap(P0, store, |store, frame| {
        lens.push(frame.len());
        store.free(frame);
    });
    lens
}

#[test]
fn all_sent_frames_return_from_kernel_without_further_traffic() {
    let (rings, mut transmitter, mut store) = transmitter(32);
    for _ in 0..17 {
        let frame = store.make(&[0; 60]).unwrap();
        transmitter.send(P0, &mut store, frame).unwrap();
    }
    transmitter.flush();
    assert_eq!(rings.with(|rings| (rings.wire.len(), rings.kicks)), (17, 1));
    assert_eq!(reap_all(&mut transmitter, &mut store).len(), 17);
    assert!(!transmitter.in_flight());
    transmitter.flush(); // with nothing to send, makes no system call
    assert_eq!(rings.with(|rings| rings.kicks), 1);
    assert_all_free(&mut store, 32);
}

#[test]
fn send_returns_the_frame_while_tx_ring_is_full() {
    let (_rings, mut transmitter, mut store) = transmitter(8);
    for _ in 0..8 {
        let frame = store.make(&[0; 60]).unwrap();
        transmitter.send(P0, &mut store, frame).unwrap();
    }
    let frame = store.make(&[0; 60]).unwrap();
    let frame = transmitter.send(P0, &mut store, frame).unwrap_err();
    transmitter.flush();
    let frame = transmitter.send(P0, &mut store, frame).unwrap_err(); // sent, but not reaped
    assert_eq!(reap_all(&mut transmitter, &mut store).len(), 8);
    transmitter.send(P0, &mut store, frame).unwrap();
    transmitter.flush();
    reap_all(&mut transmitter, &mut store);
    assert_all_free(&mut store, 8);
}

#[test] // proves: workers
fn busy_driver_keeps_frames_for_next_kick() {
    let (rings, mut transmitter, mut store) = transmitter(8);
    rings.with(|rings| rings.answers.extend([Kick::Busy, Kick::Down]));
    let frame = store.make(&[0; 60]).unwrap();
    transmitter.send(P0, &mut store, frame).unwrap();
    for (kicks, in_flight) in [(1, true), (2, false)] {
        transmitter.flush();
        assert_eq!(rings.with(|rings| (rings.tx.len(), rings.kicks)), (1, kicks));
        assert!(reap_all(&mut transmitter, &mut store).is_empty());
        assert_eq!(
            transmitter.in_flight(),
            in_flight,
            "the frame must be in flight until a kick finds the interface down"
        );
        assert_eq!(transmitter.is_unsent(), in_flight);
    }
    transmitter.flush();
    assert!(
        transmitter.in_flight() && !transmitter.is_unsent(),
        "sent frames must be in flight until their completion"
    );
    assert_eq!(reap_all(&mut transmitter, &mut store), [60]);
    assert_eq!(transmitter.dropped().get(), 0);
}

#[test] // proves: link-down
fn unsent_frames_of_removed_interface_return_exactly_once() {
    let (rings, mut transmitter, mut store) = transmitter(32);
    rings.with(|rings| rings.answers.extend([Kick::Dropped, Kick::Gone]));
    for len in [60, 61, 8042, 62] {
        let frame = store.make(&vec![0; len]).unwrap();
        transmitter.send(P0, &mut store, frame).unwrap();
    }
    transmitter.flush();
    assert!(transmitter.is_removed() && transmitter.room() == 0 && !transmitter.in_flight());
    assert_eq!(reap_all(&mut transmitter, &mut store), [60], "the frame that the kernel took must return");
    let late = rings.with(|rings| rings.tx.pop_front()).unwrap();
    let mut unsent = Vec::new();
    transmitter.take_back(P0, &mut store, |store, frame| {
        unsent.push(frame.len());
        store.free(frame);
    });
    unsent.sort_unstable();
    assert_eq!(unsent, [61, 62, 8042]);
    assert_all_free(&mut store, 32);
    rings.with(|rings| rings.completion.push_back(late.chunk)); // the frame has already been taken back
    transmitter.flush();
    assert!(reap_all(&mut transmitter, &mut store).is_empty());
    transmitter.take_back(P0, &mut store, |_, _| panic!("nothing is left"));
    let frame = store.make(&[0; 60]).unwrap();
    let frame = transmitter.send(P0, &mut store, frame).unwrap_err();
    store.free(frame);
    assert_eq!(rings.with(|rings| rings.kicks), 2);
}

#[test]
fn kick_without_frames_detects_removed_interface() {
    let (rings, mut transmitter, _) = transmitter(8);
    rings.with(|rings| rings.answers.extend([Kick::Down, Kick::Gone]));
    transmitter.look();
    assert!(!transmitter.is_removed(), "an interface that is down must not count as removed");
    transmitter.look();
    assert!(transmitter.is_removed());
}

#[test] // proves: verdict
fn frame_dropped_by_kernel_on_send_is_counted() {
    let (rings, mut transmitter, mut store) = transmitter(8);
    rings.with(|rings| rings.answers.extend([Kick::Dropped, Kick::Dropped, Kick::Done]));
    for len in [60, 61, 62, 63] {
        let frame = store.make(&vec![0; len]).unwrap();
        transmitter.send(P0, &mut store, frame).unwrap();
    }
    transmitter.flush();
    assert_eq!(transmitter.dropped().get(), 2);
    assert_eq!(rings.with(|rings| rings.wire.iter().map(|d| d.len).collect::<Vec<_>>()), [62, 63]);
    assert_eq!(reap_all(&mut transmitter, &mut store), [60, 61, 62, 63]);
    assert_all_free(&mut store, 8);
}

#[test]
fn unknown_kick_error_is_counted() {
    let (rings, mut transmitter, mut store) = transmitter(8);
    rings.with(|rings| rings.answers.push_back(Kick::Failed(22)));
    let frame = store.make(&[0; 60]).unwrap();
    transmitter.send(P0, &mut store, frame).unwrap();
    transmitter.flush();
    let failed = transmitter.failed();
    assert_eq!((failed.count.get(), failed.errno.get()), (1, 22));
    transmitter.flush();
    assert_eq!(reap_all(&mut transmitter, &mut store), [60]);
}

#[test]
fn multi_chunk_frame_is_sent_whole_or_never() {
    let (rings, mut transmitter, mut store) = transmitter(8);
    for expected in [true, false] {
        let frame = store.make(&[0; 8042]).unwrap(); // the frame takes five of the eight chunks
        match transmitter.send(P0, &mut store, frame) {
            Ok(()) => assert!(expected),
            Err(frame) => {
                assert!(!expected);
                store.free(frame);
            }
        }
    }
    transmitter.flush();
    let more: Vec<bool> = rings.with(|rings| rings.wire.iter().map(|d| d.more).collect());
    assert_eq!(more, [true, true, true, true, false]);
    // The chunks of this frame complete separately, but the frame must return only once.
    let last = rings.with(|rings| rings.completion.pop_back()).unwrap();
    assert!(reap_all(&mut transmitter, &mut store).is_empty());
    rings.with(|rings| rings.completion.push_back(last));
    assert_eq!(reap_all(&mut transmitter, &mut store), [8042]);
    assert_all_free(&mut store, 8);
}
