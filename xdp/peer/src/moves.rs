//! What the benchmark does with its ports: one forwards what comes, the other sends the same again and again.

use xsk_rs::config::XDP_UMEM_MIN_CHUNK_SIZE;

use crate::error::BenchError;
use crate::ports::{BATCH, BATCH_U32, Ports};

impl Ports {
    /// Moves what has come in at one port to the other, makes the kernel send it, and says how many descriptors it was.
    ///
    /// # Errors
    /// Where the kernel does not send.
    pub fn forward(&mut self, from: usize, to: usize) -> Result<usize, BenchError> {
        self.reap(to);
        let room = self.ports[to].tx.nb_free(BATCH_U32) as usize;
        let batch = &mut self.batch[..room.min(BATCH)];
        // SAFETY: what is in the batch was given on; the descriptors that are written there leave the RX ring.
        let received = unsafe { self.ports[from].rx.consume(batch) };
        self.ports[from].receiving -= received;
        // SAFETY: they left the RX ring just now, and are nowhere else.
        let taken = unsafe { self.ports[to].tx.produce(&batch[..received]) };
        assert_eq!(taken, received, "the ring had room");
        self.kick(to)?;
        self.refill(from);
        Ok(received)
    }

    /// Puts what has left on the port's TX ring once more, and makes the kernel send it.
    ///
    /// # Errors
    /// Where the kernel does not send.
    pub fn send_again(&mut self, port: usize) -> Result<(), BenchError> {
        let to = &mut self.ports[port];
        // SAFETY: what is in the batch was given on; the descriptors that are written there leave the completion ring.
        let back = unsafe { to.completion.consume(&mut self.batch) };
        for chunk in &mut self.batch[..back] {
            *chunk = self.sent[chunk.addr() / XDP_UMEM_MIN_CHUNK_SIZE as usize];
        }
        // SAFETY: the same chunks, with the lengths that they had: they left the completion ring just now.
        let taken = unsafe { to.tx.produce(&self.batch[..back]) };
        assert_eq!(taken, back, "they had room before");
        self.kick(port)
    }
}
