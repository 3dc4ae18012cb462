//! Network namespace that a file descriptor and a thread keep alive.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Pid, gettid};

use xoff_xdp::thread_refused;

use super::{LabError, mounts};

type Job = Box<dyn FnOnce() + Send>;

/// Network namespace, shared by clones. It ends when its last clone, process, socket and thread have ended.
#[derive(Clone, Debug)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    file: File,
    /// Sends jobs to the namespace's thread, which is the parent of all child processes.
    keeper: Sender<Job>,
    keeper_id: Pid,
}

impl Namespace {
    pub(super) fn create(name: &str) -> Result<Namespace, LabError> {
        Namespace::kept(name, enter_new)
    }

    /// Opens an existing namespace: `/run/netns/NAME` or `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// Fails if `file` is no network namespace, or this process may not enter it.
    pub fn existing(name: &str, file: File) -> Result<Namespace, LabError> {
        Namespace::kept(name, move || {
            setns(file.as_fd(), CloneFlags::CLONE_NEWNET)?;
            Ok(file)
        })
    }

    fn kept(
        name: &str,
        enter: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Result<Namespace, LabError> {
        let failed = |source| LabError::Namespace { name: name.to_owned(), source };
        let (keeper, jobs) = mpsc::channel::<Job>();
        let (report, made) = mpsc::channel();
        thread::Builder::new()
            .name(format!("ns-{name}"))
            .spawn(move || {
                let file = enter().map(|file| (file, gettid()));
                let alive = file.is_ok();
                if report.send(file).is_ok() && alive {
                    jobs.into_iter().for_each(|job| job());
                }
            })
            .map_err(|source| LabError::Io {
                what: "start a thread".into(),
                namespace: name.to_owned(),
                source: thread_refused(&source),
            })?;
        let made = made.recv().expect("the namespace's thread must report its start");
        let (file, keeper_id) = made.map_err(failed)?;
        Ok(Namespace { inner: Arc::new(Inner { name: name.to_owned(), file, keeper, keeper_id }) })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Runs `work` in a new thread inside the namespace, where its sockets stay. Propagates a panic.
    ///
    /// # Errors
    /// Fails if `work` fails or no thread can be started.
    pub fn try_run<T: Send, E: From<io::Error> + Send>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let inside = || {
            self.enter();
            work()
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, inside).map_err(|error| {
                let error = thread_refused(&error);
                io::Error::new(error.kind(), format!("cannot start a thread: {error}"))
            })?;
            thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
        })
    }

    /// Runs `work` as [`Namespace::try_run`] does.
    ///
    /// # Panics
    /// Panics if no thread can be started.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.try_run(|| Ok::<T, io::Error>(work())).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn spawn_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let namespace = self.clone();
        thread::spawn(move || {
            namespace.enter();
            work()
        })
    }

    /// Gives programs started later a private `/sys`, host name, and `/etc/hosts` with the text `hosts`.
    pub fn furnish(&self, hosts: String) -> Result<(), LabError> {
        let name = self.name().to_owned();
        self.on_keeper(move || mounts::furnish(&name, &hosts)).map_err(|source| LabError::Io {
            what: "give programs an /etc/hosts of their own".into(),
            namespace: self.name().to_owned(),
            source,
        })
    }

    /// Gives programs started later private directories in memory at `places`, with `files`.
    pub fn own_directories(
        &self,
        places: &'static [&'static str],
        files: Vec<(PathBuf, String)>,
    ) -> Result<(), LabError> {
        self.on_keeper(move || mounts::own_directories(places, &files)).map_err(|source| LabError::Io {
            what: format!("give programs directories of their own at {}", places.join(" and ")),
            namespace: self.name().to_owned(),
            source,
        })
    }

    #[must_use]
    pub fn has_file(&self, path: &Path) -> bool {
        let path = path.to_owned();
        self.on_keeper(move || path.exists())
    }

    pub fn read_file(&self, path: &Path) -> io::Result<String> {
        let path = path.to_owned();
        self.on_keeper(move || fs::read_to_string(path))
    }

    pub fn create_file(&self, path: &Path) -> io::Result<File> {
        let path = path.to_owned();
        self.on_keeper(move || File::create(path))
    }

    #[must_use]
    pub fn entrance(&self) -> PathBuf {
        format!("/proc/{}/task/{}/ns", std::process::id(), self.inner.keeper_id).into()
    }

    /// Starts a program inside the namespace; it is killed when the namespace's thread ends.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        self.on_keeper(move || command.spawn())
    }

    pub fn on_keeper<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (report, done) = mpsc::channel();
        let job = Box::new(move || {
            let _ = report.send(work()); // fails if the caller no longer waits
        });
        self.inner.keeper.send(job).expect("the namespace's thread must still run");
        done.recv().expect("the namespace's thread must finish each job")
    }

    pub fn output(&self, command: &mut Command) -> io::Result<Output> {
        self.try_run(|| command.output())
    }

    pub fn sysctl(&self, setting: &str, value: &str) -> Result<(), LabError> {
        self.try_run(|| fs::write(format!("/proc/sys/net/{setting}"), value)).map_err(|source| LabError::Io {
            what: format!("set net/{setting} to {value}"),
            namespace: self.name().to_owned(),
            source,
        })
    }

    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inner.file.metadata().expect("an open file").ino()
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.inner.file.as_raw_fd()
    }

    fn enter(&self) {
        setns(self.inner.file.as_fd(), CloneFlags::CLONE_NEWNET)
            .expect("this process must be able to enter a namespace that it keeps open");
    }
}

fn enter_new() -> io::Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    for family in ["all", "default"] {
        // Ignore the error of a kernel without IPv6, which lacks this file.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{family}/disable_ipv6"), "1");
    }
    File::open("/proc/thread-self/ns/net")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Lab;
    use crate::parallel::tests::without_threads;

    fn inode() -> u64 {
        fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    }

    #[test]
    fn threads_and_programs_started_in_a_namespace_run_inside_it() {
        let namespace = Lab::new().namespace("lab-a").unwrap();
        let inside = namespace.run(inode);
        assert_ne!(inside, inode(), "the caller's thread must stay in its namespace");
        let mut readlink = Command::new("readlink");
        readlink.arg("/proc/self/ns/net");
        let expected = format!("net:[{inside}]\n");
        assert_eq!(namespace.output(&mut readlink).unwrap().stdout, expected.as_bytes());
        readlink.stdout(std::process::Stdio::piped());
        let child = namespace.spawn(readlink).unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, expected.as_bytes());
        assert_eq!(namespace.spawn_thread(inode).join().unwrap(), inside);
    }

    #[test] // proves: lab-lifecycle
    fn programs_see_only_hosts_file_and_devices_of_their_namespace() {
        let namespace = Lab::new().namespace("lab-c").unwrap();
        namespace.furnish("192.0.2.7 somebody\n".into()).unwrap();
        let mut look = Command::new("sh");
        look.args(["-c", "hostname; cat /etc/hosts; ls /sys/class/net; cat /proc/mounts"])
            .stdout(std::process::Stdio::piped());
        let output = namespace.spawn(look).unwrap().wait_with_output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.starts_with("lab-c\n192.0.2.7 somebody\nlo\n"), "{output}");
        let outside = fs::read_to_string("/proc/mounts").unwrap();
        assert!(output.contains(" /etc/hosts ") && !outside.contains("xoff-lab"), "{outside}");
        assert!(!fs::read_to_string("/etc/hosts").unwrap().contains("somebody"));
        let entrance = namespace.entrance();
        assert_eq!(fs::metadata(entrance.join("net")).unwrap().ino(), namespace.inode());
        let again = Namespace::existing("again", File::open(entrance.join("net")).unwrap()).unwrap();
        assert_eq!((again.run(inode), again.inode()), (namespace.inode(), namespace.inode()));
    }

    #[test] // proves: cascade
    fn private_directories_of_namespace_are_invisible_outside() {
        let namespace = Lab::new().namespace("lab-d").unwrap();
        let place = Path::new("/run/lab-d/note");
        namespace
            .own_directories(
                &["/run", "/var/tmp", "/no/such/place"],
                vec![(place.to_owned(), "first".into())],
            )
            .unwrap();
        assert_eq!(namespace.read_file(place).unwrap(), "first");
        let mut write = Command::new("sh");
        write.args(["-c", "echo second > /run/lab-d/note; echo third > /var/tmp/lab-d"]);
        assert!(namespace.spawn(write).unwrap().wait().unwrap().success());
        assert_eq!(namespace.read_file(place).unwrap(), "second\n");
        assert_eq!(namespace.read_file(Path::new("/var/tmp/lab-d")).unwrap(), "third\n");
        assert!(
            !place.exists() && !Path::new("/var/tmp/lab-d").exists(),
            "private files of a namespace must be invisible outside it"
        );
    }

    #[test] // proves: lab-lifecycle
    fn error_for_refused_namespace_thread_suggests_a_higher_limit() {
        let lab = Lab::new();
        let namespace = lab.namespace("lab-e").unwrap();
        let read = |namespace: &Namespace| namespace.try_run(|| fs::read_to_string("/proc/thread-self/comm"));
        let (run, made) = without_threads(|| (read(&namespace), lab.namespace("lab-f").map(drop)));
        for error in [run.unwrap_err().to_string(), made.unwrap_err().to_string()] {
            assert!(error.starts_with("cannot start a thread"), "{error}");
            assert!(error.contains("raise the limit on address space (`ulimit -v`"), "{error}");
        }
        assert!(read(&namespace).is_ok());
    }

    #[test]
    #[should_panic(expected = "from inside")]
    fn panic_inside_namespace_is_passed_to_the_caller() {
        Lab::new().namespace("lab-b").unwrap().run(|| panic!("from inside"));
    }
}
