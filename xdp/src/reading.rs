//! Drop counters and XDP program of a device, read by netlink and found by the device's index.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_netlink::link_at;
use xoff_netlink::packet_route::link::{LinkAttribute, LinkMessage, Stats64};

use crate::netlink::{Netlink, program};

/// Frames that a device has lost since the port was opened, according to its own counters ([`LINK_COUNTERS`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDrops {
    /// Frames dropped on receive. Some drivers include frames that a socket dropped.
    pub rx_dropped: u64,
    /// Frames received with errors.
    pub rx_errors: u64,
    /// Frames that the device missed because it had no buffer.
    #[serde(default)]
    pub rx_missed: u64,
    /// Frames passed to the machine's own network stack instead of the XDP program.
    #[serde(default)]
    pub rx_passed: u64,
    /// Frames dropped on transmit.
    pub tx_dropped: u64,
    /// Frames not sent because of errors.
    pub tx_errors: u64,
}

/// Role of a link counter in the sum of lost frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    RxDropped,
    /// Frames missed for lack of a buffer. All such counters are added up, because some drivers (igb) count different
    /// frames in each.
    RxMissed,
    RxErrors,
    /// One kind of receive error. The sum of all kinds replaces the total if larger, because some drivers leave kinds
    /// out of the total.
    RxErrorsPart,
    RxPassed,
    TxDropped,
    TxErrors,
    /// One kind of transmit error. The sum of all kinds replaces the total if larger.
    TxErrorsPart,
    None,
}

type LinkCounter = (&'static str, fn(&Stats64) -> u64, Role);

/// Counters of a device (struct `rtnl_link_stats64`), with their roles.
pub const LINK_COUNTERS: [LinkCounter; 25] = [
    ("rx_packets", |it| it.rx_packets, Role::None),
    ("tx_packets", |it| it.tx_packets, Role::None),
    ("rx_bytes", |it| it.rx_bytes, Role::None),
    ("tx_bytes", |it| it.tx_bytes, Role::None),
    ("rx_errors", |it| it.rx_errors, Role::RxErrors),
    ("tx_errors", |it| it.tx_errors, Role::TxErrors),
    ("rx_dropped", |it| it.rx_dropped, Role::RxDropped),
    ("tx_dropped", |it| it.tx_dropped, Role::TxDropped),
    ("multicast", |it| it.multicast, Role::None),
    ("collisions", |it| it.collisions, Role::None),
    ("rx_length_errors", |it| it.rx_length_errors, Role::RxErrorsPart),
    ("rx_over_errors", |it| it.rx_over_errors, Role::RxMissed),
    ("rx_crc_errors", |it| it.rx_crc_errors, Role::RxErrorsPart),
    ("rx_frame_errors", |it| it.rx_frame_errors, Role::RxErrorsPart),
    ("rx_fifo_errors", |it| it.rx_fifo_errors, Role::RxMissed),
    ("rx_missed_errors", |it| it.rx_missed_errors, Role::RxMissed),
    ("tx_aborted_errors", |it| it.tx_aborted_errors, Role::TxErrorsPart),
    ("tx_carrier_errors", |it| it.tx_carrier_errors, Role::TxErrorsPart),
    ("tx_fifo_errors", |it| it.tx_fifo_errors, Role::TxErrorsPart),
    ("tx_heartbeat_errors", |it| it.tx_heartbeat_errors, Role::None),
    ("tx_window_errors", |it| it.tx_window_errors, Role::TxErrorsPart),
    ("rx_compressed", |it| it.rx_compressed, Role::None),
    ("tx_compressed", |it| it.tx_compressed, Role::None),
    ("rx_nohandler", |it| it.rx_nohandler, Role::RxPassed),
    ("rx_otherhost_dropped", |it| it.rx_otherhost_dropped, Role::RxPassed),
];

impl DeviceDrops {
    /// Returns these drops, but with the receive counters of `before`.
    #[must_use]
    pub const fn but_received(self, before: DeviceDrops) -> DeviceDrops {
        DeviceDrops { tx_dropped: self.tx_dropped, tx_errors: self.tx_errors, ..before }
    }

    #[must_use]
    pub const fn losses(&self) -> [(&'static str, u64); 6] {
        [
            ("rx_dropped", self.rx_dropped),
            ("rx_errors", self.rx_errors),
            ("rx_missed", self.rx_missed),
            ("rx_passed", self.rx_passed),
            ("tx_dropped", self.tx_dropped),
            ("tx_errors", self.tx_errors),
        ]
    }

    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().iter().map(|(_, frames)| frames).sum()
    }

    /// Adds the drops of an earlier device of the same port.
    #[must_use]
    pub fn and(self, other: DeviceDrops) -> DeviceDrops {
        DeviceDrops {
            rx_dropped: self.rx_dropped + other.rx_dropped,
            rx_errors: self.rx_errors + other.rx_errors,
            rx_missed: self.rx_missed + other.rx_missed,
            rx_passed: self.rx_passed + other.rx_passed,
            tx_dropped: self.tx_dropped + other.tx_dropped,
            tx_errors: self.tx_errors + other.tx_errors,
        }
    }

    pub(crate) fn since(self, start: DeviceDrops) -> Option<DeviceDrops> {
        Some(DeviceDrops {
            rx_dropped: self.rx_dropped.checked_sub(start.rx_dropped)?,
            rx_errors: self.rx_errors.checked_sub(start.rx_errors)?,
            rx_missed: self.rx_missed.checked_sub(start.rx_missed)?,
            rx_passed: self.rx_passed.checked_sub(start.rx_passed)?,
            tx_dropped: self.tx_dropped.checked_sub(start.tx_dropped)?,
            tx_errors: self.tx_errors.checked_sub(start.tx_errors)?,
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) name: String,
    pub(crate) drops: DeviceDrops,
    pub(crate) program: u32,
}

#[derive(Debug)]
pub(crate) struct Reader {
    ifindex: u32,
    netlink: Netlink,
}

impl Reader {
    pub(crate) fn open(ifindex: u32) -> io::Result<Reader> {
        Ok(Reader { ifindex, netlink: Netlink::open()? })
    }

    pub(crate) fn read(&self) -> io::Result<Reading> {
        let link = self.netlink.read(link_at(self.ifindex))?;
        reading(&link.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?)
    }
}

fn reading(link: &LinkMessage) -> io::Result<Reading> {
    let stats = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Stats64(stats) => Some(drops(stats)),
        _ => None,
    });
    let program = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(facts) => Some(program(facts)),
        _ => None,
    });
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    let missing = || io::Error::other("the kernel does not report the device's counters");
    Ok(Reading {
        name: name.unwrap_or_default(),
        drops: stats.ok_or_else(missing)?,
        program: program.unwrap_or(0),
    })
}

fn drops(stats: &Stats64) -> DeviceDrops {
    let sum = |role| {
        let counters = LINK_COUNTERS.iter().filter(|(.., its)| *its == role);
        counters.map(|(_, read, _)| read(stats)).sum::<u64>()
    };
    DeviceDrops {
        rx_dropped: sum(Role::RxDropped),
        rx_errors: sum(Role::RxErrors).max(sum(Role::RxErrorsPart)),
        rx_missed: sum(Role::RxMissed),
        rx_passed: sum(Role::RxPassed),
        tx_dropped: sum(Role::TxDropped),
        tx_errors: sum(Role::TxErrors).max(sum(Role::TxErrorsPart)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(stats: &mut Stats64, name: &str, frames: u64) {
        let field = match name {
            "rx_dropped" => &mut stats.rx_dropped,
            "rx_errors" => &mut stats.rx_errors,
            "rx_length_errors" => &mut stats.rx_length_errors,
            "rx_over_errors" => &mut stats.rx_over_errors,
            "rx_crc_errors" => &mut stats.rx_crc_errors,
            "rx_frame_errors" => &mut stats.rx_frame_errors,
            "rx_fifo_errors" => &mut stats.rx_fifo_errors,
            "rx_missed_errors" => &mut stats.rx_missed_errors,
            "rx_nohandler" => &mut stats.rx_nohandler,
            "rx_otherhost_dropped" => &mut stats.rx_otherhost_dropped,
            "tx_dropped" => &mut stats.tx_dropped,
            "tx_errors" => &mut stats.tx_errors,
            "tx_aborted_errors" => &mut stats.tx_aborted_errors,
            "tx_carrier_errors" => &mut stats.tx_carrier_errors,
            "tx_fifo_errors" => &mut stats.tx_fifo_errors,
            "tx_window_errors" => &mut stats.tx_window_errors,
            name => panic!("unknown loss counter: {name}"),
        };
        *field = frames;
    }

    #[test] // proves: verdict
    fn each_loss_counter_of_a_device_enters_its_sum() {
        for (name, ..) in LINK_COUNTERS.iter().filter(|(.., role)| *role != Role::None) {
            let mut stats = Stats64::default();
            set(&mut stats, name, 7);
            assert_eq!(drops(&stats).lost(), 7, "{name}");
        }
    }

    #[test] // proves: kernel-drops
    fn receive_error_counted_by_kind_and_in_total_counts_once() {
        let mut stats = Stats64::default();
        for (name, frames) in [("rx_errors", 5), ("rx_crc_errors", 3), ("rx_length_errors", 2)] {
            set(&mut stats, name, frames);
        }
        assert_eq!(drops(&stats), DeviceDrops { rx_errors: 5, ..DeviceDrops::default() });
        set(&mut stats, "rx_frame_errors", 4);
        assert_eq!(
            drops(&stats).rx_errors,
            9,
            "if the error kinds add up to more than the total, their sum must replace it"
        );
        for (name, frames) in [("rx_fifo_errors", 20), ("rx_missed_errors", 30), ("rx_over_errors", 30)] {
            set(&mut stats, name, frames);
        }
        assert_eq!(drops(&stats).rx_missed, 80);
    }
}
