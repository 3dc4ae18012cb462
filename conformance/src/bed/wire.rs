//! One direction of a wire: a frame at a time at its rate, delivered after its delay.

use xoff_dataplane::units::{BitRate, Bytes, Nanos};

use super::events::End;

/// Whether a frame is lost on the way.
type Loses = Box<dyn FnMut(&[u8]) -> bool>;

/// One direction of a wire.
pub struct Wire {
    pub(super) to: End,
    rate: BitRate,
    delay: Nanos,
    up: bool,
    carries: Option<Vec<u8>>,
    loses: Option<Loses>,
}

impl Wire {
    pub(super) fn new(to: End, rate: BitRate, delay: Nanos) -> Wire {
        Wire { to, rate, delay, up: true, carries: None, loses: None }
    }

    /// Frames for which `loses` answers true are lost on the way.
    pub fn lose(&mut self, loses: impl FnMut(&[u8]) -> bool + 'static) {
        self.loses = Some(Box::new(loses));
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.up = up;
    }

    pub(super) fn is_free(&self) -> bool {
        self.carries.is_none()
    }

    /// Begins to carry a frame; answers when its last bit, and the gap behind it, will have left.
    pub(super) fn carry(&mut self, now: Nanos, bytes: Vec<u8>) -> Nanos {
        let len = u32::try_from(bytes.len()).expect("a frame's length");
        self.carries = Some(bytes);
        now.after(self.rate.time_of(Bytes::on_line(len)))
    }

    /// The frame has left: when it arrives at the other end, unless it is lost.
    pub(super) fn left(&mut self, now: Nanos) -> Option<(Nanos, Vec<u8>)> {
        let bytes = self.carries.take().expect("a frame was on the wire");
        let lost = !self.up || self.loses.as_mut().is_some_and(|loses| loses(&bytes));
        (!lost).then(|| (now.after(self.delay), bytes))
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire to {:?}", self.to)
    }
}
