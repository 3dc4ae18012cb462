use xsk_rs::config::XDP_UMEM_MIN_CHUNK_SIZE;

use crate::error::BenchError;
use crate::ports::{BATCH, BATCH_U32, Ports};

impl Ports {
    pub fn forward(&mut self, from: usize, to: usize) -> Result<usize, BenchError> {
        self.reap(to);
        let room = self.ports[to].tx.nb_free(BATCH_U32) as usize;
        let batch = &mut self.batch[..room.min(BATCH)];
        // SAFETY: the kernel gives up the chunks of the descriptors that it returns. Those overwritten were passed on
        // before.
        let received = unsafe { self.ports[from].rx.consume(batch) };
        self.ports[from].receiving -= received;
        // SAFETY: the descriptors have just left the RX ring, and are nowhere else.
        let taken = unsafe { self.ports[to].tx.produce(&batch[..received]) };
        assert_eq!(taken, received, "the TX ring must have room for the whole batch");
        self.kick(to)?;
        self.refill(from);
        Ok(received)
    }

    pub fn send_again(&mut self, port: usize) -> Result<(), BenchError> {
        let to = &mut self.ports[port];
        // SAFETY: as in `forward`.
        let back = unsafe { to.completion.consume(&mut self.batch) };
        for chunk in &mut self.batch[..back] {
            *chunk = self.sent[chunk.addr() / XDP_UMEM_MIN_CHUNK_SIZE as usize];
        }
        // SAFETY: the chunks have just left the completion ring, so nobody else has them. `sent` keeps their descriptors, with lengths.
        let taken = unsafe { to.tx.produce(&self.batch[..back]) };
        assert_eq!(taken, back, "the TX ring must have room for the whole batch");
        self.kick(port)
    }
}
