use std::hint::black_box;

use xoff_dataplane::driver::{Direct, Driver, Port};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::{
    ClassSettings, GroupSettings, Member, PolicyKind, PortSettings, Spread, SwitchSettings, Turns,
};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, PortId};

pub const BATCH: u32 = 64;
const SLOT_SIZE: usize = 2048;
const SHORT: u32 = 60;
const IMIX: [u32; 12] = [SHORT, 566, SHORT, 1514, SHORT, 566, SHORT, 566, SHORT, SHORT, 566, SHORT];
const HEADROOM: usize = 256;

#[derive(Clone, Copy)]
pub enum Load {
    /// Priority-tagged frames of all classes, between 16 pairs of stations. No two consecutive headers are equal.
    Mixed,
    /// Untagged UDP frames over IPv4, with the lengths of simple IMIX. The 16 flows of a port have equal MAC addresses,
    /// so the frames of a batch share one forwarding decision.
    Imix,
}

struct Slots {
    bytes: Vec<u8>,
    load: Load,
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
                    let [high, low] = u16::try_from(head.len() - 14)
                        .expect("IMIX frame exceeds 65,535 bytes")
                        .to_be_bytes();
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
        u32::try_from(self.bytes.len() / SLOT_SIZE).expect("the number of slots must fit in 32 bits")
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

struct Line {
    number: u8,
    waiting: u32,
    left: Vec<Frame>,
}

impl Port<Slots> for Line {
    fn reap(&mut self, slots: &mut Slots, mut sent: impl FnMut(&mut Slots, Frame)) {
        self.left.drain(..).for_each(|frame| sent(slots, frame));
    }

    fn receive(&mut self, slots: &mut Slots, _: u32, mut each: impl FnMut(&mut Slots, Frame)) -> u32 {
        let waiting = std::mem::take(&mut self.waiting);
        for _ in 0..waiting {
            let frame = slots
                .receive(self.number)
                .expect("the switch must have released all frames of the previous batch");
            each(slots, frame);
        }
        waiting
    }

    fn room(&self) -> u32 {
        u32::MAX
    }

    fn send(&mut self, _: &mut Slots, frame: Frame) -> Result<(), Frame> {
        self.left.push(frame);
        Ok(())
    }

    fn in_flight(&self) -> bool {
        !self.left.is_empty()
    }
}

pub struct Bench {
    switch: Switch,
    slots: Slots,
    ports: Vec<(PortId, Line)>,
    turn: usize,
    now: Nanos,
}

impl Bench {
    pub fn new(ports: u8, policy: PolicyKind, load: Load) -> Bench {
        Bench::with(&settings(ports, policy), load)
    }

    pub fn grouped(spread: Spread, load: Load) -> Bench {
        let mut settings = settings(8, PolicyKind::Pfc);
        let group = |first: u8| GroupSettings {
            name: format!("g{first}"),
            members: [first, first + 4].map(|port| Member { port: PortId(port), weight: 1 }).into(),
            spread,
            uplinks: false,
            lacp: None,
            salt: 0,
        };
        settings.groups = (0..4).map(group).collect();
        Bench::with(&settings, load)
    }

    fn with(settings: &SwitchSettings, load: Load) -> Bench {
        let ports = u8::try_from(settings.ports.len()).expect("more than 255 ports");
        let workers = Workers::single(ports.into());
        let slots = Slots::new(ports, load);
        let mut bench = Bench {
            switch: Switch::new(settings, slots.capacity(), workers, Counters::new(ports.into())),
            slots,
            ports: (0..ports).map(line).collect(),
            turn: 0,
            now: Nanos::ZERO,
        };
        (0..2 * u32::from(ports)).for_each(|_| bench.batch());
        bench
    }

    pub fn batch(&mut self) {
        self.ports[self.turn].1.waiting = BATCH;
        self.turn = (self.turn + 1) % self.ports.len();
        self.now += Nanos::from_micros(1);
        let Bench { switch, slots: store, ports, now, .. } = self;
        Driver { now: *now, switch, ports, store, boundary: &mut Direct }.turn(&mut ());
        black_box(self.switch.next_deadline());
    }

    pub fn ledger(&self) -> Ledger {
        self.switch.ledger()
    }
}

fn line(number: u8) -> (PortId, Line) {
    (PortId(number), Line { number, waiting: 0, left: Vec::with_capacity(BATCH as usize) })
}

pub const SPREADS: [Spread; 3] = [
    Spread::Flow,
    Spread::Frame(Turns::RoundRobin),
    Spread::Adaptive { low: Bytes(16_000), high: Bytes(32_000) },
];

/// Returns settings under which no queue reaches a threshold.
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
