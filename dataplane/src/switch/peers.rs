//! Statistics of peers: frames that a peer sends despite a pause, and the headroom that they use.

use xoff_flow_control::buffer::Load;
use xoff_flow_control::pause::{Fault, Judgement};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use super::Switch;

impl Switch {
    /// Records that this worker stalled until `now`, for longer than headroom allows. For a peer's response limit after
    /// `now`, frames that it sends despite a pause do not count as its faults.
    pub fn was_away(&mut self, now: Nanos) {
        self.away = Some(now);
    }

    #[cold]
    pub(super) fn note_response(&mut self, port: PortId, class: Class, load: Load) {
        let response = &mut self.ports[port.index()].peer.response;
        let Judgement { received, after, fault } = response.judge(self.now, class, load, self.away);
        let counters = self.counters.class(port, class);
        counters.after_xoff_max.raise(received.0);
        counters.response_max.raise(after.map_or(0, |after| after.0));
        match fault {
            Some(Fault::TooMuch) => counters.excess_frames.add(load.frames.into()),
            Some(Fault::TooLate) => counters.late_frames.add(load.frames.into()),
            None => {}
        }
    }

    #[inline]
    pub(super) fn show_headroom(&self, port: PortId, class: Class) {
        let used = self.buffer.headroom_used(port, class);
        if used > Bytes::ZERO {
            self.counters.class(port, class).headroom_recent.raise(self.now.0, used.0);
        }
    }
}
