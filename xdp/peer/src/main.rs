//! The processes of `scripts/bench forward`: what xoff is measured with, and against.
//!
//! * [`load`]: the frames of a benchmark, as real senders send them;
//! * [`ports`]: AF_XDP sockets of the crate `xsk-rs`, which has libxdp's rings. A forwarder on them that
//!   switches nothing is a peer in the benchmark;
//!   and in `tests/interoperability.rs` they are at one end of a wire, and xoff's own at the other, so that both
//!   understand the kernel alike;
//! * [`exchange`]: the same forwarder over xoff's ring traits, on xoff's own rings or on [`rings`] of `xsk-rs`, so that
//!   rings are compared with rings.

#![deny(unsafe_code)]

mod error;
mod exchange;
mod load;
#[allow(unsafe_code)] // every call of `xsk-rs` that moves a descriptor is unsafe
mod moves;
#[allow(unsafe_code)]
mod ports;
#[allow(unsafe_code)]
mod rings;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;

use clap::{Parser, Subcommand, ValueEnum};

use error::BenchError;
use exchange::with_own_rings;
use load::{FLOWS_MAX, FrameBytes, Load};
use ports::{PortSettings, Ports, attach};
use rings::with_xsk_rs_rings;
use xoff_wire::units::MacAddr;

/// Frames that are prepared: a multiple of 192, so that each of up to 16 flows has sent the whole mix; and so few that they
/// stay in a core's cache (long ones cost the generator 4 % more time where there are 1920).
const PREPARED: usize = 384;

/// Each of two numbers that together are at most [`FLOWS_MAX`].
const LIMIT: i64 = FLOWS_MAX as i64 / 2;

/// What xoff is measured with, and against. Each command says "ready" and then works until it is ended.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Forwards between two interfaces by sockets of the crate xsk-rs, whatever comes, without a pause.
    Forward { one: String, two: String },
    /// Forwards between two interfaces by a loop over xoff's ring traits, whatever comes, without a pause.
    Exchange {
        /// Whose rings.
        rings: Library,
        one: String,
        two: String,
    },
    /// Sends as fast as the kernel takes it.
    Generate {
        device: String,
        /// 64 to 1518 with FCS, or imix (64, 594 and 1518, 7:4:1).
        #[arg(long, default_value = "64")]
        frame_bytes: FrameBytes,
        /// Conversations, each of a pair of stations of its own, which take turns frame by frame.
        #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=LIMIT))]
        flows: u16,
        /// Conversations before these: those of another generator.
        #[arg(long, default_value = "0", value_parser = clap::value_parser!(u16).range(0..=LIMIT))]
        first: u16,
        /// The router that all frames are for; without it each is for its own station.
        #[arg(long, value_parser = mac)]
        via: Option<MacAddr>,
    },
    /// Drops what arrives as early as can be; the interface counts it.
    Sink { device: String },
}

#[derive(Clone, Copy, ValueEnum)]
enum Library {
    Xoff,
    XskRs,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Forward { one, two } => forward(&one, &two),
        Command::Exchange { rings, one, two } => exchange(rings, [&one, &two]),
        Command::Generate { device, frame_bytes, flows, first, via } => {
            generate(&device, Load { frame_bytes, flows, first, via })
        }
        Command::Sink { device } => sink(&device),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn mac(text: &str) -> Result<MacAddr, String> {
    MacAddr::parse(text).ok_or_else(|| format!("{text:?} is no MAC address, such as 02:00:00:00:00:01"))
}

fn forward(one: &str, two: &str) -> Result<(), BenchError> {
    let mut ports = Ports::open(&[one, two], &PortSettings::default())?;
    ports.listen()?;
    ready();
    loop {
        ports.forward(0, 1)?;
        ports.forward(1, 0)?;
    }
}

fn exchange(rings: Library, devices: [&str; 2]) -> Result<(), BenchError> {
    Err(match rings {
        Library::Xoff => {
            let mut exchange = with_own_rings(devices)?;
            ready();
            exchange.run()
        }
        Library::XskRs => {
            let mut exchange = with_xsk_rs_rings(devices)?;
            ready();
            exchange.run()
        }
    })
}

fn generate(device: &str, load: Load) -> Result<(), BenchError> {
    let mut ports = Ports::open(&[device], &PortSettings::default())?;
    for frame in load.frames().take(PREPARED) {
        assert!(ports.send(0, &frame)?, "fewer frames than the ring has entries");
    }
    ready();
    loop {
        ports.send_again(0)?;
    }
}

fn sink(device: &str) -> Result<(), BenchError> {
    let _program = attach(device, None)?;
    ready();
    loop {
        thread::park();
    }
}

fn ready() {
    // Who started this waits for it; nobody else has to read it.
    let _ = writeln!(io::stdout(), "ready").and_then(|()| io::stdout().flush());
}
