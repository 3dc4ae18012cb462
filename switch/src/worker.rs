mod connections;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use xoff_config::Poll;
use xoff_dataplane::driver::{Boundary, Direct, Driver, Port as _, Progress};
use xoff_dataplane::switch::Switch;
use xoff_recording::{Recorder, Ring};
use xoff_wire::units::{Nanos, PortId};
use xoff_xdp::{Port, Store};

use crate::control::WorkerFacts;
use crate::spin::SpinWindow;
use crate::turns::TurnTimer;
use xoff_xdp::clock;
use xoff_xdp::sleeper::{Sleeper, duplicates};

pub use connections::Connections;

/// Maximum sleep while the worker waits for an event that does not wake it, such as free slots in the driver.
const LOOK_AGAIN: Nanos = Nanos::from_micros(200);

/// Maximum sleep in the state [`DriverBacklog::Leaving`].
const LOOK_AT_LEISURE: Nanos = Nanos::from_millis(10);

const LONGEST_SLEEP: Nanos = Nanos::from_secs(10);

/// Interval between updates of counters whose computation visits all queues.
const SHOW_PERIOD: Nanos = Nanos::from_millis(200);

const BELL: usize = 0;
const INBOX: usize = 1;

const LAST_WAIT: Nanos = Nanos::from_millis(100);

pub struct Worker {
    pub switch: Switch,
    pub store: Store,
    pub ports: Vec<(PortId, Port)>,
    pub connections: Connections,
    pub poll: Poll,
    pub stall_budget: Nanos,
    pub recorder: Option<Box<Recorder<Ring>>>,
}

pub type Outcome = thread::Result<io::Result<()>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriverBacklog {
    Nothing,
    /// Frames are in the driver, but no other frame waits for their release.
    Leaving,
    /// Frames wait for free slots in the driver, or messages wait for other workers.
    Room,
}

impl DriverBacklog {
    const fn of(in_flight: bool, is_awaited: bool, for_workers: bool) -> DriverBacklog {
        match (in_flight, is_awaited, for_workers) {
            (_, _, true) | (true, true, _) => DriverBacklog::Room,
            (true, false, false) => DriverBacklog::Leaving,
            (false, _, false) => DriverBacklog::Nothing,
        }
    }

    fn longest_sleep(self, commit_time: Nanos) -> Nanos {
        match self {
            DriverBacklog::Nothing => LONGEST_SLEEP,
            DriverBacklog::Leaving => LOOK_AT_LEISURE,
            DriverBacklog::Room => LOOK_AGAIN.min(commit_time),
        }
    }
}

impl Worker {
    /// Runs the worker until `stop` is set, then sends XON to paused peers, even after a panic. The caller closes the worker's ports.
    pub fn run(mut self, stop: &AtomicBool) -> (Worker, Outcome) {
        let outcome = match self.recorder.take() {
            None => self.run_by(&mut Direct, stop),
            Some(mut recorder) => self.run_by(&mut *recorder, stop),
        };
        if outcome.is_ok() {
            self.show();
        }
        (self, outcome)
    }

    fn run_by(&mut self, by: &mut impl Boundary, stop: &AtomicBool) -> Outcome {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.work(by, stop)));
        self.release_peers(by);
        outcome
    }

    fn work(&mut self, by: &mut impl Boundary, stop: &AtomicBool) -> io::Result<()> {
        let mut spin = match self.poll {
            Poll::Adaptive { idle_after } => Some(SpinWindow::new(idle_after)),
            Poll::Busy => None,
        };
        let mut watch = TurnTimer::new(clock::now());
        let (mut show_at, mut loops_found) = (Some(Nanos::ZERO), 0);
        let mut wakers = self.wakers()?;
        let mut sleeper = Sleeper::new(&wakers);
        let mut busy_at = clock::now();
        while !stop.load(Ordering::Relaxed) {
            if std::mem::take(&mut self.connections.has_other_ports) {
                drop(sleeper);
                drop(wakers); // before new ones: descriptors may be scarce
                self.connections.hand_out();
                wakers = self.wakers()?;
                sleeper = Sleeper::new(&wakers);
            }
            let now = clock::now();
            if watch.turn(now, self.stall_budget, &self.connections.facts) {
                by.was_away(&mut self.switch, now);
            }
            let turn = self.turn(by, now, watch.previous);
            // Update counters at once after a loop was found between ports: the log line about the loop reads them.
            if show_at.is_some_and(|time| now >= time) || self.switch.bridge().loops_found() != loops_found {
                self.show();
                loops_found = self.switch.bridge().loops_found();
                show_at = None;
            }
            if turn.is_busy {
                show_at.get_or_insert(now.after(SHOW_PERIOD));
                busy_at = now;
            }
            let Some(spin) = &mut spin else { continue };
            if turn.is_busy {
                spin.busy(now, turn.received);
            } else if spin.idle(now) {
                let until = now.after(watchful_sleep(now.since(busy_at), self.stall_budget));
                let until = show_at.map_or(until, |time| time.min(until));
                if let Some(awake_at) = self.sleep(&mut sleeper, spin, until)? {
                    watch.woken(awake_at);
                }
            }
        }
        Ok(())
    }

    fn wakers(&self) -> io::Result<Vec<OwnedFd>> {
        let sockets = self.ports.iter().flat_map(|(_, port)| port.sockets());
        let Connections { handoff, inbox, .. } = &self.connections;
        duplicates([handoff.bell().event().as_fd(), inbox.fd()].into_iter().chain(sockets))
    }

    /// Sleeps until an event, but at most until `until`. Returns the time of waking or, if earlier, the planned end;
    /// `None` if the sleep would be too short.
    fn sleep(&self, sleeper: &mut Sleeper<'_>, spin: &SpinWindow, until: Nanos) -> io::Result<Option<Nanos>> {
        let now = clock::now();
        let Connections { handoff, host, inbox, commit_time, .. } = &self.connections;
        let longest = self.driver_backlog().longest_sleep(*commit_time);
        let deadline = self.switch.next_deadline().min(now.after(longest)).min(until);
        if !spin.is_worth_it(now, deadline) {
            return Ok(None);
        }
        let bell = handoff.bell();
        bell.close_eyes();
        if !handoff.waiting() && !host.waiting() {
            sleeper.sleep(deadline.since(now))?;
            // Reset only readable descriptors, because each reset is a system call.
            if sleeper.found_readable(BELL) {
                bell.acknowledge();
            }
            if sleeper.found_readable(INBOX) {
                inbox.acknowledge();
            }
        }
        bell.open_eyes();
        Ok(Some(clock::now().min(deadline).max(now)))
    }

    fn driver_backlog(&self) -> DriverBacklog {
        let any = |is: fn(&Port) -> bool| self.ports.iter().any(|(_, port)| is(port));
        let is_awaited = self.switch.waits_for_releases() || any(Port::is_unsent);
        DriverBacklog::of(any(Port::in_flight), is_awaited, self.switch.waits_for_workers())
    }

    fn turn(&mut self, by: &mut impl Boundary, now: Nanos, previous: Nanos) -> Progress {
        self.connections.previous_turn = previous;
        let (mut driver, connections) = self.driver(by, now);
        let progress = driver.turn(connections);
        connections.host.ring();
        progress
    }

    fn driver<'a, B>(
        &'a mut self,
        boundary: &'a mut B,
        now: Nanos,
    ) -> (Driver<'a, Port, Store, B>, &'a mut Connections) {
        let Worker { switch, ports, store, connections, .. } = self;
        (Driver { now, switch, ports, store, boundary }, connections)
    }

    fn show(&self) {
        show(&self.connections.facts, &self.switch, &self.store);
    }

    fn release_peers(&mut self, by: &mut impl Boundary) {
        let begin = clock::now();
        self.driver(by, begin).0.release_peers();
        while self.driver(by, clock::now()).0.part() && clock::now().since(begin) < LAST_WAIT {
            thread::yield_now();
        }
    }
}

/// Returns the maximum sleep after `quiet` time without a frame. A stall is measured from the planned end of a sleep,
/// so the part during the sleep, at most this long, is not counted.
fn watchful_sleep(quiet: Nanos, stall_budget: Nanos) -> Nanos {
    quiet.max(Nanos(stall_budget.0 / 4))
}

fn show(facts: &WorkerFacts, switch: &Switch, store: &Store) {
    switch.show_addresses();
    let missing = switch.ledger().missing().unsigned_abs();
    facts.frames_missing.set(u64::try_from(missing).unwrap_or(u64::MAX));
    facts.frames_free.set(store.free_frames().into());
    facts.cells_free.set(store.free_cells().into());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
