//! The pipeline: what is neither in an ingress nor in an egress queue.
//!
//! A frame passes it at once, and nothing of it is here. Only where its egress has no room and the pipeline is to
//! halt for that ([`WhenFull::Stop`]) a frame stays: at the head, and until it has gone nothing else is forwarded, whatever
//! port it came in by, whatever class it is of and wherever it goes. It is tried again when there may be room: frames have
//! left that queue, or another one that shares its memory, or were dropped there; the queue is closed (no link, a watchdog that
//! drops), and the frame is dropped for that; a port stands still, and a flood misses it; or the bridge has forgotten an
//! address, and the frame may go elsewhere. (Nothing is learned meanwhile.)
//!
//! It counts where it came in as if it waited there.

use crate::frame::Frame;
use crate::queue::{Fifo, Nodes};
#[cfg(doc)]
use crate::settings::WhenFull;
use crate::units::{Class, PortId};

/// An egress queue.
type Queue = (PortId, Class);

#[derive(Debug, Default)]
pub(super) struct Pipeline {
    frames: Fifo,
    /// The queue that has no room for the frame at the head.
    halted_for: Option<Queue>,
}

impl Pipeline {
    /// The frame that was at the head has no room at `full`.
    pub(super) fn halt(&mut self, nodes: &mut Nodes, head: Frame, full: Queue) {
        self.frames.unpop(nodes, head);
        self.halted_for = Some(full);
    }

    /// There may be room at `queue` now.
    pub(super) fn go_on_for(&mut self, queue: Queue) {
        if self.halted_for == Some(queue) {
            self.go_on();
        }
    }

    /// The frame at the head may go elsewhere now.
    pub(super) fn go_on(&mut self) {
        self.halted_for = None;
    }

    /// Whether the frame at the head waits for room at `port`.
    pub(super) fn is_halted_for(&self, port: PortId) -> bool {
        self.halted_for.is_some_and(|(egress, _)| egress == port)
    }

    /// Whether no frame is in it: the next one passes at once.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frame at the head, where it may be tried.
    pub(super) fn take_head(&mut self, nodes: &Nodes) -> Option<Frame> {
        if self.halted_for.is_some() { None } else { self.frames.pop(nodes) }
    }

    /// Whether a frame can move; `arrived`: some have come in that may enter.
    pub(super) fn can_move(&self, arrived: bool) -> bool {
        self.halted_for.is_none() && (arrived || !self.is_empty())
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames.frames()
    }
}
