//! The XDP programs: one hands frames to a socket, the other ends them.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_rs::{Link, MapCore as _, MapFlags, PrintLevel, set_print};
use nix::net::if_::if_nametoindex;

use crate::BenchError;
use skeleton::{BenchSkel, BenchSkelBuilder};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/bench.skel.rs"));
}

/// A program at work on an interface, natively; dropping it takes it off.
#[derive(Debug)]
pub struct Program {
    _link: Link,
}

impl Program {
    /// Gives what comes in on queue 0 of `device` to a socket.
    pub(crate) fn receive(device: &str, socket: RawFd) -> Result<Program, BenchError> {
        with_programs(device, |programs, ifindex| {
            programs.maps.sockets.update(&0_u32.to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY)?;
            programs.progs.bench_receive.attach_xdp(ifindex)
        })
        .map(|link| Program { _link: link })
    }

    /// Drops what comes in on `device`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sink(device: &str) -> Result<Program, BenchError> {
        with_programs(device, |programs, ifindex| programs.progs.bench_sink.attach_xdp(ifindex))
            .map(|link| Program { _link: link })
    }
}

fn with_programs<T>(
    device: &str,
    attach: impl FnOnce(&BenchSkel<'_>, i32) -> libbpf_rs::Result<T>,
) -> Result<T, BenchError> {
    set_print(Some((PrintLevel::Info, |_, _| {}))); // what it has to say is in its errors, too
    let refused = |source| BenchError::Program { device: device.to_owned(), source };
    let ifindex = if_nametoindex(device)
        .map_err(|source| BenchError::NoSuchInterface { device: device.to_owned(), source })?;
    let mut storage = MaybeUninit::uninit();
    let programs = BenchSkelBuilder::default().open(&mut storage).and_then(|open| open.load());
    let programs = programs.map_err(refused)?;
    attach(&programs, ifindex.cast_signed()).map_err(refused)
}
