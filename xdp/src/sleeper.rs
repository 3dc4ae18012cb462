//! How a worker that has nothing to do waits until there may be something.
//!
//! By `ppoll`, not by epoll: what waits on a socket by epoll is known to it all the time, and the kernel
//! looks at that, under a lock, for every frame that the socket sends: a tenth of what sending costs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use xoff_wire::units::Nanos;

/// Duplicates of descriptors, to wait on while their owner is used otherwise.
///
/// # Errors
/// Where the process has no more descriptors.
pub fn duplicates<'fd>(fds: impl IntoIterator<Item = BorrowedFd<'fd>>) -> io::Result<Vec<OwnedFd>> {
    fds.into_iter().map(|fd| fd.try_clone_to_owned()).collect()
}

/// What a thread waits on.
#[derive(Debug)]
pub struct Sleeper<'fd>(Vec<PollFd<'fd>>);

impl<'fd> Sleeper<'fd> {
    /// For the calling thread, which from now on wakes when it is time and not a little later.
    #[must_use]
    pub fn new(fds: &'fd [OwnedFd]) -> Sleeper<'fd> {
        use std::os::fd::AsFd as _;
        let _ = set_timerslack(1); // nanoseconds; where the kernel refuses, sleeps are 50 us longer
        Sleeper(fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect())
    }

    /// Blocks until one of the descriptors is readable, but no longer than `span`.
    ///
    /// # Errors
    /// What the system call fails with.
    pub fn sleep(&mut self, span: Nanos) -> io::Result<()> {
        match ppoll(&mut self.0, Some(TimeSpec::from(Duration::from_nanos(span.0))), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether descriptor number `index` was readable when the last sleep ended.
    #[must_use]
    pub fn found_readable(&self, index: usize) -> bool {
        self.0[index].any().unwrap_or(true)
    }
}
