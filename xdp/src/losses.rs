//! Frames that the kernel, the driver or a socket lost at a port. Each counts once, although several counters may contain it (tested on
//! Linux 6.18, `wire/kernel_drops.rs`):
//!
//! | loss | counters of the socket | of the XDP program | of a veth in native mode | of a device in generic mode |
//! |---|---|---|---|---|
//! | no chunk in the fill ring | `rx_dropped`, `rx_fill_ring_empty` | | `rx_dropped` | |
//! | RX ring full | `rx_ring_full` | | `rx_dropped` | |
//! | queue without a socket | | `rx_unclaimed` | | |
//! | longer than a chunk | | `rx_too_long`, which is no loss | | |
//! | dropped on transmit | `tx_dropped` | | `tx_dropped` | `tx_dropped` |
//!
//! For an unknown driver, whose counters may overlap, the larger counter counts.

use crate::driver::Driver;
use crate::monitor::XdpStatistics;
use crate::reading::DeviceDrops;

/// Losses in the device's `rx_dropped` that sockets or the XDP program also count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    None,
    Sockets,
    SocketsAndProgram,
    /// Unknown, because the driver is untested.
    Unknown,
}

/// Overlap in native mode, by driver, from the drivers' sources. Generic mode has none.
const NATIVE: [(&str, Overlap); 2] = [("veth", Overlap::Sockets), ("virtio_net", Overlap::SocketsAndProgram)];

impl Overlap {
    #[must_use]
    pub fn of(driver: &Driver, is_native: bool) -> Overlap {
        if !is_native {
            return Overlap::None;
        }
        let driver_overlap = NATIVE.iter().find(|(name, _)| driver.name() == Some(name));
        driver_overlap.map_or(Overlap::Unknown, |&(_, overlap)| overlap)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Frames that the XDP program passed on, but that no socket delivered.
    pub behind_program: u64,
    /// Frames read from the RX ring with an invalid layout in chunks. The XDP program may have counted their arrival
    /// long before.
    pub malformed: u64,
    pub before_program: u64,
    pub sent: u64,
    /// Frames in the device's `rx_dropped` that may also be in `behind_program`, because the driver is untested.
    pub ambiguous: u64,
    /// True if the loss may be higher, because two counters may count different frames.
    pub at_least: bool,
}

impl Losses {
    #[must_use]
    pub fn of(xdp: &XdpStatistics, device: &DeviceDrops, overlap: Overlap) -> Losses {
        let again = match overlap {
            Overlap::None => 0,
            Overlap::Sockets => xdp.rx_by_sockets(),
            Overlap::SocketsAndProgram | Overlap::Unknown => {
                xdp.rx_by_sockets() + xdp.rx_unclaimed + xdp.rx_too_long
            }
        };
        let dropped = device.rx_dropped.saturating_sub(again);
        let ambiguous = if overlap == Overlap::Unknown { device.rx_dropped.min(again) } else { 0 };
        Losses {
            behind_program: xdp.rx_lost() - xdp.rx_malformed,
            malformed: xdp.rx_malformed,
            before_program: dropped + device.rx_errors + device.rx_missed + device.rx_passed,
            // Take the larger count: the device also counts every frame that the kernel drops when a socket sends.
            sent: xdp.tx_dropped.max(device.tx_dropped) + device.tx_errors + xdp.tx_invalid,
            ambiguous,
            at_least: ambiguous > 0 || xdp.tx_dropped > device.tx_dropped && device.tx_dropped > 0,
        }
    }

    #[must_use]
    pub const fn total(&self) -> u64 {
        self.behind_program + self.malformed + self.before_program + self.sent
    }

    /// Adds the losses at an earlier device of the same port.
    #[must_use]
    pub const fn and(self, other: Losses) -> Losses {
        Losses {
            behind_program: self.behind_program + other.behind_program,
            malformed: self.malformed + other.malformed,
            before_program: self.before_program + other.before_program,
            sent: self.sent + other.sent,
            ambiguous: self.ambiguous + other.ambiguous,
            at_least: self.at_least || other.at_least,
        }
    }

    /// Returns the maximum of each kind of loss, because later readings may be lower.
    #[must_use]
    pub fn max(self, other: Losses) -> Losses {
        Losses {
            behind_program: self.behind_program.max(other.behind_program),
            malformed: self.malformed.max(other.malformed),
            before_program: self.before_program.max(other.before_program),
            sent: self.sent.max(other.sent),
            ambiguous: self.ambiguous.max(other.ambiguous),
            at_least: self.at_least || other.at_least,
        }
    }

    /// Returns `before`, but with the losses of sent frames from `self`.
    #[must_use]
    pub const fn but_received(self, before: Losses) -> Losses {
        Losses { sent: self.sent, ..before }
    }
}

// Tests for SPECIFICATION.md: kernel-drops
#[cfg(test)]
mod tests {
    use super::*;

    const fn device(rx_dropped: u64) -> DeviceDrops {
        DeviceDrops { rx_dropped, rx_errors: 0, rx_missed: 0, rx_passed: 0, tx_dropped: 0, tx_errors: 0 }
    }

    fn stalled() -> XdpStatistics {
        XdpStatistics {
            rx_dropped: 100,
            rx_fill_ring_empty: 100,
            rx_ring_full: 20,
            ..XdpStatistics::default()
        }
    }

    #[test]
    fn loss_counted_by_socket_and_device_counts_once() {
        let native = Overlap::of(&Driver::named("veth"), true);
        let losses = Losses::of(&stalled(), &device(120), native);
        assert_eq!(losses, Losses { behind_program: 120, ..Losses::default() });
        let generic = Losses::of(&stalled(), &device(7), Overlap::of(&Driver::named("veth"), false));
        assert_eq!((generic.behind_program, generic.before_program, generic.at_least), (120, 7, false));
    }

    #[test]
    fn loss_total_with_untested_driver_is_a_lower_bound() {
        let unknown = Overlap::of(&Driver::named("new_nic"), true);
        let losses = Losses::of(&stalled(), &device(150), unknown);
        assert_eq!((losses.total(), losses.at_least), (150, true));
        assert!(!Losses::of(&stalled(), &device(0), unknown).at_least);
        let less = Losses::of(&stalled(), &device(50), unknown);
        assert_eq!((less.total(), less.at_least), (120, true));
        let too_long = XdpStatistics { rx_too_long: 10, ..XdpStatistics::default() };
        let hidden = Losses::of(&too_long, &device(10), unknown);
        assert_eq!(
            (hidden.total(), hidden.ambiguous),
            (0, 10),
            "the ten frames that the device may have lost must be reported"
        );
        let veth = Overlap::of(&Driver::named("veth"), true);
        let invalid = XdpStatistics { rx_invalid: 5, ..XdpStatistics::default() };
        assert_eq!(
            Losses::of(&invalid, &device(5), veth).before_program,
            5,
            "losses in separate counters must be added"
        );
    }

    #[test]
    fn drops_of_xdp_program_count_once_with_every_driver() {
        let xdp = XdpStatistics { rx_unclaimed: 3, rx_too_long: 4, ..stalled() };
        let at = |driver, rx_dropped| {
            Losses::of(&xdp, &device(rx_dropped), Overlap::of(&Driver::named(driver), true))
        };
        assert_eq!(at("virtio_net", 127).total(), 123, "frames longer than a chunk must not count as lost");
        assert_eq!(at("veth", 120).total(), 123);
        assert_eq!((at("igb", 9).total(), at("igb", 9).at_least), (123, true));
    }

    #[test]
    fn frame_dropped_on_transmit_counts_once() {
        let device = DeviceDrops { tx_dropped: 5, ..device(0) };
        let of = |tx_dropped| {
            Losses::of(&XdpStatistics { tx_dropped, ..XdpStatistics::default() }, &device, Overlap::Sockets)
        };
        assert_eq!((of(5).sent, of(5).at_least), (5, false));
        assert_eq!((of(0).sent, of(3).sent), (5, 5));
        assert_eq!((of(6).sent, of(6).at_least), (6, true));
    }

    #[test] // proves: verdict
    fn every_loss_counter_alone_raises_the_sum_of_losses() {
        let none = XdpStatistics::default();
        let alone = [
            XdpStatistics { rx_dropped: 1, ..none },
            XdpStatistics { rx_ring_full: 1, ..none },
            XdpStatistics { rx_invalid: 1, ..none },
            XdpStatistics { rx_unclaimed: 1, ..none },
            XdpStatistics { rx_malformed: 1, ..none },
            XdpStatistics { tx_invalid: 1, ..none },
            XdpStatistics { tx_dropped: 1, ..none },
        ];
        for overlap in [Overlap::None, Overlap::Sockets, Overlap::SocketsAndProgram, Overlap::Unknown] {
            for xdp in &alone {
                assert_eq!(Losses::of(xdp, &device(0), overlap).total(), 1, "{xdp:?}");
            }
            assert_eq!(Losses::of(&none, &device(1), overlap).total(), 1);
        }
    }
}
