use xoff_dataplane::frame::{CELL, FrameStore as _};

use super::*;
use crate::chunks::PacketMemory;
use crate::layout::ReceiveChunks;
use crate::ring::memory::Rings;

const P0: PortId = PortId(0);
const FRAMES: u32 = 128;
const WINDOW: u32 = 8;

fn receiver(size: u32) -> (Rings, Receiver<Rings, Rings>, Store) {
    let rings = Rings::new(size as usize);
    let receiver = Receiver::new(rings.clone(), rings.clone(), size);
    let mut store = Store::with_frames(FRAMES);
    add_memory(&mut store, size);
    (rings, receiver, store)
}

fn add_memory(store: &mut Store, size: u32) {
    store.add_memory(P0, Box::new(PacketMemory::new(2048, ReceiveChunks::Whole, [size, WINDOW, 1]).unwrap()));
}

fn receive(receiver: &mut Receiver<Rings, Rings>, store: &mut Store, budget: u32) -> (u32, Vec<Frame>) {
    let mut frames = Vec::new();
    let n = receiver.receive(P0, store, budget, |_, frame| frames.push(frame));
    (n, frames)
}

fn free_all(store: &mut Store, frames: Vec<Frame>) {
    frames.into_iter().for_each(|frame| store.free(frame));
}

#[test]
fn receiver_never_gives_kernel_more_chunks_than_ring_size() {
    let (rings, mut receiver, mut store) = receiver(32);
    receiver.refill(P0, &mut store);
    assert_eq!(rings.with(|rings| rings.fill.len()), 32);
    (0..20).for_each(|_| assert!(rings.arrive(&[60])));
    receiver.refill(P0, &mut store); // consumed nothing, so all 32 chunks are still out
    assert_eq!(rings.with(|rings| rings.fill.len()), 12);
    for expected in [17, 3, 0] {
        let (n, frames) = receive(&mut receiver, &mut store, 17);
        assert_eq!((n, frames.len()), (expected, expected as usize));
        free_all(&mut store, frames);
    }
    receiver.refill(P0, &mut store);
    assert_eq!(rings.with(|rings| rings.fill.len()), 32);
    assert_eq!(store.memory(P0).free_receive(), WINDOW);
}

#[test] // proves: memory
fn fill_ring_is_refilled_while_received_frames_are_queued() {
    let (rings, mut receiver, mut store) = receiver(32);
    let mut waiting = Vec::new();
    for round in 0..3 {
        receiver.refill(P0, &mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), 32, "round {round}");
        (0..32).for_each(|_| assert!(rings.arrive(&[60])));
        waiting.extend(receive(&mut receiver, &mut store, 32).1);
    }
    receiver.refill(P0, &mut store);
    assert_eq!((waiting.len(), rings.with(|rings| rings.fill.len())), (96, 32));
    free_all(&mut store, waiting);
    assert_eq!(store.memory(P0).free_receive(), WINDOW);
}

#[test] // proves: devices
fn removing_a_port_frees_its_incomplete_frame_and_chunks() {
    let (rings, mut receiver, mut store) = receiver(32);
    receiver.refill(P0, &mut store);
    let (frames, cells) = (store.free_frames(), store.free_cells());
    assert!(rings.arrive(&[60]) && rings.arrive(&[1792, 100]));
    let (_, kept) = receive(&mut receiver, &mut store, 2);
    assert_eq!(kept.len(), 1, "the frame in two chunks must not be complete yet");
    receiver.end(&mut store);
    assert!(store.take_memory(P0).is_some());
    free_all(&mut store, kept);
    assert_eq!((store.free_frames(), store.free_cells()), (frames, cells));
    add_memory(&mut store, 32);
    receiver.refill(P0, &mut store);
    assert_eq!(receiver.out(), 0, "the ended receiver took a chunk");
}

#[test]
fn receiver_refills_fill_ring_in_batches() {
    let (rings, mut receiver, mut store) = receiver(32);
    receiver.refill(P0, &mut store);
    for (arrived, filled) in [(7, 25), (1, 32)] {
        (0..arrived).for_each(|_| assert!(rings.arrive(&[60])));
        let (_, frames) = receive(&mut receiver, &mut store, 32);
        receiver.refill(P0, &mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), filled);
        free_all(&mut store, frames);
    }
}

#[test] // proves: memory
fn frames_stay_in_rx_ring_while_no_slot_is_free() {
    let (rings, mut receiver, mut store) = receiver(32);
    let held: Vec<Frame> = (0..FRAMES - 10).map(|_| store.make(&[0; 60]).unwrap()).collect();
    receiver.refill(P0, &mut store);
    (0..32).for_each(|_| assert!(rings.arrive(&[60])));
    let (n, frames) = receive(&mut receiver, &mut store, 32);
    assert_eq!((n, frames.len(), rings.with(|rings| rings.rx.len())), (10, 10, 22));
    assert_eq!(receive(&mut receiver, &mut store, 32).0, 0);
    free_all(&mut store, held);
    let (n, others) = receive(&mut receiver, &mut store, 32);
    assert_eq!((n, others.len()), (22, 22));
    free_all(&mut store, frames);
    free_all(&mut store, others);
}

#[test] // proves: memory
fn frames_stay_in_rx_ring_while_no_cell_is_free() {
    let (rings, mut receiver, mut store) = receiver(32);
    receiver.refill(P0, &mut store);
    let all = [64; 4].map(|cells| store.make(&vec![0; (cells * CELL) as usize]).unwrap());
    assert!(rings.arrive(&[60]));
    let one = store.make(&[0; 60]).unwrap();
    assert_eq!(receive(&mut receiver, &mut store, 32).0, 0);
    store.free(one);
    let (n, frames) = receive(&mut receiver, &mut store, 32);
    assert_eq!(n, 1);
    free_all(&mut store, frames);
    free_all(&mut store, all.into());
}

#[test]
fn frame_in_several_chunks_is_joined_across_batches() {
    let (rings, mut receiver, mut store) = receiver(32);
    receiver.refill(P0, &mut store);
    let cells = store.free_cells();
    assert!(rings.arrive(&[1792, 1792, 1792, 1792, 874]) && rings.arrive(&[60]));
    let (n, frames) = receive(&mut receiver, &mut store, 3);
    assert_eq!((n, frames.len()), (0, 0));
    let (n, frames) = receive(&mut receiver, &mut store, 3);
    assert_eq!(n, 2, "the frame in several chunks must count once");
    assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [8042, 60]);
    assert_eq!(store.fragments(&frames[0]).map(<[u8]>::len).sum::<usize>(), 8042);
    assert_eq!(store.free_cells(), cells - 84, "the short frame must stay in its chunk");
    free_all(&mut store, frames);
    assert_eq!(store.free_cells(), cells);
}

#[test]
fn frame_with_invalid_layout_is_dropped() {
    let (rings, mut receiver, mut store) = receiver(32);
    receiver.refill(P0, &mut store);
    let (slots, cells) = (store.free_frames(), store.free_cells());
    for lens in [&[0][..], &[100, 0], &[1792, 1792, 1792, 1792, 1792, 300], &[20]] {
        assert!(rings.arrive(lens));
    }
    let (n, frames) = receive(&mut receiver, &mut store, 32);
    assert_eq!(n, 4, "dropped frames must count as received");
    assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [20]);
    assert_eq!(receiver.malformed().get(), 3, "all three malformed frames must be counted");
    free_all(&mut store, frames);
    assert_eq!((store.free_frames(), store.free_cells()), (slots, cells));
    receiver.refill(P0, &mut store);
    assert_eq!(store.memory(P0).free_receive(), WINDOW);
}
