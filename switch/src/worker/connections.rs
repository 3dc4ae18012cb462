//! Connections of a worker to other threads: frames handed over, requests of the control thread, the host path.

use std::sync::Arc;

use tokio::sync::oneshot;
use xoff_dataplane::driver::{self, Boundary, Driver, Environment, Port as _, Progress};
use xoff_dataplane::forward::FdbEntry;
use xoff_dataplane::switch::Switch;
use xoff_dataplane::units::{Nanos, PortId};
use xoff_xdp::{Port, Store};

use super::show;
use crate::control::WorkerFacts;
use crate::control::mailbox::{Address, Backlog, Inbox, Request};
use crate::handoff::Handoff;
use crate::host_path::ends::{Given, WorkerEnd};
use xoff_xdp::clock;

/// Most frames that are taken from the host path in one turn.
const TELLS_MAX: u32 = 32;

/// A worker's ends of what leads to other threads.
#[derive(Debug)]
pub struct Connections {
    /// Its end of the exchange.
    pub handoff: Handoff,
    /// Its end of the host path.
    pub host: WorkerEnd,
    /// Messages from the control thread.
    pub inbox: Inbox,
    /// What it shows.
    pub facts: Arc<WorkerFacts>,
    /// The shortest time in which the line of one of its ports carries what is committed: then there is room again.
    pub commit_time: Nanos,
    /// Its ports are others than when it last looked for what wakes it.
    pub has_other_ports: bool,
    /// Ports that it has given up, each to be given to who asked when nothing that wakes it holds their sockets any more.
    pub given_up: Vec<GivenUp>,
    /// When the turn before this one began.
    pub previous_turn: Nanos,
    /// Requests to be tried again in the next turn, when frames may have left.
    retries: Vec<Request>,
}

/// Why a port is not given up yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Its device is there, and something is to be sent.
    Sending,
    /// Buffer memory for what it has received is missing until frames have left.
    NoMemory,
}

/// A port without a worker, and who asked for it.
#[derive(Debug)]
pub struct GivenUp {
    port: Box<Port>,
    done: oneshot::Sender<Option<Box<Port>>>,
}

impl Environment<Port, Store> for Connections {
    fn exchange(&mut self, now: Nanos, switch: &mut Switch, store: &mut Store) -> Progress {
        self.handoff.exchange(now, switch, store)
    }

    fn serve<B: Boundary>(&mut self, driver: &mut Driver<'_, Port, Store, B>) -> bool {
        for request in std::mem::take(&mut self.retries) {
            self.answer(driver, request);
        }
        let mut any = !self.retries.is_empty();
        while let Some(request) = self.inbox.take() {
            self.answer(driver, request);
            any = true;
        }
        any | self.take_from_host(driver)
    }

    fn pause_obeyed(&mut self) {
        // The pause frame came after the last look; nothing of its class has been handed over since
        // that look's transmit.
        self.facts.obey_reaction.record(clock::now().since(self.previous_turn).0);
    }

    fn stop_told(&mut self, now: Nanos) {
        self.facts.pause_reaction.record(clock::now().since(now).0);
    }
}

impl Connections {
    /// The ends of a worker that begins.
    #[must_use]
    pub fn new(
        handoff: Handoff,
        host: WorkerEnd,
        inbox: Inbox,
        facts: Arc<WorkerFacts>,
        commit_time: Nanos,
    ) -> Connections {
        Connections {
            handoff,
            host,
            inbox,
            facts,
            commit_time,
            has_other_ports: false,
            given_up: Vec::new(),
            previous_turn: Nanos::ZERO,
            retries: Vec::new(),
        }
    }

    /// Takes what the host path has for peers, or sends. True where there was something.
    fn take_from_host<B: Boundary>(&mut self, driver: &mut Driver<'_, Port, Store, B>) -> bool {
        let Driver { now, switch, store, boundary: by, .. } = driver;
        let mut left = TELLS_MAX;
        while left > 0
            && let Some(given) = self.host.next_given()
        {
            let mut batch = by.batch(switch, *now);
            match given {
                Given::Tell(port, bytes) => {
                    let is_told = by.tell(&mut batch, port, bytes, *store);
                    self.host.count(port, is_told);
                }
                Given::Frame(site, port, bytes) => {
                    by.send_of_host(&mut batch, (site, port), bytes, *store);
                }
            }
            left -= 1;
        }
        left < TELLS_MAX
    }

    #[cold]
    fn answer<B: Boundary>(&mut self, driver: &mut Driver<'_, Port, Store, B>, request: Request) {
        let Driver { now, switch, ports, store, boundary: by } = driver;
        let mut batch = by.batch(switch, *now);
        match request {
            Request::SetPolicy { successor, done } => {
                let _ = done.send(by.set_policy(&mut batch, successor)); // who asked may have given up
            }
            Request::Revise { revision, commit_time, done } => {
                self.commit_time = commit_time;
                let _ = done.send(by.revise(&mut batch, revision)); // who asked may have given up
            }
            Request::SetFib { fib, done } => {
                let _ = done.send(by.set_fib(&mut batch, fib)); // who asked may have given up
            }
            Request::PutTap { id, tap, done } => {
                let _ = done.send(batch.put_tap(id, tap)); // who asked takes it off in any case
            }
            Request::TakeTap { id, done } => {
                let _ = done.send(batch.take_tap(id)); // who asked may have given up
            }
            Request::Link { port, up } => {
                by.set_link(&mut batch, port, up, *store);
                let own = ports.iter_mut().filter(|(id, _)| *id == port && !up);
                own.for_each(|(_, port)| port.link_lost());
            }
            Request::GiveUp { port, backlog, done } => {
                drop(batch);
                if ports.iter().any(|(id, _)| *id == port) {
                    match self.give_up(driver, port, backlog) {
                        Ok(port) => self.given_up.push(GivenUp { port: Box::new(port), done }),
                        Err(Kept::Sending) => drop(done.send(None)), // who asked asks again
                        Err(Kept::NoMemory) => self.retries.push(Request::GiveUp { port, backlog, done }),
                    }
                }
            }
            Request::Adopt { port: id, mut opened, done } => {
                debug_assert!(ports.iter().all(|(other, _)| *other != id), "the port before was given up");
                opened.begin(id, store);
                by.set_mac(&mut batch, id, opened.facts().mac);
                let at = ports.partition_point(|(other, _)| *other < id);
                ports.insert(at, (id, *opened));
                self.has_other_ports = true;
                let _ = done.send(()); // who asked may have given up
            }
            Request::Ledger(answer) => {
                drop(batch);
                show(&self.facts, switch, store);
                let _ = answer.send(switch.ledger()); // who asked may have given up
            }
            Request::Addresses(request) => {
                drop(batch);
                let fdb = switch.bridge().fdb();
                let address = |entry: FdbEntry| {
                    let FdbEntry { vid, mac, port, age } = entry;
                    Address { vid, mac, port, fixed: age.is_none() }
                };
                request.answer(fdb.places(), |places| fdb.entries_at(clock::now(), places).map(address));
            }
        }
    }

    /// Removes and returns the port once the kernel has nothing of it to send. Forwards received frames; drops frames that the kernel has
    /// not taken.
    fn give_up<B: Boundary>(
        &mut self,
        driver: &mut Driver<'_, Port, Store, B>,
        id: PortId,
        backlog: Backlog,
    ) -> Result<Port, Kept> {
        let Driver { now, switch, ports, store, boundary: by } = driver;
        let at = ports.iter().position(|(port, _)| *port == id).ok_or(Kept::Sending)?;
        let port = &mut ports[at].1;
        if matches!(backlog, Backlog::Kept { .. }) {
            port.stop_data(); // under load the rings would never be empty
        }
        port.link_lost();
        let mut batch = by.batch(switch, *now);
        driver::reap(*by, &mut batch, &mut ports[at], *store);
        drop(batch);
        let port = &mut ports[at].1;
        let is_done = match backlog {
            Backlog::Sent => switch.is_drained(id),
            Backlog::Kept { even_unsent } => even_unsent || !port.is_unsent(),
        };
        if !(port.is_gone() || port.is_at_rest() && is_done) {
            return Err(Kept::Sending);
        }
        let mut batch = by.batch(switch, *now);
        let mut left = port.chunks_out(); // a device that is there goes on
        while left > 0 {
            match driver::receive(*by, &mut batch, &mut ports[at], *store) {
                0 if ports[at].1.is_received() => break,
                0 => return Err(Kept::NoMemory),
                taken => left = left.saturating_sub(taken),
            }
            by.forward_all(&mut batch, *store); // no more of them waits than its queues allow
        }
        if !ports[at].1.can_leave(store) {
            return Err(Kept::NoMemory);
        }
        ports[at].1.leave(store, |store, frame| by.give_up(&mut batch, id, frame, store));
        self.has_other_ports = true;
        Ok(ports.remove(at).1)
    }

    /// Gives ports that were given up to those who asked for them.
    pub(super) fn hand_out(&mut self) {
        for GivenUp { port, done } in self.given_up.drain(..) {
            let _ = done.send(Some(port)); // dropped here where nobody closes it
        }
    }
}
