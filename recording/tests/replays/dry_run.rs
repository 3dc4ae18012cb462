use std::collections::VecDeque;
use std::sync::Arc;

use xoff_config::{Config, Machine};
use xoff_dataplane::driver::{Boundary, Direct, Driver, Environment, Port};
use xoff_dataplane::forward::MemberState;
use xoff_dataplane::frame::Frame;
use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_recording::{Recorder, Sink, books};
use xoff_testkit::bed::store::MemoryStore;
use xoff_wire::units::{MacAddr, Nanos, PortId};

pub const SLOTS: u32 = DATA + CONTROL;
const DATA: u32 = 600;
const CONTROL: u32 = 16;
const ROOM: usize = 16;
const LONGEST: usize = 1_530;
const PORTS: u8 = 3;
const OUT_MAX: usize = 2;

pub fn text(xoff: u32) -> String {
    let port = |port: u8| {
        format!("[[port]]\nname = \"p{port}\"\ndevice = \"p{port}\"\nspeed = \"1G\"\ncable = \"10m\"\n")
    };
    let ports: String = (1..=PORTS).map(port).collect();
    format!("{ports}tagged = [1]\n[class.3]\nxoff = \"{xoff}B\"\nxon = \"4000B\"\n")
}

pub fn settings(xoff: u32) -> SwitchSettings {
    let config = Config::from_toml("dry_run", &text(xoff), Machine::default());
    config.unwrap_or_else(|error| panic!("{error:?}")).switch
}

#[derive(Debug)]
pub struct DryRun<K> {
    pub sink: K,
    pub books: String,
}

pub fn record<K: Sink>(settings: &SwitchSettings, turns: u32, seed: u64, sink: K) -> DryRun<K> {
    let counters = Counters::with_shadows(settings.ports.len(), settings.shadows.len());
    let mut switch = new(settings, &counters);
    let mut recorder = Recorder::new(&mut switch, settings, Nanos::ZERO, sink);
    let punts = recorder.before(None);
    switch.batch(Nanos::ZERO).put_punt_sink(punts);
    Stage::new(&mut switch, seed).run(&mut recorder, turns);
    DryRun { sink: recorder.into_sink(), books: books(&switch, &counters) }
}

pub fn unrecorded(settings: &SwitchSettings, turns: u32, seed: u64) -> String {
    let counters = Counters::with_shadows(settings.ports.len(), settings.shadows.len());
    let mut switch = new(settings, &counters);
    Stage::new(&mut switch, seed).run(&mut Direct, turns);
    books(&switch, &counters)
}

fn new(settings: &SwitchSettings, counters: &Arc<Counters>) -> Switch {
    Switch::new(settings, SLOTS, Workers::single(settings.ports.len()), Arc::clone(counters))
}

struct Stage<'a> {
    switch: &'a mut Switch,
    memory: MemoryStore,
    chance: fastrand::Rng,
    now: Nanos,
    ports: Vec<(PortId, Line)>,
}

#[derive(Default)]
struct Line {
    comes: Vec<Vec<u8>>,
    out: VecDeque<Frame>,
    /// Number of frames in `out` that the line carries before the driver's next loop.
    leaves: usize,
}

impl Port<MemoryStore> for Line {
    fn reap(&mut self, memory: &mut MemoryStore, mut sent: impl FnMut(&mut MemoryStore, Frame)) {
        let leaves = std::mem::take(&mut self.leaves);
        self.out.drain(..leaves).for_each(|frame| sent(memory, frame));
    }

    fn receive(
        &mut self,
        memory: &mut MemoryStore,
        _: u32,
        mut each: impl FnMut(&mut MemoryStore, Frame),
    ) -> u32 {
        let mut received = 0;
        for bytes in self.comes.drain(..) {
            if let Some(frame) = memory.fill(&bytes) {
                each(memory, frame);
                received += 1;
            }
        }
        received
    }

    fn room(&self) -> u32 {
        u32::try_from(OUT_MAX.saturating_sub(self.out.len())).unwrap_or(0)
    }

    fn send(&mut self, _: &mut MemoryStore, frame: Frame) -> Result<(), Frame> {
        self.out.push_back(frame);
        Ok(())
    }

    fn in_flight(&self) -> bool {
        !self.out.is_empty()
    }
}

struct Turn(u32);

impl Environment<Line, MemoryStore> for Turn {
    fn serve<B: Boundary>(&mut self, driver: &mut Driver<'_, Line, MemoryStore, B>) -> bool {
        let Driver { now, switch, store, boundary, .. } = driver;
        let mut batch = boundary.batch(switch, *now);
        match self.0 % 97 {
            50 => _ = boundary.inject(&mut batch, PortId(1), &padded(lldp()), *store),
            70 => boundary.set_link(&mut batch, PortId(2), false, *store),
            75 => boundary.set_link(&mut batch, PortId(2), true, *store),
            80 => boundary.set_member(&mut batch, PortId(2), MemberState::ALL[self.0 as usize % 3]),
            90 => boundary.set_mac(&mut batch, PortId(0), MacAddr([2, 9, 0, 0, 0, 1])),
            _ => return false,
        }
        true
    }
}

impl Stage<'_> {
    fn new(switch: &mut Switch, seed: u64) -> Stage<'_> {
        let chance = fastrand::Rng::with_seed(seed);
        let ports = (0..PORTS).map(|port| (PortId(port), Line::default())).collect();
        Stage { switch, memory: MemoryStore::new(DATA, CONTROL, ROOM, LONGEST), chance, now: Nanos(1), ports }
    }

    fn driver<'a, B>(&'a mut self, boundary: &'a mut B) -> Driver<'a, Line, MemoryStore, B> {
        let Stage { switch, memory, now, ports, .. } = self;
        Driver { now: *now, switch, ports, store: memory, boundary }
    }

    fn run(mut self, boundary: &mut impl Boundary, turns: u32) {
        for turn in 0..turns {
            self.now = self.now.after(Nanos(self.chance.u64(1..40_000)));
            self.happen();
            if self.chance.u8(..) == 0 {
                boundary.was_away(self.switch, self.now);
            }
            self.driver(boundary).turn(&mut Turn(turn));
        }
        self.driver(boundary).release_peers();
        self.driver(boundary).part();
        for frame in self.ports.iter_mut().flat_map(|(_, line)| line.out.drain(..)) {
            let _ = frame.into_parts(); // the driver keeps the slots
        }
    }

    fn happen(&mut self) {
        for (_, line) in &mut self.ports {
            line.leaves = self.chance.usize(..=line.out.len());
        }
        for _ in 0..self.chance.u8(..7) {
            let (port, mut bytes) = frame(&mut self.chance);
            if bytes.len() > 100 {
                bytes.resize(self.chance.usize(bytes.len()..LONGEST), 0);
            }
            self.ports[port.index()].1.comes.push(bytes);
        }
    }
}

fn frame(chance: &mut fastrand::Rng) -> (PortId, Vec<u8>) {
    let port = PortId(chance.u8(..PORTS));
    let of = |port: u8| [2, 0, 0, 0, 0, port];
    let to = match chance.u8(..16) {
        0 => [0xff; 6],
        1 => of(9),
        2 => return (port, padded(pfc(chance.bool()))),
        3 => return (port, padded(lldp())),
        4 => return (port, vec![0; 70]),
        5 => of(chance.u8(..PORTS)),
        _ => of(2),
    };
    let ether: &[u8] = match chance.u8(..4) {
        0 => &[0x88, 0xb5],
        _ => &[0x81, 0x00, 3 << 5, 0, 0x88, 0xb5],
    };
    (port, padded([&to[..], &of(port.0), ether, &[chance.u8(..); 120]].concat()))
}

fn pfc(stops: bool) -> Vec<u8> {
    let time = if stops { [0x00, 0xff] } else { [0, 0] };
    let head =
        [&[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 1, 1, 0, 8][..], &[0; 6], &time].concat();
    [&head[..], &[0; 8]].concat()
}

fn lldp() -> Vec<u8> {
    vec![1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 7, 0x88, 0xcc, 0, 0]
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().max(60), 0);
    bytes
}
