use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use miette::IntoDiagnostic as _;
use nix::sys::signal::{SigSet, Signal};
use signal_hook::low_level::emulate_default_handler;
use ureq::http::Response;
use xoff_recording::pcapng::{NoBlock, Splitter, Tally};

use crate::cli::{URL_VARIABLE, number, refuse_terminal, tell, whole_seconds};
use xoff_switch::client::{self, DEFAULT_URL, Silent};
use xoff_switch::control::capture::ID_HEADER;

const BEGUN_WITHIN: Duration = Duration::from_secs(10);
const EXAMPLES: &str = "\
Examples:
  xoff capture p1 p2 -w incast.pcapng
  xoff capture p1 -w - | tshark -r -
  xoff capture --dropped -w - | tshark -r - -T fields -e frame.interface_name -e frame.comment";

const PIECE: usize = 256 << 10;

/// Capture frames of a running switch's ports as pcapng.
///
/// The capture has both directions, including MAC control (PFC, GFC, CNM). A comment on each frame names its class,
/// and whether it was sent or dropped. The file and the final message have the number of missed frames. Requires
/// root, or the user that the switch runs as.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ports of the switch [default: all].
    #[arg(value_name = "PORT")]
    ports: Vec<String>,
    /// Capture only frames of this class, 0 to 7. May be repeated.
    #[arg(long, value_name = "N", value_parser = number(0..=7_u8))]
    class: Vec<u8>,
    /// Capture only dropped frames. May be repeated.
    ///
    /// Without a value, all drop reasons; with a value, only that reason (`--dropped=egress_full`).
    #[arg(long, value_name = "REASON", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    dropped: Vec<String>,
    /// Capture control frames.
    ///
    /// These are frames that the switch consumes or creates, and CNMs. With --control alone, no other frames are captured.
    #[arg(long)]
    control: bool,
    /// Maximum number of bytes kept of each frame, 14 to 262144.
    #[arg(long, value_name = "BYTES", value_parser = number(14..=262_144_u32))]
    snap: Option<u32>,
    /// End after this number of frames.
    #[arg(long, short = 'c', value_name = "N", value_parser = number(1..=u64::MAX))]
    count: Option<u64>,
    /// End after this time, in whole seconds, such as 10s.
    #[arg(long, value_name = "TIME", value_parser = whole_seconds(1..=u32::MAX))]
    duration: Option<u32>,
    /// Output file, or - for standard output.
    #[arg(long, short = 'w', value_name = "FILE")]
    out: PathBuf,
    /// Address of the switch: a URL or unix:PATH.
    #[arg(long, value_name = "URL", env = URL_VARIABLE, default_value = DEFAULT_URL, value_parser = client::url)]
    url: String,
}

#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(transparent)]
    Silent(#[from] Silent),
    #[error("{0}")]
    Refused(String),
    #[error("the reply of {url} is not a capture of this version of xoff: {error}")]
    Foreign { url: String, error: NoBlock },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("cannot write {file}: {error}")]
    File { file: String, error: io::Error },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Unread,
    /// The connection to the switch broke before the final statistics.
    CutOff,
}

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    refuse_terminal(&args.out.to_string_lossy())?;
    let (end, tally) = capture(args).into_diagnostic()?;
    let Tally { frames, missed } = tally;
    match missed {
        Some(missed) => tell(format_args!("{frames} frames captured, {missed} missed")),
        None => tell(format_args!("{frames} frames captured; the number of missed frames is unknown")),
    }
    match end {
        End::Whole | End::Unread => Ok(ExitCode::SUCCESS),
        End::CutOff => {
            tell("the capture is incomplete: the switch ended or closed the connection");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn capture(args: &Args) -> Result<(End, Tally), CaptureError> {
    let url = args.url.as_str();
    // Block both signals in all threads, so that they interrupt no read. Only the thread of `end_on` waits for them.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    let waited_for = signals.thread_block();
    let mut answer = begin(url, args)?;
    let id = answer.headers().get(ID_HEADER).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let mut file = open(args)?;
    if waited_for.is_ok() {
        let url = url.to_owned();
        xoff_xdp::spawn(move || end_on(&signals, &url, &id)).map_err(CaptureError::Thread)?;
    }
    carry(&mut answer.body_mut().as_reader(), &mut file, url, &args.out.to_string_lossy())
}

fn begin(url: &str, args: &Args) -> Result<Response<ureq::Body>, CaptureError> {
    let (agent, base) = client::endless(url, BEGUN_WITHIN);
    let mut request = agent.get(format!("{base}/capture"));
    let numbers = [
        ("snap", args.snap.map(u64::from)),
        ("count", args.count),
        ("seconds", args.duration.map(u64::from)),
    ];
    let numbers = numbers.into_iter().filter_map(|(key, value)| Some((key, value?.to_string())));
    let ports = args.ports.iter().map(|port| ("port", port.clone()));
    let classes = args.class.iter().map(|class| ("class", class.to_string()));
    let dropped = args.dropped.iter().map(|reason| ("dropped", reason.clone()));
    let control = args.control.then(|| ("control", String::new()));
    for (key, value) in ports.chain(classes).chain(dropped).chain(control).chain(numbers) {
        request = request.query(key, value);
    }
    let mut answer = request.call().map_err(Silent::at(url))?;
    match answer.status().is_success() {
        true => Ok(answer),
        false => {
            let message = answer.body_mut().read_to_string().map_err(Silent::at(url))?;
            Err(CaptureError::Refused(message.trim_end().into()))
        }
    }
}

fn open(args: &Args) -> Result<Box<dyn Write>, CaptureError> {
    if args.out.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let failed = |error| CaptureError::File { file: args.out.display().to_string(), error };
    Ok(Box::new(File::create(&args.out).map_err(failed)?))
}

/// Asks the switch to end the capture at the first signal.
/// A second signal, or a failed request, ends this process.
fn end_on(signals: &SigSet, url: &str, id: &str) {
    let (agent, base) = client::agent(url, BEGUN_WITHIN);
    let end = || {
        agent.delete(format!("{base}/capture/{id}")).call().is_ok_and(|answer| answer.status().is_success())
    };
    let mut is_sent = false;
    while let Ok(signal) = signals.wait() {
        if is_sent || !end() {
            let _ = emulate_default_handler(signal as i32);
        }
        is_sent = true;
    }
}

fn carry(
    from: &mut impl Read,
    to: &mut impl Write,
    url: &str,
    file: &str,
) -> Result<(End, Tally), CaptureError> {
    let mut piece = vec![0; PIECE];
    let mut splitter = Splitter::default();
    loop {
        let end = match from.read(&mut piece) {
            Ok(0) => Some(End::Whole),
            Ok(len) => {
                splitter.push(&piece[..len]);
                None
            }
            Err(_) => Some(End::CutOff),
        };
        let blocks = splitter.whole().map_err(|error| CaptureError::Foreign { url: url.into(), error })?;
        let written = write(to, &blocks).map_err(|error| CaptureError::File { file: file.into(), error })?;
        if written.is_break() {
            return Ok((End::Unread, splitter.tally().clone()));
        }
        if let Some(end) = end {
            let is_whole = end == End::Whole && splitter.tally().missed.is_some();
            return Ok((if is_whole { End::Whole } else { End::CutOff }, splitter.tally().clone()));
        }
    }
}

fn write(to: &mut impl Write, blocks: &[u8]) -> io::Result<ControlFlow<()>> {
    match to.write_all(blocks).and_then(|()| to.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_recording::pcapng::{Interface, Writer};
    use xoff_wire::units::{MacAddr, PortId};

    use super::*;

    struct Trickle<'a>(&'a [u8], Option<ErrorKind>);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(5);
            if len == 0 {
                return self.1.map_or(Ok(0), |kind| Err(kind.into()));
            }
            into[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn blocks(is_ended: bool) -> Vec<u8> {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let interface =
            Interface { port: PortId(0), name: "p1".into(), description: String::new(), mac, speed: 1_000 };
        let mut writer = Writer::new("xoff", vec![interface], 99, Duration::ZERO, Duration::ZERO);
        if is_ended {
            writer.statistics(|_| [0, 0], Duration::ZERO);
        }
        writer.take()
    }

    fn carried(bytes: &[u8], then: Option<ErrorKind>) -> (Vec<u8>, Result<(End, Tally), CaptureError>) {
        let mut file = Vec::new();
        let outcome = carry(&mut Trickle(bytes, then), &mut file, "url", "file");
        (file, outcome)
    }

    #[test]
    fn capture_with_final_statistics_is_complete() {
        let bytes = blocks(true);
        let (file, outcome) = carried(&bytes, None);
        let tally = Tally { frames: 0, missed: Some(0) };
        assert_eq!((file, outcome.unwrap()), (bytes, (End::Whole, tally)));
    }

    #[test] // proves: capture
    fn cut_off_capture_keeps_all_complete_blocks() {
        let (whole, all) = (blocks(false), blocks(true));
        for then in [None, Some(ErrorKind::ConnectionReset)] {
            let (file, outcome) = carried(&all[..all.len() - 1], then);
            assert_eq!((file, outcome.unwrap()), (whole.clone(), (End::CutOff, Tally::default())));
        }
    }

    #[test]
    fn invalid_capture_is_not_written() {
        let (file, outcome) = carried(b"<html>it works</html>", None);
        assert!(file.is_empty() && matches!(outcome, Err(CaptureError::Foreign { .. })));
    }
}
