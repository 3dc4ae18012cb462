//! What passes between a dataplane and its driver, recorded where a switch runs and done again anywhere.
//!
//! A driver calls its dataplane through a [`Boundary`]: [`Direct`], of which nothing is left when it is compiled, or a [`Recorder`],
//! which writes down each call, what the dataplane answers, and what it asks of its store, into a [`Sink`]. [`Replay`] has a dataplane of
//! the same settings and makes the same calls at the same times; each answer is held against the recorded one.
//!
//! ```text
//!   worker -> Recorder -> dataplane -> Watched -> store of frames
//!                |  calls, answers        | what is freed, copied, made
//!                '--------> Sink <--------'
//! ```

mod books;
mod memory;
mod record;
mod recorder;
pub mod rehearsal;
mod replay;
#[cfg(test)]
mod tests;

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::switch::{Batch, Switch};
use xoff_dataplane::units::{MacAddr, Nanos, PortId, Site};

pub use books::books;
pub use memory::Memory;
pub use record::{BEFORE_FRAME, Passing, Record, frame_of};
pub use recorder::{Ending, Recorder, Sink};
pub use replay::{Broken, Difference, Outcome, Replay};

/// What a driver calls a dataplane through. Each method does what [`Batch`] has under its name.
pub trait Boundary {
    /// The switch at `now`.
    fn batch<'switch>(&mut self, switch: &'switch mut Switch, now: Nanos) -> Batch<'switch>;

    /// What is due by time. Right after the batch has begun.
    fn advance<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) -> bool;

    /// A frame has come in.
    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S);

    /// Moves through the pipeline what can move.
    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S);

    /// Sends what may leave.
    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        send: impl FnMut(&mut S, Frame),
    ) -> u32;

    /// The pause frame that is due.
    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame>;

    /// A frame has left.
    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S);

    /// A frame never will.
    fn give_up<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S);

    /// A link came up or went down.
    fn set_link<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, up: bool, store: &mut S);

    /// Another device.
    fn set_mac(&mut self, batch: &mut Batch<'_>, port: PortId, mac: MacAddr);

    /// Before a stop.
    fn let_peers_go(&mut self, batch: &mut Batch<'_>);

    /// A peer is to be told.
    fn tell<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        bytes: &[u8],
        store: &mut S,
    ) -> bool;

    /// The host sends.
    fn send_of_host<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        of: (Site, PortId),
        bytes: &[u8],
        store: &mut S,
    );

    /// [`Switch::was_away`].
    fn was_away(&mut self, switch: &mut Switch, now: Nanos);

    /// The switch is about to be told what cannot be recorded.
    fn end(&mut self, why: Ending);
}

/// Calls, and nothing beside.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Boundary for Direct {
    #[inline(always)]
    fn batch<'switch>(&mut self, switch: &'switch mut Switch, now: Nanos) -> Batch<'switch> {
        switch.batch(now)
    }

    #[inline(always)]
    fn advance<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) -> bool {
        batch.advance(store)
    }

    #[inline(always)]
    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.receive(port, frame, store);
    }

    #[inline(always)]
    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        while batch.forward(store) {}
    }

    #[inline(always)]
    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        batch.transmit(port, store, most, send)
    }

    #[inline(always)]
    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        batch.announce(port, store)
    }

    #[inline(always)]
    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.release(port, frame, store);
    }

    #[inline(always)]
    fn give_up<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        batch.give_up(port, frame, store);
    }

    #[inline(always)]
    fn set_link<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, up: bool, store: &mut S) {
        batch.set_link(port, up, store);
    }

    #[inline(always)]
    fn set_mac(&mut self, batch: &mut Batch<'_>, port: PortId, mac: MacAddr) {
        batch.set_mac(port, mac);
    }

    #[inline(always)]
    fn let_peers_go(&mut self, batch: &mut Batch<'_>) {
        batch.let_peers_go();
    }

    #[inline(always)]
    fn tell<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        bytes: &[u8],
        store: &mut S,
    ) -> bool {
        batch.tell(port, bytes, store)
    }

    #[inline(always)]
    fn send_of_host<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        (site, port): (Site, PortId),
        bytes: &[u8],
        store: &mut S,
    ) {
        batch.send_of_host(site, port, bytes, store);
    }

    #[inline(always)]
    fn was_away(&mut self, switch: &mut Switch, now: Nanos) {
        switch.was_away(now);
    }

    #[inline(always)]
    fn end(&mut self, _why: Ending) {}
}
