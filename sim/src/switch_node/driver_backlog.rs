//! Switch whose driver is impaired. Events wait until the driver polls; then it repeats its loop ([`Driver`]) until no
//! event is left.
//!
//! * [Stall](SwitchNode::stall): all events wait; a line finishes only the frame that it is sending.
//! * [Wakeup delay](SwitchNode::wake_after): an idle driver first stalls for the delay.
//! * [Blocked](SwitchNode::refuse) line, or [delayed](SwitchNode::complete_late) completions: all other events are
//!   processed at once.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_dataplane::driver::{Boundary, Direct, Driver, Environment};
use xoff_dataplane::frame::{Frame, FrameStore as _};
use xoff_dataplane::routing::Fib;
use xoff_dataplane::switch::{Batch, Revision, Workers};
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Nanos, PortId, PortSet};

use super::SwitchNode;
use super::port_rings::{FrameParts, PortRings};
use crate::impairments::Impairments;
use crate::node::Net;
use crate::pool::Packet;
use crate::seed::{Purpose, Seed};
use crate::slots::View;
use crate::stalls::{StallTimes, Stalls};
use crate::time::Picos;

/// Counts of driver stalls and restarts, and of frames lost because of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ImpairmentCounts {
    pub stalls: u64,
    pub stalled: Nanos,
    pub longest: Nanos,
    /// Arrived frames lost because the slots or the receive ring were full.
    pub receive_drops: u64,
    pub restarts: u64,
    /// Frames lost in restarts.
    pub lost_in_restarts: u64,
}

#[derive(Debug)]
pub(crate) struct DriverBacklog {
    impairments: Impairments,
    stalls: Vec<StallTimes>,
    rings: Arc<[u32]>,
    ports: Vec<(PortId, PortRings)>,
    requests: VecDeque<Request>,
    wake: Nanos,
    was_away: bool,
    pub(crate) begins: Nanos,
    pub(crate) parting: Vec<(PortId, Packet)>,
    pub(crate) orphans: PortSet,
}

#[derive(Debug)]
pub(crate) enum Request {
    Link(PortId, bool),
    Revise(Box<SwitchSettings>),
    Route(Arc<Fib>),
    Restart(Box<SwitchSettings>, Nanos),
}

impl Request {
    pub(super) fn perform(self, batch: &mut Batch<'_>, view: &mut View<'_>, fib: &mut Option<Arc<Fib>>) {
        match self {
            Request::Link(port, is_up) => batch.set_link(port, is_up, view),
            Request::Revise(settings) => {
                let workers = Workers::single(settings.ports.len());
                drop(batch.revise(Box::new(Revision::new(*settings, &workers, view.capacity()))));
            }
            Request::Route(routes) => {
                *fib = Some(Arc::clone(&routes));
                drop(batch.set_fib(routes));
            }
            Request::Restart(..) => (),
        }
    }
}

impl DriverBacklog {
    fn new(ports: usize, rings: &Arc<[u32]>) -> DriverBacklog {
        DriverBacklog {
            impairments: Impairments::default(),
            stalls: Vec::new(),
            rings: Arc::clone(rings),
            ports: (0..=u8::MAX).map(PortId).take(ports).map(|port| (port, PortRings::default())).collect(),
            requests: VecDeque::new(),
            wake: Nanos::ZERO,
            was_away: false,
            begins: Nanos::ZERO,
            parting: Vec::new(),
            orphans: PortSet::NONE,
        }
    }

    fn stall(&mut self, now: Nanos, until: Nanos) -> Nanos {
        let begin = self.impairments.not_before(now);
        self.impairments.stall(until);
        self.was_away = true;
        begin
    }

    pub(crate) fn holds(&self) -> i64 {
        let at = |(_, port): &(PortId, PortRings)| port.arrived.len() as i64 - port.left.len() as i64;
        self.parting.len() as i64 + self.ports.iter().map(at).sum::<i64>()
    }

    fn port(&mut self, port: PortId) -> &mut PortRings {
        &mut self.ports[port.index()].1
    }

    pub(super) fn take_left(&mut self) -> impl Iterator<Item = (PortId, FrameParts)> {
        self.ports.iter_mut().flat_map(|(port, at)| at.left.drain(..).map(|parts| (*port, parts)))
    }

    pub(crate) fn forget(&mut self) {
        for (_, port) in &mut self.ports {
            port.arrived.clear();
            port.left.clear();
        }
    }

    fn has_reaped_all(&self) -> bool {
        self.ports.iter().all(|(_, port)| port.left.is_empty())
    }

    fn is_over(&self, now: Nanos) -> bool {
        let stalls_on = self.stalls.iter().any(|stalls| stalls.next() < Nanos::NEVER);
        let is_whole = self.begins <= now && self.parting.is_empty() && self.orphans.is_empty();
        self.requests.is_empty()
            && self.wake == Nanos::ZERO
            && self.impairments.is_well(now)
            && !stalls_on
            && is_whole
            && self.has_reaped_all()
    }
}

struct Requests<'a> {
    requests: &'a mut VecDeque<Request>,
    fib: &'a mut Option<Arc<Fib>>,
}

impl Environment<PortRings, View<'_>> for Requests<'_> {
    fn serve<B: Boundary>(&mut self, driver: &mut Driver<'_, PortRings, View<'_>, B>) -> bool {
        let restart = self.requests.iter().position(|request| matches!(request, Request::Restart(..)));
        let before = restart.unwrap_or(self.requests.len());
        for request in self.requests.drain(..before) {
            request.perform(&mut driver.switch.batch(driver.now), driver.store, self.fib);
        }
        before > 0
    }
}

impl SwitchNode {
    /// Stalls the driver: it processes no event before `until`.
    pub fn stall(&mut self, until: Nanos, net: &mut Net) {
        let now = net.now().floor();
        let begin = self.impair(until, net).stall(now, until);
        self.note_stall(begin, until);
    }

    /// Blocks transmission at `port` until `until`; a frame on the line still leaves. Panics if the port does not
    /// exist.
    pub fn refuse(&mut self, port: PortId, until: Nanos, net: &mut Net) {
        assert!(port.index() < self.sending.len(), "the switch has no {port:?}");
        self.free.remove(port);
        self.impair(until, net).impairments.refuse(port, until);
    }

    /// Withholds completions of sent frames until `until`. Once uncompleted frames reach the limit `commit`, only pause
    /// frames leave.
    pub fn complete_late(&mut self, until: Nanos, net: &mut Net) {
        self.impair(until, net).impairments.complete_late(until);
    }

    /// Makes the driver stall at random times, in addition to other stalls.
    pub fn stall_at_random(&mut self, stalls: Stalls, seed: Seed, net: &mut Net) {
        let rng = fastrand::Rng::with_seed(seed.number(self.place.id(), Purpose::Stalls));
        let stall_times = StallTimes::new(stalls, net.now().floor(), rng);
        let next = stall_times.next();
        if next < Nanos::NEVER {
            self.impair(next, net).stalls.push(stall_times);
        }
    }

    /// Lets the driver sleep while idle. When an event wakes it, it starts after the delay `wake`.
    pub fn wake_after(&mut self, wake: Nanos, net: &mut Net) {
        let now = net.now().floor();
        self.impair(now, net).wake = wake;
    }

    /// Returns the counts of driver impairments.
    #[must_use]
    pub const fn impairment_counts(&self) -> ImpairmentCounts {
        self.impairment_counts
    }

    pub(crate) fn impair(&mut self, until: Nanos, net: &mut Net) -> &mut DriverBacklog {
        net.wake(self.place, Picos::from(until));
        self.backlog.get_or_insert_with(|| Box::new(DriverBacklog::new(self.sending.len(), &self.rings)))
    }

    fn note_stall(&mut self, begin: Nanos, until: Nanos) {
        self.impairment_counts.stalls += u64::from(begin < until);
        self.impairment_counts.stalled = self.impairment_counts.stalled.after(until.since(begin));
        self.impairment_counts.longest = self.impairment_counts.longest.max(until.since(begin));
    }

    #[cold]
    pub(crate) fn queue_arrival(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        let Some(backlog) = &mut self.backlog else { return };
        if net.now().floor() < backlog.begins {
            self.impairment_counts.lost_in_restarts += 1;
            return net.pool.free(packet);
        }
        let room = backlog.rings.get(port.index()).map_or(usize::MAX, |room| *room as usize);
        let waiting = &mut backlog.port(port).arrived;
        match (waiting.len() < room).then(|| self.slots.fill(packet)).flatten() {
            Some(frame) => {
                waiting.push_back(frame.into_parts());
                self.rouse(net);
            }
            None => {
                self.impairment_counts.receive_drops += 1;
                net.pool.free(packet);
            }
        }
        self.poll(net);
    }

    #[cold]
    pub(crate) fn queue_completion(&mut self, port: PortId, net: &mut Net) {
        let Some(backlog) = &mut self.backlog else { return };
        backlog.port(port).left.extend(self.sending[port.index()].take());
        backlog.orphans.remove(port);
        if !backlog.impairments.is_refused(net.now().floor(), port) {
            self.free.insert(port);
        }
        self.poll(net);
    }

    #[cold]
    pub(crate) fn queue_request(&mut self, request: Request, net: &mut Net) {
        let Some(backlog) = &mut self.backlog else { return };
        backlog.requests.push_back(request);
        self.rouse(net);
        self.poll(net);
    }

    #[cold]
    pub(crate) fn poll_due(&mut self, is_timer: bool, net: &mut Net) {
        if is_timer {
            self.rouse(net);
        }
        self.poll(net);
    }

    fn rouse(&mut self, net: &mut Net) {
        let now = net.now().floor();
        let Some(backlog) = &mut self.backlog else { return };
        let sleeps = backlog.wake > Nanos::ZERO && !backlog.impairments.will_look(now);
        if sleeps && self.sending.iter().all(Option::is_none) {
            let until = now.after(backlog.wake);
            backlog.impairments.stall(until);
            net.wake(self.place, Picos::from(until));
        }
    }

    fn turn(&mut self, backlog: &mut DriverBacklog, net: &mut Net) -> bool {
        let now = net.now().floor();
        let DriverBacklog { ports, requests, impairments, .. } = backlog;
        for (port, at) in ports.iter_mut() {
            (at.is_late, at.is_free) = (impairments.completes_late(now), self.free.contains(*port));
        }
        let SwitchNode { switch, slots, fib, .. } = self;
        let store = &mut View { pool: &mut net.pool, slots };
        let (mut requests, boundary) = (Requests { requests, fib }, &mut Direct);
        Driver { now, switch, ports, store, boundary }.turn(&mut requests);
        for (port, at) in ports.iter_mut() {
            if let Some((slot, len)) = at.starts.take() {
                self.start(*port, Frame::new(slot, len), net);
            }
        }
        ports.iter().any(|(_, at)| !at.arrived.is_empty())
    }

    #[cold]
    pub(crate) fn poll(&mut self, net: &mut Net) {
        let now = net.now().floor();
        let Some(mut backlog) = self.backlog.take() else { return };
        for at in 0..backlog.stalls.len() {
            let stalls = &mut backlog.stalls[at];
            let Some(until) = stalls.begin(now) else { continue };
            let next = stalls.next();
            let begin = backlog.stall(now, until);
            self.note_stall(begin, until);
            for time in [until, next].into_iter().filter(|time| *time < Nanos::NEVER) {
                net.wake(self.place, Picos::from(time));
            }
        }
        for port in backlog.impairments.take_healed(now).iter() {
            if self.sending[port.index()].is_none() && !backlog.orphans.contains(port) {
                self.free.insert(port);
            }
        }
        self.part(&mut backlog, net);
        if backlog.impairments.stalls(now) || now < backlog.begins {
            self.backlog = Some(backlog);
            return;
        }
        if std::mem::take(&mut backlog.was_away) {
            self.switch.was_away(now);
        }
        while self.turn(&mut backlog, net) {}
        self.follow_up(net);
        let restart = backlog.requests.pop_front();
        self.backlog = Some(backlog);
        if let Some(restart) = restart {
            self.perform(restart, net);
        }
        if self.backlog.as_ref().is_some_and(|backlog| backlog.is_over(now)) {
            self.backlog = None;
        }
    }
}
