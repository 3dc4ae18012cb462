use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use procfs::process::Process;
use socket2::{Domain, SockAddr, Socket, Type};

/// Connects to the Unix socket at `path` without waiting.
///
/// # Errors
/// `WouldBlock` if the listener's queue is full because its process is stopped or hangs.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    Ok(OwnedFd::from(socket).into())
}

/// Returns whether a process listens at `path`, even if it does not accept now.
#[must_use]
pub fn has_listener(path: &Path) -> bool {
    match connect(path) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Returns the id of the process at the other end if a signal or debugger has stopped it.
#[must_use]
pub fn stopped_peer(stream: &UnixStream) -> Option<i32> {
    let pid = getsockopt(stream, PeerCredentials).ok()?.pid();
    let state = Process::new(pid).ok()?.stat().ok()?.state;
    matches!(state, 'T' | 't').then_some(pid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test] // proves: lab-lifecycle
    fn connect_to_full_socket_fails_at_once_but_listener_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(!has_listener(&path));
        let listener = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(has_listener(&path));
        assert_eq!(stopped_peer(&waiting[0]), None, "a running process must not count as stopped");
        drop(listener);
        assert!(!has_listener(&path));
    }
}
