use xoff_dataplane::driver::Boundary;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::switch::Batch;
use xoff_wire::units::PortId;

/// Number of frames that a driver processes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// All pending frames in one batch.
    Large,
    /// One frame per batch.
    OfOne,
}

impl Batches {
    pub(super) fn taken(self, batch: &mut Batch<'_>) {
        if self == Batches::OfOne {
            batch.split();
        }
    }
}

impl Boundary for Batches {
    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.receive(port, frame, store);
        self.taken(batch);
    }

    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        while batch.forward(store) {
            self.taken(batch);
        }
    }

    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        mut send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        let step = if *self == Batches::OfOne { 1 } else { most };
        let mut sent = 0;
        while sent < most {
            let left = batch.transmit(port, store, step, &mut send);
            self.taken(batch);
            sent += left;
            if left < step {
                break;
            }
        }
        sent
    }

    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        let frame = batch.announce(port, store);
        self.taken(batch);
        frame
    }

    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.release(port, frame, store);
        self.taken(batch);
    }
}
