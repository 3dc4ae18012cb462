//! What a device does to the frames of the kernel's own stack on their way out (checksums, cutting superframes), set and put
//! back.

use std::io;

use serde::{Deserialize, Serialize};
use xoff_wire::units::MacAddr;

use crate::driver::Driver;
use crate::netlink::{Link, Netlink};
use crate::sys::Ethtool;

/// Makes a veth the device of a host whose kernel finishes its own frames: checksums in place, no longer
/// than the MTU, and in order where a sender changes its CPU (which takes GRO).
///
/// # Errors
/// Where there is no such device, or its driver refuses.
pub fn finish_frames(device: &str) -> io::Result<()> {
    finish(&Ethtool::new(device)?)
}

fn finish(ethtool: &Ethtool) -> io::Result<()> {
    let features = [(Ethtool::SET_TX_CHECKSUM, 0), (Ethtool::SET_TSO, 0), (Ethtool::SET_GRO, 1)];
    features.into_iter().try_for_each(|(command, value)| match ethtool.set(command, value) {
        // It cannot be chosen, and is so already.
        Err(_) if ethtool.get(Ethtool::get_of(command)) == Some(value) => Ok(()),
        result => result,
    })
}

/// The offloads of a device, of the network namespace of the thread that opened them: that device is meant from then on, whichever
/// thread asks, and whatever its name is by then.
#[derive(Debug)]
pub struct Offloads {
    ifindex: i32,
    ethtool: Ethtool,
    netlink: Netlink,
}

/// Offloads as they are at a time, to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadsBefore {
    /// What was asked for of what the driver lets be chosen: (can be chosen, was asked for), 32 features at a time.
    features: Vec<[u32; 2]>,
    /// Most frames that the kernel's TCP may put into one superframe.
    segments: u32,
}

impl Offloads {
    /// Those of a device.
    ///
    /// # Errors
    /// Where the system has no more sockets.
    pub fn open(ifindex: i32) -> io::Result<Offloads> {
        Ok(Offloads { ifindex, ethtool: Ethtool::new("")?, netlink: Netlink::open()? })
    }

    /// The device's name by now; `None` where it is gone.
    ///
    /// # Errors
    /// Where the kernel does not answer.
    pub fn device(&self) -> io::Result<Option<String>> {
        Ok(self.netlink.link_at(self.ifindex)?.map(|link| link.name))
    }

    /// Its MTU by now.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn mtu(&self) -> io::Result<u32> {
        Ok(self.link()?.mtu)
    }

    /// The address that the device's hardware has; zero where it has none.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn permanent_address(&self) -> io::Result<MacAddr> {
        Ok(self.link()?.permanent_address)
    }

    /// As they are now.
    ///
    /// # Errors
    /// Where there is no such device.
    pub fn read(&self) -> io::Result<OffloadsBefore> {
        let link = self.link()?;
        Ok(OffloadsBefore {
            features: self.ethtool.about(&link.name)?.features()?,
            segments: link.gso_max_segs,
        })
    }

    /// Lets no superframe of the kernel's TCP into the queues of the device, and none out of it. The kernel computes checksums itself
    /// where the device is nothing but memory, which would leave them out. Connections that there are already go on as they began.
    ///
    /// # Errors
    /// Where the driver refuses.
    pub fn single_frames(&self) -> io::Result<()> {
        let ethtool = self.ethtool.about(&self.link()?.name)?;
        match Driver(ethtool.driver()?).is_memory() {
            true => finish(&ethtool)?,
            false => ethtool.set_if_known(Ethtool::SET_TSO, 0)?,
        }
        ethtool.set_if_known(Ethtool::SET_GSO, 0)?;
        self.set_segments(1)
    }

    /// Puts back what still is as it was `set`; where that is not known, all that was before.
    ///
    /// # Errors
    /// Where the device is gone, or its driver refuses.
    pub fn put_back(&self, before: &OffloadsBefore, set: Option<&OffloadsBefore>) -> io::Result<()> {
        let now = self.read()?;
        let before = before.unless_changed(set.unwrap_or(&now), &now);
        self.ethtool.about(&self.link()?.name)?.set_features(&before.features)?;
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
    /// Returns the offloads to put back: `self`, those before xoff, for each that still is as xoff `set` it, and `now` for each that
    /// somebody has changed since.
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

    #[test]
    fn what_somebody_changed_since_stays() {
        let state = |requested, segments| OffloadsBefore { features: vec![[0b1111, requested]], segments };
        let (before, set) = (state(0b0111, 65_535), state(0b0100, 1));
        assert_eq!(before.unless_changed(&set, &set), before);
        // Somebody has turned one on that had never been, one off that we left on, and none of ours.
        let now = state(0b1000, 1);
        assert_eq!(before.unless_changed(&set, &now), state(0b1011, 65_535));
        assert_eq!(before.unless_changed(&set, &state(0b0100, 7)).segments, 7);
    }
}
