//! `xoff status`: a running switch at a glance, asked over its `/status`.

mod format;
mod pipeline;
mod policies;
mod tables;

use std::io::{self, IsTerminal as _, Write as _};
use std::thread::sleep;
use std::time::Duration;

use super::agent::agent;
use crate::causes::Causes;
use crate::control::status::Status;

/// Longer than a switch takes to answer for workers that do not.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More than the status of a switch with all the ports that there can be.
const BODY_MAX: u64 = 64 << 20;
/// Characters of what somebody says who refuses.
const QUOTED_MAX: usize = 200;
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";

/// Show a running switch: ports, classes with traffic, pauses, drops, the ledger.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the switch serves its status.
    #[arg(long, default_value = "http://127.0.0.1:9464")]
    url: String,
    /// Show again and again, with rates, every second or as often as given (2s, 500ms).
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = period)]
    watch: Option<Duration>,
    /// Print the switch's own JSON instead.
    #[arg(long)]
    json: bool,
    /// Show who holds whom and why, over all the switches at these addresses; each cycle is named.
    #[arg(long, value_name = "URL", num_args = 1.., conflicts_with_all = ["url", "port"])]
    causes: Vec<String>,
    /// Print the graph of `--causes` for Graphviz.
    #[arg(long, requires = "causes", conflicts_with = "json")]
    dot: bool,
    /// Show this port only.
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    port: Option<String>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nothing answers there.
    #[error(
        "no switch answers at {url}: {error}; start one with `xoff run`, or say where it serves with --url"
    )]
    Silent {
        /// Where it was asked.
        url: String,
        /// What the network said.
        error: Box<ureq::Error>,
    },
    /// Something answers, and does not give it.
    #[error("{url} answers with HTTP status {status}: {said}")]
    Refused {
        /// Where it was asked.
        url: String,
        /// The status.
        status: u16,
        /// What it says beside that.
        said: String,
    },
    /// Something answers, but not with a status.
    #[error("{url} is no status of this version of xoff: {error}")]
    Foreign {
        /// Where it was asked.
        url: String,
        /// What is wrong with the answer.
        error: serde_json::Error,
    },
    /// `--port` names no port.
    #[error("the switch has no port {name:?}; it has {known}")]
    NoSuchPort {
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// Standard output takes nothing more.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Runs the command.
///
/// # Errors
/// Where there is no switch, or nobody to show it to.
pub fn run(args: &Args) -> Result<(), StatusError> {
    match print(args) {
        Err(StatusError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn print(args: &Args) -> Result<(), StatusError> {
    let url = of_status(&args.url);
    let mut before = None;
    loop {
        if !args.causes.is_empty() {
            present(&causes(args)?, args)?;
        } else if args.json {
            writeln!(io::stdout(), "{}", fetch(&url)?)?;
        } else {
            let status = parse(&url, &fetch(&url)?)?;
            show(&status, before.as_ref(), args)?;
            before = Some(status);
        }
        let Some(period) = args.watch else { return Ok(()) };
        sleep(period);
    }
}

fn of_status(url: &str) -> String {
    format!("{}/status", url.trim_end_matches('/'))
}

/// The graph of who holds whom, in the form asked for.
fn causes(args: &Args) -> Result<String, StatusError> {
    let status = |url: &String| {
        let url = of_status(url);
        parse(&url, &fetch(&url)?)
    };
    let switches: Vec<Status> = args.causes.iter().map(status).collect::<Result<_, _>>()?;
    let causes = Causes::of(&switches);
    Ok(match (args.dot, args.json) {
        (true, _) => causes.dot(),
        (_, true) => causes.json().to_string(),
        _ => causes.text(),
    })
}

fn fetch(url: &str) -> Result<String, StatusError> {
    let silent = |error| StatusError::Silent { url: url.into(), error: Box::new(error) };
    let agent = agent(TIMEOUT).http_status_as_error(false).build().new_agent();
    let mut answer = agent.get(url).call().map_err(silent)?;
    let body = answer.body_mut().with_config().limit(BODY_MAX).read_to_string().map_err(silent)?;
    if answer.status().is_success() {
        return Ok(body);
    }
    let said =
        first_line(&body).unwrap_or_else(|| "nothing more is said; is it a switch of this version?".into());
    Err(StatusError::Refused { url: url.into(), status: answer.status().as_u16(), said })
}

/// The first line that says something, as far as a terminal should have it from somebody who may be no switch at all.
fn first_line(body: &str) -> Option<String> {
    let plain = |line: &str| line.chars().filter(|c| !c.is_control()).take(QUOTED_MAX).collect::<String>();
    body.lines().map(plain).find(|line| !line.trim().is_empty())
}

fn parse(url: &str, body: &str) -> Result<Status, StatusError> {
    serde_json::from_str(body).map_err(|error| StatusError::Foreign { url: url.into(), error })
}

fn show(status: &Status, before: Option<&Status>, args: &Args) -> Result<(), StatusError> {
    present(&tables::render(status, before, args.port.as_deref())?, args)
}

fn present(text: &str, args: &Args) -> Result<(), StatusError> {
    let mut out = io::stdout().lock();
    if args.watch.is_some() && out.is_terminal() {
        write!(out, "{CLEAR_SCREEN}")?;
    }
    writeln!(out, "{}", text.trim_end())?;
    Ok(out.flush()?)
}

/// A number of seconds or milliseconds, at least 100 ms.
fn period(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => (text, 1000),
    };
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    millis
        .filter(|&millis| millis >= 100)
        .map(Duration::from_millis)
        .ok_or_else(|| "give seconds or milliseconds, such as 2s or 500ms, at least 100ms".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_period_has_a_unit_and_a_least_value() {
        assert_eq!(period("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(period("3"), Ok(Duration::from_secs(3)));
        assert_eq!(period("100ms"), Ok(Duration::from_millis(100)));
        for bad in ["99ms", "0", "", "s", "-1s", "1m", "99999999999999999999s"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_answers_and_refuses_is_quoted() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/status", server.local_addr().unwrap());
        let serve = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 503 -\r\nContent-Length: 5\r\n\r\nbusy\n").unwrap();
        });
        let message = fetch(&url).map_err(|error| error.to_string()).unwrap_err();
        assert_eq!(message, format!("{url} answers with HTTP status 503: busy"));
        serve.join().unwrap();
    }

    #[test]
    fn what_a_stranger_says_is_one_short_line_without_control_characters() {
        let of = |body: &str| first_line(body);
        assert_eq!(of("\r\n \n\x1b[2Jno\tsuch page\nmore").as_deref(), Some("[2Jnosuch page"));
        assert_eq!(of("\x07\n"), None);
        assert_eq!(of(&"<ö>".repeat(1_000)).unwrap().chars().count(), 200);
    }

    #[test]
    fn nobody_listening_is_said_with_what_to_do() {
        // Port 0 is nobody's.
        let message = fetch("http://127.0.0.1:0/status").map_err(|error| error.to_string());
        let message = message.expect_err("nobody serves on port 0");
        assert!(message.starts_with("no switch answers at http://127.0.0.1:0/status: "), "{message}");
        assert!(
            message.ends_with("start one with `xoff run`, or say where it serves with --url"),
            "{message}"
        );
    }
}
