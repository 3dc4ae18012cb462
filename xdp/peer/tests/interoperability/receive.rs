//! What the test does with the ports of `xsk-rs`, and the benchmark does not: it looks at what comes.

use xsk_rs::FrameDesc;

use crate::ports::Ports;

impl Ports {
    /// The next frame that has come in whole; `partial` has the buffers of one whose end has not come yet.
    pub fn receive(&mut self, port: usize, partial: &mut Vec<u8>) -> Option<Vec<u8>> {
        let from = &mut self.ports[port];
        let mut chunk = FrameDesc::default();
        // SAFETY: the descriptor that is written leaves the RX ring.
        while unsafe { from.rx.consume_one(&mut chunk) } == 1 {
            from.receiving -= 1;
            // SAFETY: it left the RX ring just now, and is nowhere else; the kernel says how much of it was written.
            partial.extend_from_slice(unsafe { self.umem.data(&chunk) }.contents());
            self.free.push(chunk);
            if !chunk.has_more_frames() {
                return Some(std::mem::take(partial));
            }
        }
        None
    }
}
