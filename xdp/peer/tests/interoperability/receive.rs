use xsk_rs::FrameDesc;

use crate::ports::Ports;

impl Ports {
    pub fn receive(&mut self, port: usize, partial: &mut Vec<u8>) -> Option<Vec<u8>> {
        let from = &mut self.ports[port];
        let mut chunk = FrameDesc::default();
        // SAFETY: the kernel gives up the chunk of the descriptor that it returns. The one overwritten is empty or in
        // the free list.
        while unsafe { from.rx.consume_one(&mut chunk) } == 1 {
            from.receiving -= 1;
            // SAFETY: the descriptor has just left the RX ring, and is nowhere else; the kernel reports how many bytes
            // it wrote.
            partial.extend_from_slice(unsafe { self.umem.data(&chunk) }.contents());
            self.free.push(chunk);
            if !chunk.has_more_frames() {
                return Some(std::mem::take(partial));
            }
        }
        None
    }
}
