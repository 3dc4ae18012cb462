//! The host path: a thread that has what workers [punt](xoff_dataplane::punt), and what they are to tell the peers of ports.
//!
//! Each worker has a ring out and a ring in ([`ends`]). The thread sleeps until a worker has punted something, somebody
//! [wakes](HostPath::wake) it, or something is due. What it does with a frame is for a [`Host`] to say; all that it may do to the
//! switch is to hand frames to its workers.

pub mod ends;
mod ring;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use xoff_dataplane::units::Nanos;

use crate::bell::Bell;
use crate::clock;
use crate::confine::{ConfineError, Part, Privileges};
use crate::sleeper::{Sleeper, duplicates};
use ends::{HostEnd, Outbox, Punted};

/// Frames of a worker between two looks at what is due.
const BATCH: usize = 64;

/// It sleeps no longer.
const LONGEST_SLEEP: Nanos = Nanos::from_secs(1);

/// A stop waits no longer for the workers to take the last frames.
const LAST_WAIT: Nanos = Nanos::from_millis(100);

/// Who has what is punted.
pub trait Host: Send {
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
    let events = duplicates([bell.event().as_fd()])?;
    let work = move || {
        let mut sleeper = Sleeper::new(&events);
        if let Err(error) = run(end, host, &rung, &mut sleeper, &stopped) {
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
    sleeper: &mut Sleeper<'_>,
    stop: &AtomicBool,
) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let has_more = end.take(BATCH, |punted, outbox| host.take(punted, outbox));
        let now = clock::now();
        let deadline = host.advance(now, &mut end.outbox).min(now.after(LONGEST_SLEEP));
        end.outbox.ring();
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
