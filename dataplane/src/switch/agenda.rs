//! Which ports have something to do, and when: what a look at the whole switch costs does not grow with its ports.

use xoff_wire::units::{Nanos, PortId, PortSet};

/// Sets of ports, and the time at which some of them must be looked at.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Ports with frames that the pipeline can take.
    pub(super) ingress_ready: PortSet,
    next_ingress: PortId,
    /// Ports with frames to send that are not paused, or a control frame due.
    pub(super) egress_active: PortSet,
    /// Ports whose peers are to be told of a pause, of a rate, or of the end of one.
    pub(super) untold: PortSet,
    /// Ports whose control frame can be sent only after one that is in flight has left.
    pub(super) starved: PortSet,
    /// Ports where lossless frames wait for their neighbours.
    pub(super) unresolved: PortSet,
    /// When these are decided anew, if no other table comes before that.
    pub(super) resolve_at: Nanos,
    /// Ports where something happens by time alone.
    pub(super) timed: PortSet,
    pub(super) next_timer: Nanos,
}

impl Agenda {
    /// The port whose turn it is at the pipeline, round robin.
    #[inline]
    pub(super) fn in_turn(&self) -> Option<PortId> {
        self.ingress_ready.next_from(self.next_ingress)
    }

    /// The same, and it will be the next one's turn.
    #[inline]
    pub(super) fn take_turn(&mut self) -> Option<PortId> {
        let port = self.in_turn()?;
        self.next_ingress = PortId(port.0.wrapping_add(1));
        Some(port)
    }

    /// `port` is to be looked at by then.
    #[inline]
    pub(super) fn look_at(&mut self, port: PortId, deadline: Nanos) {
        self.timed.insert(port);
        self.look_by(deadline);
    }

    /// Something that belongs to no port is to be looked at by then.
    #[inline]
    pub(super) fn look_by(&mut self, deadline: Nanos) {
        self.next_timer = self.next_timer.min(deadline);
    }
}
