//! Offloads (checksums, segmentation) for the frames of the kernel's own network stack.

use std::io;

use serde::{Deserialize, Serialize};
use xoff_wire::units::MacAddr;

use crate::driver::Driver;
use crate::netlink::{Link, Netlink};
use crate::sys::Ethtool;

/// Makes the kernel send complete frames: with checksums, at most one MTU long, and in order (on a veth, GRO keeps the order).
pub fn finish_frames(device: &str) -> io::Result<()> {
    finish(&Ethtool::new(device)?)
}

fn finish(ethtool: &Ethtool) -> io::Result<()> {
    let features = [(Ethtool::SET_TX_CHECKSUM, 0), (Ethtool::SET_TSO, 0), (Ethtool::SET_GRO, 1)];
    features.into_iter().try_for_each(|(command, value)| match ethtool.set(command, value) {
        // Ignore the error if the feature already has the value: a driver may refuse any change.
        Err(_) if ethtool.get(Ethtool::get_of(command)) == Some(value) => Ok(()),
        result => result,
    })
}

/// Access to a device's offloads, even after a rename, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Offloads {
    ifindex: i32,
    ethtool: Ethtool,
    netlink: Netlink,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadsBefore {
    features: Vec<[u32; 2]>,
    segments: u32,
}

impl Offloads {
    pub fn open(ifindex: i32) -> io::Result<Offloads> {
        Ok(Offloads { ifindex, ethtool: Ethtool::new("")?, netlink: Netlink::open()? })
    }

    pub fn device(&self) -> io::Result<Option<String>> {
        Ok(self.netlink.link_at(self.ifindex)?.map(|link| link.name))
    }

    pub fn mtu(&self) -> io::Result<u32> {
        Ok(self.link()?.mtu)
    }

    pub fn permanent_address(&self) -> io::Result<MacAddr> {
        Ok(self.link()?.permanent_address)
    }

    pub fn read(&self) -> io::Result<OffloadsBefore> {
        let link = self.link()?;
        Ok(OffloadsBefore {
            features: self.ethtool.about(&link.name).features()?,
            segments: link.gso_max_segs,
        })
    }

    /// Keeps superframes (several TCP segments joined into one frame) out of the device. For a device in memory, such
    /// as a veth, the kernel then also computes checksums.
    pub fn single_frames(&self) -> io::Result<()> {
        let ethtool = self.ethtool.about(&self.link()?.name);
        match Driver(ethtool.driver()?).is_memory() {
            true => finish(&ethtool)?,
            false => ethtool.set_if_supported(Ethtool::SET_TSO, 0)?,
        }
        ethtool.set_if_supported(Ethtool::SET_GSO, 0)?;
        self.set_segments(1)
    }

    /// Returns the settings that differ from those of [`single_frames`](Self::single_frames).
    pub fn unwanted(&self) -> io::Result<Vec<&'static str>> {
        let link = self.link()?;
        let ethtool = self.ethtool.about(&link.name);
        let is_memory = Driver(ethtool.driver()?).is_memory();
        let features = [
            ("TX checksums", Ethtool::SET_TX_CHECKSUM, 0, is_memory),
            ("TSO", Ethtool::SET_TSO, 0, true),
            ("GSO", Ethtool::SET_GSO, 0, true),
            ("GRO", Ethtool::SET_GRO, 1, is_memory),
        ];
        let differs = |&(_, command, wanted, _): &(&str, u32, u32, bool)| {
            ethtool.get(Ethtool::get_of(command)).is_some_and(|value| value != wanted)
        };
        let features = features.into_iter().filter(|&(.., is_set)| is_set).filter(differs);
        let segments = (link.gso_max_segs != 1).then_some("gso_max_segs");
        Ok(features.map(|(name, ..)| name).chain(segments).collect())
    }

    /// Restores the settings `before`, except those that another program changed after xoff had made the settings
    /// `set`. Without `set`, restores all.
    pub fn put_back(&self, before: &OffloadsBefore, set: Option<&OffloadsBefore>) -> io::Result<()> {
        let now = self.read()?;
        let before = before.unless_changed(set.unwrap_or(&now), &now);
        self.ethtool.about(&self.link()?.name).set_features(&before.features)?;
        self.set_segments(before.segments)
    }

    fn set_segments(&self, segments: u32) -> io::Result<()> {
        self.netlink.set_gso_max_segs(self.ifindex, segments)
    }

    fn link(&self) -> io::Result<Link> {
        Ok(self.netlink.link_at(self.ifindex)?.ok_or(io::ErrorKind::NotFound)?)
    }
}

impl OffloadsBefore {
    /// Returns `self`, but with the value in `now` of each setting that has changed since xoff set it to its value in
    /// `set`.
    #[must_use]
    pub fn unless_changed(&self, set: &OffloadsBefore, now: &OffloadsBefore) -> OffloadsBefore {
        let features = self.features.iter().zip(&set.features).zip(&now.features);
        let features = features.map(|((&[may, was], &[_, set]), &[_, now])| {
            let changed = set ^ now;
            [may, was & !changed | now & changed]
        });
        let segments = if set.segments == now.segments { self.segments } else { now.segments };
        OffloadsBefore { features: features.collect(), segments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: host-guard
    fn offload_changed_by_another_program_is_not_restored() {
        let state = |requested, segments| OffloadsBefore { features: vec![[0b1111, requested]], segments };
        let (before, set) = (state(0b0111, 65_535), state(0b0100, 1));
        assert_eq!(before.unless_changed(&set, &set), before);
        let now = state(0b1000, 1);
        assert_eq!(before.unless_changed(&set, &now), state(0b1011, 65_535));
        assert_eq!(before.unless_changed(&set, &state(0b0100, 7)).segments, 7);
    }
}
