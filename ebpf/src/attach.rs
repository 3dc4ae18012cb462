use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, PrintLevel, Xdp, XdpFlags, set_print};

use skeleton::{XoffSkel, XoffSkelBuilder};

use crate::arrivals::Arrived;
use crate::claim::Claim;
use crate::error::{EbpfError, errno};
use crate::filter::{Clsact, Filter, Filtered};
use crate::program::{Mode, Program};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/xoff.skel.rs"));
}

const PROGRAM_NAMES: [&str; 2] = ["xoff_receive", "xoff_stamp"];
const EOPNOTSUPP: i32 = 95;

/// XDP program attached to an interface, until this value is dropped. In generic mode, drop it in the interface's network namespace.
#[derive(Debug)]
pub struct Attached {
    program: Arc<Program>,
    filter: Filtered,
    dropped: MapHandle,
    arrived: MapHandle,
    native_refusal: Option<i32>,
}

impl Attached {
    /// Returns the error number with which the kernel refused native mode, if it did.
    #[must_use]
    pub fn native_refusal(&self) -> Option<i32> {
        self.native_refusal
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.program.mode()
    }

    #[must_use]
    pub fn filter(&self) -> &Filtered {
        &self.filter
    }

    #[must_use]
    pub fn program(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }

    /// Returns the counters of dropped frames, readable even after detaching.
    pub fn dropped(&self) -> Result<Dropped, EbpfError> {
        MapHandle::try_from(&self.dropped).map(Dropped).map_err(|source| self.no_counters(source))
    }

    /// Returns the counters of received frames, readable even after detaching.
    pub fn arrived(&self) -> Result<Arrived, EbpfError> {
        MapHandle::try_from(&self.arrived).map(Arrived).map_err(|source| self.no_counters(source))
    }

    fn no_counters(&self, source: libbpf_rs::Error) -> EbpfError {
        let device = self.program.device().to_owned();
        EbpfError::Refused { doing: "open the XDP program's counters", device, source }
    }
}

/// Counters of the frames that the XDP program and the filter dropped, by reason.
#[derive(Debug)]
pub struct Dropped(MapHandle);

impl Dropped {
    /// Returns how many frames were dropped because their hardware queue had no socket.
    pub fn unclaimed(&self) -> libbpf_rs::Result<u64> {
        self.count(0)
    }

    /// Returns how many frames too long for a chunk of the packet memory were dropped.
    pub fn too_long(&self) -> libbpf_rs::Result<u64> {
        self.count(1)
    }

    /// Returns how many frames of the machine's own stack the egress filter dropped.
    pub fn held_back(&self) -> libbpf_rs::Result<u64> {
        self.count(2)
    }

    fn count(&self, reason: u32) -> libbpf_rs::Result<u64> {
        let per_cpu = self.0.lookup_percpu(&reason.to_ne_bytes(), MapFlags::ANY)?;
        let count =
            |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |&count: &[u8; 8]| u64::from_ne_bytes(count));
        Ok(per_cpu.iter().flatten().map(count).sum())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.program.take_off();
    }
}

/// Loads the XDP program and attaches it to the claimed interface.
///
/// * `sockets`: AF_XDP sockets, each with its hardware queue.
/// * `mode`: `None` tries native, then generic mode.
/// * `longest`: maximum bytes of a frame (longer ones are dropped); `None` if frames may take several chunks.
/// * `has_stamps`: true if the program writes the time of receipt (CLOCK_MONOTONIC, in nanoseconds) in front of each
///   frame; the sockets' chunks need 8 free bytes there.
///
/// # Errors
/// Returns an [`EbpfError`] and leaves the interface unchanged.
pub fn attach(
    claim: &Claim,
    sockets: &[(u32, BorrowedFd<'_>)],
    mode: Option<Mode>,
    longest: Option<u32>,
    has_stamps: bool,
    clsact: Clsact,
) -> Result<Attached, EbpfError> {
    // Log libbpf's messages at debug level only, because the errors that libbpf returns repeat them.
    set_print(Some((PrintLevel::Info, |_, line| tracing::debug!("{}", line.trim_end()))));
    let (device, ifindex) = (claim.device(), claim.ifindex());
    let refused = |doing, source| EbpfError::Refused { doing, device: device.to_owned(), source };
    let mut storage = MaybeUninit::uninit();
    let queues = sockets.iter().map(|&(queue, _)| queue + 1).max().unwrap_or(1);
    let socket_queue = sockets.first().map_or(0, |&(queue, _)| queue);
    let program = load(queues, longest, socket_queue, has_stamps, &mut storage)
        .map_err(|source| EbpfError::NotLoaded { device: device.to_owned(), source })?;
    for (queue, socket) in sockets {
        let (key, value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        program
            .maps
            .sockets
            .update(&key, &value, MapFlags::ANY)
            .map_err(|source| refused("add an AF_XDP socket to the XDP program", source))?;
    }
    take_off_leftover(claim)?;
    let dropped = MapHandle::try_from(&program.maps.dropped)
        .map_err(|source| refused("open the XDP program's counters", source))?;
    let arrived = MapHandle::try_from(&program.maps.arrived)
        .map_err(|source| refused("open the XDP program's counters", source))?;
    let progs = &program.progs;
    let receive = if has_stamps { &progs.xoff_stamp } else { &progs.xoff_receive };
    let (link, native_refusal) = match mode {
        Some(Mode::Generic) => (None, None),
        _ => match receive.attach_xdp(ifindex) {
            Ok(link) => (Some(link), None),
            Err(source) if mode == Some(Mode::Native) => {
                return Err(EbpfError::NotNative { device: device.to_owned(), source });
            }
            Err(source) => (None, errno(&source)),
        },
    };
    let fd = receive.as_fd();
    if link.is_none() {
        Xdp::new(fd)
            .attach(ifindex, XdpFlags::SKB_MODE | XdpFlags::UPDATE_IF_NOEXIST)
            .map_err(|source| refused("attach the XDP program", source))?;
    }
    let filter = Filter::attach(program.progs.xoff_hold_back.as_fd(), ifindex, clsact);
    let program = Program::new(claim, fd, mode_of(&Xdp::new(fd), ifindex), link, filter.filter());
    let program = program.map_err(|source| refused("open the XDP program", source))?;
    claim.attached(program.id());
    let attached = Attached { program: Arc::new(program), filter, dropped, arrived, native_refusal };
    if mode == Some(Mode::Native) && attached.mode() != Mode::Native {
        let source = libbpf_rs::Error::from_raw_os_error(EOPNOTSUPP);
        return Err(EbpfError::NotNative { device: device.to_owned(), source });
    }
    Ok(attached)
}

fn load(
    queues: u32,
    longest: Option<u32>,
    socket_queue: u32,
    has_stamps: bool,
    storage: &mut MaybeUninit<libbpf_rs::OpenObject>,
) -> libbpf_rs::Result<XoffSkel<'_>> {
    let mut open = XoffSkelBuilder::default().open(storage)?;
    let constants =
        open.maps.rodata_data.as_deref_mut().expect("the XDP program must have a section of constants");
    constants.longest = longest.unwrap_or(0);
    constants.socket_queue = socket_queue;
    open.progs.xoff_receive.set_autoload(!has_stamps);
    open.progs.xoff_stamp.set_autoload(has_stamps);
    open.maps.sockets.set_max_entries(queues)?;
    open.load()
}

/// Detaches the program that a killed xoff left on the interface, if any.
pub fn take_off_leftover(claim: &Claim) -> Result<(), EbpfError> {
    let ifindex = claim.ifindex();
    let stdin = io::stdin();
    let xdp = Xdp::new(stdin.as_fd()); // any descriptor will do
    let id = match xdp.query_id(ifindex, XdpFlags::NONE) {
        Ok(0) | Err(_) => return Ok(()),
        Ok(id) => id,
    };
    may_replace(claim, id)?;
    let (device, mode) = (claim.device().to_owned(), mode_of(&xdp, ifindex));
    xdp.detach(ifindex, mode.flag()).map_err(|source| match mode {
        Mode::Native => EbpfError::AnotherXoff { device, process: None },
        Mode::Generic => {
            let doing = "detach the XDP program that a killed xoff left";
            EbpfError::Refused { doing, device, source }
        }
    })
}

/// Checks that program `id` was left by a killed xoff, so that [`attach`] may replace it.
///
/// # Errors
/// Returns [`EbpfError::Stranger`] for another owner's program, and [`EbpfError::Unknown`] if the check needs
/// CAP_SYS_ADMIN.
pub fn may_replace(claim: &Claim, id: u32) -> Result<(), EbpfError> {
    let device = claim.device().to_owned();
    if claim.left() == Some(id) {
        return Ok(());
    }
    match name_of(id) {
        None => Err(EbpfError::Unknown { device, id }),
        Some(name) if PROGRAM_NAMES.contains(&name.as_str()) => Ok(()),
        Some(name) => Err(EbpfError::Stranger { device, name, id }),
    }
}

fn name_of(id: u32) -> Option<String> {
    let program = ProgInfoIter::default().find(|program| program.id == id)?;
    Some(program.name.to_string_lossy().into_owned())
}

fn mode_of(xdp: &Xdp<'_>, ifindex: i32) -> Mode {
    let generic = xdp.query(ifindex, XdpFlags::NONE).is_ok_and(|found| found.skb_prog_id != 0);
    if generic { Mode::Generic } else { Mode::Native }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::{Error, ErrorExt as _, ProgramInput, ProgramMut};
    use nix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn error_number_is_parsed_from_text_of_libbpf_error() {
        let refused = || Error::from_raw_os_error(28);
        assert_eq!(errno(&refused()), Some(28));
        assert_eq!(errno(&refused().context("failed to attach XDP program")), Some(28));
        assert_eq!(errno(&Error::from(io::Error::other("no program"))), None);
    }

    const FRAME: [u8; 64] = [0xf0; 64];

    fn received(program: &ProgramMut<'_>, metadata: u32) -> Vec<u8> {
        let packet = [&vec![0xee; metadata as usize], &FRAME[..]].concat();
        let end = u32::try_from(packet.len()).expect("the packet length must fit in 32 bits");
        // Fields of struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let mut context = [metadata, end, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
        let mut output = [0; 128];
        let input = ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&packet),
            data_out: Some(&mut output),
            ..ProgramInput::default()
        };
        let run = program.test_run(input).expect("the kernel must run the XDP program");
        run.data.as_deref().map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Without the removal, metadata of an earlier program would overwrite the preceding chunk, if chunks are small.
    #[test] // proves: memory
    fn xdp_program_removes_metadata_in_front_of_packets() {
        let mut storage = MaybeUninit::uninit();
        let program =
            load(1, None, 0, false, &mut storage).expect("root must be able to load the XDP program");
        for metadata in [0, 4, 28, 32] {
            let received = received(&program.progs.xoff_receive, metadata);
            assert_eq!(received, FRAME, "{metadata} bytes of metadata must not change the frame");
        }
    }

    #[test]
    fn stamping_program_replaces_metadata_by_time_of_receipt() {
        let now = || {
            let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is missing");
            i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec())
        };
        let mut storage = MaybeUninit::uninit();
        let program =
            load(1, None, 0, true, &mut storage).expect("root must be able to load the XDP program");
        let id = libbpf_rs::Program::id_from_fd(program.progs.xoff_stamp.as_fd())
            .expect("the XDP program must have an id");
        assert_eq!(
            name_of(id).as_deref(),
            Some(PROGRAM_NAMES[1]),
            "the program must have the name by which the next start recognizes it"
        );
        for metadata in [0, 4, 28, 32] {
            let before = now();
            let received = received(&program.progs.xoff_stamp, metadata);
            let (stamp, frame) = received.split_first_chunk().expect("the frame must begin with a stamp");
            let stamp = u64::from_ne_bytes(*stamp);
            assert!(
                (before..=now()).contains(&stamp.into()),
                "the time stamp {stamp} must lie between {before} and now"
            );
            assert_eq!(frame, FRAME, "{metadata} bytes of metadata must not change the frame");
        }
    }
}
