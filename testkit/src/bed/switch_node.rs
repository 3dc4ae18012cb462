//! Switch of the test bed, which runs twice with the same input: with large batches and with single frames. After each poll, both runs must
//! agree ([`twin`](super::twin)). Other nodes receive the frames of the first run.

use std::sync::Arc;

use xoff_dataplane::switch::{PolicySwap, Switch};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_sim::Impairments;
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use super::batches::Batches;
use super::breaches::{Breaches, Promise};
use super::plan::SwitchPlan;
use super::twin::Twin;
use super::watch::{self, Watch};

/// Switch of a test bed.
#[derive(Debug)]
#[allow(missing_docs)] // the names say it
pub struct SwitchNode {
    /// Counters of the run with large batches.
    pub counters: Arc<Counters>,
    pub settings: SwitchSettings,
    pub(super) before: Vec<SwitchSettings>,
    pub(super) watches: Vec<Watch>,
    pub(super) may_lose: bool,
    pub(super) may_lapse: bool,
    pub(super) stopping: bool,
    pub(super) large: Twin,
    of_one: Option<Twin>,
    gap: Nanos,
    pub(super) impairments: Impairments,
}

impl SwitchNode {
    pub(super) fn new(plan: SwitchPlan, seed: u64) -> SwitchNode {
        let is_by_flow = |class: &Class| plan.settings.policies[class.index()] == PolicyKind::Ofc;
        let by_flow = Class::ALL.into_iter().filter(is_by_flow).collect();
        let [large, of_one] = [Batches::Large, Batches::OfOne].map(|batches| Twin::new(&plan, seed, batches));
        SwitchNode {
            watches: plan.settings.ports.iter().map(|port| Watch::new(port, by_flow)).collect(),
            counters: Arc::clone(&large.counters),
            settings: plan.settings,
            before: Vec::new(),
            may_lose: plan.may_lose,
            may_lapse: plan.may_lapse,
            stopping: false,
            large,
            of_one: Some(of_one),
            gap: plan.gap,
            impairments: Impairments::default(),
        }
    }

    pub(super) fn go_alone(&mut self) {
        self.of_one = None;
    }

    /// Returns the worker that owns a port.
    pub fn worker(&self, port: PortId) -> &Switch {
        self.large.worker(port)
    }

    /// Returns the number of frames lost because no slot was free (as with an empty fill ring).
    pub fn unreceived_frames(&self) -> u64 {
        self.large.unreceived_frames()
    }

    /// Returns all ports.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..=u8::MAX).map(PortId).take(self.settings.ports.len())
    }

    pub(super) fn arrived(&mut self, port: PortId, bytes: &[u8]) {
        if !self.stopping {
            self.twins().for_each(|twin| twin.arrived(port, bytes.to_vec()));
        }
    }

    pub(super) fn left(&mut self, now: Nanos, port: PortId, breaches: &mut Breaches) {
        let bytes = self.large.ring(port).next().expect("a frame must be on the wire");
        self.watches[port.index()].left(now, bytes, breaches);
        let is_late = self.impairments.completes_late(now);
        self.twins().for_each(|twin| twin.left(port, is_late));
    }

    pub(super) fn next_frame(&self, now: Nanos, port: PortId) -> Option<Vec<u8>> {
        if self.impairments.is_refused(now, port) {
            return None;
        }
        self.large.ring(port).next().map(<[u8]>::to_vec)
    }

    pub(super) fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        self.twins().for_each(|twin| twin.set_link(now, port, up));
        self.watches[port.index()].set_link(up);
    }

    pub(super) fn release_peers(&mut self, now: Nanos) {
        self.stopping = true;
        self.twins().for_each(Twin::forget_arrivals);
        let workers = self.twins().flat_map(|twin| &mut twin.workers);
        workers.for_each(|worker| worker.batch(now).release_peers());
    }

    pub(super) fn set_policy(&mut self, now: Nanos, class: Class, kind: PolicyKind) {
        let settings = self.settings.clone();
        for worker in self.twins().flat_map(|twin| &mut twin.workers) {
            let swap = Box::new(PolicySwap::new(kind, class, &settings));
            drop(worker.batch(now).set_policy(swap));
        }
        self.watches.iter_mut().for_each(|watch| watch.set_by_flow(class, kind == PolicyKind::Ofc));
    }

    pub(super) fn revise(&mut self, now: Nanos, settings: SwitchSettings) {
        self.twins().for_each(|twin| twin.revise(now, &settings));
        for (watch, port) in self.watches.iter_mut().zip(&settings.ports) {
            watch.revise(now, port);
        }
        for class in Class::ALL {
            let is_by_flow = settings.policies[class.index()] == PolicyKind::Ofc;
            self.watches.iter_mut().for_each(|watch| watch.set_by_flow(class, is_by_flow));
        }
        self.before.push(std::mem::replace(&mut self.settings, settings));
    }

    pub(super) fn looks_at(&self, now: Nanos) -> bool {
        !self.impairments.stalls(now) && self.next_turn(now) == now
    }

    pub(super) fn next_look(&self, now: Nanos) -> Nanos {
        let deadline = self.large.workers.iter().map(Switch::next_deadline).min().unwrap_or(Nanos::NEVER);
        let wanted = match (self.large.has_unseen(), self.stopping) {
            (true, _) => now,
            (false, false) => deadline,
            (false, true) => Nanos::NEVER,
        };
        let wanted = self.impairments.not_before(wanted);
        if wanted == Nanos::NEVER || self.gap == Nanos::ZERO {
            return wanted;
        }
        self.next_turn(wanted.max(now))
    }

    fn next_turn(&self, when: Nanos) -> Nanos {
        if self.gap == Nanos::ZERO { when } else { Nanos(when.0.div_ceil(self.gap.0) * self.gap.0) }
    }

    pub(super) fn look(&mut self, now: Nanos, breaches: &mut Breaches) {
        if !self.impairments.completes_late(now) {
            self.twins().for_each(Twin::hear);
        }
        for (port, bytes) in self.large.arrivals() {
            self.watches[port.index()].received(now, bytes);
        }
        let before: Vec<usize> = self.ports().map(|port| self.large.ring(port).count()).collect();
        let stopping = self.stopping;
        self.twins().for_each(|twin| if stopping { twin.part(now) } else { twin.look(now) });
        breaches.expect(self.large.is_in_order, Promise::Turns, || {
            "a driver's steps had another order than release, receive, forward, announce, transmit".into()
        });
        for (port, before) in self.ports().zip(before) {
            self.check_given_out(now, port, before, breaches);
        }
        self.batches_change_nothing(breaches);
    }

    /// Checks the frames given to the driver. Pause frames are always allowed; a data frame, which delays later pauses, only behind fewer
    /// than `commit` bytes.
    fn check_given_out(&mut self, now: Nanos, port: PortId, before: usize, breaches: &mut Breaches) {
        let mut ahead = 0;
        for (place, bytes) in self.large.ring(port).enumerate() {
            if place >= before {
                let may_join = ahead < self.settings.ports[port.index()].commit.0 || watch::is_pause(bytes);
                breaches.expect(may_join, Promise::PausesKept, || {
                    format!(
                        "{port:?}: the driver got a data frame behind {ahead} bytes; `commit` allows fewer"
                    )
                });
                self.watches[port.index()].transmitted(now, bytes, breaches);
            }
            ahead +=
                Bytes::on_line(u32::try_from(bytes.len()).expect("the frame length must fit in 32 bits")).0;
        }
    }

    fn batches_change_nothing(&mut self, breaches: &mut Breaches) {
        let difference = self.of_one.as_ref().and_then(|of_one| self.large.difference(of_one));
        if let Some(difference) = difference {
            breaches.expect(false, Promise::Batches, || difference);
            self.of_one = None;
        }
    }

    pub(super) fn batches_have_changed_nothing(&self, breaches: &mut Breaches) {
        let inside = self.of_one.as_ref().and_then(|of_one| self.large.difference_inside(of_one));
        breaches.expect(inside.is_none(), Promise::Batches, || inside.unwrap_or_default());
    }

    /// Returns the number of frames inside the switch.
    pub fn frames_held(&self) -> u64 {
        self.large.workers.iter().map(|worker| worker.ledger().held).sum()
    }

    fn twins(&mut self) -> impl Iterator<Item = &mut Twin> {
        [Some(&mut self.large), self.of_one.as_mut()].into_iter().flatten()
    }
}
