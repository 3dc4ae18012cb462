//! A network namespace held by a descriptor and a thread.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::panic;
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use super::{End, LabError};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace. Clones are the same namespace; it ends with the last of them, once no child
/// process, socket or thread uses it any more.
#[derive(Clone, Debug)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    file: File,
    /// To the thread that lives here and becomes the parent of every child process.
    keeper: Sender<Job>,
}

impl Namespace {
    pub(super) fn create(name: &str) -> Result<Namespace, LabError> {
        let failed = |source| LabError::Namespace { name: name.to_owned(), source };
        let (keeper, jobs) = mpsc::channel::<Job>();
        let (report, made) = mpsc::channel();
        thread::Builder::new()
            .name(format!("ns-{name}"))
            .spawn(move || {
                let file = enter_new();
                let alive = file.is_ok();
                if report.send(file).is_ok() && alive {
                    jobs.into_iter().for_each(|job| job());
                }
            })
            .map_err(failed)?;
        let file = made.recv().expect("the thread reports before it ends").map_err(failed)?;
        Ok(Namespace { inner: Arc::new(Inner { name: name.to_owned(), file, keeper }) })
    }

    /// What it was called when made.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// One end of a wire to be made, here, with this device name.
    #[must_use]
    pub fn end<'a>(&'a self, device: &'a str) -> End<'a> {
        End::new(self, device)
    }

    /// Runs `work` in a fresh thread inside this namespace and waits for it; a panic in it goes on in
    /// the caller. Sockets that it opens stay in this namespace wherever they are used.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                work()
            });
            thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
        })
    }

    /// Starts a thread that runs `work` inside this namespace.
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

    /// Starts a program inside this namespace. Its parent is the thread that lives here, which ends
    /// with the namespace or the process: a child that asks for a signal on its parent's death gets
    /// it then, not earlier.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let (report, done) = mpsc::channel();
        let job = Box::new(move || {
            let _ = report.send(command.spawn()); // fails only if the caller is gone
        });
        self.inner.keeper.send(job).expect("the thread outlives every clone of the namespace");
        done.recv().expect("the thread runs every job")
    }

    /// Runs a program inside this namespace to its end.
    ///
    /// # Errors
    /// As [`Command::output`].
    pub fn output(&self, command: &mut Command) -> io::Result<Output> {
        self.run(|| command.output())
    }

    /// Writes a setting under `/proc/sys/net` of this namespace.
    ///
    /// # Errors
    /// Where there is no such setting, or it does not take the value.
    pub fn sysctl(&self, setting: &str, value: &str) -> Result<(), LabError> {
        self.run(|| fs::write(format!("/proc/sys/net/{setting}"), value)).map_err(|source| LabError::Io {
            what: format!("set net/{setting} to {value}"),
            namespace: self.name().to_owned(),
            source,
        })
    }

    #[cfg(test)]
    pub(super) fn inode(&self) -> u64 {
        std::os::unix::fs::MetadataExt::ino(&self.inner.file.metadata().expect("an open file"))
    }

    /// For netlink messages that name a namespace by descriptor.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.inner.file.as_raw_fd()
    }

    fn enter(&self) {
        setns(self.inner.file.as_fd(), CloneFlags::CLONE_NEWNET)
            .expect("who could make the namespace may enter it");
    }
}

fn enter_new() -> io::Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    for family in ["all", "default"] {
        // Missing where the kernel has no IPv6: as quiet as it gets.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{family}/disable_ipv6"), "1");
    }
    File::open("/proc/thread-self/ns/net")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::lab::Lab;

    fn inode() -> u64 {
        fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    }

    #[test]
    fn work_and_programs_run_inside() {
        let namespace = Lab::new().namespace("lab-a").unwrap();
        let inside = namespace.run(inode);
        assert_ne!(inside, inode(), "the caller stays where it was");
        let mut readlink = Command::new("readlink");
        readlink.arg("/proc/self/ns/net");
        let expected = format!("net:[{inside}]\n");
        assert_eq!(namespace.output(&mut readlink).unwrap().stdout, expected.as_bytes());
        readlink.stdout(std::process::Stdio::piped());
        let child = namespace.spawn(readlink).unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, expected.as_bytes());
        assert_eq!(namespace.spawn_thread(inode).join().unwrap(), inside);
    }

    #[test]
    #[should_panic(expected = "from inside")]
    fn a_panic_inside_reaches_the_caller() {
        Lab::new().namespace("lab-b").unwrap().run(|| panic!("from inside"));
    }
}
