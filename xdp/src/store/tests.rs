#![allow(clippy::unwrap_used)]

use super::*;
use crate::layout::ReceiveChunks;

const FRAMES: u32 = 32;
const P0: PortId = PortId(0);
const P1: PortId = PortId(1);
const WINDOW: u32 = 4;
const TRANSMIT: u32 = 8;

fn share() -> Share {
    Share { frames: 28, cells: 200, control_frames: 4, control_cells: 8 }
}

fn store() -> Store {
    let mut store = Store::cut(&[share()]).unwrap().remove(0);
    for port in [P0, P1] {
        add_memory(&mut store, port);
    }
    store
}

fn add_memory(store: &mut Store, port: PortId) {
    let memory = PacketMemory::new(2048, ReceiveChunks::Whole, [FRAMES, WINDOW, TRANSMIT]).unwrap();
    store.add_memory(port, Box::new(memory));
}

fn pattern(len: u32) -> Vec<u8> {
    (0..=250).cycle().take(len as usize).collect()
}

fn filled(store: &mut Store, len: u32) -> Frame {
    store.make(&pattern(len)).unwrap()
}

fn received(store: &mut Store, port: PortId, len: u32) -> Frame {
    let chunk = store.memory(port).take_receive().unwrap();
    store.memory(port).received_mut(chunk, len).copy_from_slice(&pattern(len));
    store.received(port, chunk, len)
}

fn bytes_of(store: &Store, frame: &Frame) -> Vec<u8> {
    store.fragments(frame).flatten().copied().collect()
}

fn take_cells(store: &mut Store, cells: u32) -> Vec<Frame> {
    let lens = std::iter::repeat_n(90, cells as usize / 90).chain([cells % 90]).filter(|&cells| cells > 0);
    lens.map(|cells| store.make(&vec![0; (cells * CELL) as usize]).unwrap()).collect()
}

fn free_all(store: &mut Store, frames: Vec<Frame>) {
    frames.into_iter().for_each(|frame| store.free(frame));
}

fn assert_all_free(store: &mut Store) {
    assert_eq!((store.free_frames(), store.free_cells(), store.free_cells.control), (32, 208, 8));
    for port in [P0, P1] {
        let memory = store.memory(port);
        assert_eq!((memory.free_receive(), memory.free_transmit()), (FRAMES + WINDOW, TRANSMIT));
    }
}

#[test]
fn frame_takes_the_fewest_cells_that_hold_it() {
    let mut store = store();
    for (len, cells) in [(1, 1), (96, 1), (97, 2), (1514, 16), (9018, 94)] {
        let frame = filled(&mut store, len);
        assert_eq!((frame.len(), store.free_cells()), (len, 208 - cells));
        assert_eq!(bytes_of(&store, &frame), pattern(len));
        assert!(store.head(&frame).len() >= frame.len().min(CELL) as usize);
        store.free(frame);
        assert_all_free(&mut store);
    }
    assert_eq!(store.make(&[]), None);
    assert_eq!(store.make(&[0; FRAME_MAX as usize + 1]), None);
    let all = take_cells(&mut store, 200);
    assert_eq!(
        (store.free_cells(), store.make(&[0])),
        (8, None),
        "data must not use cells of control frames"
    );
    free_all(&mut store, all);
    assert_all_free(&mut store);
}

#[test]
fn data_frames_never_take_slots_of_control_frames() {
    let mut store = store();
    let frames: Vec<Frame> = (0..28).map(|_| filled(&mut store, 60)).collect();
    assert_eq!((store.make(&[0]), store.copy(&frames[0]), store.can_receive()), (None, None, false));
    frames.into_iter().for_each(|frame| store.free(frame));
    assert_all_free(&mut store);
}

#[test]
fn control_frames_can_be_made_when_data_cells_run_out() {
    let mut store = store();
    let data = take_cells(&mut store, 200);
    let control: Vec<Frame> = (0..4).map(|n| store.control(&[n; 60]).unwrap()).collect();
    assert_eq!(store.control(&[0; 60]), None, "there must not be more control frames than slots");
    assert_eq!(store.head(&control[3]), [3; 60]);
    control.into_iter().for_each(|frame| store.free(frame));
    let long = store.control(&[0; 8 * CELL as usize]).unwrap();
    assert_eq!(store.control(&[0]), None, "no control frame may be created without a free cell");
    store.free(long);
    assert_eq!(store.control(&[0; 8 * CELL as usize + 1]), None);
    free_all(&mut store, data);
    assert_all_free(&mut store);
}

#[test]
fn copies_of_a_frame_share_cells_until_the_last_is_freed() {
    let mut store = store();
    for len in [60, 5000] {
        let frame = received_or_filled(&mut store, len);
        let copies = [store.copy(&frame).unwrap(), store.copy(&frame).unwrap()];
        assert_eq!(store.free_cells(), 208 - cells_of(len), "once");
        store.free(frame);
        assert!(copies.iter().all(|copy| bytes_of(&store, copy) == pattern(len)));
        let [first, last] = copies;
        store.free(first);
        assert_eq!(bytes_of(&store, &last), pattern(len));
        store.free(last);
        assert_all_free(&mut store);
    }
}

fn received_or_filled(store: &mut Store, len: u32) -> Frame {
    if len <= 1792 { received(store, P0, len) } else { filled(store, len) }
}

#[test]
#[should_panic(expected = "while copies of the frame share them")]
fn write_to_cells_shared_by_copies_panics() {
    let mut store = store();
    let frame = filled(&mut store, 60);
    let copy = store.copy(&frame).unwrap();
    let _ = (frame.into_parts(), copy.into_parts());
    store.head_mut(&Frame::new(4, 60));
}

#[test]
fn writing_a_copy_in_transmit_chunks_changes_no_other_copy() {
    let mut store = store();
    for len in [60, 1792, 5000] {
        let frame = received_or_filled(&mut store, len);
        let mut copy = store.copy(&frame).unwrap();
        assert!(!store.move_start(&mut copy, -4), "the start of an unstaged frame must not move");
        assert!(store.stage(P1, &copy));
        assert!(store.move_start(&mut copy, -4));
        store.head_mut(&copy)[..4].fill(0xff);
        assert_eq!(bytes_of(&store, &copy), [&[0xff; 4][..], &pattern(len)].concat());
        assert_eq!(bytes_of(&store, &frame), pattern(len));
        assert!(store.head(&copy).len() >= CELL.min(copy.len()) as usize);
        assert!(store.move_start(&mut copy, 8));
        assert_eq!((copy.len(), bytes_of(&store, &copy)), (len - 4, pattern(len)[4..].to_vec()));
        store.free(copy);
        store.free(frame);
        assert_all_free(&mut store);
    }
}

#[test]
fn frame_start_moves_only_within_headroom_and_first_chunk() {
    let mut store = store();
    let mut frame = filled(&mut store, 60);
    assert!(store.stage(P0, &frame));
    assert!(store.move_start(&mut frame, -256) && !store.move_start(&mut frame, -1));
    assert!(store.move_start(&mut frame, 315) && !store.move_start(&mut frame, 1));
    assert_eq!(frame.len(), 1);
    store.free(frame);
    assert_all_free(&mut store);
}

#[test] // proves: memory
fn only_the_newest_received_frames_stay_in_receive_chunks() {
    let mut store = store();
    let frames: Vec<Frame> = (0..WINDOW).map(|_| received(&mut store, P0, 1500)).collect();
    assert_eq!((store.free_cells(), store.memory(P0).free_receive()), (208, FRAMES));
    let next = received(&mut store, P0, 1500);
    assert_eq!(store.free_cells(), 208 - 16, "the oldest frame must be in cells");
    assert_eq!(store.memory(P0).free_receive(), FRAMES);
    let other = received(&mut store, P1, 1500);
    assert_eq!(store.free_cells(), 208 - 16, "a frame of another port changed this window");
    for frame in frames.into_iter().chain([next, other]) {
        assert_eq!(bytes_of(&store, &frame), pattern(1500));
        store.free(frame);
    }
    assert_all_free(&mut store);
}

#[test]
fn received_frames_freed_early_are_never_copied_to_cells() {
    let mut store = store();
    for _ in 0..3 * WINDOW {
        let frame = received(&mut store, P0, 1500);
        assert_eq!(store.free_cells(), 208);
        store.free(frame);
    }
    assert_all_free(&mut store);
}

#[test]
fn receiving_stops_if_longest_frame_would_lack_cells() {
    let mut store = store();
    let most = take_cells(&mut store, 200 - cells_of(FRAME_MAX));
    assert!(store.can_receive());
    let one = store.make(&[0]).unwrap();
    assert!(!store.can_receive());
    store.free(one);
    free_all(&mut store, most);
    assert_all_free(&mut store);
}

#[test]
fn received_frame_of_several_chunks_moves_to_cells() {
    let mut store = store();
    let mut chain = Chain::EMPTY;
    let all = pattern(3000);
    for part in all.chunks(1792) {
        let len = u32::try_from(part.len()).unwrap();
        let chunk = store.memory(P0).take_receive().unwrap();
        store.memory(P0).received_mut(chunk, len).copy_from_slice(part);
        store.add_received(&mut chain, P0, chunk, len);
    }
    let frame = store.finish_chain(chain);
    assert_eq!((frame.len(), bytes_of(&store, &frame)), (3000, all));
    assert_eq!(store.memory(P0).free_receive(), FRAMES + WINDOW);
    store.free(frame);
    assert_all_free(&mut store);
}

#[test] // proves: memory
fn frames_in_chunks_or_cells_are_copied_to_transmit_chunks() {
    let mut store = store();
    type Make = fn(&mut Store) -> Frame;
    let ways: [(Make, u32); 5] = [
        (|store| received(store, P0, 1500), 1),
        (|store| received(store, P1, 1500), 1),
        (|store| filled(store, 1500), 1),
        (|store| filled(store, 9018), 6),
        (|store| store.control(&pattern(60)).unwrap(), 1),
    ];
    for (make, pieces) in ways {
        let frame = make(&mut store);
        let (slot, bytes) = (frame.slot(), bytes_of(&store, &frame));
        let first = store.stage_at(P1, &frame).unwrap();
        assert_eq!(store.stage_at(P1, &frame), Some(first), "once");
        assert_eq!(
            (store.memory(P1).free_transmit(), bytes_of(&store, &frame)),
            (TRANSMIT - pieces, bytes.clone())
        );
        let mut out = Vec::new();
        store.memory(P1).give_out(first, |piece| out.push(piece));
        let _ = frame.into_parts();
        assert!(out.iter().all(|piece| piece.offset == 256));
        assert_eq!(out.iter().map(|piece| piece.len).sum::<u32>() as usize, bytes.len());
        let (last, begin) = out.split_last().unwrap();
        assert!(begin.iter().all(|piece| piece.more) && !last.more);
        for piece in begin {
            assert_eq!(store.completed(P1, piece.chunk), None);
        }
        let back = store.completed(P1, last.chunk).unwrap();
        assert_eq!((back.slot(), back.len() as usize), (slot, bytes.len()));
        assert_eq!(store.completed(P1, last.chunk), None, "once");
        store.free(back);
        assert_all_free(&mut store);
    }
}

#[test]
fn port_without_enough_transmit_chunks_refuses_frames() {
    let mut store = store();
    let long = filled(&mut store, 9018);
    assert!(store.stage(P0, &long));
    let frame = filled(&mut store, 4000);
    assert!(!store.stage(P0, &frame), "a frame of three chunks must not be staged in two");
    assert_eq!(bytes_of(&store, &frame), pattern(4000));
    assert!(store.stage(P1, &frame));
    store.free(long);
    store.free(frame);
    assert_all_free(&mut store);
}

#[test]
fn composed_frame_takes_transmit_chunks_and_no_cells() {
    let mut store = store();
    let frame = store.compose(P0, 1500).unwrap();
    store.head_mut(&frame).copy_from_slice(&pattern(1500));
    assert_eq!((store.free_cells(), store.memory(P0).free_transmit()), (208, TRANSMIT - 1));
    assert_eq!(store.compose(P0, 14_000), None, "no frame longer than all chunks may be composed");
    assert_eq!(bytes_of(&store, &frame), pattern(1500));
    store.free(frame);
    assert_all_free(&mut store);
}

#[test]
fn unsent_frame_returns_from_the_port_with_its_bytes() {
    let mut store = store();
    let frames = [received(&mut store, P0, 1500), filled(&mut store, 1500)];
    let slots = frames.map(|mut frame| {
        assert!(store.stage(P1, &frame) && store.move_start(&mut frame, -4));
        assert!(store.move_start(&mut frame, 4));
        let first = store.stage_at(P1, &frame).unwrap();
        store.memory(P1).give_out(first, |_| {});
        frame.into_parts().0
    });
    assert_eq!(store.memory(P1).out().len(), 2);
    for slot in slots {
        let frame = store.take_back(P1, slot).unwrap();
        assert_eq!(bytes_of(&store, &frame), pattern(1500));
        store.free(frame);
    }
    assert!(store.memory(P1).out().is_empty());
    assert_all_free(&mut store);
}

#[test] // proves: devices
fn closed_port_leaves_its_frames_in_cells() {
    let mut store = store();
    let frame = received(&mut store, P0, 1500);
    let most = take_cells(&mut store, 184);
    assert!(store.can_take_memory(P0), "16 free cells do not suffice");
    let one = store.make(&[0]).unwrap();
    assert!(!store.can_take_memory(P0));
    store.free(one);
    free_all(&mut store, most);
    assert!(store.take_memory(P0).is_some() && store.take_memory(P0).is_none());
    assert_eq!(bytes_of(&store, &frame), pattern(1500));
    add_memory(&mut store, P0);
    store.free(frame);
    assert_all_free(&mut store);
}

#[test] // proves: workers
fn frame_of_other_worker_returns_to_it_after_sending() {
    let mut stores = Store::cut(&[share(), share()]).unwrap();
    let mut there = stores.pop().unwrap();
    let mut here = stores.pop().unwrap();
    add_memory(&mut here, P0);
    add_memory(&mut there, P1);
    let frame = received(&mut here, P0, 1500);
    assert!(here.own.contains(&frame.slot()));
    assert!(here.settle(&frame));
    assert_eq!(bytes_of(&there, &frame), pattern(1500));
    let mut frame = frame;
    assert!(there.stage(P1, &frame) && there.move_start(&mut frame, -4));
    let first = there.stage_at(P1, &frame).unwrap();
    let mut chunks = Vec::new();
    there.memory(P1).give_out(first, |piece| chunks.push(piece.chunk));
    let _ = frame.into_parts();
    let back = there.completed(P1, chunks[0]).unwrap();
    assert_eq!(back.len(), 1504, "the returned frame must have the length that was sent");
    here.free(back);
    for store in [&here, &there] {
        assert_eq!((store.free_frames(), store.free_cells()), (32, 208));
    }
    assert_eq!(there.memory(P1).free_transmit(), TRANSMIT);
}
