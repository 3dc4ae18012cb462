use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Subcommand;
use miette::{IntoDiagnostic, miette};
use signal_hook::flag;
use xoff_config::quantity;
use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::control::{Control, Distortion, Overwrite, build, parse_control, parse_overwrite};
use xoff_host::limiter::parse_reaction;
use xoff_host::{
    HostReport, Obedience, Progress, Readable, Stream, Volume, keys_help, parse_streams, values,
};
use xoff_wire::units::{BitRate, ClassSet, MacAddr, Nanos, Quanta};
use xoff_xdp::Facts;

use crate::cli::{self, EXIT_CANNOT};
use xoff_traffic::emit::{Link, Timing, emit};
use xoff_traffic::{Host, HostOptions};

/// Send and receive test streams on one interface over AF_XDP.
///
/// The host obeys pauses and accounts for the frames that it receives.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = after_help())]
pub struct Args {
    #[command(flatten)]
    host: Option<HostArgs>,
    #[command(subcommand)]
    command: Option<TrafficCommand>,
}

#[derive(Debug, Subcommand)]
enum TrafficCommand {
    /// Send pause frames, flow lists (OFC) or rates (GFC).
    ///
    /// The frames are well-formed or deliberately malformed.
    #[command(after_help = PAUSE_HELP)]
    Pause(PauseArgs),
}

#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools)] // independent flags
struct HostArgs {
    /// Network interface.
    #[arg(long, value_name = "INTERFACE")]
    device: String,
    /// Stream to send; see the keys below. May be repeated.
    #[arg(long = "stream", value_name = "KEY=VALUE,...")]
    streams: Vec<String>,
    /// Speed of the line, for the pacing of frames and the length of quanta.
    ///
    /// Pacing counts 24 bytes of FCS, preamble and gap for each frame.
    #[arg(long, value_name = "RATE", default_value = "10G", value_parser = values::rate)]
    speed: BitRate,
    /// Stop sending after this time, and end.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Nanos>,
    /// End if no data arrives for this time [default: 500ms].
    ///
    /// The time begins when the last stream has ended. Without streams, it begins with the first received frame, and the
    /// default is to run forever.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    linger: Option<Nanos>,
    /// Host number written to sent frames [default: last 2 bytes of the MAC].
    #[arg(long)]
    id: Option<u16>,
    /// MAC address of the host [default: the interface's].
    #[arg(long, value_name = "MAC", value_parser = values::mac)]
    address: Option<MacAddr>,
    /// Count pause frames but do not obey them.
    #[arg(long, conflicts_with = "late")]
    ignore_pause: bool,
    /// Delay obedience to pauses by this time (50us) or these quanta (100q).
    ///
    /// A quantum is 512 bit times.
    #[arg(long, value_name = "TIME|QUANTA", value_parser = lateness)]
    late: Option<Lateness>,
    /// Obey 802.3x PAUSE frames too: they pause all classes.
    #[arg(long = "obey-802.3x")]
    obey_802_3x: bool,
    /// Obey lists of flows (OFC): they pause flows, not the class.
    #[arg(long, conflicts_with_all = ["late", "ignore_pause"])]
    obey_flows: bool,
    /// Obey the rates that the switch requests (GFC), class by class.
    #[arg(long, conflicts_with_all = ["late", "ignore_pause"])]
    obey_rates: bool,
    /// Maximum delay that the host makes up for by a burst.
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = values::duration)]
    catch_up: Nanos,
    /// Count frames to other hosts too.
    #[arg(long)]
    promiscuous: bool,
    /// Do not announce the address (gratuitous ARP every second).
    #[arg(long)]
    no_announce: bool,
    /// Spin instead of sleeping: exact latencies, but one whole core.
    #[arg(long)]
    busy: bool,
    /// Minimum sleep under traffic; pauses are obeyed up to this time late.
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = values::duration)]
    nap: Nanos,
    /// Add a CN-TAG to streams and obey CNMs (802.1Qau).
    ///
    /// The tag carries the stream's number. Parameters override the standard's, as in
    /// gd=128,recovery=5,bytes=150KB,time=15ms,ai=5M,hai=50M,min=10M,jitter=15,seed=0
    #[arg(long, value_name = "KEY=VALUE,...", num_args = 0..=1, default_missing_value = "",
          require_equals = true, value_parser = parse_reaction)]
    qcn: Option<ReactionSettings>,
    /// Entries of each ring, a power of two.
    #[arg(long, value_name = "ENTRIES", default_value_t = 4096, value_parser = ring_entries)]
    ring: u32,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Show rates every second, on standard error.
    #[arg(long)]
    progress: bool,
    /// Exit with 1 on loss, duplicates, reordering or no data.
    ///
    /// Applies to the given classes, or to all.
    #[arg(long, value_name = "CLASSES", num_args = 0..=1, default_missing_value = "all",
          require_equals = true, value_parser = values::classes)]
    expect_lossless: Option<ClassSet>,
}

const PAUSE_HELP: &str = "\
Pauses:
  3=65535,4=0                                 class 3 stops for 65535 quanta, class 4 goes on
  all=100, 802.3x=100                         all classes, by PFC or by 802.3x PAUSE
  gfc:3=2@65535                               class 3 may take 1/2^2 of the line for so long; step 0 or
                                              0 quanta end the limit
  ofc:3=udp/10.0.0.1:1000/10.0.0.2:4791@100   that flow of class 3 stops; with @0 it goes on. Flows are
                                              separated by commas: udp/.., tcp/[fd00::1]:80/[fd00::2]:90,
                                              or EtherType and addresses: 88b5/02:..:01/02:..:02.
                                              A stream of `xoff traffic` is udp/10.A.B.C:SPORT/10.D.E.F:DPORT
                                              by the last three bytes of both addresses

Malformed ones:
  --overwrite 0=0280c2000001   another destination; 6= the source, 14= the opcode, 16= the classes
  --overwrite 41=03    a list that says three flows and has fewer
  --overwrite 38=03    a list with an operation that is none
  --overwrite 43=11    a rate of class 3 that is slower than the slowest
  --truncate 49        rates that end before their time";

#[derive(Debug, clap::Args)]
struct PauseArgs {
    /// Network interface.
    #[arg(long, value_name = "INTERFACE")]
    device: String,
    /// Content of a frame: pauses, rates or flows; see below.
    ///
    /// If the option is repeated, the frames are sent in this order.
    #[arg(long = "pause", value_name = "CLASS=QUANTA,...", required = true, value_parser = parse_control)]
    pauses: Vec<Control>,
    /// Interval between frames.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = values::duration)]
    every: Nanos,
    /// Number of rounds through all frames [default: 1; no limit with --duration].
    #[arg(long)]
    count: Option<u64>,
    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Nanos>,
    /// Overwrite bytes from OFFSET on. May be repeated.
    #[arg(long = "overwrite", value_name = "OFFSET=HEX", value_parser = parse_overwrite)]
    overwrites: Vec<Overwrite>,
    /// Truncate the frame to this number of bytes, 14 to 1514.
    #[arg(long, value_name = "BYTES", value_parser = cli::number(14..=1514_u16))]
    truncate: Option<u16>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
enum Lateness {
    Time(Nanos),
    Quanta(Quanta),
}

fn lateness(text: &str) -> Result<Lateness, String> {
    if let Some(quanta) = text.strip_suffix('q') {
        return quanta
            .parse()
            .map(|quanta| Lateness::Quanta(Quanta(quanta)))
            .map_err(|_| "a time in quanta must be 0q to 65535q".to_owned());
    }
    values::duration(text).map(Lateness::Time)
}

fn ring_entries(text: &str) -> Result<u32, String> {
    let entries = text.parse().ok().filter(|entries: &u32| entries.is_power_of_two());
    entries
        .filter(|entries| (64..=262_144).contains(entries))
        .ok_or_else(|| "the number of entries must be a power of two from 64 to 262144".to_owned())
}

fn after_help() -> String {
    format!(
        "Start the receiving host first, and sending hosts when it prints \"ready\": earlier frames count as missed at start.\n\n\
         Streams:\n{}\nA stream without rate is as fast as the line; without count and duration it lasts as long as \
         the host. class decides DSCP (class x 8) and PCP unless they are given; a tag is written where pcp or vlan \
         is.\n\nExit codes: 0 done, 1 not lossless (--expect-lossless), 2 bad usage, an interface that cannot be used or was deleted.",
        keys_help()
    )
}

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    match (&args.command, &args.host) {
        (Some(TrafficCommand::Pause(pause)), _) => run_pause(pause),
        (None, Some(host)) => run_host(host),
        (None, None) => Err(miette!("--device INTERFACE is required; see `xoff traffic --help`")),
    }
}

/// Time for which signals after a run are ignored: terminal and wrapper may each send one.
const SIGNALS_LATE: Duration = Duration::from_secs(1);

/// Signal handlers: a signal ends the run.
struct Signals {
    stop: Arc<AtomicBool>,
    /// True once further signals have their default effect.
    is_over: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> miette::Result<Signals> {
        let signals = Signals { stop: Arc::default(), is_over: Arc::default() };
        for signal in cli::ending_signals() {
            let is_over = Arc::clone(&signals.is_over);
            flag::register_conditional_default(signal, is_over).into_diagnostic()?;
            flag::register(signal, Arc::clone(&signals.stop)).into_diagnostic()?;
        }
        Ok(signals)
    }

    /// Ends the run.
    ///
    /// After [`SIGNALS_LATE`], a signal ends the process, which may hang while it writes its report to an unread pipe.
    fn over(self) {
        self.stop.store(true, Ordering::Relaxed);
        thread::spawn(move || {
            thread::sleep(SIGNALS_LATE);
            self.is_over.store(true, Ordering::Relaxed);
        });
    }
}

fn run_pause(args: &PauseArgs) -> miette::Result<ExitCode> {
    let signals = Signals::new()?;
    let link = Link::open(&args.device).into_diagnostic()?;
    let distortion =
        Distortion { overwrites: args.overwrites.clone(), truncate: args.truncate.map(usize::from) };
    let frames: Vec<_> = args.pauses.iter().map(|pause| build(pause, link.address(), &distortion)).collect();
    let count = args.count.or(if args.duration.is_some() { None } else { Some(1) });
    let timing = Timing { every: args.every, count, duration: args.duration };
    let sent = emit(&link, &frames, &timing, &signals.stop).into_diagnostic()?;
    signals.over();
    if args.json {
        cli::print(serde_json::json!({ "device": args.device, "frames": sent }).to_string() + "\n")?;
    } else {
        let frames = if sent == 1 { "frame" } else { "frames" };
        cli::print(format_args!("{sent} pause {frames} sent on {}\n", args.device))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_host(args: &HostArgs) -> miette::Result<ExitCode> {
    let streams = parse_streams(&args.streams).into_diagnostic()?;
    if args.qcn.is_some() {
        room_for_cn_tags(&streams)?;
    }
    for warning in above_line(&streams, args.speed) {
        cli::tell(format_args!("xoff traffic: {warning}"));
    }
    let signals = Signals::new()?;
    let progress = Arc::new(Progress::default());
    let host = Host::open(options(args)).into_diagnostic()?;
    carried(&streams, host.facts())?;
    announce_ready(&host);
    let display = args.progress.then(|| show_progress(Arc::clone(&progress), Arc::clone(&signals.stop)));
    let report = host.run(&streams, &signals.stop, &progress).into_diagnostic()?;
    signals.over();
    if let Some(display) = display {
        display.join().map_err(|_| miette!("the progress display failed"))?;
    }
    if args.json {
        cli::print(serde_json::to_string(&report).into_diagnostic()? + "\n")?;
    } else {
        cli::print(Readable(&report))?;
    }
    if report.device_gone {
        cli::tell(format_args!(
            "xoff traffic: interface {} is gone, so this host has ended; recreate the interface and start again",
            report.device
        ));
        return Ok(ExitCode::from(EXIT_CANNOT));
    }
    Ok(judge(args, &report))
}

fn above_line(streams: &[Stream], line: BitRate) -> Vec<String> {
    let above = |(index, stream): (usize, &Stream)| {
        let rate = stream.rate.filter(|&rate| rate > line)?;
        let [rate, line] = [rate, line].map(quantity::rate);
        Some(format!(
            "stream {index}: the rate of {rate} exceeds the line rate of {line} (--speed), which limits the stream"
        ))
    };
    streams.iter().enumerate().filter_map(above).collect()
}

fn room_for_cn_tags(streams: &[Stream]) -> miette::Result<()> {
    let least = |stream: &Stream| 68 + if stream.tag.is_some() { 4 } else { 0 };
    match streams.iter().position(|stream| stream.size < least(stream)) {
        Some(index) => Err(miette!(
            "stream {index}: size={} has no room for a CN-TAG; give at least size={}",
            streams[index].size,
            least(&streams[index])
        )),
        None => Ok(()),
    }
}

fn carried(streams: &[Stream], facts: &Facts) -> miette::Result<()> {
    let beside = |stream: &Stream| 18 + if stream.tag.is_some() { 4 } else { 0 };
    let needed = |stream: &Stream| stream.size.saturating_sub(beside(stream));
    let Facts { device, mtu, .. } = facts;
    match streams.iter().enumerate().max_by_key(|(_, stream)| needed(stream)) {
        Some((index, stream)) if needed(stream) > *mtu => Err(miette!(
            "stream {index}: size={} is too long for `{device}`, whose MTU of {mtu} carries size={}; \
             `ip link set {device} mtu {}` would carry it",
            stream.size,
            mtu + beside(stream),
            needed(stream)
        )),
        _ => Ok(()),
    }
}

fn announce_ready(host: &Host) {
    let facts = host.facts();
    facts.warnings.iter().for_each(|warning| cli::tell(format_args!("xoff traffic: {warning}")));
    let copy = if facts.zero_copy { "zero copy" } else { "copy" };
    cli::tell(format_args!(
        "xoff traffic: ready on {} ({}), {} mode, {copy}",
        facts.device,
        host.address(),
        facts.mode
    ));
}

fn options(args: &HostArgs) -> HostOptions {
    let obedience = match args.late {
        _ if args.ignore_pause => Obedience::Ignore,
        Some(Lateness::Time(time)) => Obedience::Late(time),
        Some(Lateness::Quanta(quanta)) => Obedience::Late(args.speed.time_of_quanta(quanta)),
        None => Obedience::Obey,
    };
    HostOptions {
        address: args.address,
        id: args.id,
        line: args.speed,
        duration: args.duration,
        linger: args.linger,
        obedience,
        obey_802_3x: args.obey_802_3x,
        obey_flows: args.obey_flows,
        obey_rates: args.obey_rates,
        nap: args.nap,
        catch_up: args.catch_up,
        promiscuous: args.promiscuous,
        announce: !args.no_announce,
        busy: args.busy,
        qcn: args.qcn,
        ring: args.ring,
        ..HostOptions::new(&args.device)
    }
}

fn judge(args: &HostArgs, report: &HostReport) -> ExitCode {
    let violations = args.expect_lossless.map(|classes| report.violations(classes)).unwrap_or_default();
    violations
        .iter()
        .for_each(|violation| cli::tell(format_args!("xoff traffic: not lossless: {violation}")));
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show_progress(progress: Arc<Progress>, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    const TICK: Duration = Duration::from_millis(100);
    let total = |volumes: &[Volume]| -> (u64, u64) {
        volumes.iter().fold((0, 0), |(frames, bytes), volume| {
            (frames + volume.frames.get(), bytes + volume.line_bytes.get())
        })
    };
    thread::spawn(move || {
        let mut before = ((0, 0), (0, 0));
        for tick in 1_u64.. {
            thread::sleep(TICK);
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if tick % 10 != 0 {
                continue;
            }
            let now = (total(&progress.sent), total(&progress.received));
            cli::tell(format_args!(
                "{:>5} s  sent {:>9} frames/s {:>9.1} Mb/s  received {:>9} frames/s {:>9.1} Mb/s",
                tick / 10,
                now.0.0 - before.0.0,
                (now.0.1 - before.0.1) as f64 * 8e-6,
                now.1.0 - before.1.0,
                (now.1.1 - before.1.1) as f64 * 8e-6,
            ));
            before = now;
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        traffic: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Cli::try_parse_from([&["traffic"], args].concat()).map(|cli| cli.traffic)
    }

    #[test]
    fn traffic_command_without_device_is_refused() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["--stream", "class=3"]).is_err());
        let host =
            parse(&["--device", "eth0", "--stream", "class=3", "--stream", "class=4"]).unwrap().host.unwrap();
        assert_eq!(host.streams.len(), 2);
        assert_eq!(host.expect_lossless, None);
    }

    #[test] // proves: traffic
    fn stream_rate_above_line_rate_causes_warning() {
        let streams = ["rate=10G", "rate=10001M", "rate=line"].map(|rate| format!("dst=broadcast,{rate}"));
        let warnings = above_line(&parse_streams(&streams).unwrap(), BitRate::from_gbps(10));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("stream 1: the rate of 10001Mb/s exceeds the line rate of 10Gb/s"),
            "{warnings:?}"
        );
    }

    #[test]
    fn option_expect_lossless_applies_to_all_or_listed_classes() {
        let expected = |arg| parse(&["--device", "eth0", arg]).unwrap().host.unwrap().expect_lossless;
        assert_eq!(expected("--expect-lossless"), Some(ClassSet::ALL));
        assert_eq!(expected("--expect-lossless=3,4"), Some(ClassSet(0b1_1000)));
    }

    #[test]
    fn option_late_accepts_a_time_or_quanta() {
        let late = |text| {
            options(&parse(&["--device", "d", "--speed", "1G", "--late", text]).unwrap().host.unwrap())
        };
        assert_eq!(late("50us").obedience, Obedience::Late(Nanos::from_micros(50)));
        assert_eq!(late("100q").obedience, Obedience::Late(Nanos(51_200)));
        assert!(parse(&["--device", "d", "--late", "100q", "--ignore-pause"]).is_err());
        assert!(parse(&["--device", "d", "--late", "70000q"]).is_err());
    }

    #[test]
    fn traffic_pause_is_a_subcommand() {
        let args =
            parse(&["pause", "--device", "eth0", "--pause", "3=100", "--pause", "3=20", "--truncate", "33"])
                .unwrap();
        let Some(TrafficCommand::Pause(pause)) = args.command else { panic!("not pause") };
        assert_eq!((pause.pauses.len(), pause.truncate), (2, Some(33)));
        assert!(parse(&["pause", "--device", "eth0"]).is_err());
        assert!(parse(&["pause", "--device", "eth0", "--pause", "9=1"]).is_err());
        assert!(parse(&["pause", "--device", "eth0", "--pause", "3=1", "--overwrite", "x"]).is_err());
    }
}
