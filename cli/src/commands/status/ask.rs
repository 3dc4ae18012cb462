use std::io;
use std::time::Duration;

use super::What;
use xoff_switch::client::{self, Silent};
use xoff_switch::control::listen;
use xoff_switch::control::status::Status;
use xoff_switch::control::{AddressPage, RoutePage};
use xoff_switch::router::Row;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a reply; more than the status of the largest switch.
const BODY_MAX: u64 = 64 << 20;
const QUOTED_MAX: usize = 200;

#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    #[error(transparent)]
    Silent(#[from] Silent),
    #[error("{url} answers with HTTP status {status}: {message}")]
    Refused { url: String, status: u16, message: String },
    #[error("the reply of {url} is not a status of this version of xoff: {error}")]
    Foreign { url: String, error: serde_json::Error },
    #[error(
        "no switch has a socket in {0}: configure the switch with http = \"unix:{0}/NAME.sock\", or give its address with --url"
    )]
    None(&'static str),
    #[error("the switch has no port {name:?}; its ports are {valid_names}")]
    NoSuchPort { name: String, valid_names: String },
    #[error("{option} does not apply to `xoff status{of}`: {why}")]
    Meaningless { option: &'static str, of: String, why: &'static str },
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

pub(super) struct SwitchReply {
    pub url: String,
    pub status: Result<Status, StatusError>,
}

/// Queries the switches at `urls`; with `all`, also every other switch that has a socket.
pub(super) fn ask(urls: &[String], all: bool, what: Option<What>) -> Result<Vec<SwitchReply>, StatusError> {
    let sockets = if all { sockets()? } else { Vec::new() };
    let sockets = sockets.into_iter().filter(|url| !urls.contains(url));
    let addresses = urls.iter().cloned().chain(sockets);
    let reply = |url: String| SwitchReply { status: status(&url, what), url };
    Ok(addresses.map(reply).collect())
}

fn status(url: &str, what: Option<What>) -> Result<Status, StatusError> {
    let mut status: Status = parse(url, &fetch(url)?)?;
    if what == Some(What::Mac) {
        status.fdb = addresses(url)?;
        status.fdb_truncated = false;
    }
    if what == Some(What::Routes) && status.router.is_some() {
        status.routes = routes(url)?;
    }
    Ok(status)
}

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

fn sockets() -> Result<Vec<String>, StatusError> {
    let sockets = listen::sockets(listen::DIRECTORY.as_ref());
    match sockets.is_empty() {
        true => Err(StatusError::None(listen::DIRECTORY)),
        false => Ok(sockets.iter().map(|path| format!("unix:{}", path.display())).collect()),
    }
}

pub(in crate::commands) fn fetch(url: &str) -> Result<String, StatusError> {
    get(url, "/status")
}

fn get(url: &str, path: &str) -> Result<String, StatusError> {
    let mut answer = client::get(url, path, TIMEOUT).map_err(Silent::at(url))?;
    let body = answer.body_mut().with_config().limit(BODY_MAX).read_to_string().map_err(Silent::at(url))?;
    if answer.status().is_success() {
        return Ok(body);
    }
    let message = first_line(&body).unwrap_or_else(|| {
        "the reply is empty; the server may be another program, or another version of xoff".into()
    });
    Err(StatusError::Refused { url: url.into(), status: answer.status().as_u16(), message })
}

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
    fn http_error_quotes_the_servers_reply() {
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
    fn quoted_http_error_is_one_short_line() {
        let of = |body: &str| first_line(body);
        assert_eq!(of("\r\n \n\x1b[2Jno\tsuch page\nmore").as_deref(), Some("[2Jnosuch page"));
        assert_eq!(of("\x07\n"), None);
        assert_eq!(of(&"<ö>".repeat(1_000)).unwrap().chars().count(), 200);
    }

    #[test]
    fn error_for_unreachable_switch_suggests_to_start_one() {
        // Use port 0, where nothing can listen.
        let message = fetch("http://127.0.0.1:0").map_err(|error| error.to_string());
        let message = message.expect_err("a server answered on port 0");
        assert!(message.starts_with("no switch answers at http://127.0.0.1:0: "), "{message}");
        assert!(
            message.ends_with("start a switch with `xoff run`, or give its address with --url"),
            "{message}"
        );
    }
}
