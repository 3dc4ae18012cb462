//! Timers (refresh and expiry of pauses, ageing), link changes and shutdown.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::pause::Standstill;
use xoff_wire::units::{Class, ClassSet, Nanos, PortId};

use super::Switch;
use crate::frame::FrameStore;

impl Switch {
    #[cold]
    pub(super) fn fire<S: FrameStore>(&mut self, store: &mut S) {
        self.end_run();
        self.bridge.advance(self.now);
        let mut next = self.bridge.next_deadline().min(self.look_for_neighbours());
        for port in self.ready.timed.iter() {
            let at = &mut self.ports[port.index()];
            at.peer.held.advance(self.now);
            at.peer.requested_rates.advance(self.now);
            self.note_announcements(port);
            self.look_for_standstill(port, store);
            self.expire_pauses(port);
            let of_flows = self.fire_flows(port);
            self.look_for_storms(port, store);
            let deadline = self.ports[port.index()].peer.next_deadline().min(of_flows);
            if deadline == Nanos::NEVER {
                self.ready.timed.remove(port);
            }
            next = next.min(deadline);
        }
        self.ready.next_timer = next;
    }

    /// Returns when the driver must run a batch even without frames. Zero means at once, [`Nanos::NEVER`] means never.
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let next_move = self.pipeline.next_move(!self.ready.ingress_ready.is_empty());
        if next_move <= self.now {
            return Nanos::ZERO;
        }
        let mut next = self.ready.next_timer.min(next_move);
        for port in self.ready.egress_active.iter() {
            let at = &self.ports[port.index()];
            if at.announces() && !self.ready.starved.contains(port) {
                return Nanos::ZERO;
            }
            if let Some(ready_at) = at.egress.ready_at(at.eligible()) {
                next = next.min(ready_at); // otherwise a timer above, or a release, comes first
            }
        }
        next
    }

    /// Returns the next deadline that does not depend on queued frames. Takes the same time for any number of ports.
    /// Drivers may call it instead of [`Switch::next_deadline`] if they [transmit](super::Batch::transmit) at the
    /// [active](Switch::egress_active) ports after every event.
    #[inline]
    #[must_use]
    pub fn next_timer(&self) -> Nanos {
        self.ready.next_timer.min(self.pipeline.next_move(!self.ready.ingress_ready.is_empty()))
    }

    /// Returns when rate limits let the next frame of `port` leave; `None` if the frame waits for another reason.
    #[must_use]
    pub fn ready_at(&self, port: PortId) -> Option<Nanos> {
        let at = &self.ports[port.index()];
        at.egress.ready_at(at.eligible())
    }

    /// Returns whether the release of a sent frame may let another frame move.
    #[must_use]
    pub fn waits_for_releases(&self) -> bool {
        let ready = &self.ready;
        let waits = [ready.egress_active, ready.starved, ready.timed];
        self.workers.count() > 1
            || !self.policies.shadows.is_empty()
            || self.pipeline.is_halted()
            || waits.iter().any(|ports| !ports.is_empty())
    }

    #[inline]
    pub(super) fn expire_pauses(&mut self, port: PortId) {
        if self.now >= self.ports[port.index()].peer.next_expiry() {
            self.expire(port);
        }
    }

    #[cold]
    fn expire(&mut self, port: PortId) {
        let peer = &mut self.ports[port.index()].peer;
        let (resumed, over) = (peer.paused.expire(self.now), peer.kept_rates.expire(self.now));
        self.note_resumed(port, &resumed);
        self.keep_rates(port, over);
        Class::ALL.into_iter().for_each(|class| self.expire_flows(self.now, port, class));
    }

    pub(super) fn set_link<S: FrameStore>(&mut self, port: PortId, up: bool, store: &mut S) {
        self.end_run();
        self.bridge.set_link(port, up);
        let changes = self.ports[port.index()].up != up && self.workers.owns(port);
        if up {
            if changes {
                let at = &mut self.ports[port.index()];
                (at.up, at.egress.closed) = (true, ClassSet::NONE);
                self.ready.egress_active.insert(port);
                self.note_announcements(port);
            }
            return self.pipeline.try_again(self.now);
        }
        if !changes {
            return;
        }
        self.forget_storms(port);
        let at = &mut self.ports[port.index()];
        (at.up, at.egress.closed) = (false, ClassSet::ALL);
        self.ready.announcements_due.remove(port);
        let announced = at.peer.held.forget_announced();
        at.peer.response.forget_xoffs();
        if at.egress.committed_frames > 0 {
            // Remember the announced pauses: the driver may still send their frames once the link is back, and the peer then needs
            // an XON.
            announced.iter().for_each(|class| at.peer.held.suspect(class));
        }
        let paused = at.peer.paused.classes();
        let resumed = at.peer.paused.receive(self.now, paused, &Default::default());
        self.note_resumed(port, &resumed);
        *self.ports[port.index()].peer.standstill = Standstill::NONE;
        self.forget_rates(port);
        self.drop_injected(port, store);
        for class in Class::ALL {
            self.forget_flow_pauses(port, class);
            self.resume_flows(port, class);
            self.drop_queued(port, class, DropReason::LinkDown, |_| true, store);
        }
        self.pipeline.try_again(self.now);
    }

    pub(super) fn release_peers(&mut self) {
        for port in self.workers.own().iter() {
            let held = self.ports[port.index()].peer.held.classes();
            held.iter().for_each(|class| self.release_class(port, class));
            self.release_flows(port);
            self.lift_rates(port);
            self.note_announcements(port);
        }
    }
}
