//! Sleep of an idle worker, by `ppoll`: epoll would take a lock for every sent frame, which costs a tenth as much as
//! sending.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use xoff_wire::units::Nanos;

/// Duplicates file descriptors, so that a thread can wait on them while other code borrows their owner.
pub fn duplicates<'fd>(fds: impl IntoIterator<Item = BorrowedFd<'fd>>) -> io::Result<Vec<OwnedFd>> {
    fds.into_iter().map(|fd| fd.try_clone_to_owned()).collect()
}

#[derive(Debug)]
pub struct Sleeper<'fd>(Vec<PollFd<'fd>>);

impl<'fd> Sleeper<'fd> {
    /// Creates a sleeper for the calling thread, whose timer slack it sets to wake on time.
    #[must_use]
    pub fn new(fds: &'fd [OwnedFd]) -> Sleeper<'fd> {
        use std::os::fd::AsFd as _;
        let _ = set_timerslack(1); // nanoseconds; if the kernel refuses, sleeps are 50 us longer
        Sleeper(fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect())
    }

    pub fn sleep(&mut self, span: Nanos) -> io::Result<()> {
        match ppoll(&mut self.0, Some(TimeSpec::from(Duration::from_nanos(span.0))), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[must_use]
    pub fn found_readable(&self, index: usize) -> bool {
        self.0[index].any().unwrap_or(true)
    }
}
