//! A driver as small as can be: frames in plain memory, in batches as a worker takes them from a port.

use std::hint::black_box;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::settings::{
    ClassSettings, GroupSettings, Member, PolicyKind, PortSettings, Spread, SwitchSettings, Turns,
};
use xoff_dataplane::switch::{Switch, Workers};
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, PortId};

pub const BATCH: u32 = 64;
const SLOT_SIZE: usize = 2048;
/// A minimum frame, without FCS.
const SHORT: u32 = 60;
/// Lengths of simple IMIX, without FCS: seven, four and one of twelve.
const IMIX: [u32; 12] = [SHORT, 566, SHORT, 1514, SHORT, 566, SHORT, 566, SHORT, SHORT, 566, SHORT];
const HEADROOM: usize = 256;

/// What the frames of one port are.
#[derive(Clone, Copy)]
pub enum Load {
    /// Priority-tagged, of all classes in turn and of 16 pairs of stations: no frame is like the one before.
    Mixed,
    /// As two hosts with Linux send them: untagged UDP over IPv4 of 16 flows, simple IMIX, lengths and
    /// Identifications that differ from frame to frame. Trains as long as a batch.
    Imix,
}

/// Slots as a UMEM has them, a batch for each port. The frames are written beforehand and stay when
/// their slots are freed: receiving costs no copy, and reads nothing that was written just now.
struct Slots {
    bytes: Vec<u8>,
    load: Load,
    /// By port.
    free: Vec<Vec<u32>>,
}

impl Load {
    fn len(self, slot: u32) -> u32 {
        match self {
            Load::Mixed => SHORT,
            Load::Imix => IMIX[slot as usize % IMIX.len()],
        }
    }
}

impl Slots {
    fn new(ports: u8, load: Load) -> Slots {
        let count = u32::from(ports) * BATCH;
        let mut slots = Slots {
            bytes: vec![0; count as usize * SLOT_SIZE],
            load,
            free: (0..u32::from(ports)).map(|port| (port * BATCH..(port + 1) * BATCH).collect()).collect(),
        };
        for slot in 0..count {
            let [from, ..] = (slot / BATCH).to_le_bytes();
            let [number, ..] = slot.to_le_bytes();
            let station = match load {
                Load::Mixed => number % 16,
                Load::Imix => 0,
            };
            let frame = Frame::new(slot, load.len(slot));
            let head = slots.head_mut(&frame);
            head[..6].copy_from_slice(&[2, 0, 0, 0, station, (from + 1) % ports]);
            head[6..12].copy_from_slice(&[2, 0, 0, 0, station, from]);
            match load {
                Load::Mixed => head[12..18].copy_from_slice(&[0x81, 0x00, (station % 8) << 5, 0, 0x88, 0xb5]),
                Load::Imix => {
                    let [high, low] = u16::try_from(head.len() - 14).expect("IMIX is short").to_be_bytes();
                    head[12..24].copy_from_slice(&[8, 0, 0x45, 0, high, low, 0, number, 0x40, 0, 64, 17]);
                    head[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
                    head[34..38].copy_from_slice(&[0xc0, number % 16, 18, 183]);
                }
            }
            let _ = frame.into_parts();
        }
        slots
    }

    fn receive(&mut self, port: u8) -> Option<Frame> {
        self.free[usize::from(port)].pop().map(|slot| Frame::new(slot, self.load.len(slot)))
    }
}

impl FrameStore for Slots {
    fn capacity(&self) -> u32 {
        u32::try_from(self.bytes.len() / SLOT_SIZE).expect("slots are counted in 32 bits")
    }

    fn head(&self, frame: &Frame) -> &[u8] {
        let start = frame.slot() as usize * SLOT_SIZE + HEADROOM;
        &self.bytes[start..start + frame.len() as usize]
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        let start = frame.slot() as usize * SLOT_SIZE + HEADROOM;
        &mut self.bytes[start..start + frame.len() as usize]
    }

    fn free(&mut self, frame: Frame) {
        let (slot, _) = frame.into_parts();
        self.free[(slot / BATCH) as usize].push(slot);
    }
}

/// A switch with traffic from each port to the next, a batch at a time.
pub struct Bench {
    switch: Switch,
    slots: Slots,
    ports: u8,
    turn: u8,
    now: Nanos,
    ring: Vec<Frame>,
}

impl Bench {
    /// All addresses are known.
    pub fn new(ports: u8, policy: PolicyKind, load: Load) -> Bench {
        Bench::with(&settings(ports, policy), load)
    }

    /// The same where each two ports are a group, so that every frame is for one, of eight ports under PFC.
    pub fn grouped(spread: Spread, load: Load) -> Bench {
        let mut settings = settings(8, PolicyKind::Pfc);
        let group = |first: u8| GroupSettings {
            name: format!("g{first}"),
            members: [first, first + 4].map(|port| Member { port: PortId(port), weight: 1 }).into(),
            spread,
            uplinks: false,
            salt: 0,
        };
        settings.groups = (0..4).map(group).collect();
        Bench::with(&settings, load)
    }

    fn with(settings: &SwitchSettings, load: Load) -> Bench {
        let ports = u8::try_from(settings.ports.len()).expect("few ports");
        let workers = Workers::single(ports.into());
        let slots = Slots::new(ports, load);
        let mut bench = Bench {
            switch: Switch::new(settings, slots.capacity(), workers, Counters::new(ports.into())),
            slots,
            ports,
            turn: 0,
            now: Nanos::ZERO,
            ring: Vec::with_capacity(BATCH as usize),
        };
        // Twice round: every address is learned, and no frame floods any more.
        (0..2 * u32::from(ports)).for_each(|_| bench.batch());
        bench
    }

    /// The next port has received a batch, and all of it leaves.
    pub fn batch(&mut self) {
        let from = self.turn;
        self.turn = (from + 1) % self.ports;
        self.now += Nanos::from_micros(1);
        let mut batch = self.switch.batch(self.now);
        batch.advance(&mut self.slots);
        while let Some(frame) = self.slots.receive(from) {
            batch.receive(PortId(from), frame, &mut self.slots);
        }
        while batch.forward(&mut self.slots) {}
        drop(batch);
        for port in self.switch.egress_active().iter() {
            let mut batch = self.switch.batch(self.now);
            batch.transmit(port, &mut self.slots, u32::MAX, |_, frame| self.ring.push(frame));
            for frame in self.ring.drain(..) {
                batch.release(port, frame, &mut self.slots);
            }
        }
        black_box(self.switch.next_deadline());
    }

    /// Where its frames have gone.
    pub fn ledger(&self) -> Ledger {
        self.switch.ledger()
    }
}

/// Every way to spread.
pub const SPREADS: [Spread; 3] = [
    Spread::Flow,
    Spread::Frame(Turns::RoundRobin),
    Spread::Adaptive { low: Bytes(16_000), high: Bytes(32_000) },
];

/// Of a switch whose queues are behind no threshold.
pub fn settings(ports: u8, policy: PolicyKind) -> SwitchSettings {
    let mut settings = SwitchSettings::plain((0..ports).map(port).collect());
    settings.policies = [policy; CLASSES];
    settings.fdb.ageing = Some(Nanos::from_secs(300));
    settings
}

fn port(index: u8) -> PortSettings {
    let mac = MacAddr([2, 0, 0, 1, 0, index]);
    let classes = Class::ALL.map(class_settings);
    PortSettings {
        dscp_to_class: [Class::ALL[0]; 64],
        refresh: Nanos::from_millis(1),
        burst: Bytes(100_000),
        commit: Bytes(100_000),
        ..PortSettings::plain(format!("p{index}"), mac, BitRate::from_gbps(100), classes)
    }
}

fn class_settings(class: Class) -> ClassSettings {
    let lossless = (3..=4).contains(&class.get());
    ClassSettings {
        lossless,
        xoff: Bytes(100_000),
        xon: Bytes(80_000),
        headroom: if lossless { Bytes(100_000) } else { Bytes::ZERO },
        egress_warn: Bytes(40_000),
        egress_xoff: Bytes(50_000),
        egress_xon: Bytes(40_000),
        ..ClassSettings::lossy(Bytes(200_000))
    }
}
