use std::sync::Arc;

use tokio::sync::oneshot;
use xoff_dataplane::driver::{self, Boundary, Driver, Environment, Port as _, Progress};
use xoff_dataplane::forward::FdbEntry;
use xoff_dataplane::switch::Switch;
use xoff_wire::units::{Nanos, PortId};
use xoff_xdp::{Port, Store};

use super::show;
use crate::control::WorkerFacts;
use crate::control::mailbox::{Address, Backlog, Inbox, Request};
use crate::handoff::Handoff;
use crate::host_path::ends::{HostFrame, WorkerEnd};
use xoff_xdp::clock;

const HOST_FRAMES_MAX: u32 = 32;

#[derive(Debug)]
pub struct Connections {
    pub handoff: Handoff,
    pub host: WorkerEnd,
    pub inbox: Inbox,
    pub facts: Arc<WorkerFacts>,
    pub commit_time: Nanos,
    pub has_other_ports: bool,
    pub given_up: Vec<GivenUp>,
    pub previous_turn: Nanos,
    retries: Vec<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Sending,
    NoMemory,
}

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
        // Record an upper bound: the pause frame arrived after the previous poll, and no frame of its class was sent since then.
        self.facts.obey_reaction.record(clock::now().since(self.previous_turn).0);
    }

    fn xoff_sent(&mut self, now: Nanos) {
        self.facts.pause_reaction.record(clock::now().since(now).0);
    }
}

impl Connections {
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

    fn take_from_host<B: Boundary>(&mut self, driver: &mut Driver<'_, Port, Store, B>) -> bool {
        let Driver { now, switch, store, boundary: by, .. } = driver;
        let mut left = HOST_FRAMES_MAX;
        while left > 0
            && let Some(given) = self.host.next_frame()
        {
            let mut batch = by.batch(switch, *now);
            match given {
                HostFrame::ToPeer(port, bytes) => {
                    let is_sent = by.inject(&mut batch, port, bytes, *store);
                    self.host.count(port, is_sent);
                }
                HostFrame::FromInterface(site, port, bytes) => {
                    by.send_of_host(&mut batch, (site, port), bytes, *store);
                }
            }
            left -= 1;
        }
        left < HOST_FRAMES_MAX
    }

    #[cold]
    fn answer<B: Boundary>(&mut self, driver: &mut Driver<'_, Port, Store, B>, request: Request) {
        let Driver { now, switch, ports, store, boundary: by } = driver;
        let mut batch = by.batch(switch, *now);
        match request {
            Request::SetPolicy { swap, done } => {
                let _ = done.send(by.set_policy(&mut batch, swap)); // fails without a requester, also below
            }
            Request::Revise { revision, commit_time, done } => {
                self.commit_time = commit_time;
                let _ = done.send(by.revise(&mut batch, revision));
            }
            Request::SetFib { fib, done } => {
                let _ = done.send(by.set_fib(&mut batch, fib));
            }
            Request::SetMulticast { table, done } => {
                let _ = done.send(by.set_multicast(&mut batch, table));
            }
            Request::PutTap { id, tap, done } => {
                let _ = done.send(batch.put_tap(id, tap)); // the requester removes the tap in any case
            }
            Request::TakeTap { id, done } => {
                let _ = done.send(batch.take_tap(id));
            }
            Request::Link { port, up } => {
                by.set_link(&mut batch, port, up, *store);
                let own = ports.iter_mut().filter(|(id, _)| *id == port && !up);
                own.for_each(|(_, port)| port.link_lost());
            }
            Request::Member { port, state } => by.set_member(&mut batch, port, state),
            Request::GiveUp { port, backlog, done } => {
                drop(batch);
                if ports.iter().any(|(id, _)| *id == port) {
                    match self.give_up(driver, port, backlog) {
                        Ok(port) => self.given_up.push(GivenUp { port: Box::new(port), done }),
                        Err(Kept::Sending) => drop(done.send(None)), // the requester repeats the request
                        Err(Kept::NoMemory) => self.retries.push(Request::GiveUp { port, backlog, done }),
                    }
                }
            }
            Request::Adopt { port: id, mut opened, done } => {
                debug_assert!(
                    ports.iter().all(|(other, _)| *other != id),
                    "a worker must not adopt a port that it already owns"
                );
                opened.begin(id, store);
                by.set_mac(&mut batch, id, opened.facts().mac);
                let at = ports.partition_point(|(other, _)| *other < id);
                ports.insert(at, (id, *opened));
                self.has_other_ports = true;
                let _ = done.send(());
            }
            Request::Ledger(answer) => {
                drop(batch);
                show(&self.facts, switch, store);
                let _ = answer.send(switch.ledger());
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

    /// Removes and returns the port, once the kernel has no more of its frames to send. Frames that the kernel has not taken are
    /// dropped.
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
            port.stop_data(); // under load the rings never empty
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
        if !(port.is_removed() || port.is_at_rest() && is_done) {
            return Err(Kept::Sending);
        }
        let mut batch = by.batch(switch, *now);
        // Receive until nothing is left. This ends even under traffic: the driver gets no new chunks for received frames.
        loop {
            let out = ports[at].1.chunks_out();
            driver::receive(*by, &mut batch, &mut ports[at], *store);
            if ports[at].1.chunks_out() == out {
                break;
            }
            by.forward_all(&mut batch, *store); // queues limit how many wait
        }
        if !ports[at].1.is_received() || !ports[at].1.can_leave(store) {
            ports[at].1.resume_data(); // frames that it sends make room
            return Err(Kept::NoMemory);
        }
        ports[at].1.leave(store, |store, frame| by.give_up(&mut batch, id, frame, store));
        self.has_other_ports = true;
        Ok(ports.remove(at).1)
    }

    pub(super) fn hand_out(&mut self) {
        for GivenUp { port, done } in self.given_up.drain(..) {
            let _ = done.send(Some(port)); // drops the port without a requester
        }
    }
}
