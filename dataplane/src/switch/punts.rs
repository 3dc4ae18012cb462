//! What leaves the switch for who runs it, and what comes from there: frames that are [punted](crate::punt), and frames that a
//! peer is to be told, which are made outside and leave as all control frames do.

use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::units::{Class, ETHERNET_HEADER, PortId};

use super::{Batch, Switch};
use crate::frame::{Frame, FrameStore};
use crate::punt::{Punt, PuntRefusal, PuntSink};
use crate::queue::FrameMeta;

/// Most frames that wait at a port to be told: more would use up those that pause frames are made of.
const WAITING_MAX: u32 = 4;

impl Batch<'_> {
    /// Punted frames go there from now on; those before went to what comes back.
    pub fn put_punt_sink(&mut self, sink: Box<dyn PuntSink>) -> Option<Box<dyn PuntSink>> {
        self.switch.punt_sink.replace(sink)
    }

    /// Sends a frame of these bytes by `port`, which this worker owns: before data, and whatever is paused there. False where it
    /// cannot be sent: the port has no link, the frame is none that it may send, or as many wait there as may.
    pub fn tell<S: FrameStore>(&mut self, port: PortId, bytes: &[u8], store: &mut S) -> bool {
        self.switch.end_run();
        self.switch.tell(port, Class::ALL[7], bytes, store)
    }
}

impl Switch {
    /// Offers a frame that came in by `port`, and is for the router of VLAN `vid` unless that is 0, to whom it may concern, and
    /// counts what becomes of it. The frame stays with who asks: one that was taken is consumed, and so is one that was refused
    /// before it was admitted; one that had been admitted is a drop.
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

    /// Puts a control frame of these bytes where it is sent next at `port`, in the name of `class`; false where it cannot be
    /// sent.
    pub(super) fn tell<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        bytes: &[u8],
        store: &mut S,
    ) -> bool {
        let at = &self.ports[port.index()];
        let is_frame = (ETHERNET_HEADER as usize..=at.settings.mtu_frame as usize).contains(&bytes.len());
        if !at.up || !is_frame || at.peer.told.frames() >= WAITING_MAX || !self.workers.owns(port) {
            return false;
        }
        let Some(frame) = store.control(bytes) else {
            self.counters.port(port).control_starved.add(1);
            return false;
        };
        *self.nodes.meta_mut(&frame) = FrameMeta::of_control(self.now, port, class, &frame);
        self.ledger.made += 1;
        self.ports[port.index()].peer.told.push(&mut self.nodes, frame);
        self.agenda.egress_active.insert(port);
        true
    }

    /// The next frame that is to be told by `port`; `None` where none is or may leave now.
    pub(super) fn next_told(&mut self, port: PortId) -> Option<Frame> {
        let at = &mut self.ports[port.index()];
        if at.egress.is_fully_committed() {
            return None;
        }
        let frame = at.peer.told.pop(&self.nodes)?;
        at.egress.commit(self.now, super::journey::on_line(&frame).into());
        Some(frame)
    }

    /// Nobody is at the other end of `port` to be told anything.
    pub(super) fn forget_told<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        while let Some(frame) = self.ports[port.index()].peer.told.pop(&self.nodes) {
            self.ledger.made -= 1;
            store.free(frame);
        }
    }
}
