//! Host path: the thread in which a [`Host`] handles [punted](xoff_dataplane::punt) frames, and sends the switch's own frames to peers.

pub mod ends;
pub mod ring;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use xoff_wire::units::Nanos;

use crate::bell::Bell;
use crate::confine::{ConfineError, Part, Privileges};
use ends::{HostEnd, Outbox, Punted};
use xoff_xdp::clock;
use xoff_xdp::sleeper::{Sleeper, duplicates};

const BATCH: usize = 64;

const LONGEST_SLEEP: Nanos = Nanos::from_secs(1);

const LAST_WAIT: Nanos = Nanos::from_millis(100);

pub trait Host: Send {
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn has_other_wakers(&mut self) -> bool {
        false
    }

    fn take(&mut self, punted: &Punted<'_>, outbox: &mut Outbox);

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos;

    fn stop(&mut self, now: Nanos, outbox: &mut Outbox);
}

#[derive(Debug)]
pub struct HostPath {
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

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
            tracing::error!(
                "the host path has ended: {error}; LLDP is off, and no frames reach the host: restart the switch"
            );
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
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic is on standard error
        }
    }
}

impl Drop for HostPath {
    fn drop(&mut self) {
        self.stop();
    }
}

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
