//! Sets of ports with pending work, so that checks cost the same for any number of ports.

use xoff_wire::units::{Nanos, PortId, PortSet};

#[derive(Debug, Default)]
pub(super) struct ReadySets {
    pub(super) ingress_ready: PortSet,
    next_ingress: PortId,
    pub(super) egress_active: PortSet,
    pub(super) announcements_due: PortSet,
    pub(super) starved: PortSet,
    pub(super) unresolved: PortSet,
    pub(super) resolve_at: Nanos,
    pub(super) timed: PortSet,
    pub(super) next_timer: Nanos,
}

impl ReadySets {
    #[inline]
    pub(super) fn in_turn(&self) -> Option<PortId> {
        self.ingress_ready.next_from(self.next_ingress)
    }

    #[inline]
    pub(super) fn take_turn(&mut self) -> Option<PortId> {
        let port = self.in_turn()?;
        self.next_ingress = PortId(port.0.wrapping_add(1));
        Some(port)
    }

    #[inline]
    pub(super) fn schedule(&mut self, port: PortId, deadline: Nanos) {
        self.timed.insert(port);
        self.schedule_by(deadline);
    }

    #[inline]
    pub(super) fn schedule_by(&mut self, deadline: Nanos) {
        self.next_timer = self.next_timer.min(deadline);
    }
}
