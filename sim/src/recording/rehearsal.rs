//! A switch by itself that meets much in a short time, and is recorded: for tests of what records are written to, and read from.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_config::{Config, Machine};
use xoff_dataplane::counters::Counters;
use xoff_dataplane::driver::{Boundary, Direct};
use xoff_dataplane::frame::Frame;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::switch::{Switch, Workers};
use xoff_dataplane::units::{MacAddr, Nanos, PortId};

use super::{Memory, Recorder, Sink, books};

/// Slots of its memory.
pub const SLOTS: u32 = DATA + CONTROL;
const DATA: u32 = 600;
const CONTROL: u32 = 16;
/// Ports.
const PORTS: u8 = 3;
/// Frames that its driver has of a port at most.
const OUT_MAX: usize = 2;

/// Three ports, class 3 lossless, with so many bytes until XOFF; whoever hears of LLDP is there.
#[must_use]
pub fn text(xoff: u32) -> String {
    let port = |port: u8| {
        format!("[[port]]\nname = \"p{port}\"\ndevice = \"p{port}\"\nspeed = \"1G\"\ncable = \"10m\"\n")
    };
    let ports: String = (1..=PORTS).map(port).collect();
    format!("{ports}tagged = [1]\n[class.3]\nxoff = \"{xoff}B\"\nxon = \"4000B\"\n")
}

/// The settings of [`text`].
///
/// # Panics
/// Where these are none.
#[must_use]
pub fn settings(xoff: u32) -> SwitchSettings {
    let config = Config::from_toml("rehearsal", &text(xoff), Machine::default());
    config.unwrap_or_else(|error| panic!("{error:?}")).switch
}

/// What is left of it.
#[derive(Debug)]
pub struct Rehearsed<K> {
    /// Where it was recorded.
    pub sink: K,
    /// What the switch has counted.
    pub books: String,
}

/// Runs it for so many turns, recorded; the same seed has the same happen.
pub fn record<K: Sink>(settings: &SwitchSettings, turns: u32, seed: u64, sink: K) -> Rehearsed<K> {
    let counters = Counters::with_shadows(settings.ports.len(), settings.shadows.len());
    let mut switch = new(settings, &counters);
    let mut recorder = Recorder::new(&mut switch, settings, Nanos::ZERO, sink);
    let punts = recorder.before(None);
    switch.batch(Nanos::ZERO).put_punt_sink(punts);
    Stage::new(&mut switch, seed).run(&mut recorder, turns);
    Rehearsed { sink: recorder.into_sink(), books: books(&switch, &counters) }
}

/// The same without a recorder: what the switch has counted.
#[must_use]
pub fn unrecorded(settings: &SwitchSettings, turns: u32, seed: u64) -> String {
    let counters = Counters::with_shadows(settings.ports.len(), settings.shadows.len());
    let mut switch = new(settings, &counters);
    Stage::new(&mut switch, seed).run(&mut Direct, turns);
    books(&switch, &counters)
}

fn new(settings: &SwitchSettings, counters: &Arc<Counters>) -> Switch {
    Switch::new(settings, SLOTS, Workers::single(settings.ports.len()), Arc::clone(counters))
}

/// Whatever is around it.
struct Stage<'a> {
    switch: &'a mut Switch,
    memory: Memory,
    chance: fastrand::Rng,
    now: Nanos,
    /// By port, what its driver has.
    out: [VecDeque<Frame>; PORTS as usize],
}

impl Stage<'_> {
    fn new(switch: &mut Switch, seed: u64) -> Stage<'_> {
        let chance = fastrand::Rng::with_seed(seed);
        let out = std::array::from_fn(|_| VecDeque::new());
        Stage { switch, memory: Memory::new(DATA, CONTROL), chance, now: Nanos(1), out }
    }

    fn run(mut self, boundary: &mut impl Boundary, turns: u32) {
        for turn in 0..turns {
            self.now = self.now.after(Nanos(self.chance.u64(1..40_000)));
            self.turn(boundary, turn);
        }
        let mut batch = boundary.batch(self.switch, self.now);
        boundary.let_peers_go(&mut batch);
        drop(batch);
        self.transmit(boundary);
        for frame in self.out.iter_mut().flat_map(|out| out.drain(..)) {
            let _ = frame.into_parts(); // with its driver
        }
    }

    fn turn(&mut self, boundary: &mut impl Boundary, turn: u32) {
        if self.chance.u8(..) == 0 {
            boundary.was_away(self.switch, self.now);
        }
        let mut batch = boundary.batch(self.switch, self.now);
        boundary.advance(&mut batch, &mut self.memory);
        for (port, out) in (0..=u8::MAX).map(PortId).zip(&mut self.out) {
            for _ in 0..self.chance.usize(..=out.len()) {
                let frame = out.pop_front().expect("counted");
                boundary.release(&mut batch, port, frame, &mut self.memory);
            }
        }
        for _ in 0..self.chance.u8(..7) {
            let (port, head) = frame(&mut self.chance);
            let kept = u32::try_from(head.len()).unwrap_or(u32::MAX);
            let len = if kept > 100 { self.chance.u32(kept..1_530) } else { kept };
            if let Some(frame) = self.memory.fill(&head, len) {
                boundary.receive(&mut batch, port, frame, &mut self.memory);
            }
        }
        drop(batch);
        let mut batch = boundary.batch(self.switch, self.now);
        boundary.forward_all(&mut batch, &mut self.memory);
        match turn % 97 {
            50 => _ = boundary.tell(&mut batch, PortId(1), &padded(lldp()), &mut self.memory),
            70 => boundary.set_link(&mut batch, PortId(2), false, &mut self.memory),
            75 => boundary.set_link(&mut batch, PortId(2), true, &mut self.memory),
            90 => boundary.set_mac(&mut batch, PortId(0), MacAddr([2, 9, 0, 0, 0, 1])),
            _ => (),
        }
        drop(batch);
        self.transmit(boundary);
    }

    fn transmit(&mut self, boundary: &mut impl Boundary) {
        let untold = self.switch.untold();
        for (port, out) in
            (0..=u8::MAX).map(PortId).zip(&mut self.out).filter(|(port, _)| untold.contains(*port))
        {
            let mut batch = boundary.batch(self.switch, self.now);
            out.extend(boundary.announce(&mut batch, port, &mut self.memory));
        }
        let active = self.switch.egress_active();
        for (port, out) in
            (0..=u8::MAX).map(PortId).zip(&mut self.out).filter(|(port, _)| active.contains(*port))
        {
            let most = u32::try_from(OUT_MAX.saturating_sub(out.len())).unwrap_or(0);
            let mut batch = boundary.batch(self.switch, self.now);
            boundary.transmit(&mut batch, port, &mut self.memory, most, |_, frame| out.push_back(frame));
        }
    }
}

/// A frame, and where it comes in: mostly data of class 3 to the third port, so that this is congested.
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
