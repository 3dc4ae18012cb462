//! Moves of the benchmark's frames.

use xsk_rs::config::XDP_UMEM_MIN_CHUNK_SIZE;

use crate::error::BenchError;
use crate::ports::{BATCH, BATCH_U32, Ports};

impl Ports {
    /// Forwards received frames to another port. Returns the number of descriptors.
    ///
    /// # Errors
    /// Returns an error if the kernel does not send.
    pub fn forward(&mut self, from: usize, to: usize) -> Result<usize, BenchError> {
        self.reap(to);
        let room = self.ports[to].tx.nb_free(BATCH_U32) as usize;
        let batch = &mut self.batch[..room.min(BATCH)];
        // SAFETY: the descriptors in the batch were given on before; the descriptors that are written there leave the
        // RX ring.
        let received = unsafe { self.ports[from].rx.consume(batch) };
        self.ports[from].receiving -= received;
        // SAFETY: the descriptors left the RX ring just now, and are nowhere else.
        let taken = unsafe { self.ports[to].tx.produce(&batch[..received]) };
        assert_eq!(taken, received, "the ring had room");
        self.kick(to)?;
        self.refill(from);
        Ok(received)
    }

    /// Puts sent frames on the TX ring again.
    ///
    /// # Errors
    /// Returns an error if the kernel does not send.
    pub fn send_again(&mut self, port: usize) -> Result<(), BenchError> {
        let to = &mut self.ports[port];
        // SAFETY: the descriptors in the batch were given on before; the descriptors written there leave the
        // completion ring.
        let back = unsafe { to.completion.consume(&mut self.batch) };
        for chunk in &mut self.batch[..back] {
            *chunk = self.sent[chunk.addr() / XDP_UMEM_MIN_CHUNK_SIZE as usize];
        }
        // SAFETY: the chunks left the completion ring just now; their descriptors have the lengths of the first time.
        let taken = unsafe { to.tx.produce(&self.batch[..back]) };
        assert_eq!(taken, back, "they had room before");
        self.kick(port)
    }
}
