//! `xoff capture`: frames of a running switch's ports, as they pass.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use miette::IntoDiagnostic as _;
use nix::sys::signal::{SigSet, Signal};
use signal_hook::low_level::emulate_default_handler;
use ureq::http::Response;
use xoff_recording::pcapng::{NoBlock, Splitter, Tally};

use crate::cli::{number, tell};
use xoff_switch::client::{self, Silent};
use xoff_switch::control::capture::ID_HEADER;

/// How long the switch has to begin.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);
const EXAMPLES: &str = "\
Examples:
  xoff capture p1 p2 -w incast.pcapng
  xoff capture p1 -w - | tshark -r -
  xoff capture --dropped -w - | tshark -r - -T fields -e frame.interface_name -e frame.comment";

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// Capture the frames of a running switch's ports, both directions, MAC control (PFC, GFC, CNM) included, as pcapng: with the class
/// and what became of each frame as a comment, until Ctrl-C or for so long. No frame waits for who reads a capture; those that it
/// missed are counted in the file and told at the end. Needs root, or the user whom the switch runs as.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ports of the switch; all where none is named.
    #[arg(value_name = "PORT")]
    ports: Vec<String>,
    /// Only frames of this class, 0 to 7. Several may be given.
    #[arg(long, value_name = "N", value_parser = number(0..=7_u8))]
    class: Vec<u8>,
    /// Only frames that are dropped, for any reason or for this one (`--dropped=egress_full`). Several may be given.
    #[arg(long, value_name = "REASON", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    dropped: Vec<String>,
    /// Control frames: what the switch consumes or makes itself, and CNMs. Only these where no class or drop is asked for.
    #[arg(long)]
    control: bool,
    /// Bytes of each frame that are kept, 14 to 262144.
    #[arg(long, value_name = "BYTES", value_parser = number(14..=262_144_u32))]
    snap: Option<u32>,
    /// End after so many frames.
    #[arg(long, short = 'c', value_name = "N", value_parser = number(1..=u64::MAX))]
    count: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "N", value_parser = number(1..=u32::MAX))]
    seconds: Option<u32>,
    /// The file to write, or - for standard output.
    #[arg(long, short, value_name = "FILE")]
    write: PathBuf,
    /// Where the switch serves its status.
    #[arg(long, value_parser = client::url, default_value = client::DEFAULT_URL)]
    url: String,
}

/// Why nothing was captured, or no more.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Nobody answers.
    #[error(transparent)]
    Silent(#[from] Silent),
    /// The switch says no.
    #[error("{0}")]
    Refused(String),
    /// Something answers, but not with a capture.
    #[error("{url} sends no capture of this version of xoff: {error}")]
    Foreign {
        /// Where it was asked.
        url: String,
        /// What is wrong with the answer.
        error: NoBlock,
    },
    /// The file.
    #[error("cannot write {file}: {error}")]
    File {
        /// Which.
        file: String,
        /// The system's words.
        error: io::Error,
    },
}

/// How a capture came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// As it should.
    Whole,
    /// Nobody reads what is written.
    Unread,
    /// The switch is gone.
    CutOff,
}

/// Runs the command.
///
/// # Errors
/// Where there is no switch, it refuses, or the file cannot be written.
pub fn run(args: &Args) -> miette::Result<ExitCode> {
    let (end, tally) = capture(args).into_diagnostic()?;
    let Tally { frames, missed } = tally;
    let missed = missed
        .map_or_else(|| "it is not known how many were missed".into(), |missed| format!("{missed} missed"));
    tell(format_args!("{frames} frames captured, {missed}"));
    match end {
        End::Whole | End::Unread => Ok(ExitCode::SUCCESS),
        End::CutOff => {
            tell("the switch has ended, and the capture with it");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn capture(args: &Args) -> Result<(End, Tally), CaptureError> {
    let url = args.url.as_str();
    // Signals that come from here on end it in good order. They are waited for, so that none cuts a read of the answer short.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    let waited_for = signals.thread_block();
    let mut answer = begin(url, args)?;
    let id = answer.headers().get(ID_HEADER).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let mut file = open(args)?;
    if waited_for.is_ok() {
        let url = url.to_owned();
        thread::spawn(move || end_on(&signals, &url, &id));
    }
    carry(&mut answer.body_mut().as_reader(), &mut file, url, &args.write.to_string_lossy())
}

fn begin(url: &str, args: &Args) -> Result<Response<ureq::Body>, CaptureError> {
    let (agent, base) = client::endless(url, BEGUN_WITHIN);
    let mut request = agent.get(format!("{base}/capture"));
    let numbers =
        [("snap", args.snap.map(u64::from)), ("count", args.count), ("seconds", args.seconds.map(u64::from))];
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
            let said = answer.body_mut().read_to_string().map_err(Silent::at(url))?;
            Err(CaptureError::Refused(said.trim_end().into()))
        }
    }
}

fn open(args: &Args) -> Result<Box<dyn Write>, CaptureError> {
    if args.write.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let failed = |error| CaptureError::File { file: args.write.display().to_string(), error };
    Ok(Box::new(File::create(&args.write).map_err(failed)?))
}

/// With the first signal the switch is told to end the capture, which then comes to its end here; the next ends this process.
fn end_on(signals: &SigSet, url: &str, id: &str) {
    let (agent, base) = client::agent(url, BEGUN_WITHIN);
    let end =
        || agent.delete(format!("{base}/capture/{id}")).call().is_ok_and(|told| told.status().is_success());
    let mut is_told = false;
    while let Ok(signal) = signals.wait() {
        if is_told || !end() {
            let _ = emulate_default_handler(signal as i32);
        }
        is_told = true;
    }
}

/// Carries whole blocks from the switch to the file, as they come.
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
    use xoff_dataplane::units::{MacAddr, PortId};
    use xoff_recording::pcapng::{Interface, Writer};

    use super::*;

    /// Gives a byte or two at a time, and then what it is told to.
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
    fn a_capture_is_whole_where_its_end_has_come() {
        let bytes = blocks(true);
        let (file, outcome) = carried(&bytes, None);
        let tally = Tally { frames: 0, missed: Some(0) };
        assert_eq!((file, outcome.unwrap()), (bytes, (End::Whole, tally)));
    }

    #[test]
    fn of_a_capture_that_is_cut_off_whole_blocks_are_kept() {
        let (whole, all) = (blocks(false), blocks(true));
        for then in [None, Some(ErrorKind::ConnectionReset)] {
            let (file, outcome) = carried(&all[..all.len() - 1], then);
            assert_eq!((file, outcome.unwrap()), (whole.clone(), (End::CutOff, Tally::default())));
        }
    }

    #[test]
    fn what_is_no_capture_is_not_written() {
        let (file, outcome) = carried(b"<html>it works</html>", None);
        assert!(file.is_empty() && matches!(outcome, Err(CaptureError::Foreign { .. })));
    }
}
