//! Pause frames on purpose: well-formed ones, and every kind of malformed one that a switch must
//! withstand.
//!
//! They leave through a packet socket, not AF_XDP, so that a host may run on the same interface.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use xoff_dataplane::units::{Class, ClassSet, MacAddr, Nanos, Quanta, RateStep};
use xoff_dataplane::wire::{MacControl, Pfc, Rates};

/// Where the padding of a PFC frame begins.
const PADDING: usize = 34;
/// A stop is noticed within this time.
const NAP_MAX: Duration = Duration::from_millis(20);

/// What is to be different from a proper frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distortion {
    /// Another destination.
    pub dst: Option<MacAddr>,
    /// Another source than the device's address.
    pub src: Option<MacAddr>,
    /// Another opcode.
    pub opcode: Option<u16>,
    /// The reserved half of the class-enable vector.
    pub reserved: Option<u8>,
    /// Another class-enable vector than that of the classes given.
    pub vector: Option<u8>,
    /// Padding of ones instead of zeros.
    pub dirty_padding: bool,
    /// An 802.1Q tag with this VLAN identifier, PCP 7.
    pub vlan: Option<u16>,
    /// Cut off after so many bytes.
    pub truncate: Option<usize>,
}

/// What a control frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A pause.
    Pause(MacControl),
    /// Rates of classes (GFC).
    Rates(Rates),
}

/// The bytes of `control` as a device at `address` would send it, with `distortion`.
#[must_use]
pub fn build(control: &Control, address: MacAddr, distortion: &Distortion) -> Vec<u8> {
    let src = distortion.src.unwrap_or(address);
    let mut bytes = match control {
        Control::Pause(pause) => pause.encode(src).to_vec(),
        Control::Rates(rates) => rates.encode(src).to_vec(),
    };
    if let Some(dst) = distortion.dst {
        bytes[..6].copy_from_slice(&dst.0);
    }
    if let Some(opcode) = distortion.opcode {
        bytes[14..16].copy_from_slice(&opcode.to_be_bytes());
    }
    if let Some(reserved) = distortion.reserved {
        bytes[16] = reserved;
    }
    if let Some(vector) = distortion.vector {
        bytes[17] = vector;
    }
    if distortion.dirty_padding {
        bytes[PADDING..].fill(0xff);
    }
    if let Some(vid) = distortion.vlan {
        let [high, low] = (0xe000 | vid & 0x0fff).to_be_bytes();
        bytes.splice(12..12, [0x81, 0x00, high, low]);
    }
    bytes.truncate(distortion.truncate.unwrap_or(usize::MAX));
    bytes
}

/// Reads what one control frame says: `3=65535,4=0`, `all=100`, `802.3x=100`, or `gfc:3=2@65535`: class 3 at
/// a quarter of the line for so many quanta.
///
/// # Errors
/// What is allowed.
pub fn parse_control(text: &str) -> Result<Control, String> {
    match text.strip_prefix("gfc:") {
        Some(rates) => parse_rates(rates).map(Control::Rates),
        None => parse_pause(text).map(Control::Pause),
    }
}

fn parse_rates(text: &str) -> Result<Rates, String> {
    let read = || {
        let (steps, time) = text.split_once('@')?;
        let rates = Rates { time: Quanta(time.parse().ok()?), ..Rates::default() };
        steps.split(',').try_fold(rates, |rates, part| {
            let (class, step) = part.split_once('=')?;
            let step = RateStep::new(step.parse().ok()?)?;
            Some(rates.with(Class::new(class.parse().ok()?)?, step))
        })
    };
    read().ok_or_else(|| {
        "rates are gfc:CLASS=STEP,...@QUANTA such as gfc:3=2@65535; steps are 0 to 16".to_owned()
    })
}

fn parse_pause(text: &str) -> Result<MacControl, String> {
    let allowed = || {
        "a pause is CLASS=QUANTA such as 3=65535,4=0 or all=100, or 802.3x=QUANTA; quanta are 0 to 65535"
            .to_owned()
    };
    let quanta = |value: &str| value.parse().map(Quanta).map_err(|_| allowed());
    if let Some(time) = text.strip_prefix("802.3x=") {
        return Ok(MacControl::Pause(quanta(time)?));
    }
    let mut pfc = Pfc::default();
    for part in text.split(',') {
        let (classes, time) = part.split_once('=').ok_or_else(allowed)?;
        let classes = match classes {
            "all" => ClassSet::ALL,
            class => class.parse().ok().and_then(Class::new).into_iter().collect(),
        };
        if classes.is_empty() {
            return Err(allowed());
        }
        let time = quanta(time)?;
        pfc = classes.iter().fold(pfc, |pfc, class| pfc.with(class, time));
    }
    Ok(MacControl::Pfc(pfc))
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is none of that name.
    #[error("no interface `{0}` with an Ethernet address here; `ip link` lists those that there are")]
    NoDevice(String),
    /// No packet socket.
    #[error("a packet socket needs CAP_NET_RAW: run as root, or grant it with setcap ({0})")]
    Socket(#[source] io::Error),
    /// A frame was refused.
    #[error("the kernel refuses to send on `{device}`: {source}; is it up? (`ip link set {device} up`)")]
    Send {
        /// The interface.
        device: String,
        /// Why.
        source: io::Error,
    },
}

/// A device to send single frames on.
#[derive(Debug)]
pub struct Link {
    device: String,
    to: LinkAddr,
    address: MacAddr,
    socket: OwnedFd,
}

impl Link {
    /// Opens `device`, of the calling thread's network namespace.
    ///
    /// # Errors
    /// Where there is no such device, or no privilege.
    pub fn open(device: &str) -> Result<Link, LinkError> {
        let (to, address) = link_address(device).ok_or_else(|| LinkError::NoDevice(device.to_owned()))?;
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| LinkError::Socket(error.into()))?;
        Ok(Link { device: device.to_owned(), to, address, socket })
    }

    /// The device's own address.
    #[must_use]
    pub const fn address(&self) -> MacAddr {
        self.address
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn send(&self, frame: &[u8]) -> Result<(), LinkError> {
        let sent = sendto(self.socket.as_raw_fd(), frame, &self.to, MsgFlags::empty());
        let refused =
            |source: nix::Error| LinkError::Send { device: self.device.clone(), source: source.into() };
        sent.map(|_| ()).map_err(refused)
    }
}

fn link_address(device: &str) -> Option<(LinkAddr, MacAddr)> {
    getifaddrs().ok()?.filter(|interface| interface.interface_name == device).find_map(|interface| {
        let link = *interface.address?.as_link_addr()?;
        Some((link, MacAddr(link.addr()?)))
    })
}

/// When frames leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From one frame to the next.
    pub every: Nanos,
    /// Rounds through all frames; `None`: no limit.
    pub count: Option<u64>,
    /// No frame later than this after the first; `None`: no limit.
    pub duration: Option<Nanos>,
}

/// Sends `frames` in turn, again and again, as `timing` says or until `stop`. Answers how many left. A
/// frame that is late is not made up for.
///
/// # Errors
/// Where the kernel refuses a frame.
pub fn emit(link: &Link, frames: &[Vec<u8>], timing: &Timing, stop: &AtomicBool) -> Result<u64, LinkError> {
    let begin = Instant::now();
    let end = timing.duration.map(|duration| begin + Duration::from_nanos(duration.0));
    let total = timing.count.map(|count| count.saturating_mul(frames.len() as u64));
    let mut next = begin;
    let mut sent = 0;
    for frame in frames.iter().cycle() {
        if total.is_some_and(|total| sent >= total) || !sleep_until(next, end, stop) {
            break;
        }
        link.send(frame)?;
        sent += 1;
        next = (next + Duration::from_nanos(timing.every.0)).max(Instant::now());
    }
    Ok(sent)
}

/// False where it is over before.
fn sleep_until(time: Instant, end: Option<Instant>, stop: &AtomicBool) -> bool {
    loop {
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| time >= end || now >= end) {
            return false;
        }
        match time.checked_duration_since(now) {
            None | Some(Duration::ZERO) => return true,
            Some(left) => thread::sleep(left.min(NAP_MAX)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_dataplane::wire::{Header, MacControlError};

    const ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn parse(distortion: Distortion) -> Result<MacControl, MacControlError> {
        let bytes = build(&parse_control("3=100").unwrap(), ADDRESS, &distortion);
        MacControl::parse(&Header::parse(&bytes).unwrap(), &bytes)
    }

    #[test]
    fn what_a_pause_says() {
        let c = |n| Class::new(n).unwrap();
        let expected = Pfc::default().with(c(3), Quanta(65535)).with(c(4), Quanta(0));
        assert_eq!(parse_pause("3=65535,4=0"), Ok(MacControl::Pfc(expected)));
        let all = Class::ALL.into_iter().fold(Pfc::default(), |pfc, class| pfc.with(class, Quanta(7)));
        assert_eq!(parse_pause("all=7"), Ok(MacControl::Pfc(all)));
        assert_eq!(parse_pause("802.3x=9"), Ok(MacControl::Pause(Quanta(9))));
        let step = RateStep::new(2).unwrap();
        let rates = Rates { time: Quanta(9), ..Rates::default() }.with(c(3), step);
        assert_eq!(parse_control("gfc:3=2@9"), Ok(Control::Rates(rates)));
        for wrong in ["gfc:", "gfc:3=2", "gfc:3=17@9", "gfc:8=1@9", "gfc:3@9"] {
            assert!(parse_control(wrong).unwrap_err().contains("gfc:3=2@65535"), "{wrong}");
        }
        for wrong in ["", "3", "8=1", "3=65536", "3=1,", "x=1", "802.3x=x"] {
            assert!(parse_control(wrong).unwrap_err().contains("3=65535"), "{wrong}");
        }
    }

    #[test]
    fn each_distortion_is_the_one_that_it_says() {
        let good = parse_pause("3=100").unwrap();
        let with = Distortion::default();
        assert_eq!(parse(with), Ok(good));
        assert_eq!(parse(Distortion { src: Some(MacAddr::default()), ..with }), Ok(good));
        assert_eq!(parse(Distortion { reserved: Some(0xff), ..with }), Ok(good));
        assert_eq!(parse(Distortion { dirty_padding: true, ..with }), Ok(good));
        assert_eq!(parse(Distortion { vector: Some(0), ..with }), Ok(MacControl::Pfc(Pfc::default())));
        let refused = [
            (Distortion { dst: Some(MacAddr::BROADCAST), ..with }, MacControlError::WrongDestination),
            (Distortion { opcode: Some(0x0102), ..with }, MacControlError::UnknownOpcode),
            (Distortion { vlan: Some(0), ..with }, MacControlError::Tagged),
            (Distortion { truncate: Some(33), ..with }, MacControlError::Truncated),
        ];
        for (distortion, reason) in refused {
            assert_eq!(parse(distortion), Err(reason));
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = Link::open("no-such-dev").unwrap_err().to_string();
        assert!(error.contains("no-such-dev"), "{error}");
    }
}
