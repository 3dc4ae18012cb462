//! How other commands find a network and talk to it: a Unix socket named after it, one question and one answer for each
//! connection, both a line of JSON. The process that answers is the one that holds the network.

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
use super::{NetworkError, Seen};
use xoff_switch::unix_socket;

/// How long somebody who has connected may take to ask.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of the longest question, and more.
const REQUEST_LEN_MAX: u64 = 4_096;
/// How long nobody is heard where the system has no descriptor left for another connection.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Longer than workers that do not answer are waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What a network can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// For its [`Description`](super::seen::Description).
    Describe,
    /// For its [`NetworkStatus`](super::NetworkStatus).
    Status,
    /// To end; the answer is its [`Account`](super::Account).
    Down,
}

/// What a network is told.
#[derive(Debug)]
pub enum Event {
    /// To end, and who wants the account.
    Down(UnixStream),
    /// A signal came.
    Signal(i32),
    /// The command has ended.
    Ended,
}

/// The name of a network, held while it is there.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    log: PathBuf,
    agents: PathBuf,
    listener: UnixListener,
}

impl Claim {
    /// Takes a name.
    ///
    /// # Errors
    /// [`NetworkError::Exists`] where a network has it; or the directory cannot be written.
    pub fn of(name: &str) -> Result<Claim, NetworkError> {
        let what = || NetworkError::io(format!("make a socket in {DIRECTORY}"));
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

    /// Answers whoever asks, in a thread of its own, from now on.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn answer(&self, seen: Arc<Seen>, events: Sender<Event>) -> Result<(), NetworkError> {
        let listener = self.listener.try_clone().map_err(NetworkError::io("share a socket"))?;
        let serve = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    thread::sleep(LISTEN_AGAIN_AFTER);
                    continue;
                };
                let (seen, events) = (Arc::clone(&seen), events.clone());
                // One that does not go on keeps nobody else waiting.
                let _ = thread::Builder::new().spawn(move || _ = serve_one(stream, &seen, &events));
            }
        };
        thread::Builder::new()
            .name("xoff-lab".into())
            .spawn(serve)
            .map(|_| ())
            .map_err(NetworkError::io("start a thread"))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The socket last: who finds the name free finds nothing of the network. What a panic said stays.
        if !thread::panicking() {
            let _ = fs::remove_file(&self.log); // one in the foreground has none
        }
        let _ = fs::remove_dir_all(&self.agents); // or none had a socket
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the directory of all sockets and logs, which is root's alone.
///
/// # Errors
/// Where it cannot be written.
pub fn make_directory() -> Result<(), NetworkError> {
    let make = || {
        fs::create_dir_all(DIRECTORY)?;
        fs::set_permissions(DIRECTORY, Permissions::from_mode(0o700))
    };
    make().map_err(NetworkError::io(format!("make {DIRECTORY}")))
}

/// Removes what networks have left that were killed: sockets that nobody listens to, and the logs beside them, but for the log of the
/// network that is to have the socket `own`. Under the lock, or one of them might come up just now.
fn remove_leftovers(own: &Path) {
    for name in named().filter(|name| !unix_socket::has_listener(&socket(name))) {
        let path = socket(&name);
        let _ = fs::remove_dir_all(agents(&name)); // or it had none
        if path != own {
            let _ = fs::remove_file(log_file(&name)); // or it had none
        }
        let _ = fs::remove_file(path);
    }
}

/// Names of the networks that have a socket.
fn named() -> impl Iterator<Item = String> {
    let files = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".sock")?.to_owned()))
}

fn serve_one(stream: UnixStream, seen: &Seen, events: &Sender<Event>) -> io::Result<()> {
    stream.set_read_timeout(Some(ASK_WITHIN))?;
    stream.set_write_timeout(Some(ASK_WITHIN))?;
    let mut line = String::new();
    BufReader::new(&stream).take(REQUEST_LEN_MAX).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Request::Describe => reply(&stream, &seen.description()),
        Request::Status => reply(&stream, &seen.status()?),
        Request::Down => {
            let _ = events.send(Event::Down(stream)); // or it ends already
            Ok(())
        }
    }
}

/// Answers.
///
/// # Errors
/// Where who has asked is gone.
pub fn reply(mut stream: &UnixStream, answer: &impl Serialize) -> io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(answer)?)
}

/// Names of the networks that are up.
#[must_use]
pub fn all() -> Vec<String> {
    let mut names: Vec<String> = named().filter(|name| unix_socket::has_listener(&socket(name))).collect();
    names.sort();
    names
}

/// The network that is meant: the one that is named, or the only one.
///
/// # Errors
/// Where there is none, or more than one.
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

/// Asks the network of this name; waits for the answer for at most [`ANSWER_WITHIN`].
///
/// # Errors
/// No network has this name; its process is stopped; no answer came in time.
pub fn ask<T: DeserializeOwned>(name: &str, request: Request) -> Result<T, NetworkError> {
    let silent = |error: io::Error| {
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::WouldBlock => NetworkError::Late { name, seconds: ANSWER_WITHIN.as_secs() },
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
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        writeln!(stream, "{}", serde_json::to_string(&request)?)?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    talk().map_err(silent)
}
