//! Receiving half of a socket: empty chunks go to the kernel through the fill ring, and return filled through the RX
//! ring.
//!
//! There are enough chunks for the frames that arrive while the switch stalls, but no more than each ring has entries.
//! So the RX ring never overflows, and the fill ring never lacks space.

use std::sync::Arc;

use xoff_dataplane::frame::{FRAME_MAX, Frame};
use xoff_flow_control::counter::Counter;
use xoff_wire::units::PortId;

use crate::chain::Chain;
use crate::ring::{Descriptor, FillRing, RxRing};
use crate::store::Store;

/// Number of chunks missing from the fill ring at which it is refilled; at most a quarter of [`Receiver::size`].
const REFILL: u32 = 32;

/// Number of frames to prefetch ahead, because received bytes are in another core's cache.
const AHEAD: u32 = 8;

#[derive(Debug)]
pub(crate) struct Receiver<R, F> {
    rx: R,
    fill: F,
    size: u32,
    out: u32,
    partial: Option<Partial>,
    malformed: Arc<Counter>,
}

#[derive(Debug)]
enum Partial {
    Whole(Chain),
    Malformed,
}

impl<R: RxRing, F: FillRing> Receiver<R, F> {
    pub(crate) fn new(rx: R, fill: F, size: u32) -> Receiver<R, F> {
        Receiver { rx, fill, size, out: 0, partial: None, malformed: Arc::default() }
    }

    /// Drops a partly received frame. Call this only after the kernel has stopped using the rings.
    #[cold]
    pub(crate) fn end(&mut self, store: &mut Store) {
        if let Some(Partial::Whole(begun)) = self.partial.take() {
            store.drop_chain(&begun);
        }
        (self.out, self.size) = (0, 0);
    }

    pub(crate) fn rx(&self) -> &R {
        &self.rx
    }

    pub(crate) fn out(&self) -> u32 {
        self.out
    }

    pub(crate) fn is_empty(&mut self) -> bool {
        self.rx.available() == 0
    }

    pub(crate) fn malformed(&self) -> Arc<Counter> {
        Arc::clone(&self.malformed)
    }

    #[inline]
    pub(crate) fn refill(&mut self, port: PortId, store: &mut Store) {
        if self.size - self.out >= REFILL.min(self.size / 4).max(1) {
            let memory = store.memory(port);
            while self.out < self.size
                && let Some(chunk) = memory.take_receive()
            {
                self.fill.push(chunk);
                self.out += 1;
            }
            self.fill.submit();
        }
    }

    /// Passes frames of at most `budget` descriptors from the RX ring to `each`; frames for which the store lacks
    /// memory stay in the ring. Returns the number of complete frames, including dropped ones.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        port: PortId,
        store: &mut Store,
        budget: u32,
        mut each: impl FnMut(&mut Store, Frame),
    ) -> u32 {
        let n = self.rx.available().min(budget);
        (0..n.min(AHEAD)).for_each(|at| store.memory(port).prefetch(self.rx.peek(at).chunk));
        let (mut taken, mut frames) = (0, 0);
        while taken < n && store.can_receive() {
            if taken + AHEAD < n {
                store.memory(port).prefetch(self.rx.peek(taken + AHEAD).chunk);
            }
            let descriptor @ Descriptor { chunk, len, more, .. } = self.rx.peek(taken);
            taken += 1;
            frames += u32::from(!more);
            if self.partial.is_none() && !more && len > 0 {
                let frame = store.received(port, chunk, len);
                each(store, frame);
            } else if let Some(frame) = self.add(port, store, descriptor) {
                each(store, frame);
            }
        }
        self.rx.release(taken);
        self.out -= taken;
        frames
    }

    #[cold]
    fn add(&mut self, port: PortId, store: &mut Store, descriptor: Descriptor) -> Option<Frame> {
        let Descriptor { chunk, len, more, .. } = descriptor;
        let partial = self.partial.take().unwrap_or(Partial::Whole(Chain::EMPTY));
        let partial = match partial {
            Partial::Whole(mut chain) if len > 0 && chain.len + len <= FRAME_MAX => {
                store.add_received(&mut chain, port, chunk, len);
                Partial::Whole(chain)
            }
            partial => {
                store.memory(port).free_received(chunk);
                if let Partial::Whole(chain) = &partial {
                    store.drop_chain(chain);
                }
                Partial::Malformed
            }
        };
        match partial {
            partial if more => {
                self.partial = Some(partial);
                None
            }
            Partial::Whole(chain) => Some(store.finish_chain(chain)),
            Partial::Malformed => {
                self.malformed.add(1);
                None
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
