//! Calls of [taps](crate::tap). Without taps, each received frame and each transmission costs one check.

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::cnm::CNM;
use xoff_wire::header::Layout;
use xoff_wire::units::{Class, PortId, PortSet};

use super::{Batch, Switch};
use crate::frame::{Frame, FrameStore};
use crate::queue::FrameMeta;
use crate::tap::{FrameEvent, Sighting, TAPS_MAX, Tap, TapId};

#[derive(Debug)]
pub(super) struct Taps {
    watched: PortSet,
    taps: Vec<(TapId, Box<dyn Tap>)>,
}

impl Taps {
    pub(super) fn new() -> Taps {
        Taps { watched: PortSet::NONE, taps: Vec::with_capacity(TAPS_MAX) }
    }

    #[inline]
    pub(super) const fn watch(&self, port: PortId) -> bool {
        self.watched.contains(port)
    }

    fn note_watched(&mut self) {
        let ports = self.taps.iter().flat_map(|(_, tap)| tap.ports().iter());
        self.watched = ports.collect();
    }
}

impl Batch<'_> {
    /// Installs a tap for those of its ports that this worker owns.
    ///
    /// # Errors
    ///
    /// Returns the tap if there are already [`TAPS_MAX`].
    pub fn put_tap(&mut self, id: TapId, tap: Box<dyn Tap>) -> Result<(), Box<dyn Tap>> {
        let taps = &mut self.switch.taps;
        if taps.taps.len() == TAPS_MAX {
            return Err(tap);
        }
        taps.taps.push((id, tap));
        taps.note_watched();
        Ok(())
    }

    /// Removes a tap and returns it, to be dropped outside the packet loop.
    pub fn take_tap(&mut self, id: TapId) -> Option<Box<dyn Tap>> {
        let taps = &mut self.switch.taps;
        let at = taps.taps.iter().position(|(it, _)| *it == id)?;
        let (_, tap) = taps.taps.swap_remove(at);
        taps.note_watched();
        Some(tap)
    }
}

impl Switch {
    #[cold]
    pub(super) fn see_received<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        layout: Layout,
        frame: &Frame,
        store: &S,
    ) {
        let is_control = layout.ether_type() == CNM;
        self.see(port, Some(class), is_control, FrameEvent::Received { dropped: None }, frame, store);
    }

    #[cold]
    pub(super) fn see_consumed<S: FrameStore>(&mut self, port: PortId, frame: &Frame, store: &S) {
        self.see(port, None, true, FrameEvent::Received { dropped: None }, frame, store);
    }

    pub(super) fn see_discarded<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        reason: DropReason,
        frame: &Frame,
        store: &S,
    ) {
        if self.taps.watch(port) {
            self.see(port, Some(class), false, FrameEvent::Received { dropped: Some(reason) }, frame, store);
        }
    }

    #[cold]
    pub(super) fn see_sent<S: FrameStore>(&mut self, port: PortId, frame: &Frame, store: &S) {
        let meta = *self.nodes.meta(frame);
        let event = FrameEvent::Sent { after: self.now.since(meta.since) };
        self.see_admitted(port, &meta, event, frame, store);
    }

    pub(super) fn see_dropped<S: FrameStore>(
        &mut self,
        port: PortId,
        reason: DropReason,
        frame: &Frame,
        store: &S,
    ) {
        if self.taps.watch(port) {
            let meta = *self.nodes.meta(frame);
            let event = FrameEvent::Dropped { reason, after: self.now.since(meta.since) };
            self.see_admitted(port, &meta, event, frame, store);
        }
    }

    fn see_admitted<S: FrameStore>(
        &mut self,
        port: PortId,
        meta: &FrameMeta,
        event: FrameEvent,
        frame: &Frame,
        store: &S,
    ) {
        let class = (!meta.is_control()).then_some(meta.class);
        self.see(port, class, meta.is_control() || meta.layout.ether_type() == CNM, event, frame, store);
    }

    fn see<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Option<Class>,
        is_control: bool,
        event: FrameEvent,
        frame: &Frame,
        store: &S,
    ) {
        let sighting = Sighting { at: self.now, port, class, is_control, event };
        for (_, tap) in self.taps.taps.iter_mut().filter(|(_, tap)| tap.ports().contains(port)) {
            tap.see(&sighting, frame, store);
        }
    }
}
