//! The host path: a thread that has what workers [punt](xoff_dataplane::punt), and what they are to tell the peers of ports.
//!
//! Each worker has a ring out and a ring in ([`ends`]). The thread sleeps until a worker has punted something, somebody
//! [wakes](HostPath::wake) it, or something is due. What it does with a frame is for a [`Host`] to say; all that it may do to the
//! switch is to hand frames to its workers.

pub mod ends;
pub mod ring;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use xoff_dataplane::units::Nanos;

use crate::bell::Bell;
use crate::confine::{ConfineError, Part, Privileges};
use ends::{HostEnd, Outbox, Punted};
use xoff_xdp::clock;
use xoff_xdp::sleeper::{Sleeper, duplicates};

/// Frames of a worker between two looks at what is due.
const BATCH: usize = 64;

/// It sleeps no longer.
const LONGEST_SLEEP: Nanos = Nanos::from_secs(1);

/// A stop waits no longer for the workers to take the last frames.
const LAST_WAIT: Nanos = Nanos::from_millis(100);

/// Who has what is punted.
pub trait Host: Send {
    /// What wakes the thread beside what is punted: descriptors that are readable when [`Host::advance`] has something to do.
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Whether these are others than when it was asked last.
    fn has_other_wakers(&mut self) -> bool {
        false
    }

    /// A frame came in.
    fn take(&mut self, punted: &Punted<'_>, outbox: &mut Outbox);

    /// Does what is due at `now`, and says when something is next. It is called after each sleep, too.
    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos;

    /// The switch is about to stop: the last words.
    fn stop(&mut self, now: Nanos, outbox: &mut Outbox);
}

/// The running thread. It ends when this is stopped or dropped.
#[derive(Debug)]
pub struct HostPath {
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread. `bell` is the one that the workers' ends ring.
///
/// # Errors
/// Where there is no thread or descriptor to be had, or its privileges cannot be dropped.
pub fn start(
    end: HostEnd,
    bell: &Arc<Bell>,
    host: impl Host + 'static,
    privileges: &Privileges,
) -> Result<HostPath, ConfineError> {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, rung) = (Arc::clone(&stop), Arc::clone(bell));
    let events = duplicates([bell.event().as_fd()].into_iter().chain(host.wakers()))?;
    let work = move || {
        if let Err(error) = run(end, host, &rung, events, &stopped) {
            tracing::error!("the host path has ended: {error}; nothing is heard or said by LLDP any more");
        }
    };
    let thread = Some(privileges.spawn(Part::HostPath, "xoff-host-path", work)?);
    Ok(HostPath { bell: Arc::clone(bell), stop, thread })
}

fn run(
    mut end: HostEnd,
    mut host: impl Host,
    bell: &Bell,
    mut events: Vec<OwnedFd>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut sleeper = Sleeper::new(&events);
    while !stop.load(Ordering::Relaxed) {
        let has_more = end.take(BATCH, |punted, outbox| host.take(punted, outbox));
        let now = clock::now();
        let deadline = host.advance(now, &mut end.outbox).min(now.after(LONGEST_SLEEP));
        end.outbox.ring();
        if host.has_other_wakers() {
            drop(sleeper);
            events = duplicates([bell.event().as_fd()].into_iter().chain(host.wakers()))?;
            sleeper = Sleeper::new(&events);
        }
        if has_more || deadline <= now {
            continue;
        }
        bell.close_eyes();
        if end.is_empty() && !stop.load(Ordering::Relaxed) {
            sleeper.sleep(deadline.since(now))?;
            if sleeper.found_readable(0) {
                bell.acknowledge();
            }
        }
        bell.open_eyes();
    }
    let begin = clock::now();
    host.stop(begin, &mut end.outbox);
    end.outbox.ring();
    while !end.outbox.is_empty() && clock::now().since(begin) < LAST_WAIT {
        thread::yield_now();
    }
    Ok(())
}

impl HostPath {
    /// Has it look at what is due, now.
    pub fn wake(&self) {
        self.bell.wake();
    }

    /// Says the last words and ends.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of its own stands on standard error
        }
    }
}

impl Drop for HostPath {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Each has what is its own.
impl<A: Host, B: Host> Host for (A, B) {
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        [self.0.wakers(), self.1.wakers()].concat()
    }

    fn has_other_wakers(&mut self) -> bool {
        self.0.has_other_wakers() | self.1.has_other_wakers()
    }

    fn take(&mut self, punted: &Punted<'_>, outbox: &mut Outbox) {
        self.0.take(punted, outbox);
        self.1.take(punted, outbox);
    }

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos {
        self.0.advance(now, outbox).min(self.1.advance(now, outbox))
    }

    fn stop(&mut self, now: Nanos, outbox: &mut Outbox) {
        self.0.stop(now, outbox);
        self.1.stop(now, outbox);
    }
}

/// Nobody, where there is none.
impl<H: Host> Host for Option<H> {
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        self.as_ref().map_or_else(Vec::new, H::wakers)
    }

    fn has_other_wakers(&mut self) -> bool {
        self.as_mut().is_some_and(H::has_other_wakers)
    }

    fn take(&mut self, punted: &Punted<'_>, outbox: &mut Outbox) {
        if let Some(host) = self {
            host.take(punted, outbox);
        }
    }

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos {
        self.as_mut().map_or(Nanos::NEVER, |host| host.advance(now, outbox))
    }

    fn stop(&mut self, now: Nanos, outbox: &mut Outbox) {
        if let Some(host) = self {
            host.stop(now, outbox);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
