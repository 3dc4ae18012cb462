use std::ffi::c_int;
use std::fmt::Display;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::ops::{ControlFlow, RangeInclusive};
use std::process::ExitCode;
use std::str::FromStr;

use miette::miette;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use xoff_config::quantity;
#[cfg(feature = "experiments")]
use xoff_experiments::scenario::SEED_MAX;

use xoff_switch::Promise;

/// Exit code of a command that could not start: bad usage, a bad configuration or a missing privilege.
pub const EXIT_CANNOT: u8 = 2;
pub const EXIT_NOT_PROVED: u8 = 3;

pub const URL_VARIABLE: &str = "XOFF_URL";

/// Returns a command's exit code: 0 without loss, 1 if lossless frames were lost, 3 if a loss cannot be
/// excluded.
#[must_use]
pub fn exit_code(promise: Promise) -> ExitCode {
    match promise {
        Promise::Kept => ExitCode::SUCCESS,
        Promise::NotProved => ExitCode::from(EXIT_NOT_PROVED),
        Promise::NotKept => ExitCode::FAILURE,
    }
}

pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("the value must be a whole number from {} to {}", range.start(), range.end())
        })
    }
}

pub fn whole_seconds(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    const SECOND: u64 = 1_000_000_000;
    move |text| {
        let nanos = quantity::parse_time(text).map(|time| time.0).filter(|nanos| nanos % SECOND == 0);
        let seconds = nanos.and_then(|nanos| u32::try_from(nanos / SECOND).ok());
        seconds.filter(|seconds| range.contains(seconds)).ok_or_else(|| {
            format!("the value must be a time in whole seconds from {}s to {}s", range.start(), range.end())
        })
    }
}

#[cfg(feature = "experiments")]
pub const SEEDS_MAX: u64 = 1_000_000;

/// Parses a range of at most [`SEEDS_MAX`] seeds, such as `1..10`.
#[cfg(feature = "experiments")]
pub fn seeds(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..").and_then(|(from, to)| {
        let to = to.strip_prefix('=').unwrap_or(to);
        from.trim().parse().ok().zip(to.trim().parse().ok())
    });
    let ends = ends.filter(|&(from, to)| from <= to && to <= SEED_MAX && to - from < SEEDS_MAX);
    ends.ok_or_else(|| {
        "the seeds must be a range such as 1..10 (ten seeds), of at most a million seeds".into()
    })
}

/// Returns the signals that end a command: SIGINT, SIGTERM and usually SIGHUP.
///
/// SIGHUP is missing if the parent ignored it, as `nohup` does.
#[must_use]
pub fn ending_signals() -> Vec<c_int> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let all = [SIGINT, SIGTERM, SIGHUP].into_iter();
    all.filter(|&signal| signal != SIGHUP || !ignores(&status, SIGHUP)).collect()
}

/// Returns whether a process with this `/proc/PID/status` ignores the signal.
/// Bit n - 1 of `SigIgn` is signal n.
fn ignores(status: &str, signal: c_int) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Prints on standard output. Returns no error if the reader of a pipe has closed it.
pub fn print(text: impl Display) -> miette::Result<()> {
    print_more(text).map(drop)
}

/// Prints as [`print()`] does; returns `Break` if the reader of a pipe has closed it.
pub fn print_more(text: impl Display) -> miette::Result<ControlFlow<()>> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(miette!("cannot write the result: {error}")),
    }
}

pub fn refuse_terminal(file: &str) -> miette::Result<()> {
    match file == "-" && io::stdout().is_terminal() {
        true => Err(miette!(
            help = "write the capture to a file by -w FILE, or pipe it to a program, such as `tshark -r -`",
            "a capture is binary, and standard output is a terminal"
        )),
        false => Ok(()),
    }
}

/// Prints a line on standard error; ignores write errors.
pub fn tell(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        match line.chars().count() + 1 + word.chars().count() {
            _ if line.is_empty() => *line += word,
            fits if fits <= width => *line = format!("{line} {word}"),
            _ => lines.push(format!("  {word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_option_outside_its_range_is_refused() {
        let seconds = number(3_u32..=600);
        assert_eq!((seconds("3"), seconds("600")), (Ok(3), Ok(600)));
        for bad in ["2", "601", "-3", "x", "5000000000"] {
            assert_eq!(seconds(bad), Err("the value must be a whole number from 3 to 600".into()), "{bad}");
        }
    }

    #[test]
    fn ignored_signals_are_read_from_proc_pid_status() {
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001002\nSigCgt:\t0000000000000001\n";
        assert!(!ignores(status, SIGHUP) && ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(ignores("SigIgn:\t0000000000000001\n", SIGHUP) && !ignores("", SIGHUP));
    }

    #[test]
    fn duration_option_without_unit_or_whole_seconds_is_refused() {
        let seconds = whole_seconds(3..=600);
        for (text, expected) in [("3s", 3), ("600s", 600), ("4000ms", 4)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for bad in ["2s", "601s", "10", "3500ms", "-3s", "s", "x", "18446744073709551616s"] {
            let expected = "the value must be a time in whole seconds from 3s to 600s";
            assert_eq!(seconds(bad), Err(expected.into()), "{bad}");
        }
    }
}
