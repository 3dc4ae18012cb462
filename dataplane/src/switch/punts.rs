//! Frames to the host ([punted](crate::punt)), and injected frames, which leave like control frames.

use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::units::{Class, ETHERNET_HEADER, PortId};

use super::{Batch, Switch};
use crate::frame::{Frame, FrameStore};
use crate::punt::{Punt, PuntRefusal, PuntSink};
use crate::queue::FrameMeta;

/// Maximum injected frames that wait at a port. More would use up the memory for control frames, which pauses need.
const WAITING_MAX: u32 = 4;

impl Batch<'_> {
    /// Sets the receiver of punted frames; returns the previous one.
    pub fn put_punt_sink(&mut self, sink: Box<dyn PuntSink>) -> Option<Box<dyn PuntSink>> {
        self.switch.punt_sink.replace(sink)
    }

    /// Injects a frame, which this worker's `port` sends before data and despite pauses. Returns false if it cannot be sent.
    pub fn inject<S: FrameStore>(&mut self, port: PortId, bytes: &[u8], store: &mut S) -> bool {
        self.switch.end_run();
        self.switch.inject(port, Class::ALL[7], bytes, store)
    }
}

impl Switch {
    #[cold]
    pub(super) fn punt<S: FrameStore>(
        &mut self,
        (port, vid): (PortId, u16),
        reason: PuntReason,
        frame: &Frame,
        store: &S,
    ) -> Result<(), PuntRefusal> {
        let bucket = &mut self.ports[port.index()].punts;
        let counters = &self.counters.port(port).punts[reason.index()];
        if !bucket.allows(self.now, reason) {
            counters.over_rate.add(1);
            return Err(PuntRefusal::Rate);
        }
        let sink = self.punt_sink.as_mut();
        let punt = Punt { at: self.now, port, vid, reason };
        if !sink.is_some_and(|sink| sink.take(&punt, frame, store)) {
            counters.no_room.add(1);
            return Err(PuntRefusal::Room);
        }
        bucket.spend(self.now);
        counters.punted.add(1);
        Ok(())
    }

    pub(super) fn inject<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        bytes: &[u8],
        store: &mut S,
    ) -> bool {
        let at = &self.ports[port.index()];
        let is_frame = (ETHERNET_HEADER as usize..=at.settings.mtu_frame as usize).contains(&bytes.len());
        if !at.up || !is_frame || at.peer.injected.frames() >= WAITING_MAX || !self.workers.owns(port) {
            return false;
        }
        let Some(frame) = store.control(bytes) else {
            self.counters.port(port).control_starved.add(1);
            return false;
        };
        *self.nodes.meta_mut(&frame) = FrameMeta::of_control(self.now, port, class, &frame);
        self.ledger.made += 1;
        self.ports[port.index()].peer.injected.push(&mut self.nodes, frame);
        self.ready.egress_active.insert(port);
        true
    }

    pub(super) fn next_injected(&mut self, port: PortId) -> Option<Frame> {
        let at = &mut self.ports[port.index()];
        if at.egress.is_fully_committed() {
            return None;
        }
        let frame = at.peer.injected.pop(&self.nodes)?;
        at.egress.commit(self.now, super::journey::on_line(&frame).into());
        Some(frame)
    }

    pub(super) fn drop_injected<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        while let Some(frame) = self.ports[port.index()].peer.injected.pop(&self.nodes) {
            self.ledger.made -= 1;
            store.free(frame);
        }
    }
}
