//! Attaching, with an answer for whatever is already there.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Program, Xdp, XdpFlags};

use skeleton::{XoffSkel, XoffSkelBuilder};

use crate::claim::Claim;

#[allow(unsafe_code, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/xoff.skel.rs"));
}

/// The program's name in the kernel, which keeps 15 bytes of it.
const PROGRAM_NAME: &str = "xoff_receive";
/// "Operation not supported".
const EOPNOTSUPP: i32 = 95;

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes its own packet of a frame.
    Native,
    /// In the kernel's network stack: works with every driver, and slower.
    Generic,
}

/// Why no program could be attached.
#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    /// The interface runs a program that is not ours.
    #[error(
        "{device} already runs XDP program \"{name}\" (id {id}), which is not xoff's; \
         take it off with `ip link set dev {device} xdp off` or choose another interface"
    )]
    Stranger {
        /// The interface.
        device: String,
        /// The program's name.
        name: String,
        /// The program's id.
        id: u32,
    },
    /// The interface runs a program of which nobody without the capability may know whose it is.
    #[error(
        "{device} already runs an XDP program (id {id}); to see whether it is one that a killed xoff left \
         takes cap_sys_admin. Run xoff as root, or take the program off with `ip link set dev {device} xdp off`"
    )]
    Unknown {
        /// The interface.
        device: String,
        /// The program's id.
        id: u32,
    },
    /// Another xoff has the interface, and its process is alive.
    #[error("another xoff runs on {device}; stop it first (`bpftool net` shows XDP programs)")]
    AnotherXoff {
        /// The interface.
        device: String,
    },
    /// The driver has no native XDP, or not for the interface as it is set up.
    #[error("{device} cannot run XDP natively: {source:#}; use mode \"auto\" or \"generic\"")]
    NotNative {
        /// The interface.
        device: String,
        /// The kernel's words.
        source: libbpf_rs::Error,
    },
    /// The kernel does not take the program.
    #[error("cannot load the XDP program for {device}: {source:#}; it needs Linux 5.18 or newer")]
    NotLoaded {
        /// The interface.
        device: String,
        /// The kernel's words.
        source: libbpf_rs::Error,
    },
    /// The kernel refused.
    #[error("cannot {doing} for {device}: {source:#}")]
    Refused {
        /// What was tried.
        doing: &'static str,
        /// The interface.
        device: String,
        /// The kernel's words.
        source: libbpf_rs::Error,
    },
}

/// A program at work on an interface; dropping it takes the program off. In generic mode it must be
/// dropped in the network namespace where it was attached.
#[derive(Debug)]
pub struct Attached {
    mode: Mode,
    hold: Hold,
    dropped: MapHandle,
}

/// What keeps the program attached.
#[derive(Debug)]
enum Hold {
    Link { _link: Link },
    Netlink { program: OwnedFd, ifindex: i32 },
}

impl Attached {
    /// How the program is attached.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Counts the frames that the program drops, also after the program is gone.
    ///
    /// # Errors
    /// Where the system has no more file descriptors.
    pub fn dropped(&self) -> Result<Dropped, EbpfError> {
        let doing = "keep the counters of";
        let map = MapHandle::try_from(&self.dropped);
        let refused = |source| EbpfError::Refused { doing, device: "the XDP program".to_owned(), source };
        map.map(Dropped).map_err(refused)
    }
}

/// The XDP program's counts of frames that it dropped.
#[derive(Debug)]
pub struct Dropped(MapHandle);

impl Dropped {
    /// Frames that came in by a queue without a socket.
    #[must_use]
    pub fn unclaimed(&self) -> u64 {
        self.count(0)
    }

    /// Frames longer than a chunk holds.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.count(1)
    }

    fn count(&self, reason: u32) -> u64 {
        let per_cpu = self.0.lookup_percpu(&reason.to_ne_bytes(), MapFlags::ANY);
        let count =
            |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |&count: &[u8; 8]| u64::from_ne_bytes(count));
        per_cpu.ok().flatten().map_or(0, |counts| counts.iter().map(count).sum())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Hold::Netlink { program, ifindex } = &self.hold else { return };
        let xdp = Xdp::new(program.as_fd());
        let ours = Program::id_from_fd(program.as_fd()).ok();
        if ours.is_some() && xdp.query_id(*ifindex, XdpFlags::NONE).ok() == ours {
            let _ = xdp.detach(*ifindex, XdpFlags::SKB_MODE); // the interface may be gone
        }
    }
}

/// Loads the program and attaches it to the interface claimed, with a socket for each of its hardware
/// queues. `mode`: `None` takes native mode where the driver has it, else
/// generic. `longest`: most bytes of a frame that one chunk holds; `None` where a frame may take several.
///
/// # Errors
/// [`EbpfError`]; the interface is left as it was.
pub fn attach(
    claim: &Claim,
    sockets: &[(u32, BorrowedFd<'_>)],
    mode: Option<Mode>,
    longest: Option<u32>,
) -> Result<Attached, EbpfError> {
    let (device, ifindex) = (claim.device(), claim.ifindex());
    let refused = |doing, source| EbpfError::Refused { doing, device: device.to_owned(), source };
    let mut storage = MaybeUninit::uninit();
    let queues = sockets.iter().map(|&(queue, _)| queue + 1).max().unwrap_or(1);
    let program = load(queues, longest, &mut storage)
        .map_err(|source| EbpfError::NotLoaded { device: device.to_owned(), source })?;
    for (queue, socket) in sockets {
        let (key, value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        program
            .maps
            .sockets
            .update(&key, &value, MapFlags::ANY)
            .map_err(|source| refused("enter an AF_XDP socket into the XDP program's map", source))?;
    }
    clear_leftover(device, ifindex, &program)?;
    let dropped = MapHandle::try_from(&program.maps.dropped)
        .map_err(|source| refused("keep the XDP program's counters", source))?;
    let link = match mode {
        Some(Mode::Generic) => None,
        _ => match program.progs.xoff_receive.attach_xdp(ifindex) {
            Ok(link) => Some(link),
            Err(source) if mode == Some(Mode::Native) => {
                return Err(EbpfError::NotNative { device: device.to_owned(), source });
            }
            Err(_) => None,
        },
    };
    let hold = match link {
        Some(link) => Hold::Link { _link: link },
        None => {
            attach_generic(ifindex, &program).map_err(|source| refused("attach the XDP program", source))?
        }
    };
    let attached = Attached { mode: mode_of(ifindex, &program), hold, dropped };
    if mode == Some(Mode::Native) && attached.mode != Mode::Native {
        let source = libbpf_rs::Error::from_raw_os_error(EOPNOTSUPP);
        return Err(EbpfError::NotNative { device: device.to_owned(), source });
    }
    Ok(attached)
}

fn load(
    queues: u32,
    longest: Option<u32>,
    storage: &mut MaybeUninit<libbpf_rs::OpenObject>,
) -> libbpf_rs::Result<XoffSkel<'_>> {
    let mut open = XoffSkelBuilder::default().open(storage)?;
    let constants = open.maps.rodata_data.as_deref_mut().expect("the program has constants");
    constants.longest = longest.unwrap_or(0);
    open.maps.sockets.set_max_entries(queues)?;
    open.load()
}

fn attach_generic(ifindex: i32, program: &XoffSkel<'_>) -> libbpf_rs::Result<Hold> {
    let fd = program.progs.xoff_receive.as_fd();
    Xdp::new(fd).attach(ifindex, XdpFlags::SKB_MODE | XdpFlags::UPDATE_IF_NOEXIST)?;
    Ok(Hold::Netlink { program: fd.try_clone_to_owned()?, ifindex })
}

/// Takes off what a killed run left in generic mode; refuses to touch anything else.
fn clear_leftover(device: &str, ifindex: i32, program: &XoffSkel<'_>) -> Result<(), EbpfError> {
    let xdp = Xdp::new(program.progs.xoff_receive.as_fd());
    let id = match xdp.query_id(ifindex, XdpFlags::NONE) {
        Ok(0) | Err(_) => return Ok(()),
        Ok(id) => id,
    };
    let device = device.to_owned();
    match name_of(id) {
        None => Err(EbpfError::Unknown { device, id }),
        Some(name) if name != PROGRAM_NAME => Err(EbpfError::Stranger { device, name, id }),
        // It hangs on a link, and somebody holds that.
        Some(_) if mode_of(ifindex, program) == Mode::Native => Err(EbpfError::AnotherXoff { device }),
        Some(_) => xdp.detach(ifindex, XdpFlags::SKB_MODE).map_err(|source| {
            let doing = "take off the XDP program that a killed xoff left";
            EbpfError::Refused { doing, device, source }
        }),
    }
}

/// `None` also where it takes a capability to know.
fn name_of(id: u32) -> Option<String> {
    let program = ProgInfoIter::default().find(|program| program.id == id)?;
    Some(program.name.to_string_lossy().into_owned())
}

fn mode_of(ifindex: i32, program: &XoffSkel<'_>) -> Mode {
    let xdp = Xdp::new(program.progs.xoff_receive.as_fd());
    let generic = xdp.query(ifindex, XdpFlags::NONE).is_ok_and(|found| found.skb_prog_id != 0);
    if generic { Mode::Generic } else { Mode::Native }
}
