//! Congestion signals ([`xoff_flow_control::congestion::ecn`]): ECN marks in leaving frames, and early drops of
//! frames that cannot carry a mark (WRED).

use xoff_flow_control::congestion::ecn::is_congested;
use xoff_wire::ecn::{self, Ecn};
use xoff_wire::header::Header;
use xoff_wire::units::{Bytes, Class, PortId};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::FrameMeta;

impl Switch {
    /// Sets the ECN mark of a leaving frame if its egress queue is congested. Returns whether it did. Call it before
    /// the frame leaves the queue's count.
    pub(super) fn mark<S: FrameStore>(&mut self, port: PortId, frame: &Frame, store: &mut S) -> bool {
        let &FrameMeta { class, layout, .. } = self.nodes.meta(frame);
        let head = store.head_mut(frame);
        self.signals_congestion(port, class) && ecn::mark(head, &Header::read(layout, head))
    }

    pub(super) fn count_mark(&self, port: PortId, class: Class, frame: &Frame) {
        let counters = self.counters.class(port, class);
        counters.ecn_marked_frames.add(1);
        counters.ecn_marked_bytes.add(Bytes::of_frame(frame.len()).0);
    }

    pub(super) fn is_dropped_early<S: FrameStore>(&mut self, port: PortId, frame: &Frame, store: &S) -> bool {
        let &FrameMeta { class, layout, .. } = self.nodes.meta(frame);
        let head = store.head(frame);
        ecn::get(head, &Header::read(layout, head)) == Ecn::NotCapable && self.signals_congestion(port, class)
    }

    fn signals_congestion(&mut self, port: PortId, class: Class) -> bool {
        let queue = self.buffer.egress(port, class);
        let settings = &self.ports[port.index()].settings.classes[class.index()].ecn;
        settings.as_ref().is_some_and(|ecn| is_congested(ecn, queue, &mut self.ecn_rng))
    }
}
