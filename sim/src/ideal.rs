//! Ideal switches: they never stall, hand one frame at a time to a line, and have peers that react just within
//! the standard's time ([`xoff_config::Hardware::Ideal`]).

use std::sync::Arc;

use xoff_config::{Config, Hardware, Machine};
use xoff_flow_control::headroom::Headroom;
use xoff_flow_control::settings::{ClassSettings, Memory, PortSettings};
use xoff_wire::units::{Bytes, Class, ClassSet, MacAddr};

use crate::ends::Line;
use crate::plan::SwitchKind;
use crate::switch_node::SlotCounts;

const CONTROL: u32 = 8;
const UNUSED: u32 = 64;
/// Mean frame size in bytes, assumed for the number of packet slots of lossy classes.
const LOSSY_FRAME: u64 = 512;
const PICOS_PER_METRE: u64 = 5_000;

/// Ideal switch with equal lines at all ports. Methods panic if `line` is above 1.6 Tb/s, or longer than 20,000 km.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Ideal {
    pub line: Line,
}

impl Ideal {
    /// Creates an ideal switch whose ports have the rate and delay of `line`; class 3 is lossless.
    #[must_use]
    pub const fn beside(line: Line) -> Ideal {
        Ideal { line }
    }

    /// Returns a port's headroom for class 3.
    #[must_use]
    pub fn headroom(&self) -> Headroom {
        let class = Class::ALL[3].index();
        self.config(1).headroom[0][class].expect("class 3 has no headroom")
    }

    /// Returns the switch's settings. XON is the bytes that a peer may send until it reacts, XOFF twice as much.
    #[must_use]
    pub fn switch(&self, ports: u8) -> SwitchKind {
        Ideal::of(&vec![self.line; ports.into()], ClassSet::NONE)
    }

    /// Returns the settings of an ideal switch with a port per line, and packet memory for the `lossy` classes.
    #[must_use]
    pub fn of(lines: &[Line], lossy: ClassSet) -> SwitchKind {
        kind(&Ideal::configured(lines), lossy)
    }

    fn config(&self, ports: u8) -> Config {
        Ideal::configured(&vec![self.line; ports.into()])
    }

    fn configured(lines: &[Line]) -> Config {
        let port = |(port, line): (usize, &Line)| {
            let (rate, metres) = (line.rate.bits_per_second(), line.delay.0.div_ceil(PICOS_PER_METRE));
            format!(
                "[[port]]\nname = \"p{port}\"\ndevice = \"p{port}\"\nspeed = \"{rate}\"\ncable = \"{metres}m\"\n"
            )
        };
        let text: String = lines.iter().enumerate().map(port).collect();
        Config::from_toml_on(Hardware::Ideal, "ideal", &text, Machine::default())
            .expect("each line must be valid")
    }
}

/// Returns a simulated switch's settings, with packet memory for full queues of the `lossy` classes.
#[must_use]
pub fn kind(config: &Config, lossy: ClassSet) -> SwitchKind {
    let mut settings = config.switch.clone();
    for (number, port) in (0..=u8::MAX).zip(&mut settings.ports) {
        port.mac = MacAddr([2, 1, 0, 0, 0, number]);
    }
    if !settings.ports.iter().any(|port| port.learning) {
        settings.fdb.capacity = settings.fdb.statics.len();
    }
    let smallest = u64::from(config.shell.smallest_frame);
    let of_port = |port: &PortSettings| of_classes(port, lossy, smallest).saturating_add(UNUSED);
    let mut data = settings.ports.iter().map(of_port).fold(0, u32::saturating_add);
    if let Memory::Shared(shared) = &settings.memory {
        let own = |class: &ClassSettings| class.ingress_reserve.0 + class.egress_reserve.0 + class.headroom.0;
        let own: u64 = settings.ports.iter().flat_map(|port| &port.classes).map(own).sum();
        let most = count(Bytes(own.saturating_add(shared.pool.0)), smallest);
        data = data.min(most.saturating_add(UNUSED));
    }
    let ports = u32::try_from(settings.ports.len()).unwrap_or(u32::MAX);
    let rings = rings(config);
    SwitchKind { settings, slots: SlotCounts { data, control: ports.saturating_mul(CONTROL), rings } }
}

/// Returns the ports' receive ring sizes in frames.
#[must_use]
pub fn rings(config: &Config) -> Arc<[u32]> {
    config.shell.ports.iter().map(|port| port.rings.fill.min(port.rings.rx)).collect()
}

fn of_classes(port: &PortSettings, lossy: ClassSet, smallest: u64) -> u32 {
    let of_class = |class: Class| match &port.classes[class.index()] {
        settings if settings.lossless => {
            let before = count(settings.xoff.saturating_add(settings.ingress_reserve), smallest);
            before.min(settings.xoff_frames).saturating_add(count(settings.headroom, smallest))
        }
        settings if lossy.contains(class) => {
            let waiting = settings.egress_max.min(settings.ingress_max);
            count(waiting, LOSSY_FRAME).min(settings.egress_max_frames)
        }
        _ => 0,
    };
    Class::ALL.into_iter().map(of_class).fold(0, u32::saturating_add)
}

fn count(bytes: Bytes, smallest: u64) -> u32 {
    u32::try_from(bytes.0.div_ceil(smallest)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::time::Picos;
    use crate::topology;

    #[test]
    fn static_forwarding_table_has_room_for_all_hosts() {
        let plan =
            topology::fat_tree(8, Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) });
        assert_eq!(plan.kind(0).settings.fdb.capacity, 0);
        assert!(plan.settings().all(|(settings, _)| settings.fdb.capacity == 128));
        let mut config = Ideal::configured(&[Line { rate: BitRate::from_gbps(100), delay: Picos::ZERO }]);
        config.switch.ports[0].learning = true;
        assert_eq!(kind(&config, ClassSet::NONE).settings.fdb.capacity, config.switch.fdb.capacity);
    }
}
