//! Peers and load generators for `scripts/bench forward`, on xoff's rings or those of the crate `xsk-rs` (libxdp's).

#![deny(unsafe_code)]

mod error;
mod exchange;
mod load;
#[allow(unsafe_code)] // all `xsk-rs` calls that move a descriptor are unsafe
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

/// Number of prepared frames: a multiple of 192 (12 sizes for each of 16 flows), and few enough for a core's cache.
const PREPARED: usize = 384;

/// Maximum of `flows` and of `first`, so that their sum is at most [`FLOWS_MAX`].
const LIMIT: i64 = FLOWS_MAX as i64 / 2;

/// Benchmark peers and load generators. Each command prints "ready", then runs until it is killed.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Forward between two interfaces with sockets of the crate xsk-rs, without sleeping.
    Forward { one: String, two: String },
    /// Forward between two interfaces with a loop over xoff's ring traits, without sleeping.
    Exchange {
        /// Library whose rings the forwarder uses.
        rings: Library,
        one: String,
        two: String,
    },
    /// Send frames as fast as the kernel takes them.
    Generate {
        device: String,
        /// Frame length in bytes with FCS: 64 to 1518, or imix (64, 594 and 1518, 7:4:1).
        #[arg(long, default_value = "64")]
        frame_bytes: FrameBytes,
        /// Number of flows, which send round robin, one frame each.
        #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=LIMIT))]
        flows: u16,
        /// Number of the first flow; lower numbers are for another generator.
        #[arg(long, default_value = "0", value_parser = clap::value_parser!(u16).range(0..=LIMIT))]
        first: u16,
        /// MAC address of the router that all frames go to; without it each flow has its own destination.
        #[arg(long, value_parser = mac)]
        via: Option<MacAddr>,
    },
    /// Drop received frames in the driver, which counts them.
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
    MacAddr::parse(text)
        .ok_or_else(|| format!("{text:?} is not a MAC address: write it as 02:00:00:00:00:01"))
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
        assert!(ports.send(0, &frame)?, "the TX ring must have room for all prepared frames");
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
    // Ignore the error if no parent process reads this line.
    let _ = writeln!(io::stdout(), "ready").and_then(|()| io::stdout().flush());
}
