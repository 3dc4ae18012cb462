//! A TAP device tied to a wire, so that the virtual machine behind it is at the other end of that wire.
//!
//! ```text
//!   guest -- TAP == veth -- veth -- switch      == what comes in at either leaves at the other (clsact, mirred)
//! ```
//!
//! Everything passes, MAC control too (a bridge in its place would keep that). Towards the switch the veth is shaped to the line's
//! rate: a TAP has none, and a guest that is paused has only what it has sent already on the way.

use std::io;

use xoff_dataplane::units::BitRate;
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Bucket, Filter, Handle, Place, Qdisc, Rate, Request, TcError};

use super::netlink::netlink;
use super::{Counters, Device, LabError};

/// What of layer 1 a frame costs beyond what the kernel counts: FCS, preamble and gap.
const OVERHEAD: u16 = 24;
/// The shortest frame with all of that.
const LEAST: u16 = 84;
/// Bytes of two frames of the usual MTU: a bucket holds at least that.
const TWO_FRAMES: u32 = 3_200;
/// Bytes that wait for the line; more than QEMU sends before it waits, with an `sndbuf`.
const WAITING_MAX: u32 = 10_000_000;

/// Turn of the filter, by which a tie is known: that of a process that was killed is taken away.
const OURS: u16 = 0x786f;

/// A TAP that is tied to a wire. Dropping it unties the TAP, which stays.
#[derive(Debug)]
pub struct Tie {
    tap: Device,
    /// What the TAP had counted before.
    before: Counters,
}

impl Tie {
    /// Ties a TAP to the end of a wire in the same namespace, whose line has this rate.
    ///
    /// # Errors
    /// Where the kernel lacks what it takes (clsact, cls_bpf, mirred, tbf), or somebody has the TAP's clsact already.
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

    /// Leaves the TAP as it was, as dropping this does; said twice it does no harm.
    pub fn untie(&self) {
        let _ = send(&self.tap, [Qdisc::delete(clsact(self.tap.ifindex()))].into_iter()); // or it is gone
    }

    /// The TAP.
    #[must_use]
    pub fn tap(&self) -> &Device {
        &self.tap
    }

    /// What the TAP has counted since it was tied.
    ///
    /// # Errors
    /// Where it is gone.
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

/// Whatever comes in at `from` leaves at `to`.
fn redirect(from: i32, to: i32) -> Request {
    Filter::redirect(OURS, to).put(Place { ifindex: from, parent: Handle::INGRESS, handle: Handle::NONE })
}

/// A tie that has lost its wire: nobody else can have one, for the wire's end has a name of its own.
fn remove_leftover(tap: &Device) -> Result<(), LabError> {
    let left = talk(tap, |kernel| {
        let filters = kernel.filters(tap.ifindex(), Handle::INGRESS).unwrap_or_default(); // or there is no clsact
        Ok(!filters.is_empty() && filters.iter().all(|filter| filter.priority() == OURS))
    })?;
    if left { send(tap, [Qdisc::delete(clsact(tap.ifindex()))].into_iter()) } else { Ok(()) }
}

/// In the namespace of `device`.
fn send(device: &Device, mut requests: impl Iterator<Item = Request>) -> Result<(), LabError> {
    talk(device, move |kernel| requests.try_for_each(|mut request| kernel.send(&mut request)))
}

fn talk<T>(
    device: &Device,
    talk: impl FnOnce(&mut Conversation) -> Result<T, TcError>,
) -> Result<T, LabError> {
    let what = format!("tie {} to a wire", device.name());
    netlink(device.namespace(), &what, |kernel| talk(kernel).map_err(io::Error::other))
}
