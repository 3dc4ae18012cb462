//! The sending half of a port: frames go to the kernel by the TX ring and come back, sent, by the
//! completion ring.
//!
//! A frame is copied to chunks of the port that sends it ([`Store`]). There are no more of them than either ring has entries, so the
//! kernel can always complete what it takes. Over drivers without zero copy nobody sends by itself: the kick does, in this thread, and
//! what the driver had no room for stays in the ring until the next one.
//!
//! When a device is deleted the kernel unbinds the socket for good, and says so at the next kick. It takes
//! nothing from the TX ring any more, so everything that has not come back is taken back here, and the
//! completion ring is not looked at again. What the kernel had taken before is in the hands of a driver that is
//! gone, or was delivered.

use std::sync::Arc;

use xoff_dataplane::frame::Frame;
use xoff_flow_control::counter::Counter;
use xoff_wire::units::PortId;

use crate::ring::{CompletionRing, Kick, TxRing};
use crate::store::Store;

/// The sending half of one socket.
#[derive(Debug)]
pub(crate) struct Transmitter<T, C> {
    tx: T,
    completion: C,
    /// Maximum chunks of a frame.
    pieces_max: u32,
    /// Chunks of the port to send from.
    chunks: u32,
    /// Chunks given by `send` and not yet completed.
    out: u32,
    /// Frames that the kernel dropped instead of sending.
    dropped: Arc<Counter>,
    /// What the last kick found of the interface.
    interface: Interface,
    failed: Arc<FailedKicks>,
}

/// Kicks that failed in a way that the kernel's documentation does not know.
#[derive(Debug, Default)]
pub(crate) struct FailedKicks {
    /// How many.
    pub(crate) count: Counter,
    /// The error number of the last one.
    pub(crate) errno: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Up,
    /// It may send again.
    Down,
    /// It never will.
    Gone,
}

impl<T: TxRing, C: CompletionRing> Transmitter<T, C> {
    /// `chunks`: those of the port to send from; neither ring is smaller. `pieces_max`: maximum chunks of a frame.
    pub(crate) fn new(tx: T, completion: C, chunks: u32, pieces_max: u32) -> Transmitter<T, C> {
        Transmitter {
            tx,
            completion,
            pieces_max,
            chunks,
            out: 0,
            dropped: Arc::default(),
            interface: Interface::Up,
            failed: Arc::default(),
        }
    }

    /// Frames that the kernel dropped instead of sending.
    pub(crate) fn dropped(&self) -> Arc<Counter> {
        Arc::clone(&self.dropped)
    }

    /// Kicks that failed in an unknown way.
    pub(crate) fn failed(&self) -> Arc<FailedKicks> {
        Arc::clone(&self.failed)
    }

    /// Whether something was sent that has not come back, and may yet: over an interface that is down or
    /// gone nothing does.
    pub(crate) fn in_flight(&self) -> bool {
        self.out > 0 && self.interface == Interface::Up
    }

    /// Whether the kernel has yet to take something, over an interface that is up.
    pub(crate) fn is_unsent(&self) -> bool {
        self.in_flight() && self.tx.unsent() > 0
    }

    /// How many frames would be taken, of as many chunks as any frame has.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        let free = self.chunks - self.out;
        match self.pieces_max {
            _ if self.is_gone() => 0,
            1 => free,
            most => free / most,
        }
    }

    /// Takes a frame to be sent by the next [`flush`](Self::flush), or gives it back where the port has
    /// no room.
    #[inline]
    pub(crate) fn send(&mut self, port: PortId, store: &mut Store, frame: Frame) -> Result<(), Frame> {
        if self.is_gone() {
            return Err(frame);
        }
        let Some(first) = store.stage_at(port, &frame) else { return Err(frame) };
        store.memory(port).give_out(first, |piece| {
            self.tx.push(piece);
            self.out += 1;
        });
        let _ = frame.into_parts(); // the rings know it from here on
        Ok(())
    }

    /// Gives the kernel what waits, and makes it send.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.tx.submit();
        if self.out > 0 && !self.is_gone() {
            self.interface = Interface::Up;
            while self.tx.needs_kick() && self.tx.unsent() > 0 && self.kick() {}
        }
    }

    /// Whether another kick may do more.
    fn kick(&mut self) -> bool {
        match self.tx.kick() {
            Kick::Dropped => {
                self.dropped.add(1);
                return true; // it took that one; on with the next
            }
            Kick::Down => self.interface = Interface::Down,
            Kick::Gone => self.interface = Interface::Gone,
            Kick::Failed(errno) => {
                self.failed.count.add(1);
                self.failed.errno.set(errno.unsigned_abs().into());
            }
            Kick::Done | Kick::Busy => {}
        }
        false
    }

    /// Finds out whether the interface is gone, where nothing else makes a driver tell that sends by itself.
    #[cold]
    pub(crate) fn look(&mut self) {
        if !self.is_gone() {
            self.kick();
        }
    }

    /// Whether the interface is gone for good.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.interface == Interface::Gone
    }

    /// Whether all that has not come back has yet to be taken by the kernel: it sends nothing any more unless it is kicked.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_gone() || self.out <= self.tx.unsent()
    }

    /// Calls `unsent` with every frame that has not come back, of an interface that is gone or gets no further kick.
    #[cold]
    pub(crate) fn take_back(
        &mut self,
        port: PortId,
        store: &mut Store,
        mut unsent: impl FnMut(&mut Store, Frame),
    ) {
        assert!(self.is_at_rest(), "the kernel may still send these frames");
        if std::mem::take(&mut self.out) == 0 {
            return;
        }
        for slot in store.memory(port).out() {
            if let Some(frame) = store.take_back(port, slot) {
                unsent(store, frame);
            }
        }
    }

    /// Calls `sent` with every frame that has come back.
    #[inline]
    pub(crate) fn reap(&mut self, port: PortId, store: &mut Store, mut sent: impl FnMut(&mut Store, Frame)) {
        if self.out > 0 {
            self.out -= self.completion.completed(|chunk| {
                if let Some(frame) = store.completed(port, chunk) {
                    sent(store, frame);
                }
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
