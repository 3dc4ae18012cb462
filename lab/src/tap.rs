//! Connects a link to a virtual machine's TAP device.
//!
//! ```text
//!   guest -- TAP == veth -- veth -- switch      == every frame received at either device leaves at the other (clsact, mirred)
//! ```
//!
//! All frames pass, including MAC control frames, which a bridge would discard. The veth is shaped to the link's rate, so that few
//! frames of a paused guest are in flight.

use std::io;

use xoff_netlink::Conversation;
use xoff_netlink::tc::{Bucket, Filter, Handle, Place, Qdisc, Rate, Request, TcError};
use xoff_wire::units::BitRate;

use super::netlink::netlink;
use super::{Counters, Device, LabError};

/// Bytes of FCS, preamble and gap of a frame, which the kernel does not count.
const OVERHEAD: u16 = 24;
const LEAST: u16 = 84;
/// Minimum depth of the shaper's token bucket in bytes: two frames of the usual MTU.
const TWO_FRAMES: u32 = 3_200;
/// Maximum bytes in the shaper's queue: more than QEMU, limited by `sndbuf`, has in the TAP device.
const WAITING_MAX: u32 = 10_000_000;

const OURS: u16 = 0x786f;

#[derive(Debug)]
pub struct Tie {
    tap: Device,
    before: Counters,
}

impl Tie {
    /// Connects `tap` to the link's end `wire` in the same namespace, shaped to the rate `line`.
    ///
    /// # Errors
    /// Fails if the kernel lacks clsact, cls_bpf, mirred or tbf, or the TAP's clsact is in use.
    pub fn new(tap: Device, wire: &Device, line: BitRate) -> Result<Tie, LabError> {
        let [at_tap, at_wire] = [&tap, wire].map(Device::ifindex);
        let rate = Rate { bytes_per_second: line.bits_per_second() / 8, overhead: OVERHEAD, least: LEAST };
        let burst = TWO_FRAMES.max(2 * (wire.mtu()? + 64));
        let shaper = Qdisc::Tbf { bucket: Bucket::Open { rate, burst }, limit: WAITING_MAX };
        let root = Place { ifindex: at_wire, parent: Handle::ROOT, handle: Handle::NONE };
        let requests =
            [Qdisc::Clsact.add(clsact(at_tap)), Qdisc::Clsact.add(clsact(at_wire)), shaper.replace(root)];
        let redirects = [(at_tap, at_wire), (at_wire, at_tap)].map(|(from, to)| redirect(from, to));
        tap.set_up(true)?;
        remove_leftover(&tap)?;
        send(wire, requests.into_iter().chain(redirects))?;
        let before = tap.counters()?;
        Ok(Tie { tap, before })
    }

    pub fn untie(&self) {
        let _ = send(&self.tap, [Qdisc::delete(clsact(self.tap.ifindex()))].into_iter()); // fails if the TAP device is gone
    }

    #[must_use]
    pub fn tap(&self) -> &Device {
        &self.tap
    }

    pub fn counters(&self) -> Result<Counters, LabError> {
        Ok(self.tap.counters()?.since(self.before))
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        self.untie();
    }
}

fn clsact(ifindex: i32) -> Place {
    Place { ifindex, parent: Handle::CLSACT, handle: Handle::NONE }
}

fn redirect(from: i32, to: i32) -> Request {
    Filter::redirect(OURS, to).put(Place { ifindex: from, parent: Handle::INGRESS, handle: Handle::NONE })
}

fn remove_leftover(tap: &Device) -> Result<(), LabError> {
    let left = talk(tap, |kernel| {
        let filters = kernel.filters(tap.ifindex(), Handle::INGRESS).unwrap_or_default(); // fails if there is no clsact
        Ok(!filters.is_empty() && filters.iter().all(|filter| filter.priority() == OURS))
    })?;
    if left { send(tap, [Qdisc::delete(clsact(tap.ifindex()))].into_iter()) } else { Ok(()) }
}

fn send(device: &Device, mut requests: impl Iterator<Item = Request>) -> Result<(), LabError> {
    talk(device, move |kernel| requests.try_for_each(|mut request| kernel.send(&mut request)))
}

fn talk<T>(
    device: &Device,
    talk: impl FnOnce(&mut Conversation) -> Result<T, TcError>,
) -> Result<T, LabError> {
    let what = format!("tie TAP device {} to a wire", device.name());
    netlink(device.namespace(), &what, |kernel| talk(kernel).map_err(io::Error::other))
}
