//! Kind of hardware of a switch. Its defaults are in `profiles/ideal.toml` and in the methods of [`Hardware`].

use xoff_flow_control::settings::{LossyPool, PortSettings};
use xoff_wire::units::{BitRate, Bytes, Nanos};

use crate::defaults;
use crate::keys::PeerResponse;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hardware {
    /// Software switch: threads may stall, drivers have rings, and peers are software switches, too.
    #[default]
    Software,
    /// Ideal switch: no stalls, no queues in drivers, and peers that respond as the standard requires.
    Ideal,
}

const IDEAL_BURST: u64 = 2;
const IDEAL_SMALLEST_FRAME: u32 = 512;

impl Hardware {
    pub(crate) const fn text(self) -> Option<&'static str> {
        match self {
            Hardware::Software => None,
            Hardware::Ideal => Some(include_str!("profiles/ideal.toml")),
        }
    }

    pub(crate) fn stall_budget(self, shortest_pause: Nanos) -> Nanos {
        match self {
            Hardware::Software => defaults::stall_budget(shortest_pause),
            Hardware::Ideal => Nanos::ZERO,
        }
    }

    pub(crate) const fn smallest_frame(self) -> u32 {
        match self {
            Hardware::Software => defaults::SMALLEST_FRAME,
            Hardware::Ideal => IDEAL_SMALLEST_FRAME,
        }
    }

    pub(crate) fn burst(self, speed: BitRate, line_frame: Bytes, stall_budget: Nanos) -> Bytes {
        match self {
            Hardware::Software => defaults::burst(speed, line_frame, stall_budget),
            Hardware::Ideal => Bytes(IDEAL_BURST * line_frame.0),
        }
    }

    pub(crate) fn commit(self, speed: BitRate, line_frame: Bytes) -> Bytes {
        match self {
            Hardware::Software => defaults::commit(speed, line_frame),
            Hardware::Ideal => Bytes(1),
        }
    }

    pub(crate) fn lossy_pool(self, ports: &[PortSettings]) -> LossyPool {
        match self {
            Hardware::Software => defaults::lossy_pool(defaults::lossy_pool_bytes(ports)),
            Hardware::Ideal => LossyPool::UNLIMITED,
        }
    }

    pub(crate) const fn peer(self) -> PeerResponse {
        match self {
            Hardware::Software => PeerResponse::Software,
            Hardware::Ideal => PeerResponse::Standard,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Config, Machine};

    const PORTS: &str = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"100G\"\n[[port]]\nname = \"b\"\ndevice = \"b\"\nspeed = \"100G\"\n";

    fn ideal(text: &str) -> Config {
        let text = format!("{text}[defaults]\ncable = \"100m\"\n{PORTS}");
        Config::from_toml_on(Hardware::Ideal, "test", &text, Machine::default()).unwrap()
    }

    #[test]
    fn headroom_of_ideal_switch_covers_only_line_and_peer() {
        let config = ideal("");
        let headroom = config.headroom[0][3].unwrap();
        assert_eq!((headroom.loop_gap, headroom.peer_backlog), (Bytes::ZERO, Bytes::ZERO));
        assert_eq!((headroom.tx_backlog, headroom.cable), (Bytes(1), Bytes(12_500)));
        assert_eq!(
            headroom.peer_response,
            Bytes(25_225),
            "the peer response must be 394 quanta at 100 Gb/s, rounded up to whole ns"
        );
        let class = &config.switch.ports[0].classes[3];
        assert_eq!((class.xon, class.xoff), (headroom.total(), Bytes(2 * headroom.total().0)));
        assert_eq!(config.warnings, [], "ideal hardware without `peer_response` must cause no warning");
    }

    #[test] // proves: sim-hosts
    fn ideal_switch_has_same_flow_control_as_software_switch() {
        let live = Config::from_toml_on(Hardware::Software, "test", PORTS, Machine::default()).unwrap();
        assert_eq!(ideal("").switch.ports[0].flow_control, live.switch.ports[0].flow_control);
    }

    #[test]
    fn keys_of_file_override_defaults_of_ideal_hardware() {
        let config =
            ideal("[class.3]\nxoff = \"200KB\"\nxon = \"100KB\"\n[switch]\nstall_budget = \"1us\"\n");
        let class = &config.switch.ports[0].classes[3];
        assert_eq!((class.xoff, class.xon), (Bytes(200_000), Bytes(100_000)));
        assert_eq!(config.headroom[0][3].unwrap().loop_gap, Bytes(12_500));
    }
}
