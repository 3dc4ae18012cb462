//! Sending half of a port: frames go to the kernel through the TX ring, and return through the completion ring when sent.
//!
//! The rings have an entry for each chunk, so the kernel can complete all frames. Without zero copy, the kernel sends only during a kick,
//! in this thread.
//!
//! When a device is deleted, the kernel unbinds the socket, and the next kick reports it. All outstanding frames are then taken back.

use std::sync::Arc;

use xoff_dataplane::frame::Frame;
use xoff_flow_control::counter::Counter;
use xoff_wire::units::PortId;

use crate::ring::{CompletionRing, Kick, TxRing};
use crate::store::Store;

#[derive(Debug)]
pub(crate) struct Transmitter<T, C> {
    tx: T,
    completion: C,
    pieces_max: u32,
    chunks: u32,
    out: u32,
    dropped: Arc<Counter>,
    interface: InterfaceState,
    failed: Arc<FailedKicks>,
}

#[derive(Debug, Default)]
pub(crate) struct FailedKicks {
    pub(crate) count: Counter,
    pub(crate) errno: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterfaceState {
    Up,
    Down,
    Gone,
}

impl<T: TxRing, C: CompletionRing> Transmitter<T, C> {
    /// Creates a transmitter, whose rings must have at least `chunks` entries.
    pub(crate) fn new(tx: T, completion: C, chunks: u32, pieces_max: u32) -> Transmitter<T, C> {
        Transmitter {
            tx,
            completion,
            pieces_max,
            chunks,
            out: 0,
            dropped: Arc::default(),
            interface: InterfaceState::Up,
            failed: Arc::default(),
        }
    }

    pub(crate) fn dropped(&self) -> Arc<Counter> {
        Arc::clone(&self.dropped)
    }

    pub(crate) fn failed(&self) -> Arc<FailedKicks> {
        Arc::clone(&self.failed)
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.out > 0 && self.interface == InterfaceState::Up
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.in_flight() && self.tx.unsent() > 0
    }

    #[inline]
    pub(crate) fn room(&self) -> u32 {
        let free = self.chunks - self.out;
        match self.pieces_max {
            _ if self.is_removed() => 0,
            1 => free,
            most => free / most,
        }
    }

    /// Puts a frame on the TX ring for the next [`flush`](Self::flush). Returns the frame if too few chunks or ring entries are free.
    #[inline]
    pub(crate) fn send(&mut self, port: PortId, store: &mut Store, frame: Frame) -> Result<(), Frame> {
        if self.is_removed() {
            return Err(frame);
        }
        let Some(first) = store.stage_at(port, &frame) else { return Err(frame) };
        store.memory(port).give_out(first, |piece| {
            self.tx.push(piece);
            self.out += 1;
        });
        let _ = frame.into_parts(); // from here on, the rings own the frame
        Ok(())
    }

    #[inline]
    pub(crate) fn flush(&mut self) {
        self.tx.submit();
        if self.out > 0 && !self.is_removed() {
            self.interface = InterfaceState::Up;
            while self.tx.needs_kick() && self.tx.unsent() > 0 && self.kick() {}
        }
    }

    fn kick(&mut self) -> bool {
        match self.tx.kick() {
            Kick::Dropped => {
                self.dropped.add(1);
                return true; // the kernel has dropped this frame; try the next
            }
            Kick::Down => self.interface = InterfaceState::Down,
            Kick::Gone => self.interface = InterfaceState::Gone,
            Kick::Failed(errno) => {
                self.failed.count.add(1);
                self.failed.errno.set(errno.unsigned_abs().into());
            }
            Kick::Done | Kick::Busy => {}
        }
        false
    }

    /// Checks by a kick whether the interface is gone: a driver that sends by itself reports this only at a kick.
    #[cold]
    pub(crate) fn look(&mut self) {
        if !self.is_removed() {
            self.kick();
        }
    }

    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.interface == InterfaceState::Gone
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_removed() || self.out <= self.tx.unsent()
    }

    /// Passes every outstanding frame to `unsent`. Either the interface must be gone, or these frames must still be in the TX ring: then
    /// the kernel sends none before the next kick.
    #[cold]
    pub(crate) fn take_back(
        &mut self,
        port: PortId,
        store: &mut Store,
        mut unsent: impl FnMut(&mut Store, Frame),
    ) {
        assert!(self.is_at_rest(), "frames must not be taken back while the kernel may send them");
        if std::mem::take(&mut self.out) == 0 {
            return;
        }
        for slot in store.memory(port).out() {
            if let Some(frame) = store.take_back(port, slot) {
                unsent(store, frame);
            }
        }
    }

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
