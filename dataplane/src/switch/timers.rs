//! What happens by time alone, by the link, or at the end: refreshes, expiries, ageing, flaps, stop.

use super::Switch;
use crate::drop_reason::DropReason;
use crate::frame::FrameStore;
use crate::units::{Class, ClassSet, Nanos, PortId};

impl Switch {
    /// Fires everything that is due at `now`: refreshes of held pauses, ends of obeyed ones, the
    /// watchdog, ageing. Costs a comparison while nothing is due.
    #[inline]
    pub fn advance<S: FrameStore>(&mut self, now: Nanos, store: &mut S) {
        if now >= self.next_timer {
            self.fire(now, store);
        }
    }

    #[cold]
    fn fire<S: FrameStore>(&mut self, now: Nanos, store: &mut S) {
        self.bridge.advance(now);
        let mut next = self.bridge.next_deadline();
        for port in self.timed.iter() {
            let at = &mut self.ports[port.index()];
            at.held.advance(now);
            at.asked_rates.advance(now);
            if at.has_news() {
                self.egress_active.insert(port);
            }
            self.expire_pauses(now, port);
            let of_flows = self.fire_flows(now, port);
            self.look_for_storms(now, port, store);
            let at = &self.ports[port.index()];
            let pauses = at.held.next_refresh().min(at.obeyed.next_expiry());
            let rates = at.asked_rates.next_refresh().min(at.obeyed_rates.next_expiry());
            let deadline = pauses.min(rates).min(of_flows).min(at.watchdog.next_look());
            if deadline == Nanos::NEVER {
                self.timed.remove(port);
            }
            next = next.min(deadline);
        }
        self.next_timer = next;
    }

    /// When the driver must call [`Switch::advance`] or [`Switch::transmit`] again even if no frame
    /// comes and none is released. Zero: at once. [`Nanos::NEVER`]: not by time.
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let mut next = self.next_timer;
        for port in self.egress_active.iter() {
            let at = &self.ports[port.index()];
            if at.announces() && !self.starved.contains(port) {
                return Nanos::ZERO;
            }
            let eligible = ClassSet(at.backlogged.0 & !at.obeyed.stopped().0);
            if eligible.is_empty() || at.is_fully_committed() {
                continue; // a timer above, or a release, comes first
            }
            let in_rate = |class: Class| {
                at.class_rates[class.index()].as_ref().map_or(Nanos::ZERO, |rate| rate.ready_at())
            };
            let soonest = eligible.iter().map(in_rate).min().unwrap_or(Nanos::ZERO);
            next = next.min(soonest.max(at.line.ready_at()));
        }
        next
    }

    #[inline]
    pub(super) fn expire_pauses(&mut self, now: Nanos, port: PortId) {
        let obeyed = &mut self.ports[port.index()].obeyed;
        if now >= obeyed.next_expiry() {
            let resumed = obeyed.expire(now);
            self.note_resumed(port, &resumed);
        }
        if now >= self.ports[port.index()].obeyed_rates.next_expiry() {
            self.expire_rates(now, port);
        }
        if now >= self.ports[port.index()].flows_expire {
            self.expire_flows(now, port);
        }
    }

    /// The link of `port` came up or went down. A port without link forgets what it had learned and
    /// what its peer had asked, and drops what was queued; when it comes up again, pauses that still
    /// hold are announced anew.
    pub fn set_link<S: FrameStore>(&mut self, now: Nanos, port: PortId, up: bool, store: &mut S) {
        self.bridge.set_link(port, up);
        if self.ports[port.index()].up == up || !self.workers.owns(port) {
            return;
        }
        self.forget_storms(now, port);
        let at = &mut self.ports[port.index()];
        at.up = up;
        at.closed = if up { ClassSet::NONE } else { ClassSet::ALL };
        if up {
            self.egress_active.insert(port);
            return;
        }
        let told = at.held.forget_told();
        if at.committed_frames > 0 {
            // What is with the driver may leave when the link is back, and say what does not hold by then.
            told.iter().for_each(|class| at.held.suspect(class));
        }
        Class::ALL.into_iter().for_each(|class| self.forget_told_flows(port, class));
        let at = &mut self.ports[port.index()];
        let paused = at.obeyed.paused();
        let resumed = at.obeyed.receive(now, paused, &Default::default());
        self.note_resumed(port, &resumed);
        self.forget_rates(now, port);
        self.forget_notices(port, store);
        for class in Class::ALL {
            self.resume_flows(port, class);
            self.drop_queued(now, port, class, DropReason::LinkDown, store);
        }
    }

    /// Drops all that waits at (`port`, `class`).
    pub(super) fn drop_queued<S: FrameStore>(
        &mut self,
        now: Nanos,
        port: PortId,
        class: Class,
        reason: DropReason,
        store: &mut S,
    ) {
        while let Some(frame) = self.dequeue(port, class).or_else(|| self.dequeue_held(port, class)) {
            let meta = *self.nodes.meta(&frame);
            self.leave_egress(now, port, &meta);
            self.drop_admitted(now, port, reason, frame, store);
        }
        self.room_at(now, port, class, store);
    }

    /// Lets every peer go that this worker holds: the XONs are due at once. Before a stop.
    pub fn release_peers(&mut self, now: Nanos) {
        let count = self.ports.len();
        let ports = (0..=u8::MAX).map(PortId).take(count);
        for port in ports {
            if !self.workers.owns(port) {
                continue;
            }
            let held = self.ports[port.index()].held.classes();
            for class in held.iter() {
                if let Some(held_for) = self.ports[port.index()].held.xon(now, class) {
                    self.counters.class(port, class).end_pausing(held_for);
                }
            }
            self.let_flows_go(port);
            self.lift_rates(port);
            self.egress_active.insert(port);
        }
    }
}
