use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::defects::{self, Defect};
use crate::ingress::Thresholds;
use crate::run::run;
use crate::switch::Settings;
use crate::watchdog::{self, Action};

/// Run a small PFC switch between interfaces, with the given defects.
#[derive(Debug, Parser)]
#[command(name = "xoff-reference", version, args_override_self = true)]
struct Args {
    /// Interface of a port; give two to eight ports.
    #[arg(long = "port", value_name = "INTERFACE", required_unless_present = "list_defects")]
    ports: Vec<String>,
    /// Speed of every port in bits per second, from 1M to 400G.
    #[arg(long, default_value = "1G", value_parser = parse_speed)]
    speed: u64,
    /// Lossless classes, 0 to 7, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "3,4", value_parser = clap::value_parser!(u8).range(0..8))]
    lossless: Vec<u8>,
    /// Bytes in an ingress queue above which the switch sends XOFF.
    #[arg(long, default_value_t = 40_000, value_name = "BYTES")]
    xoff: u64,
    /// Bytes in an ingress queue at or below which the switch sends XON.
    #[arg(long, default_value_t = 20_000, value_name = "BYTES")]
    xon: u64,
    /// Bytes that a lossless ingress queue may hold above XOFF.
    #[arg(long, default_value_t = 1_000_000, value_name = "BYTES")]
    headroom: u64,
    /// Pause time of sent PFC frames, in quanta; defects that swap its bytes show only if these differ.
    #[arg(long, default_value_t = 0xa010)]
    quanta: u16,
    /// Maximum bytes of a lossy egress queue.
    #[arg(long, default_value_t = 400_000, value_name = "BYTES")]
    lossy: u64,
    /// Bytes in an egress queue above which the switch marks ECN.
    #[arg(long, default_value_t = 30_000, value_name = "BYTES")]
    ecn: u64,
    /// Bytes in an egress queue above which the switch marks all packets [default: the bytes of `--ecn`].
    #[arg(long, value_name = "BYTES")]
    ecn_max: Option<u64>,
    /// Share of packets marked just below `--ecn-max`; it grows linearly from `--ecn`.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
    ecn_probability: f64,
    /// Frames that each class sends in one round of the scheduler: eight numbers above 0.
    #[arg(long, value_delimiter = ',', default_value = "1,1,1,1,1,1,1,1")]
    weights: Vec<u32>,
    /// Time for which a class is paused before the watchdog detects a storm [default: no watchdog].
    #[arg(long, value_name = "MILLISECONDS")]
    watchdog: Option<u64>,
    /// Time without a pause after which the watchdog restores a class.
    #[arg(long, default_value_t = 200, value_name = "MILLISECONDS")]
    restoration: u64,
    /// Effect of a storm on frames of the class.
    #[arg(long, value_enum, default_value_t = Action::Drop, value_name = "ACTION")]
    watchdog_action: Action,
    /// File to which the switch writes its counters: lines of port, name and value.
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Defect to switch on; may be repeated.
    #[arg(long = "defect", value_name = "NAME", value_parser = Defect::parse)]
    defects: Vec<Defect>,
    /// List all defects: name, case of `xoff test` that must find it, and description.
    #[arg(long)]
    list_defects: bool,
}

/// Runs the command. Exit code 2: invalid arguments, or an interface that cannot be used or was removed.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_defects {
        print!("{}", defects::list());
        return ExitCode::SUCCESS;
    }
    match switch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xoff-reference: {error}");
            ExitCode::from(2)
        }
    }
}

fn switch(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    if !(2..=8).contains(&args.ports.len()) {
        return Err(format!("{} ports are given; give two to eight", args.ports.len()).into());
    }
    let weights: [u32; 8] = args.weights.clone().try_into().map_err(|weights: Vec<u32>| {
        format!("`--weights` has {} numbers; give eight, one per class", weights.len())
    })?;
    if weights.contains(&0) {
        return Err("`--weights` contains 0; give numbers of 1 or more".into());
    }
    let settings = Settings {
        speed_bps: args.speed,
        lossless: args.lossless.iter().fold(0, |classes, class| classes | 1 << class),
        thresholds: Thresholds { xoff: args.xoff, xon: args.xon, headroom: args.headroom },
        quanta: args.quanta,
        lossy_max: args.lossy,
        ecn: [args.ecn, args.ecn_max.unwrap_or(args.ecn)],
        ecn_probability: args.ecn_probability,
        weights,
        watchdog: args.watchdog.map(|detection| watchdog::Settings {
            detection: detection * 1_000_000,
            restoration: args.restoration * 1_000_000,
            action: args.watchdog_action,
        }),
        defects: args.defects.iter().copied().collect(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(run(settings, &args.ports, args.counters.as_deref(), &stop)?)
}

fn parse_speed(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['k', 'M', 'G']);
    let factor = match &text[digits.len()..] {
        "" => Some(1),
        "k" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    };
    let speed =
        digits.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    let is_allowed = |speed: &u64| (1_000_000..=400_000_000_000).contains(speed);
    speed.filter(is_allowed).ok_or_else(|| format!("`{text}` is no speed from 1M to 400G"))
}
