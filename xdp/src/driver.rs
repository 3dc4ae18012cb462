//! Limits of device drivers, and advice for the operator on a device's settings.

use crate::error::Obstacle;
use crate::layout::HEADROOM;

const HEAD_BYTES: u32 = 14 + 2 * 4;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver(pub(crate) String);

impl Driver {
    #[must_use]
    pub fn named(name: &str) -> Driver {
        Driver(name.to_owned())
    }

    #[must_use]
    pub fn name(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns whether the device is virtual: it passes frames on in memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        ["veth", "tun", "virtio_net"].contains(&self.0.as_str())
    }

    pub(crate) fn is_veth(&self) -> bool {
        self.0 == "veth"
    }

    /// Returns what prevents zero copy for payloads of up to `mtu` bytes, if anything. The driver igb rounds buffers
    /// down to whole KiB, and treats a second buffer as a separate frame.
    pub(crate) fn obstacle(&self, chunk_bytes: u32, mtu: u32) -> Option<Obstacle> {
        let room = (chunk_bytes - HEADROOM) / 1024 * 1024;
        let longest = mtu + HEAD_BYTES;
        (self.0 == "igb" && longest > room).then_some(Obstacle::WholeKibibytes { room, longest })
    }
}

/// Bytes for a frame in a page of 4096 bytes, after XDP's headroom, the kernel's tail and virtio's header.
const VIRTIO_PAGE_ROOM: u32 = 3508;

pub(crate) fn kernel_release() -> Option<String> {
    nix::sys::utsname::uname().ok()?.release().to_str().map(str::to_owned)
}

pub(crate) fn kernel_version() -> Option<(u32, u32)> {
    version_of(&kernel_release()?)
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?))
}

impl Driver {
    /// Returns the maximum MTU at which native XDP loses no frame; `None` if the driver refuses larger ones by itself.
    ///
    /// `virtio_net` before Linux 6.3 accepts larger MTUs, but loses frames.
    pub(crate) fn native_mtu_max(&self, release: &str) -> Option<u32> {
        (self.0 == "virtio_net" && version_of(release)? < (6, 3)).then_some(VIRTIO_PAGE_ROOM - HEAD_BYTES)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveRing {
    pub(crate) entries: u32,
    pub(crate) max: u32,
}

impl ReceiveRing {
    pub(crate) fn advice(self, device: &str) -> Option<String> {
        let ReceiveRing { entries, max } = self;
        (entries < max).then(|| {
            format!(
                "{device} has a receive ring of {entries} frames, but can have {max}: frames that arrive while the ring is full are \
                 lost despite pauses; run `ethtool -G {device} rx {max}` before the switch starts"
            )
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowControl {
    pub(crate) rx: bool,
    pub(crate) tx: bool,
}

impl FlowControl {
    pub(crate) fn advice(self, device: &str) -> Option<String> {
        let does = match (self.rx, self.tx) {
            (false, false) => return None,
            (true, false) => "obeys",
            (false, true) => "sends",
            (true, true) => "obeys and sends",
        };
        Some(format!(
            "{device} {does} 802.3x pauses by itself, and may therefore keep PFC frames from the switch: \
             run `ethtool -A {device} autoneg off rx off tx off`"
        ))
    }
}

// Tests for SPECIFICATION.md: frames
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn igb_zero_copy_needs_frames_within_whole_kibibytes_of_chunk() {
        let igb = Driver("igb".to_owned());
        let too_small = Some(Obstacle::WholeKibibytes { room: 1024, longest: 1522 });
        assert_eq!(igb.obstacle(2048, 1500), too_small);
        assert_eq!((igb.obstacle(2048, 1003).is_some(), igb.obstacle(2048, 1002)), (true, None));
        assert_eq!((igb.obstacle(4096, 3051).is_some(), igb.obstacle(4096, 3050)), (true, None));
        assert_eq!(Driver("ice".to_owned()).obstacle(2048, 1500), None);
    }

    #[test]
    fn virtio_net_before_linux_6_3_limits_native_mtu() {
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
    fn advice_on_short_ring_names_the_ethtool_command() {
        let advice = ReceiveRing { entries: 256, max: 4096 }.advice("eth0").unwrap();
        assert!(advice.contains("256") && advice.contains("`ethtool -G eth0 rx 4096`"), "{advice}");
        assert_eq!(ReceiveRing { entries: 4096, max: 4096 }.advice("eth0"), None);
        assert_eq!(ReceiveRing { entries: 0, max: 0 }.advice("eth0"), None);
    }

    #[test]
    fn advice_on_flow_control_names_the_ethtool_command() {
        let advice = |rx, tx| FlowControl { rx, tx }.advice("eth0");
        assert_eq!(advice(false, false), None);
        assert!(advice(true, true).unwrap().contains("obeys and sends 802.3x"));
        assert!(advice(true, false).unwrap().contains("`ethtool -A eth0 autoneg off rx off tx off`"));
        assert!(advice(false, true).unwrap().contains("eth0 sends"));
    }
}
