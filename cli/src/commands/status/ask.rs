//! Whom `xoff status` asks, and what it is told.

use std::io;
use std::time::Duration;

use super::What;
use xoff_switch::client::{self, Silent};
use xoff_switch::control::listen;
use xoff_switch::control::status::Status;
use xoff_switch::control::{AddressPage, RoutePage};
use xoff_switch::router::tables::Row;

/// Longer than a switch takes to answer for workers that do not.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More than the status of a switch with all the ports that there can be.
const BODY_MAX: u64 = 64 << 20;
/// Characters of what somebody says who refuses.
const QUOTED_MAX: usize = 200;

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nobody answers.
    #[error(transparent)]
    Silent(#[from] Silent),
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
    /// There is none to be shown.
    #[error(
        "no switch has a socket in {0}: have it serve at one, by http = \"unix:{0}/NAME.sock\", or say where it serves with --url"
    )]
    None(&'static str),
    /// `--port` names no port.
    #[error("the switch has no port {name:?}; it has {known}")]
    NoSuchPort {
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// An option that says nothing there.
    #[error("{option} is not for `xoff status{of}`: {why}")]
    Meaningless {
        /// The option.
        option: &'static str,
        /// What is to be shown.
        of: String,
        /// Where it is of use.
        why: &'static str,
    },
    /// Standard output takes nothing more.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Where one switch was asked, and what it told.
pub(super) struct Told {
    pub url: String,
    pub status: Result<Status, StatusError>,
}

/// Asks each of `urls`, and whoever has a socket where all are wanted.
pub(super) fn ask(urls: &[String], all: bool, what: Option<What>) -> Result<Vec<Told>, StatusError> {
    let sockets = if all { sockets()? } else { Vec::new() };
    let asked = urls.iter().cloned().chain(sockets);
    let told = |url: String| Told { status: status(&url, what), url };
    Ok(asked.map(told).collect())
}

fn status(url: &str, what: Option<What>) -> Result<Status, StatusError> {
    let mut status: Status = parse(url, &fetch(url)?)?;
    if what == Some(What::Mac) {
        status.fdb = addresses(url)?;
        status.fdb_truncated = false;
    }
    if what == Some(What::Routes) {
        status.routes = routes(url)?;
    }
    Ok(status)
}

/// All addresses that it knows, page by page.
fn addresses(url: &str) -> Result<Vec<xoff_switch::control::status::FdbEntry>, StatusError> {
    let (mut all, mut path) = (Vec::new(), "/addresses?limit=10000".to_owned());
    loop {
        let page: AddressPage = parse(url, &get(url, &path)?)?;
        all.extend(page.addresses);
        match page.next {
            Some(next) => path = format!("/addresses?limit=10000&after={next}"),
            None => return Ok(all),
        }
    }
}

/// All routes that its kernel has, page by page.
fn routes(url: &str) -> Result<Vec<Row>, StatusError> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let page: RoutePage = parse(url, &get(url, &format!("/routes?limit=10000&from={from}"))?)?;
        all.extend(page.routes);
        match page.next {
            Some(next) => from = next,
            None => return Ok(all),
        }
    }
}

/// The addresses of all sockets of switches.
fn sockets() -> Result<Vec<String>, StatusError> {
    let sockets = listen::sockets(listen::DIRECTORY.as_ref());
    match sockets.is_empty() {
        true => Err(StatusError::None(listen::DIRECTORY)),
        false => Ok(sockets.iter().map(|path| format!("unix:{}", path.display())).collect()),
    }
}

/// The status of who serves there, as it gives it.
pub(in crate::commands) fn fetch(url: &str) -> Result<String, StatusError> {
    get(url, "/status")
}

fn get(url: &str, path: &str) -> Result<String, StatusError> {
    let mut answer = client::get(url, path, TIMEOUT).map_err(Silent::at(url))?;
    let body = answer.body_mut().with_config().limit(BODY_MAX).read_to_string().map_err(Silent::at(url))?;
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

fn parse<T: serde::de::DeserializeOwned>(url: &str, body: &str) -> Result<T, StatusError> {
    serde_json::from_str(body).map_err(|error| StatusError::Foreign { url: url.into(), error })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn who_answers_and_refuses_is_quoted() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
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
        let message = fetch("http://127.0.0.1:0").map_err(|error| error.to_string());
        let message = message.expect_err("nobody serves on port 0");
        assert!(message.starts_with("no switch answers at http://127.0.0.1:0: "), "{message}");
        assert!(
            message.ends_with("start one with `xoff run`, or say where it serves with --url"),
            "{message}"
        );
    }
}
