//! One worker: a thread that owns some ports completely and runs their frames to completion.
//!
//! A turn of the loop: reap completions, refill fill rings, receive a batch, move it through the
//! pipeline, exchange with other workers, fire timers, transmit, kick. A turn that found nothing to
//! do is idle; with adaptive polling a worker blocks then until a frame, a message or the next deadline comes, and
//! [`SpinWindow`] says how soon.
//!
//! The worker measures itself: the longest time between two turns in which it should have run, and
//! how often that was longer than the stall budget, which is what rings and headroom were sized for.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::sync::oneshot;
use xoff_config::Poll;
use xoff_dataplane::forward::FdbEntry;
use xoff_dataplane::switch::Switch;
use xoff_dataplane::units::{Nanos, PortId};
use xoff_sim::recording::{Boundary, Direct, Ending, Recorder};
use xoff_xdp::{Port, Store};

use crate::control::WorkerFacts;
use crate::control::mailbox::{Address, Backlog, Inbox, Request};
use crate::handoff::Handoff;
use crate::host_path::ends::{Given, WorkerEnd};
use crate::recording::Ring;
use crate::spin::SpinWindow;
use crate::turns::Watch;
use xoff_xdp::clock;
use xoff_xdp::sleeper::{Sleeper, duplicates};

/// Most frames taken from one queue of a port in one turn. Sending brings much of the kernel into the core's
/// caches, and receiving much of ours: the more frames share that, the less it costs each.
const BATCH: u32 = 128;

/// Most frames that are taken from the host path in one turn.
const TELLS_MAX: u32 = 32;

/// A driver that sends while it is kicked has room again at once. It is served so often in one turn, so
/// that as many long frames can leave as come in.
const SERVINGS: usize = 2;

/// A sleep ends after this at the latest to see what nobody tells, where something waits for it: that frames have left, that
/// a driver or a queue to another worker has room.
const LOOK_AGAIN: Nanos = Nanos::from_micros(200);

/// A sleep ends after this to see that frames have left, for which nothing waits but their counters.
const LOOK_AT_LEISURE: Nanos = Nanos::from_millis(10);

/// A sleep ends after this anyway.
const LONGEST_SLEEP: Nanos = Nanos::from_secs(10);

/// What takes a walk over all queues is shown when something has moved, this often, and when asked for.
const SHOW_PERIOD: Nanos = Nanos::from_millis(200);

/// Where two descriptors stand among those that end a sleep.
const BELL: usize = 0;
const INBOX: usize = 1;

/// A stop waits no longer for the kernel to take the last XON.
const LAST_WAIT: Nanos = Nanos::from_millis(100);

/// One worker and everything it owns.
pub struct Worker {
    /// Its dataplane.
    pub switch: Switch,
    /// Its share of the UMEM.
    pub store: Store,
    /// Its ports.
    pub ports: Vec<(PortId, Port)>,
    /// Its end of the exchange.
    pub handoff: Handoff,
    /// Its end of the host path.
    pub host: WorkerEnd,
    /// Messages from the control thread.
    pub inbox: Inbox,
    /// What it shows.
    pub facts: Arc<WorkerFacts>,
    /// What it does when there is nothing to do.
    pub poll: Poll,
    /// The longest stall that rings and headroom were sized for.
    pub stall_budget: Nanos,
    /// The shortest time in which the line of one of its ports carries what is committed: then there is room again.
    pub commit_time: Nanos,
    /// Its ports are others than when it last looked for what wakes it.
    pub has_other_ports: bool,
    /// Ports that it has given up, each to be given to who asked when nothing that wakes it holds their sockets any more.
    pub given_up: Vec<GivenUp>,
    /// What records its calls of the dataplane, if anything does.
    pub recorder: Option<Box<Recorder<Ring>>>,
}

/// A port without a worker, and who asked for it.
#[derive(Debug)]
pub struct GivenUp {
    port: Box<Port>,
    done: oneshot::Sender<Option<Box<Port>>>,
}

/// How a worker has ended: as it was told to, refused by the system what a sleep needs, or by a panic.
pub type Outcome = thread::Result<io::Result<()>>;

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Something moved, was due, or was asked for.
    is_busy: bool,
    /// Frames that came in, or from another worker.
    received: u32,
}

/// What a worker that sleeps is not told of, and for which it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unseen {
    Nothing,
    /// Frames leave, and nothing waits for that but their counters.
    Leaving,
    /// Something waits for room.
    Room,
}

impl Unseen {
    /// Frames are `in_flight`, something waits until they have left (`is_awaited`), or `for_workers`.
    const fn of(in_flight: bool, is_awaited: bool, for_workers: bool) -> Unseen {
        match (in_flight, is_awaited, for_workers) {
            (_, _, true) | (true, true, _) => Unseen::Room,
            (true, false, false) => Unseen::Leaving,
            (false, _, false) => Unseen::Nothing,
        }
    }

    fn longest_sleep(self, commit_time: Nanos) -> Nanos {
        match self {
            Unseen::Nothing => LONGEST_SLEEP,
            Unseen::Leaving => LOOK_AT_LEISURE,
            Unseen::Room => LOOK_AGAIN.min(commit_time),
        }
    }
}

impl Worker {
    /// Runs until `stop`, then lets every held peer go and returns what it owns, with its frames still
    /// in it, to be counted, and closed by who may do that. A panic lets the peers go too.
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
        self.let_peers_go(by);
        outcome
    }

    fn work(&mut self, by: &mut impl Boundary, stop: &AtomicBool) -> io::Result<()> {
        let mut spin = match self.poll {
            Poll::Adaptive { idle_after } => Some(SpinWindow::new(idle_after)),
            Poll::Busy => None,
        };
        let mut watch = Watch::new(clock::now());
        let (mut show_at, mut loops_found) = (Some(Nanos::ZERO), 0);
        let mut wakers = self.wakers()?;
        let mut sleeper = Sleeper::new(&wakers);
        while !stop.load(Ordering::Relaxed) {
            if std::mem::take(&mut self.has_other_ports) {
                drop(sleeper);
                drop(wakers); // first: there may be no descriptors to spare
                self.hand_out();
                wakers = self.wakers()?;
                sleeper = Sleeper::new(&wakers);
            }
            let now = clock::now();
            if watch.turn(now, self.stall_budget, &self.facts) {
                by.was_away(&mut self.switch, now);
            }
            let turn = self.turn(by, now, &watch);
            // A loop is told of at once: a line of the log waits for it.
            if show_at.is_some_and(|time| now >= time) || self.switch.bridge().loops_found() != loops_found {
                self.show();
                loops_found = self.switch.bridge().loops_found();
                show_at = None;
            }
            if turn.is_busy {
                show_at.get_or_insert(now.after(SHOW_PERIOD));
            }
            let Some(spin) = &mut spin else { continue };
            if turn.is_busy {
                spin.busy(now, turn.received);
            } else if spin.idle(now)
                && let Some(awake_at) = self.sleep(&mut sleeper, spin, show_at.unwrap_or(Nanos::NEVER))?
            {
                watch.woken(awake_at);
            }
        }
        Ok(())
    }

    /// What ends a sleep, [`BELL`] and [`INBOX`] first.
    fn wakers(&self) -> io::Result<Vec<OwnedFd>> {
        let sockets = self.ports.iter().flat_map(|(_, port)| port.sockets());
        duplicates([self.handoff.bell().event().as_fd(), self.inbox.fd()].into_iter().chain(sockets))
    }

    /// Sleeps at most until `until`, and answers when the worker should have run again: at the deadline, or now that it
    /// was woken before. `None` where no sleep was worth it.
    fn sleep(&self, sleeper: &mut Sleeper<'_>, spin: &SpinWindow, until: Nanos) -> io::Result<Option<Nanos>> {
        let now = clock::now();
        let longest = self.unseen().longest_sleep(self.commit_time);
        let deadline = self.switch.next_deadline().min(now.after(longest)).min(until);
        if !spin.is_worth_it(now, deadline) {
            return Ok(None);
        }
        let bell = self.handoff.bell();
        bell.close_eyes();
        if !self.handoff.waiting() && !self.host.waiting() {
            sleeper.sleep(deadline.since(now))?;
            // Frames wait: no system call more than it takes.
            if sleeper.found_readable(BELL) {
                bell.acknowledge();
            }
            if sleeper.found_readable(INBOX) {
                self.inbox.acknowledge();
            }
        }
        bell.open_eyes();
        Ok(Some(clock::now().min(deadline).max(now)))
    }

    fn unseen(&self) -> Unseen {
        let any = |is: fn(&Port) -> bool| self.ports.iter().any(|(_, port)| is(port));
        let is_awaited = self.switch.waits_for_releases() || any(Port::is_unsent);
        Unseen::of(any(Port::in_flight), is_awaited, self.switch.waits_for_workers())
    }

    fn turn(&mut self, by: &mut impl Boundary, now: Nanos, watch: &Watch) -> Turn {
        let (switch, store) = (&mut self.switch, &mut self.store);
        let obeyed_before = switch.pauses_obeyed();
        let mut batch = by.batch(switch, now);
        let (mut busy, mut received) = (by.advance(&mut batch, store), 0);
        // What has left counts no more when the first frame comes in.
        for (id, port) in &mut self.ports {
            port.reap(store, |store, frame| {
                by.release(&mut batch, *id, frame, store);
                busy = true;
            });
            if port.is_gone() {
                port.take_back(store, |store, frame| {
                    by.give_up(&mut batch, *id, frame, store);
                    busy = true;
                });
            }
        }
        for (id, port) in &mut self.ports {
            port.refill(store);
            received += port.receive(store, BATCH, |store, frame| by.receive(&mut batch, *id, frame, store));
        }
        drop(batch);
        if switch.pauses_obeyed() != obeyed_before {
            // The pause frame came after the last look; nothing of its class has been handed over since
            // that look's transmit.
            self.facts.obey_reaction.record(clock::now().since(watch.previous).0);
        }
        let mut batch = by.batch(switch, now);
        by.forward_all(&mut batch, store);
        drop(batch);
        let exchanged = self.handoff.exchange(now, switch, store);
        received += exchanged.frames;
        busy |= exchanged.moved;
        while let Some(request) = self.inbox.take() {
            self.answer(by, now, request);
            busy = true;
        }
        busy |= self.take_from_host(by, now);
        busy |= self.transmit(by, now) || received > 0;
        self.host.ring();
        Turn { is_busy: busy, received }
    }

    /// Takes what the host path has for peers, or sends. True where there was something.
    fn take_from_host(&mut self, by: &mut impl Boundary, now: Nanos) -> bool {
        let mut left = TELLS_MAX;
        while left > 0
            && let Some(given) = self.host.next_given()
        {
            let mut batch = by.batch(&mut self.switch, now);
            match given {
                Given::Tell(port, bytes) => {
                    let is_told = by.tell(&mut batch, port, bytes, &mut self.store);
                    self.host.count(port, is_told);
                }
                Given::Frame(site, port, bytes) => {
                    by.send_of_host(&mut batch, (site, port), bytes, &mut self.store);
                }
            }
            left -= 1;
        }
        left < TELLS_MAX
    }

    /// Tells peers what they are newly held to, before any port sends data. Not before the batch has moved on:
    /// what is dropped or no longer counts behind the pipeline needs no pause. What cannot leave now is left to
    /// `transmit`.
    #[cold]
    fn announce(&mut self, by: &mut impl Boundary, now: Nanos) {
        let untold = self.switch.untold();
        let (switch, store) = (&mut self.switch, &mut self.store);
        for (id, port) in self.ports.iter_mut().filter(|(id, _)| untold.contains(*id)) {
            let told_before = switch.stops_told();
            tell(by, now, (*id, port), switch, store);
            if switch.stops_told() != told_before {
                self.facts.pause_reaction.record(clock::now().since(now).0);
            }
        }
    }

    /// Sends what may leave now.
    fn transmit(&mut self, by: &mut impl Boundary, now: Nanos) -> bool {
        if !self.switch.untold().is_empty() {
            self.announce(by, now);
        }
        let mut busy = false;
        let active = self.switch.egress_active();
        for (id, port) in &mut self.ports {
            let (switch, store) = (&mut self.switch, &mut self.store);
            for _ in 0..SERVINGS {
                let (mut sent, mut came_back) = (false, false);
                let told_before = switch.stops_told();
                let mut batch = by.batch(switch, now);
                while active.contains(*id) && port.room() > 0 {
                    let most = port.room();
                    let left = by.transmit(&mut batch, *id, store, most, |store, frame| {
                        port.send(store, frame).expect("a port with room takes a frame");
                    });
                    sent |= left > 0;
                    if left < most {
                        break;
                    }
                }
                drop(batch);
                port.flush();
                if switch.stops_told() != told_before {
                    self.facts.pause_reaction.record(clock::now().since(now).0);
                }
                if sent {
                    let mut batch = by.batch(switch, now);
                    port.reap(store, |store, frame| {
                        by.release(&mut batch, *id, frame, store);
                        came_back = true;
                    });
                }
                busy |= sent;
                if !came_back {
                    break;
                }
            }
        }
        busy
    }

    #[cold]
    fn answer(&mut self, by: &mut impl Boundary, now: Nanos, request: Request) {
        match request {
            Request::SetPolicy { successor, done } => {
                by.end(Ending::Policy);
                let _ = done.send(self.switch.batch(now).set_policy(successor)); // who asked may have given up
            }
            Request::Revise { revision, commit_time, done } => {
                by.end(Ending::Settings);
                self.commit_time = commit_time;
                let left = self.switch.batch(now).revise(revision);
                let _ = done.send(left); // who asked may have given up
            }
            Request::SetFib { fib, done } => {
                by.end(Ending::Routes);
                let _ = done.send(self.switch.batch(now).set_fib(fib)); // who asked may have given up
            }
            Request::PutTap { id, tap, done } => {
                let _ = done.send(self.switch.batch(now).put_tap(id, tap)); // who asked takes it off in any case
            }
            Request::TakeTap { id, done } => {
                let _ = done.send(self.switch.batch(now).take_tap(id)); // who asked may have given up
            }
            Request::Link { port, up } => {
                let mut batch = by.batch(&mut self.switch, now);
                by.set_link(&mut batch, port, up, &mut self.store);
                drop(batch);
                let own = self.ports.iter_mut().filter(|(id, _)| *id == port && !up);
                own.for_each(|(_, port)| port.link_lost());
            }
            Request::GiveUp { port, backlog, done } => {
                if self.ports.iter().any(|(id, _)| *id == port) {
                    match self.give_up(by, now, port, backlog) {
                        Some(port) => self.given_up.push(GivenUp { port: Box::new(port), done }),
                        None => drop(done.send(None)), // who asked asks again
                    }
                }
            }
            Request::TakeBack(lent) => self.store.take_back(lent),
            Request::Adopt { port: id, mut opened, done } => {
                debug_assert!(
                    self.ports.iter().all(|(other, _)| *other != id),
                    "the port before was given up"
                );
                opened.begin(&mut self.store);
                let mut batch = by.batch(&mut self.switch, now);
                by.set_mac(&mut batch, id, opened.facts().mac);
                drop(batch);
                let at = self.ports.partition_point(|(other, _)| *other < id);
                self.ports.insert(at, (id, *opened));
                self.has_other_ports = true;
                let _ = done.send(()); // who asked may have given up
            }
            Request::Ledger(answer) => {
                self.show();
                let _ = answer.send(self.switch.ledger()); // who asked may have given up
            }
            Request::Addresses(request) => {
                let fdb = self.switch.bridge().fdb();
                let address = |entry: FdbEntry| {
                    let FdbEntry { vid, mac, port, age } = entry;
                    Address { vid, mac, port, fixed: age.is_none() }
                };
                request.answer(fdb.places(), |places| fdb.entries_at(clock::now(), places).map(address));
            }
        }
    }

    /// Removes and returns the port once the kernel has nothing of it to send; `None` before that. Forwards received frames; drops frames
    /// that the kernel has not taken.
    fn give_up(&mut self, by: &mut impl Boundary, now: Nanos, id: PortId, backlog: Backlog) -> Option<Port> {
        let (switch, store) = (&mut self.switch, &mut self.store);
        let at = self.ports.iter().position(|(port, _)| *port == id)?;
        let port = &mut self.ports[at].1;
        if matches!(backlog, Backlog::Kept { .. }) {
            port.stop_data(); // under load the rings would never be empty
        }
        port.link_lost();
        let mut batch = by.batch(switch, now);
        port.reap(store, |store, frame| by.release(&mut batch, id, frame, store));
        drop(batch);
        let is_done = match backlog {
            Backlog::Sent => switch.is_drained(id),
            Backlog::Kept { even_unsent } => even_unsent || !port.is_unsent(),
        };
        if !(port.is_gone() || port.is_at_rest() && is_done) {
            return None;
        }
        let mut batch = by.batch(switch, now);
        let mut left = port.chunks_out(); // a device that is there goes on
        while left > 0 {
            match port.receive(store, BATCH, |store, frame| by.receive(&mut batch, id, frame, store)) {
                0 => break,
                taken => left = left.saturating_sub(taken),
            }
        }
        port.leave(store, |store, frame| by.give_up(&mut batch, id, frame, store));
        self.has_other_ports = true;
        Some(self.ports.remove(at).1)
    }

    fn hand_out(&mut self) {
        for GivenUp { port, done } in self.given_up.drain(..) {
            let _ = done.send(Some(port)); // dropped here where nobody closes it
        }
    }

    fn show(&self) {
        self.switch.show_addresses();
        let missing = self.switch.ledger().missing().unsigned_abs();
        self.facts.frames_missing.set(u64::try_from(missing).unwrap_or(u64::MAX));
        let receiving: u32 = self.ports.iter().map(|(_, port)| port.chunks_out()).sum();
        let free = self.store.free_chunks() + self.store.free_control_chunks() + receiving;
        self.facts.chunks_free.set(free.into());
    }

    /// Says XON for every class that is held, lifts the rates that were asked for, and waits until the kernel
    /// has taken the frames.
    fn let_peers_go(&mut self, by: &mut impl Boundary) {
        let begin = clock::now();
        let mut batch = by.batch(&mut self.switch, begin);
        by.let_peers_go(&mut batch);
        drop(batch);
        while self.peers_wait(by) && clock::now().since(begin) < LAST_WAIT {
            thread::yield_now();
        }
    }

    /// Sends the frames with pauses and rates that are due, and no data any more. True while one is not with the peer.
    fn peers_wait(&mut self, by: &mut impl Boundary) -> bool {
        let now = clock::now();
        let mut waiting = false;
        // All are told before anything else is done: a policy that panics at what has left stops nobody's XON.
        for (id, port) in &mut self.ports {
            tell(by, now, (*id, port), &mut self.switch, &mut self.store);
        }
        for (id, port) in &mut self.ports {
            let (switch, store) = (&mut self.switch, &mut self.store);
            let mut batch = by.batch(switch, now);
            port.reap(store, |store, frame| by.release(&mut batch, *id, frame, store));
            drop(batch);
            waiting |= switch.untold().contains(*id) || port.in_flight();
        }
        waiting
    }
}

/// Tells the peer of a port what it is held to, where it does not know, and nothing else.
fn tell(
    by: &mut impl Boundary,
    now: Nanos,
    (id, port): (PortId, &mut Port),
    switch: &mut Switch,
    store: &mut Store,
) {
    let mut batch = by.batch(switch, now);
    while port.control_room() > 0
        && let Some(frame) = by.announce(&mut batch, id, store)
    {
        port.send(store, frame).expect("a port with room takes a frame");
    }
    port.flush();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
