//! Control of a running network over a Unix socket: one JSON request and reply per connection.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::files::{DIRECTORY, agents, log_file, socket};
use super::links::LinkChange;
use super::{NetworkError, NetworkView};
use xoff_switch::unix_socket;
use xoff_xdp::thread_refused;

const ASK_WITHIN: Duration = Duration::from_secs(5);
const REQUEST_LEN_MAX: u64 = 4_096;
/// Delay before the next accept if no file descriptor is free.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Maximum wait for a reply; longer than a network waits for its workers.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    Describe,
    Status,
    /// Reloads the switches' settings. The reply lists changes or reasons of a refusal.
    Reload {
        dry_run: bool,
    },
    /// Changes the link with this index in `NetworkStatus::links`. The reply is a list of warnings or a
    /// [`Refusal`](super::links::Refusal).
    Link(usize, LinkChange),
    Restart(RestartRequest),
    Down,
}

/// Request whose reply is a [`Restart`](super::view::Restart) or a [`Refusal`](super::links::Refusal).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartRequest {
    pub node: String,
    pub agent_only: bool,
}

#[derive(Debug)]
pub enum Event {
    Restart(UnixStream, RestartRequest),
    Down(UnixStream),
    Signal(i32),
    Ended,
}

#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    log: PathBuf,
    agents: PathBuf,
    listener: UnixListener,
}

impl Claim {
    /// Reserves the name of a new network.
    ///
    /// # Errors
    /// Fails if a running network has the name, or the directory is not writable.
    pub fn of(name: &str) -> Result<Claim, NetworkError> {
        let what = || NetworkError::io(format!("create a socket in {DIRECTORY}"));
        make_directory()?;
        let _one_at_a_time = Flock::lock(File::open(DIRECTORY).map_err(what())?, FlockArg::LockExclusive)
            .map_err(|(_, error)| what()(error.into()))?;
        let path = socket(name);
        if unix_socket::has_listener(&path) {
            return Err(NetworkError::Exists { name: name.to_owned() });
        }
        remove_leftovers(&path);
        let listener = UnixListener::bind(&path).map_err(what())?;
        Ok(Claim { path, log: log_file(name), agents: agents(name), listener })
    }

    pub fn answer(&self, view: Arc<NetworkView>, events: Sender<Event>) -> Result<(), NetworkError> {
        let listener = self.listener.try_clone().map_err(NetworkError::io("share a socket"))?;
        let serve = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    thread::sleep(LISTEN_AGAIN_AFTER);
                    continue;
                };
                let (view, events) = (Arc::clone(&view), events.clone());
                let _ = thread::Builder::new().spawn(move || _ = serve_one(stream, &view, &events));
            }
        };
        thread::Builder::new()
            .name("xoff-lab".into())
            .spawn(serve)
            .map(drop)
            .map_err(|error| NetworkError::io("start a thread")(thread_refused(&error)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Keep the log after a panic. Remove the control socket last, because its absence means that the network is gone.
        if !thread::panicking() {
            let _ = fs::remove_file(&self.log); // a network in the foreground has no log
        }
        let _ = fs::remove_dir_all(&self.agents); // absent if no agent had a socket file
        let _ = fs::remove_file(&self.path);
    }
}

pub fn make_directory() -> Result<(), NetworkError> {
    let make = || {
        fs::create_dir_all(DIRECTORY)?;
        fs::set_permissions(DIRECTORY, Permissions::from_mode(0o700))
    };
    make().map_err(NetworkError::io(format!("make {DIRECTORY}")))
}

fn remove_leftovers(own: &Path) {
    for name in named().filter(|name| !unix_socket::has_listener(&socket(name))) {
        let path = socket(&name);
        let _ = fs::remove_dir_all(agents(&name)); // may not exist
        if path != own {
            let _ = fs::remove_file(log_file(&name)); // may not exist
        }
        let _ = fs::remove_file(path);
    }
}

fn named() -> impl Iterator<Item = String> {
    let files = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".sock")?.to_owned()))
}

fn serve_one(stream: UnixStream, view: &NetworkView, events: &Sender<Event>) -> io::Result<()> {
    stream.set_read_timeout(Some(ASK_WITHIN))?;
    stream.set_write_timeout(Some(ASK_WITHIN))?;
    let mut line = String::new();
    BufReader::new(&stream).take(REQUEST_LEN_MAX).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Request::Describe => reply(&stream, &view.description()),
        Request::Status => reply(&stream, &view.status()?),
        Request::Reload { dry_run } => reply(&stream, &view.reload(dry_run)),
        Request::Link(link, change) => reply(&stream, &view.change_link(link, &change)),
        Request::Restart(restart) => {
            let _ = events.send(Event::Restart(stream, restart)); // fails if the network is ending
            Ok(())
        }
        Request::Down => {
            let _ = events.send(Event::Down(stream)); // fails if the network is ending
            Ok(())
        }
    }
}

pub fn reply(mut stream: &UnixStream, answer: &impl Serialize) -> io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(answer)?)
}

#[must_use]
pub fn all() -> Vec<String> {
    let mut names: Vec<String> = named().filter(|name| unix_socket::has_listener(&socket(name))).collect();
    names.sort();
    names
}

/// Returns `name`, or without it the name of the only running network.
///
/// # Errors
/// Fails if no network runs, or if several run and `name` is `None`.
pub fn choose(name: Option<&str>) -> Result<String, NetworkError> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let mut names = all();
    match names.len() {
        0 => Err(NetworkError::None { name: None }),
        1 => Ok(names.remove(0)),
        _ => Err(NetworkError::Several { names }),
    }
}

/// Sends a request to the network `name`, and waits up to [`ANSWER_WITHIN`] for the reply.
///
/// # Errors
/// Fails if no such network runs, its process is stopped, or no reply comes in time.
pub fn ask<T: DeserializeOwned>(name: &str, request: Request) -> Result<T, NetworkError> {
    ask_within(ANSWER_WITHIN, name, request)
}

pub fn ask_within<T: DeserializeOwned>(
    wait: Duration,
    name: &str,
    request: Request,
) -> Result<T, NetworkError> {
    let silent = |error: io::Error| {
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::WouldBlock => NetworkError::Late { name, seconds: wait.as_secs() },
            _ => NetworkError::Silent { name, error },
        }
    };
    let mut stream = unix_socket::connect(&socket(name)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => NetworkError::Full { name: name.to_owned() },
        _ => NetworkError::None { name: Some(name.to_owned()) },
    })?;
    if let Some(pid) = unix_socket::stopped_peer(&stream) {
        return Err(NetworkError::HolderStopped { name: name.to_owned(), pid });
    }
    let mut talk = || -> io::Result<T> {
        stream.set_read_timeout(Some(wait))?;
        writeln!(stream, "{}", serde_json::to_string(&request)?)?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    talk().map_err(silent)
}
