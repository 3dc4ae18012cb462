//! What a driver says of its device by ethtool, as far as a lossless port depends on it: advice about what somebody has to set,
//! and what drivers cannot do with shared memory. `docs/drivers.md` says which were tried.

use crate::error::Obstacle;
use crate::layout::HEADROOM;

/// Bytes of a frame in front of its payload, with two tags.
const HEAD_BYTES: u32 = 14 + 2 * 4;

/// A driver, by its name; empty where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver(pub(crate) String);

impl Driver {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Driver {
        Driver(name.to_owned())
    }

    /// Its name; `None` where it does not say.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|name| !name.is_empty())
    }

    /// Whether its devices are nothing but memory, in which frames are handed on as they are.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        ["veth", "tun", "virtio_net"].contains(&self.0.as_str())
    }

    /// What keeps it from sharing memory with chunks of that size, for frames of up to `mtu` bytes of payload.
    ///
    /// igb tells its NIC the size of a buffer in KiB, rounded down, and takes what the NIC then writes to a second buffer
    /// for a frame of its own.
    pub(crate) fn obstacle(&self, chunk_bytes: u32, mtu: u32) -> Option<Obstacle> {
        let room = (chunk_bytes - HEADROOM) / 1024 * 1024;
        let longest = mtu + HEAD_BYTES;
        (self.0 == "igb" && longest > room).then_some(Obstacle::WholeKibibytes { room, longest })
    }
}

/// Bytes that Linux's page of 4096 leaves a frame between XDP's headroom, what comes behind, and virtio's own head.
const VIRTIO_PAGE_ROOM: u32 = 3508;

/// The kernel's version, as `uname -r` has it; `None` where nobody says.
pub(crate) fn kernel_release() -> Option<String> {
    nix::sys::utsname::uname().ok()?.release().to_str().map(str::to_owned)
}

impl Driver {
    /// The largest MTU with which it runs an XDP program without losing frames, where it takes the program with a larger
    /// one, too: `virtio_net` does before Linux 6.3.
    pub(crate) fn native_mtu_max(&self, release: &str) -> Option<u32> {
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next()?, numbers.next()?);
        (self.0 == "virtio_net" && version < (6, 3)).then_some(VIRTIO_PAGE_ROOM - HEAD_BYTES)
    }
}

/// The ring into which a NIC receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveRing {
    pub(crate) entries: u32,
    pub(crate) max: u32,
}

impl ReceiveRing {
    /// What is to be said of it, if anything.
    pub(crate) fn advice(self, device: &str) -> Option<String> {
        let ReceiveRing { entries, max } = self;
        (entries < max).then(|| {
            format!(
                "{device} receives into a ring of {entries} frames, and could have {max}: what comes while it is full is \
                 lost, pauses or not; `ethtool -G {device} rx {max}` before the switch starts"
            )
        })
    }
}

/// A NIC's own flow control (802.3x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowControl {
    pub(crate) rx: bool,
    pub(crate) tx: bool,
}

impl FlowControl {
    /// What is to be said of it, if anything.
    pub(crate) fn advice(self, device: &str) -> Option<String> {
        let does = match (self.rx, self.tx) {
            (false, false) => return None,
            (true, false) => "obeys",
            (false, true) => "sends",
            (true, true) => "obeys and sends",
        };
        Some(format!(
            "{device} {does} 802.3x pauses by itself, and NICs that do may keep PFC frames from the switch: \
             `ethtool -A {device} autoneg off rx off tx off`"
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn igb_shares_chunks_whose_whole_kibibytes_hold_its_frames() {
        let igb = Driver("igb".to_owned());
        let too_small = Some(Obstacle::WholeKibibytes { room: 1024, longest: 1522 });
        assert_eq!(igb.obstacle(2048, 1500), too_small);
        assert_eq!((igb.obstacle(2048, 1003).is_some(), igb.obstacle(2048, 1002)), (true, None));
        assert_eq!((igb.obstacle(4096, 3051).is_some(), igb.obstacle(4096, 3050)), (true, None));
        assert_eq!(Driver("ice".to_owned()).obstacle(2048, 1500), None);
    }

    #[test]
    fn virtio_net_before_linux_6_3_loses_long_frames_natively() {
        let most = |driver: &str, release| Driver(driver.to_owned()).native_mtu_max(release);
        assert_eq!(most("virtio_net", "6.1.0-50-amd64\n"), Some(3486));
        assert_eq!(most("virtio_net", "6.2.16"), Some(3486));
        for (driver, release) in
            [("virtio_net", "6.3.0"), ("virtio_net", "7.0-rc1"), ("veth", "6.1.0"), ("virtio_net", "?")]
        {
            assert_eq!(most(driver, release), None, "{driver} {release}");
        }
    }

    #[test]
    fn a_ring_that_could_be_longer_is_told_of_with_the_command() {
        let said = ReceiveRing { entries: 256, max: 4096 }.advice("eth0").unwrap();
        assert!(said.contains("256") && said.contains("`ethtool -G eth0 rx 4096`"), "{said}");
        assert_eq!(ReceiveRing { entries: 4096, max: 4096 }.advice("eth0"), None);
        assert_eq!(ReceiveRing { entries: 0, max: 0 }.advice("eth0"), None);
    }

    #[test]
    fn a_nic_with_flow_control_of_its_own_is_told_of_with_the_command() {
        let said = |rx, tx| FlowControl { rx, tx }.advice("eth0");
        assert_eq!(said(false, false), None);
        assert!(said(true, true).unwrap().contains("obeys and sends 802.3x"));
        assert!(said(true, false).unwrap().contains("`ethtool -A eth0 autoneg off rx off tx off`"));
        assert!(said(false, true).unwrap().contains("eth0 sends"));
    }
}
