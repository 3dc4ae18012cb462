//! What is noted of peers, for people: what they still send of classes that they are held to, and how much of the headroom
//! that takes.

use xoff_flow_control::buffer::Load;
use xoff_flow_control::pause::{Answer, Fault};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use super::Switch;

impl Switch {
    /// The driver has not looked at its ports for longer than headroom was computed for, and does again now: what comes in
    /// late is its own fault for a while.
    pub fn was_away(&mut self, now: Nanos) {
        self.away = Some(now);
    }

    /// `load` has come in of a class that the peer is held to.
    #[cold]
    pub(super) fn note_response(&mut self, port: PortId, class: Class, load: Load) {
        let response = &mut self.ports[port.index()].peer.response;
        let Answer { came, after, fault } = response.came(self.now, class, load, self.away);
        let counters = self.counters.class(port, class);
        counters.after_xoff_max.raise(came.0);
        counters.response_max.raise(after.map_or(0, |after| after.0));
        match fault {
            Some(Fault::TooMuch) => counters.excess_frames.add(load.frames.into()),
            Some(Fault::TooLate) => counters.late_frames.add(load.frames.into()),
            None => {}
        }
    }

    /// Shows how much of its headroom a queue takes: more than before only where a frame has come in by itself.
    #[inline]
    pub(super) fn show_headroom(&self, port: PortId, class: Class) {
        let used = self.buffer.headroom_used(port, class);
        if used > Bytes::ZERO {
            self.counters.class(port, class).headroom_recent.raise(self.now.0, used.0);
        }
    }
}
