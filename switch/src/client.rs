//! Client of a running switch: HTTP to an address or a Unix socket. Ignores proxy settings of the environment.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::config::Config;
use ureq::config::ConfigBuilder;
use ureq::http::Response;
use ureq::http::Uri;
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Body, Error};
use xoff_netlink::packet_route::link::LinkFlags;
use xoff_netlink::{Conversation, link_named};

use crate::unix_socket;

const UNIX: &str = "unix:";
pub const DEFAULT_URL: &str = "http://127.0.0.1:9464";
const PAGES: [&str; 6] = ["metrics", "status", "healthz", "log", "addresses", "routes"];
pub(crate) const LO_IS_DOWN: &str = "the device lo of this network namespace is down, so loopback addresses are \
     unreachable; run `ip link set lo up`";

/// Parses a switch's URL; adds `http://` if the URL has no scheme.
pub fn url(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the URL is empty; leave --url out and unset XOFF_URL for the default".into());
    }
    if let Some(path) = text.strip_prefix(UNIX) {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path.starts_with('/') {
            true => Ok(format!("{UNIX}{path}")),
            false => Err("the path of a Unix socket must be absolute, such as unix:/run/xoff/s1.sock".into()),
        };
    }
    match text.split_once("://") {
        None => without_page(text).map(|()| format!("http://{text}")),
        Some(("http", place)) => without_page(place).map(|()| text.to_owned()),
        Some((scheme, _)) => Err(format!("a switch serves http:// or {UNIX}, not {scheme}://")),
    }
}

/// Refuses a URL that ends in a page, such as `/metrics` in Prometheus's settings: commands append their
/// own page.
fn without_page(place: &str) -> Result<(), String> {
    let path = place.split(['?', '#']).next().unwrap_or("").trim_end_matches('/');
    match path.rsplit_once('/') {
        Some((at, page)) if PAGES.contains(&page) => {
            Err(format!("the URL leads to the page /{page}; give it without the page: http://{at}"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn lo_is_down() -> bool {
    let link = Conversation::open().and_then(|mut kernel| kernel.link(link_named("lo")));
    link.is_ok_and(|link| link.is_some_and(|link| !link.header.flags.contains(LinkFlags::Up)))
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or("");
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{}",
    silence(url, error, "switch", "start a switch with `xoff run`, or give its address with --url")
)]
pub struct Silent {
    pub url: String,
    pub error: Box<Error>,
}

impl Silent {
    pub fn at(url: &str) -> impl Fn(Error) -> Silent {
        move |error| Silent { url: url.into(), error: Box::new(error) }
    }
}

/// Explains why a `server` (such as "switch") gives no answer at `url`. `start` advises how to start one.
#[must_use]
pub fn silence(url: &str, error: &Error, server: &str, start: &str) -> String {
    match error {
        _ if is_loopback(url) && lo_is_down() => format!("no {server} answers at {url}: {LO_IS_DOWN}"),
        Error::Io(error) if error.get_ref().is_some_and(|cause| cause.is::<Stopped>()) => {
            format!("the {server} at {url} cannot answer: {error}")
        }
        Error::Timeout(_) => format!(
            "no answer in time from {url}: if its process is stopped (state T in `ps`), continue it with `kill -CONT PID`; \
             if that process hangs, end it; else give the address of the {server}"
        ),
        error => format!("no {server} answers at {url}: {error}; {start}"),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("process {0} is stopped; continue it with `kill -CONT {0}`, or end it with `kill -KILL {0}`")]
struct Stopped(i32);

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Silent(#[from] Silent),
    #[error("{0}")]
    Refused(String),
    #[error("the server at {url} is another program, or another version of xoff: {error}")]
    Foreign { url: String, error: serde_json::Error },
}

/// Calls `send` with an agent and base URL for the server at `url` (from [`url()`]), and parses the JSON answer.
pub fn ask<T: DeserializeOwned>(
    url: &str,
    timeout: Duration,
    send: impl FnOnce(&Agent, &str) -> Result<Response<Body>, Error>,
) -> Result<T, AskError> {
    let (agent, base) = agent(url, timeout);
    let mut answer = send(&agent, &base).map_err(Silent::at(url))?;
    let body = answer.body_mut().read_to_string().map_err(Silent::at(url))?;
    if !answer.status().is_success() {
        return Err(AskError::Refused(body.trim_end().into()));
    }
    serde_json::from_str(&body).map_err(|error| AskError::Foreign { url: url.into(), error })
}

/// Requests `path` from the server at `base` (from [`url()`]). Every HTTP status counts as success, even 5xx.
pub fn get(base: &str, path: &str, timeout: Duration) -> Result<Response<Body>, Error> {
    let (agent, base) = agent(base, timeout);
    agent.get(format!("{base}{path}")).call()
}

/// Returns an HTTP agent and its base URL. `timeout` limits a whole request with its answer.
#[must_use]
pub fn agent(base: &str, timeout: Duration) -> (Agent, String) {
    of(base, Agent::config_builder().timeout_global(Some(timeout)))
}

/// Returns an [`agent`] for endless answers such as captures: `timeout` limits only the time until an answer begins.
#[must_use]
pub fn endless(base: &str, timeout: Duration) -> (Agent, String) {
    let config = Agent::config_builder().timeout_connect(Some(timeout)).timeout_recv_response(Some(timeout));
    of(base, config)
}

fn of(base: &str, config: ConfigBuilder<AgentScope>) -> (Agent, String) {
    let config = config.proxy(None).http_status_as_error(false).build();
    match base.strip_prefix(UNIX) {
        Some(path) => {
            let agent = Agent::with_parts(config, Socket(path.into()), NoAddress);
            (agent, "http://127.0.0.1".to_owned()) // accepted by every switch
        }
        None => (config.new_agent(), base.trim_end_matches('/').to_owned()),
    }
}

#[derive(Debug)]
struct Socket(PathBuf);

impl Connector for Socket {
    type Out = Connection;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Connection>, Error> {
        let stream =
            unix_socket::connect(&self.0).map_err(|error| transport_error(error, &details.timeout))?;
        if let Some(pid) = unix_socket::stopped_peer(&stream) {
            return Err(io::Error::other(Stopped(pid)).into());
        }
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Connection { stream, buffers }))
    }
}

/// Resolver that returns a dummy address. The default resolver starts a thread, which a limit of processes may
/// refuse.
#[derive(Debug)]
struct NoAddress;

impl Resolver for NoAddress {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push((Ipv4Addr::UNSPECIFIED, 0).into());
        Ok(addresses)
    }
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(left(&timeout))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| transport_error(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(left(&timeout))?;
        let amount = self
            .stream
            .read(self.buffers.input_append_buf())
            .map_err(|error| transport_error(error, &timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false // one request per connection
    }
}

fn left(timeout: &NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|left| (*left).max(Duration::from_millis(1)))
}

fn transport_error(error: io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use xoff_netlink::set_up;

    use super::*;

    #[test]
    fn url_accepts_no_scheme_except_http_and_unix() {
        for given in ["10.0.0.1:9464", "http://10.0.0.1:9464"] {
            assert_eq!(url(given).unwrap(), "http://10.0.0.1:9464");
        }
        assert_eq!(url("localhost:9464").unwrap(), "http://localhost:9464");
        for given in ["unix:/run/xoff/s1.sock", "unix:///run/xoff/s1.sock"] {
            assert_eq!(url(given).unwrap(), "unix:/run/xoff/s1.sock");
        }
        assert!(url("https://10.0.0.1:9464").unwrap_err().contains("serves http:// or unix:, not https://"));
        assert!(url("").unwrap_err().contains("unset XOFF_URL"));
        for given in ["http://10.0.0.1:9464/metrics", "10.0.0.1:9464/status/", "http://10.0.0.1:9464/log?n=1"]
        {
            let message = url(given).unwrap_err();
            assert!(message.ends_with("give it without the page: http://10.0.0.1:9464"), "{message}");
        }
        assert!(url("http://proxy/switches/status").unwrap_err().ends_with(": http://proxy/switches"));
        for given in ["http://10.0.0.1:9464/", "http://proxy/switches/status-s1"] {
            assert_eq!(url(given).unwrap(), given);
        }
        assert!(url("unix:s1.sock").unwrap_err().contains("must be absolute"));
    }

    #[test] // proves: http
    fn client_sends_http_request_to_unix_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s1.sock");
        let base = format!("unix:{}", path.display());
        let ask = || get(&base, "/status", Duration::from_secs(20));
        ask().unwrap_err();
        let server = UnixListener::bind(&path).unwrap();
        let serve = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut request = [0; 1024];
            let n = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 503 -\r\nContent-Length: 5\r\n\r\nbusy\n").unwrap();
            String::from_utf8(request[..n].to_vec()).unwrap()
        });
        let mut answer = ask().unwrap();
        assert_eq!(answer.status().as_u16(), 503);
        assert_eq!(answer.body_mut().read_to_string().unwrap(), "busy\n");
        let request = serve.join().unwrap().to_lowercase();
        assert!(
            request.starts_with("get /status http/1.1\r\n") && request.contains("host: 127.0.0.1\r\n"),
            "{request}"
        );
    }

    #[test] // proves: http
    fn error_for_unreachable_loopback_address_names_lo() {
        let message = |url: &str, error: Error| silence(url, &error, "switch", "start one");
        let unreachable = || Error::from(io::Error::from(io::ErrorKind::NetworkUnreachable));
        let late = || Error::Timeout(ureq::Timeout::Global);
        let inside = move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            for url in [DEFAULT_URL, "http://localhost:9464", "http://[::1]:9464"] {
                for error in [unreachable(), late()] {
                    let text = message(url, error);
                    assert!(text.contains("lo") && text.ends_with("run `ip link set lo up`"), "{text}");
                }
            }
            assert!(!message("http://192.0.2.1:9464", unreachable()).contains("ip link"));
            assert!(message("http://192.0.2.1:9464", late()).starts_with("no answer in time"));
            let mut kernel = Conversation::open().unwrap();
            kernel.set_link(set_up(link_named("lo"), true)).unwrap();
            assert!(message(DEFAULT_URL, late()).starts_with("no answer in time"));
        };
        thread::spawn(inside).join().unwrap();
    }

    #[test] // proves: http, lab-lifecycle
    fn client_reports_server_that_does_not_answer_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s1.sock");
        let _silent = UnixListener::bind(&path).unwrap();
        let url = format!("unix:{}", path.display());
        let result = get(&url, "/status", Duration::from_millis(50));
        assert!(matches!(result, Err(Error::Timeout(_))), "{result:?}");
        let message = Silent::at(&url)(result.unwrap_err()).to_string();
        assert!(message.starts_with("no answer in time") && message.contains("kill -CONT PID"), "{message}");
    }
}
