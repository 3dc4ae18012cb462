//! HTTP listener at an address or a Unix socket. It replaces a socket file that a killed switch left.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use xoff_config::shell::HttpAt;
use xoff_xdp::thread_refused;

use super::caller::Caller;
use super::{ControlError, trust};
use crate::client::{self, LO_IS_DOWN};

/// Mode of the socket file: only its owner and group can connect, and change the running switch.
const MODE: u32 = 0o660;
/// Maximum time in which a switch that already uses the address must answer with its name.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Http {
    listener: Listener,
    place: BoundAddress,
    names: trust::Names,
}

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Address of a listener. Dropping it removes the socket file.
#[derive(Debug)]
pub(super) struct BoundAddress {
    at: HttpAt,
    file: Option<(u64, u64)>,
}

pub(super) enum Registered {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens the listener for [`start`](super::start) in network namespace `netns` (`None`: the calling thread's). A port
/// below 1024 needs CAP_NET_BIND_SERVICE.
pub fn listen(at: &HttpAt, netns: Option<&Path>, names: &[String]) -> Result<Http, ControlError> {
    let unreachable = lo_is_down(at, netns);
    let opened = bound(at, netns, names).map_err(|error| {
        let running_switch = if error.kind() == io::ErrorKind::AddrInUse {
            inside(netns, || running(at)).ok().flatten()
        } else {
            None
        };
        match running_switch {
            Some(RunningSwitch { name, process_id }) => {
                ControlError::Running { listen: at.clone(), name, process: process_id }
            }
            None if unreachable => {
                let error = io::Error::new(error.kind(), format!("{error}: {LO_IS_DOWN}"));
                ControlError::Listen { listen: at.clone(), error }
            }
            None => ControlError::Listen { listen: at.clone(), error },
        }
    })?;
    if unreachable {
        tracing::warn!("no program can reach http = \"{at}\": {LO_IS_DOWN}");
    }
    Ok(opened)
}

fn lo_is_down(at: &HttpAt, netns: Option<&Path>) -> bool {
    let HttpAt::Tcp(address) = at else { return false };
    address.ip().is_loopback() && inside(netns, client::lo_is_down).unwrap_or(false)
}

fn bound(at: &HttpAt, netns: Option<&Path>, names: &[String]) -> io::Result<Http> {
    match at {
        HttpAt::Tcp(address) => {
            let listener = inside(netns, || TcpListener::bind(address))??;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let names = trust::Names::new(address.ip(), names);
            Ok(Http {
                listener: Listener::Tcp(listener),
                place: BoundAddress { at: address.into(), file: None },
                names,
            })
        }
        HttpAt::Unix(path) => {
            let listener = socket(path)?;
            let place = BoundAddress { at: at.clone(), file: identity(path) };
            listener.set_nonblocking(true)?;
            fs::set_permissions(path, Permissions::from_mode(MODE))?;
            Ok(Http {
                listener: Listener::Unix(listener),
                place,
                names: trust::Names::new(Ipv4Addr::LOCALHOST.into(), names),
            })
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn socket(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

fn inside<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(netns) = netns else { return Ok(work()) };
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", netns.display()));
    let namespace = File::open(netns).map_err(named)?;
    let enter = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|error| named(error.into()))?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, enter);
        let thread = thread.map_err(|error| thread_refused(&error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[derive(Deserialize)]
struct RunningSwitch {
    name: String,
    process_id: u32,
}

fn running(at: &HttpAt) -> Option<RunningSwitch> {
    let base = match at {
        HttpAt::Tcp(address) => format!("http://{address}"),
        HttpAt::Unix(_) => at.to_string(),
    };
    let mut answer = client::get(&base, "/status?addresses=0", ANSWER_WITHIN).ok()?;
    serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
}

impl Http {
    pub(super) fn apart(self) -> ((Listener, trust::Names), BoundAddress) {
        ((self.listener, self.names), self.place)
    }
}

impl BoundAddress {
    pub(super) fn at(&self) -> &HttpAt {
        &self.at
    }
}

impl Drop for BoundAddress {
    fn drop(&mut self) {
        if let HttpAt::Unix(path) = &self.at
            && self.file.is_some_and(|file| identity(path) == Some(file))
        {
            let _ = fs::remove_file(path); // the next switch replaces it
        }
    }
}

impl Listener {
    pub(super) fn registered(self) -> io::Result<Registered> {
        Ok(match self {
            Listener::Tcp(listener) => Registered::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener) => Registered::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }
}

impl Registered {
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Caller)> {
        Ok(match self {
            Registered::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let here = stream.local_addr()?;
                (Box::new(stream), Caller::Tcp { peer, here })
            }
            Registered::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                (Box::new(stream), Caller::Unix { uid })
            }
        })
    }
}

pub const DIRECTORY: &str = "/run/xoff";

#[must_use]
pub fn sockets(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|file| file.path());
    let mut sockets: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()))
        .collect();
    sockets.sort();
    sockets
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::SocketAddr;

    use nix::sched::unshare;

    use super::*;

    #[test] // proves: http
    fn listener_replaces_stale_socket_file_but_no_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/s1.sock");
        let at = HttpAt::Unix(path.clone());
        let http = listen(&at, None, &[]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
        let taken = listen(&at, None, &[]).unwrap_err().to_string();
        assert!(
            taken.contains("Address already in use") && taken.contains("set `http` to a free"),
            "{taken}"
        );
        drop(http);
        assert!(!path.exists(), "a listener must remove its socket file when it is closed");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(listen(&at, None, &[]).unwrap());
        fs::write(&path, "file of another program").unwrap();
        listen(&at, None, &[]).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "file of another program");
    }

    #[test] // proves: http
    fn loopback_listener_notices_that_lo_is_down() {
        let inside = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let is_down = |at: &str| lo_is_down(&at.parse().unwrap(), None);
            assert!(is_down("127.0.0.1:9464") && is_down("[::1]:9464"));
            assert!(!is_down("0.0.0.0:9464") && !is_down("unix:/run/xoff/s1.sock"));
            let refused = listen(&"[::1]:0".parse().unwrap(), None, &[]).unwrap_err().to_string();
            assert!(refused.contains("`ip link set lo up`"), "{refused}");
            let outside = Path::new("/proc/self/ns/net");
            assert!(!lo_is_down(&"127.0.0.1:9464".parse().unwrap(), Some(outside)));
        };
        thread::spawn(inside).join().unwrap();
    }

    #[test]
    fn listener_does_not_delete_file_that_replaced_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s1.sock");
        let at = HttpAt::Unix(path.clone());
        let http = listen(&at, None, &[]).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "file of another program").unwrap();
        drop(http);
        assert_eq!(fs::read_to_string(&path).unwrap(), "file of another program");
        fs::remove_file(&path).unwrap();
        let first = listen(&at, None, &[]).unwrap();
        fs::remove_file(&path).unwrap();
        let second = listen(&at, None, &[]).unwrap();
        drop(first);
        assert!(path.exists(), "closing the first listener must not remove the second's socket file");
        drop(second);
        assert!(!path.exists());
    }

    #[test] // proves: status
    fn only_sockets_with_suffix_sock_are_listed_as_switches() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str| directory.path().join(name);
        let _listeners = ["b.sock", "a.sock", "other"].map(|name| UnixListener::bind(of(name)).unwrap());
        fs::write(of("c.sock"), "").unwrap();
        assert_eq!(sockets(directory.path()), [of("a.sock"), of("b.sock")]);
        assert!(sockets(&of("nowhere")).is_empty());
    }

    #[test] // proves: http
    fn listen_error_names_missing_network_namespace() {
        let at = SocketAddr::from(([127, 0, 0, 1], 0)).into();
        let error =
            listen(&at, Some(Path::new("/run/netns/none-of-that-name")), &[]).unwrap_err().to_string();
        assert!(error.contains("/run/netns/none-of-that-name: No such file"), "{error}");
    }
}
