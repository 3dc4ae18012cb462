//! What commands share: how they read numbers, and what they write where.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::ops::{ControlFlow, RangeInclusive};
use std::process::ExitCode;
use std::str::FromStr;

use miette::miette;
#[cfg(feature = "experiments")]
use xoff_experiments::scenario::SEED_MAX;

use xoff_switch::Promise;

/// Exit code of what could not be started: bad usage, bad configuration, missing privilege.
pub const EXIT_CANNOT: u8 = 2;
/// Exit code where it cannot be proved that nothing was lost.
const EXIT_NOT_PROVED: u8 = 3;

/// The exit code that tells what became of a promise.
#[must_use]
pub fn exit_code(promise: Promise) -> ExitCode {
    match promise {
        Promise::Kept => ExitCode::SUCCESS,
        Promise::NotProved => ExitCode::from(EXIT_NOT_PROVED),
        Promise::NotKept => ExitCode::FAILURE,
    }
}

/// Reads a whole number in `range`; what is wrong is said in words of the command line.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("it has to be a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Seeds of a run.
#[cfg(feature = "experiments")]
pub const SEEDS_MAX: u64 = 1_000_000;

/// Reads the first and the last of several seeds.
///
/// # Errors
/// It is no such range.
#[cfg(feature = "experiments")]
pub fn seeds(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..").and_then(|(from, to)| {
        let to = to.strip_prefix('=').unwrap_or(to);
        from.trim().parse().ok().zip(to.trim().parse().ok())
    });
    let ends = ends.filter(|&(from, to)| from <= to && to <= SEED_MAX && to - from < SEEDS_MAX);
    ends.ok_or_else(|| {
        "it has to be two numbers, such as 1..10, which is ten seeds: a million at most".into()
    })
}

/// Prints on standard output; what a reader that has gone away does not take is lost, and no error: its
/// exit code still tells the result.
///
/// # Errors
/// It cannot be written for another reason: a full disk.
pub fn print(text: impl Display) -> miette::Result<()> {
    print_more(text).map(drop)
}

/// The same, for who would print more later: breaks off where the reader has gone away.
///
/// # Errors
/// As [`print()`].
pub fn print_more(text: impl Display) -> miette::Result<ControlFlow<()>> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(miette!("cannot write the result: {error}")),
    }
}

/// A line on standard error; one that nobody takes is lost, and no error.
pub fn tell(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Breaks `text` between words into lines of at most `width` characters; lines after the first are indented.
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
    fn a_number_is_in_its_range() {
        let seconds = number(3_u32..=600);
        assert_eq!((seconds("3"), seconds("600")), (Ok(3), Ok(600)));
        for bad in ["2", "601", "-3", "x", "5000000000"] {
            assert_eq!(seconds(bad), Err("it has to be a whole number from 3 to 600".into()), "{bad}");
        }
    }
}
