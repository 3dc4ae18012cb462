//! Privileges of a switch. Once devices are open, each thread keeps only the privileges that it needs, which
//! SECURITY.md lists. [`Part::Owner`] means the main, control and router threads.

mod calls;
mod capabilities;
mod files;
mod user;

use std::io;
use std::panic;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use xoff_xdp::thread_refused;

pub use user::User;
pub(crate) use user::UserError;

/// Kind of thread; determines its privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Owner,
    Opener,
    Worker,
    Http,
    HostPath,
    Log,
}

impl Part {
    /// Returns a builder for a thread of this kind. HTTP and log threads have small stacks, because `xoff nic` runs
    /// them, too, and locks all its memory.
    fn thread(self, name: &str) -> thread::Builder {
        const SMALL_STACK: usize = 512 << 10;
        let thread = thread::Builder::new().name(name.into());
        match self {
            Part::Http | Part::Log => thread.stack_size(SMALL_STACK),
            Part::Owner | Part::Opener | Part::Worker | Part::HostPath => thread,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// User that the threads become; `None` keeps the current user.
    pub user: Option<User>,
    /// Paths that the main and control threads may read, beside /proc and /sys.
    pub readable: Vec<PathBuf>,
    /// Directory in which the main and control threads may remove the HTTP socket.
    pub removable: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub enum Privileges {
    /// All threads except HTTP keep their privileges, which a program that embeds the switch may need.
    Keep,
    Drop(Confinement),
}

#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("cannot drop capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    #[error("cannot set no_new_privs: {0}")]
    NoNewPrivileges(#[from] Errno),
    #[error(transparent)]
    User(#[from] UserError),
    #[error("cannot limit file access by Landlock: {0}")]
    Files(#[from] landlock::RulesetError),
    #[error("cannot limit system calls by seccomp: {0}")]
    Calls(#[from] seccompiler::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl Confinement {
    pub(crate) fn enter(&self, part: Part) -> Result<(), ConfineError> {
        nix::sys::prctl::set_no_new_privs()?;
        files::limit(part, &self.readable, self.removable.as_deref())?;
        user::become_user(self.user.as_ref())?;
        capabilities::limit(part)?;
        calls::limit(part)
    }

    /// Starts a thread of kind `part`, and returns once the thread has dropped its privileges.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        part: Part,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, ConfineError> {
        let (report, outcome) = mpsc::channel();
        let confinement = self.clone();
        let thread = part.thread(name).spawn(move || {
            if let Err(error) = leave_signals_to_others().and_then(|()| confinement.enter(part)) {
                let _ = report.send(Err(error));
                panic::resume_unwind(Box::new(())); // no second report
            }
            let _ = report.send(Ok(()));
            work()
        });
        let thread = thread.map_err(|error| thread_refused(&error))?;
        outcome.recv().map_err(io::Error::other)??;
        Ok(thread)
    }
}

/// Blocks signals whose handlers write to a socket, because confined threads may not.
fn leave_signals_to_others() -> Result<(), ConfineError> {
    let signals: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    Ok(signals.thread_block().map_err(io::Error::from)?)
}

impl Privileges {
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        part: Part,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, ConfineError> {
        match self {
            Privileges::Keep => Ok(part.thread(name).spawn(work).map_err(|error| thread_refused(&error))?),
            Privileges::Drop(confinement) => confinement.spawn(part, name, work),
        }
    }

    pub(crate) fn of_http(&self) -> Confinement {
        match self {
            Privileges::Keep => Confinement::default(),
            Privileges::Drop(confinement) => confinement.clone(),
        }
    }
}

// Tests for SPECIFICATION.md: privileges
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use caps::{CapSet, CapsHashSet};
    use nix::sched::{CloneFlags, setns, unshare};
    use nix::sys::ptrace;
    use nix::sys::signal::kill;
    use nix::unistd::{Pid, getppid};

    use super::capabilities::{OPENER, OWNER};
    use super::*;

    fn within<T: Send + 'static>(part: Part, tried: impl FnOnce() -> T + Send + 'static) -> T {
        Confinement::default().spawn(part, "confined", tried).unwrap().join().unwrap()
    }

    const PARTS: [Part; 6] = [Part::Owner, Part::Opener, Part::Worker, Part::Http, Part::HostPath, Part::Log];

    #[test]
    fn confined_threads_leave_signals_to_other_threads() {
        for part in PARTS {
            let mask = within(part, || SigSet::thread_get_mask().unwrap());
            let blocked =
                [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].map(|signal| mask.contains(signal));
            assert_eq!(blocked, [true; 3], "{part:?}");
        }
    }

    #[test]
    fn confined_threads_cannot_write_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("of-root");
        fs::write(&path, "as it was").unwrap();
        for part in PARTS {
            let (file, new) = (path.clone(), directory.path().join("new"));
            let tried = within(part, move || {
                [
                    OpenOptions::new().write(true).open(&file).is_ok(),
                    OpenOptions::new().append(true).open("/proc/self/comm").is_ok(),
                    File::create(&new).is_ok(),
                    UnixListener::bind(&new).is_ok(),
                    fs::set_permissions(&file, Permissions::from_mode(0o666)).is_ok(),
                    std::os::unix::fs::chown(&file, Some(1), None).is_ok(),
                    fs::remove_file(&file).is_ok(),
                    fs::rename(&file, &new).is_ok(),
                ]
            });
            assert_eq!(tried, [false; 8], "{part:?}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn confined_threads_cannot_open_files_they_do_not_need() {
        let directory = tempfile::tempdir().unwrap();
        let [here, outside] = ["here", "elsewhere"].map(|name| directory.path().join(name));
        [&here, &outside].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        let files = [here.join("switch.toml"), outside.join("secret")];
        files.iter().for_each(|path| fs::write(path, "text").unwrap());
        let confinement = Confinement { readable: vec![here], ..Confinement::default() };
        let read = |part| {
            let [config, secret] = files.clone();
            let paths =
                [config, secret, "/sys/class/net".into(), "/proc/self/stat".into(), "/etc/shadow".into()];
            let can = move || paths.map(|path| File::open(path).is_ok());
            confinement.spawn(part, "confined", can).unwrap().join().unwrap()
        };
        assert_eq!(read(Part::Owner), [true, false, true, true, false]);
        assert_eq!(read(Part::Http), [false, false, false, true, false]);
        assert_eq!(read(Part::Worker), [false; 5]);
        assert_eq!(read(Part::HostPath), [false; 5]);
        assert_eq!(read(Part::Log), [false; 5]);
    }

    #[test]
    fn confined_threads_cannot_access_processes_or_namespaces() {
        let namespace = File::open("/proc/self/ns/net").unwrap();
        for part in PARTS {
            let namespace = namespace.try_clone().unwrap();
            let tried = within(part, move || {
                [
                    Command::new("/bin/true").spawn().is_ok(),
                    ptrace::attach(getppid()).is_ok(),
                    kill(getppid(), None).is_ok(),
                    kill(Pid::this(), None).is_ok(),
                    unshare(CloneFlags::CLONE_NEWNET).is_ok(),
                    unshare(CloneFlags::CLONE_NEWUSER).is_ok(),
                    setns(namespace, CloneFlags::CLONE_NEWNET).is_ok(),
                ]
            });
            assert_eq!(tried, [false; 7], "{part:?}");
        }
    }

    #[test]
    fn confined_threads_open_no_tcp_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for part in PARTS {
            let tried = within(part, move || {
                [TcpStream::connect(address).is_ok(), TcpListener::bind("127.0.0.1:0").is_ok()]
            });
            assert_eq!(tried, [false; 2], "{part:?}");
        }
    }

    #[test]
    fn owner_and_opener_threads_keep_only_needed_capabilities() {
        let held = |part| {
            within(part, move || {
                let sets = [CapSet::Effective, CapSet::Permitted].map(|set| caps::read(None, set).unwrap());
                let others = [CapSet::Inheritable, CapSet::Ambient].map(|set| caps::read(None, set).unwrap());
                assert!(others.iter().all(CapsHashSet::is_empty));
                assert_eq!(sets[0], sets[1]);
                sets[0].clone()
            })
        };
        assert_eq!(held(Part::Owner), OWNER.into());
        assert_eq!(held(Part::Opener), OPENER.into());
        assert!(within(Part::Owner, || thread::spawn(|| 7).join().unwrap()) == 7);
        assert!(!within(Part::Http, || thread::Builder::new().spawn(|| 7).is_ok()));
    }

    #[test]
    fn other_threads_keep_their_user_when_one_changes_its_own() {
        let nobody = User::named("nobody").unwrap();
        let confinement = Confinement { user: Some(nobody), ..Confinement::default() };
        let ids = || {
            let text = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line =
                |name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            (line("Uid:"), line("Groups:"), caps::read(None, CapSet::Effective).unwrap())
        };
        let before = ids();
        let (uid, groups, capabilities) =
            confinement.spawn(Part::Owner, "confined", ids).unwrap().join().unwrap();
        assert_eq!((uid.as_str(), groups.as_str()), ("65534\t65534\t65534\t65534", ""));
        assert_eq!(capabilities, OWNER.into());
        assert_eq!(ids(), before, "other threads must keep their user");
        let error = User::named("no.such.user").unwrap_err().to_string();
        assert!(error.contains("there is no such user on this machine"), "{error}");
    }
}
