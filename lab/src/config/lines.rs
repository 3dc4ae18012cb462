use xoff_config::memory::{Held, PROCESS};
use xoff_config::reader::Problems;
use xoff_config::{Config, Machine, Problem, quantity};
use xoff_flow_control::classify::Classifier;
use xoff_switch::port_options;
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos};
use xoff_xdp::Share;

use super::{End, Link, Network, SwitchNode};
use crate::line::{Impairment, LineSettings};

/// Delay plus jitter that the memory of each delay line covers at least.
const DELAY_LEAST: Nanos = Nanos::from_millis(10);
const CABLE_NANOS_PER_METRE: u64 = 5;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineKeys {
    pub(super) delay: Option<Nanos>,
    pub(super) jitter: Option<Nanos>,
    pub(super) loss: Option<u32>,
    pub(super) mac_control: Option<bool>,
}

impl LineKeys {
    pub(super) fn or(self, below: LineKeys) -> LineKeys {
        LineKeys {
            delay: self.delay.or(below.delay),
            jitter: self.jitter.or(below.jitter),
            loss: self.loss.or(below.loss),
            mac_control: self.mac_control.or(below.mac_control),
        }
    }

    /// Returns the impairments of frames sent by each end of the link (with `from`, only by that end); `None` if no key asks for a delay
    /// line.
    pub(super) fn line(self, from: Option<usize>) -> Option<[Impairment; 2]> {
        let LineKeys { delay, jitter, loss, mac_control } = self;
        if delay.is_none() && jitter.is_none() && loss.is_none() {
            return None;
        }
        let impairment = Impairment {
            delay_ns: delay.unwrap_or_default().0,
            jitter_ns: jitter.unwrap_or_default().0,
            loss_per_billion: loss.unwrap_or_default(),
            spares_mac_control: mac_control == Some(false),
        };
        let of_end =
            |end| if from.is_none_or(|from| from == end) { impairment } else { Impairment::default() };
        Some([of_end(0), of_end(1)])
    }
}

impl Link {
    /// Returns the length in metres of a cable with the same round-trip delay as this link's delay line.
    pub(super) fn cable_metres(&self, end: usize) -> Option<u64> {
        let line = self.line?;
        let round_trip = line[end].of_pauses().0 + line[1 - end].longest().0;
        Some(round_trip.div_ceil(2 * CABLE_NANOS_PER_METRE))
    }
}

impl Network {
    /// Shortens the refresh intervals of pauses by the link's jitter, so that no pause expires early. Warns if the jitter is too long for
    /// that.
    pub(super) fn refresh_before_jitter(&mut self, problems: &mut Problems) {
        for link in &self.links {
            for (number, end) in link.ends.into_iter().enumerate() {
                let jitter = link.line.map_or(0, |line| line[number].jitter_of_pauses());
                let End::Port { switch, port } = end else { continue };
                let SwitchNode { name, config } = &mut self.switches[switch];
                let port = &mut config.switch.ports[port];
                if port.refresh.0 > 2 * jitter {
                    port.refresh.0 -= jitter;
                } else if port.classes.iter().any(|class| class.lossless) {
                    problems.push(
                        Problem::warning(format!(
                            "the jitter of the link at {name}:{} is longer than half of the interval at which {name} repeats a pause: \
                             pauses may expire, and lossless frames be lost",
                            port.name
                        ))
                        .help("give the switch a shorter `stall_budget`, or the link less jitter"),
                    );
                }
            }
        }
    }

    #[must_use]
    pub fn line_settings(&self, link: usize, has_small_chunks: bool) -> Option<LineSettings> {
        let it = &self.links[link];
        let impairments = it.line?;
        let config = self.ports(link, has_small_chunks);
        let shell = &config.shell;
        let options = [0, 1].map(|port| port_options::of_port(shell, &shell.ports[port]));
        let port = it.ends.iter().find_map(|end| match *end {
            End::Port { switch, port } => Some(&self.switches[switch].config.switch.ports[port]),
            End::Host { .. } => None,
        });
        let port = port.unwrap_or(&config.switch.ports[0]);
        let is_lossless = |class: &Class| port.classes[class.index()].lossless;
        let (held, capacity) = held(it, &config);
        let count = |many: u64| u32::try_from(many).unwrap_or(u32::MAX - 1);
        Some(LineSettings {
            options,
            memory: Share { frames: count(held.frames), cells: count(held.cells), ..Share::default() },
            capacity,
            delay_max: delay_max(it),
            classifier: Classifier::new(port),
            lossless: Class::ALL.into_iter().filter(is_lossless).collect::<ClassSet>(),
            // Let the delay line send at 1.25 times the link's rate, so that it catches up after a stall.
            rate: BitRate::new(it.speed.bits_per_second() / 4 * 5).unwrap_or(it.speed),
            impairments,
            seed: link as u64 + 1,
        })
    }

    pub(super) fn lines(&self, machine: &Machine) -> (u64, Bytes) {
        let has_small_chunks = (machine.has_small_chunks)();
        let memory = |(link, it): (usize, &Link)| {
            it.line?;
            let config = self.ports(link, has_small_chunks);
            let cells = held(it, &config).0.cells.saturating_mul(xoff_dataplane::frame::CELL.into());
            Some(config.plan(machine).needed().saturating_sub(Bytes(PROCESS)).saturating_add(Bytes(cells)))
        };
        self.links
            .iter()
            .enumerate()
            .filter_map(memory)
            .fold((0, Bytes::ZERO), |(count, sum), bytes| (count + 1, sum.saturating_add(bytes)))
    }

    fn ports(&self, link: usize, has_small_chunks: bool) -> Config {
        let it = &self.links[link];
        let chunks = if has_small_chunks { "small" } else { "whole" };
        let port = |end: usize| {
            let (device, speed) = (line_device(link, end), it.speed.bits_per_second());
            format!(
                "[[port]]\nname = \"{device}\"\ndevice = \"{device}\"\nspeed = \"{speed}\"\nmtu = {}\n",
                it.mtu
            )
        };
        let stall = it.ends.iter().filter_map(|end| match *end {
            End::Port { switch, .. } => Some(self.switches[switch].config.shell.stall_budget),
            End::Host { .. } => None,
        });
        let read = |stall: Option<Nanos>| {
            let stall =
                stall.map(|stall| format!("[switch]\nstall_budget = \"{}\"\n", quantity::time(stall)));
            let stall = stall.unwrap_or_default();
            let text = format!("{stall}[memory]\nreceive_chunks = \"{chunks}\"\n{}{}", port(0), port(1));
            Config::from_toml("delay line", &text, Machine::default())
        };
        // The switch's stall budget may be invalid without the switch's other settings: then use the default.
        let config = read(stall.max()).or_else(|_| read(None));
        config.expect("the ports of a delay line must be valid")
    }
}

fn delay_max(link: &Link) -> Nanos {
    let longest = link.line.into_iter().flatten().map(|impairment| impairment.longest()).max();
    longest.unwrap_or_default().max(DELAY_LEAST)
}

/// Returns the memory that a delay line needs for its longest delay plus a stall, and the maximum bytes on it in each direction.
fn held(link: &Link, config: &Config) -> (Held, Bytes) {
    let stall = config.shell.stall_budget;
    let span = delay_max(link).after(stall).after(Nanos(stall.0 / 4));
    let capacity = link.speed.bytes_in(span);
    let smallest = Bytes::on_line(60);
    // Count one cell of 96 bytes for 60 bytes on the line. The worst case is a frame of 97 bytes: it needs two cells, but only 121 bytes
    // on the line.
    let of_direction = Held { frames: capacity.0.div_ceil(smallest.0), cells: capacity.0.div_ceil(60) };
    let received = config.shell.ports.iter().map(|port| u64::from(port.stall_chunks)).sum::<u64>();
    let longest = u64::from(xoff_dataplane::frame::cells_of(xoff_dataplane::frame::FRAME_MAX));
    let more = Held { frames: received + 512, cells: 2 * longest };
    (of_direction.times(2).plus(more), capacity)
}

pub(crate) fn line_device(link: usize, end: usize) -> String {
    format!("l{link}-{end}")
}
