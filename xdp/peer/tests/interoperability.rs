//! Exchange of frames over a veth pair between two implementations of AF_XDP: xoff, and the crate `xsk-rs` with
//! libxdp's rings.
//!
//! The tests need root. A veth never requests a wakeup for the fill ring, so that case is untested.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: frames

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use ports::{PortSettings, Ports};
use xoff_dataplane::driver::Port as _;
use xoff_dataplane::frame::{Frame, FrameStore as _};
use xoff_wire::units::PortId;
use xoff_xdp::{Port, PortDriver as _, PortOptions, ReceiveChunks, Rings, Store, ZeroCopy};

#[path = "../src/error.rs"]
mod error;
#[allow(unsafe_code)] // all `xsk-rs` calls that move a descriptor are unsafe
#[path = "../src/ports.rs"]
mod ports;
#[allow(unsafe_code)]
#[path = "interoperability/receive.rs"]
mod receive;

const RING: u32 = 256;

const CHUNK_BYTES: u32 = 2048;

const XDP_HEADROOM: u32 = 256;

const BATCH: usize = 32;

struct Wire {
    theirs: Ports,
    ours: Port,
    store: Store,
    held: Vec<Frame>,
    partial: Vec<u8>,
}

impl Wire {
    fn new(mtu: u32, headroom: u32, buffers: usize) -> Wire {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap(); // IPv6 would send frames
        ip("link add eth0 type veth peer name p0");
        for device in ["eth0", "p0"] {
            ip(&format!("link set {device} mtu {mtu} up"));
        }
        let settings = PortSettings { ring: RING, headroom, buffers };
        let mut theirs = Ports::open(&["eth0"], &settings).unwrap();
        theirs.listen().unwrap();
        let mut store = Store::with_frames(4 * RING);
        let options = PortOptions {
            device: "p0".to_owned(),
            queues: None,
            mode: None,
            zero_copy: ZeroCopy::Auto,
            rings: Rings { fill: RING, rx: RING, tx: RING, completion: RING },
            chunk_bytes: CHUNK_BYTES,
            receive_size: ReceiveChunks::Whole,
            multi_buffer: buffers > 1,
            receive_chunks: RING,
            window: RING,
            transmit_chunks: RING,
        };
        let ours = Port::open(&mut store, PortId(0), &options).unwrap();
        Wire { theirs, ours, store, held: Vec::new(), partial: Vec::new() }
    }

    fn they_send(&mut self, frame: &[u8]) {
        wait_for(|| {
            self.theirs.reap(0);
            self.theirs.send(0, frame).unwrap().then_some(())
        });
    }

    fn they_kick(&mut self) {
        wait_for(|| {
            self.theirs.kick(0).unwrap();
            (self.theirs.ports[0].unsent() == 0).then_some(())
        });
    }

    fn we_hold(&mut self, frames: usize) {
        wait_for(|| {
            self.ours.receive(&mut self.store, 64, |_, frame| self.held.push(frame));
            (self.held.len() >= frames).then_some(())
        });
    }

    fn we_send(&mut self, bytes: &[u8]) {
        let frame = self.store.make(bytes).unwrap();
        self.ours.send(&mut self.store, frame).expect("the TX ring must have room for the frame");
    }

    fn we_send_back(&mut self) {
        for frame in self.held.drain(..) {
            self.ours.send(&mut self.store, frame).expect("the TX ring must have room for the frame");
        }
    }

    fn we_flush(&mut self) {
        wait_for(|| {
            self.ours.flush();
            self.ours.reap(&mut self.store, |store, frame| store.free(frame));
            (!self.ours.in_flight()).then_some(())
        });
        self.ours.refill(&mut self.store);
    }

    fn they_receive(&mut self) -> Vec<u8> {
        let frame = wait_for(|| self.theirs.receive(0, &mut self.partial));
        self.theirs.refill(0);
        frame
    }

    fn goes_round(&mut self, frames: &[Vec<u8>]) {
        for batch in frames.chunks(BATCH) {
            batch.iter().for_each(|frame| self.they_send(frame));
            self.they_kick();
            self.we_hold(batch.len());
            self.we_send_back();
            self.we_flush();
            for frame in batch {
                let back = self.they_receive();
                assert!(
                    back == *frame,
                    "a frame of {} bytes returned changed, with {} bytes",
                    frame.len(),
                    back.len()
                );
            }
        }
    }

    fn assert_nothing_lost(&self) {
        assert_eq!((self.they_lost(), self.we_lost()), ([0, 0], [0, 0]));
        for device in ["eth0", "p0"] {
            let counters = counters(device);
            assert_eq!((counters[RX_DROPPED], counters[TX_DROPPED]), (0, 0), "{device}");
        }
    }

    fn they_lost(&self) -> [u64; 2] {
        let counted = self.theirs.ports[0].rx.fd().xdp_statistics().unwrap();
        let other = counted.rx_ring_full() + counted.rx_invalid_descs() + counted.tx_invalid_descs();
        [counted.rx_dropped() + other, counted.rx_fill_ring_empty_descs()]
    }

    fn we_lost(&self) -> [u64; 2] {
        let counted = self.ours.monitor().xdp_statistics().unwrap();
        [counted.lost(), counted.rx_fill_ring_empty]
    }

    fn sent() -> [u64; 2] {
        ["eth0", "p0"].map(|device| counters(device)[TX_PACKETS])
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

const RX_DROPPED: usize = 3;
const TX_PACKETS: usize = 9;
const TX_DROPPED: usize = 11;

fn counters(device: &str) -> Vec<u64> {
    let all = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let of_device = |line: &str| Some(line.trim().strip_prefix(device)?.strip_prefix(':')?.to_owned());
    let counters = all.lines().find_map(of_device).unwrap();
    counters.split_whitespace().map(|counter| counter.parse().unwrap()).collect()
}

#[track_caller]
fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "no result within 10 s");
    }
}

fn frame(number: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend((frame.len()..len).map(|at| (7 * number + at % 251).to_le_bytes()[0]));
    frame
}

#[test]
fn xsk_rs_and_xoff_exchange_frames_in_order() {
    let mut wire = Wire::new(1500, 0, 1);
    let lens = [60, 61, 64, 1514, 512, 127, 128, 129];
    let frames: Vec<_> = (0..4 * RING as usize).map(|n| frame(n, lens[n % lens.len()])).collect();
    wire.goes_round(&frames);
    wire.assert_nothing_lost();
}

#[test]
fn frame_one_byte_above_chunk_room_of_xsk_rs_counts_as_lost() {
    const HEADROOM: u32 = 192;
    let room = (CHUNK_BYTES - XDP_HEADROOM - HEADROOM) as usize;
    let mut wire = Wire::new(1700, HEADROOM, 1);
    let frames: Vec<_> =
        [60, room, 777].iter().cycle().take(99).zip(0..).map(|(&len, n)| frame(n, len)).collect();
    wire.goes_round(&frames);
    wire.assert_nothing_lost();
    wire.we_send(&frame(99, room + 1));
    wire.we_flush();
    wait_for(|| (wire.they_lost() == [1, 0]).then_some(()));
    assert!(
        wire.theirs.receive(0, &mut wire.partial).is_none(),
        "a frame longer than a chunk must not be received"
    );
    wire.goes_round(&frames);
    assert_eq!((wire.they_lost(), wire.we_lost()), ([1, 0], [0, 0]), "no other frame may be lost");
}

#[test]
fn frames_arrive_whole_although_peers_split_them_differently() {
    const BUFFERS: usize = 6;
    let mut wire = Wire::new(9000, 128, BUFFERS);
    let lens = [60, 1664, 1665, 1792, 1793, 3328, 3329, 3584, 3585, 8042, 9014];
    for round in 0..8 {
        // Send one frame at a time, because each frame takes up to six of the few hundred buffers.
        lens.iter().zip(round..).for_each(|(&len, n)| wire.goes_round(&[frame(n, len)]));
    }
    wire.assert_nothing_lost();
}

#[test]
fn frames_in_tx_ring_leave_only_after_a_kick() {
    let mut wire = Wire::new(1500, 0, 1);
    let frames: Vec<_> = (0..3).map(|n| frame(n, 100)).collect();
    frames.iter().for_each(|frame| wire.they_send(frame));
    assert!(wire.theirs.ports[0].tx.needs_wakeup(), "the driver must wait for a kick");
    assert_eq!((wire.theirs.ports[0].unsent(), Wire::sent()), (3, [0, 0]));
    wire.they_kick();
    wire.we_hold(3);
    wire.we_send_back();
    assert_eq!(Wire::sent(), [3, 0], "xoff's frames must not leave before the flush");
    assert!(wire.theirs.receive(0, &mut wire.partial).is_none());
    wire.we_flush();
    assert_eq!(Wire::sent(), [3, 3]);
    frames.iter().for_each(|frame| assert!(wire.they_receive() == *frame));
    wire.assert_nothing_lost();
}

#[test]
fn frames_lost_by_empty_fill_ring_are_counted_exactly() {
    const MORE: usize = 16;
    let lost = [MORE as u64; 2];
    let mut wire = Wire::new(1500, 0, 1);
    let ring = RING as usize;
    let all: Vec<_> = (0..ring + MORE).map(|n| frame(n, 60 + n)).collect();
    // Let xoff receive nothing at first, so that the last frames find its fill ring empty.
    all.iter().for_each(|frame| {
        wire.they_send(frame);
        wire.they_kick();
    });
    wait_for(|| (wire.we_lost() == lost).then_some(()));
    wire.we_hold(ring);
    assert_eq!(wire.held.len(), ring);
    wire.we_send_back();
    wire.we_flush();
    for frame in &all[..MORE] {
        wire.they_send(frame);
    }
    wire.they_kick();
    wire.we_hold(MORE);
    wire.we_send_back();
    wire.we_flush();
    wait_for(|| (wire.they_lost() == lost).then_some(()));
    all[..ring].iter().for_each(|frame| assert!(wire.they_receive() == *frame));
    assert!(wire.theirs.receive(0, &mut wire.partial).is_none(), "a lost frame must not be received");
    wire.goes_round(&all[..BATCH]);
    assert_eq!((wire.they_lost(), wire.we_lost()), (lost, lost), "no other frame may be lost");
}
