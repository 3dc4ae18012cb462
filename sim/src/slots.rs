use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_flow_control::prefetch::prefetch;

use crate::pool::{Packet, Pool};

/// Bit set in the slot numbers of sent frames that the driver has not yet completed.
const SENT: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Slots {
    packets: Box<[u32]>,
    data: Vec<u32>,
    control: Vec<u32>,
    control_from: u32,
}

impl Slots {
    pub(crate) fn new(data: u32, control: u32) -> Slots {
        let count = data + control;
        Slots {
            packets: vec![0; count as usize].into_boxed_slice(),
            data: (0..data).rev().collect(),
            control: (data..count).rev().collect(),
            control_from: data,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.packets.len()).expect("the number of slots must fit into 32 bits")
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) -> u64 {
        let mut is_free = vec![false; self.packets.len()];
        self.data.iter().chain(&self.control).for_each(|slot| is_free[*slot as usize] = true);
        let here =
            self.packets.iter().zip(is_free).filter(|(packet, is_free)| !is_free && **packet & SENT == 0);
        let mut count = 0;
        for (packet, _) in here {
            pool.free(Packet { number: *packet, len: 0 });
            count += 1;
        }
        *self = Slots::new(self.control_from, self.count() - self.control_from);
        count
    }

    #[inline]
    pub(crate) fn fill(&mut self, packet: Packet) -> Option<Frame> {
        let slot = self.data.pop()?;
        self.packets[slot as usize] = packet.number;
        Some(Frame::new(slot, packet.len))
    }

    #[inline]
    pub(crate) fn send(&mut self, frame: &Frame) -> Packet {
        let packet = self.packet(frame);
        self.packets[frame.slot() as usize] |= SENT;
        packet
    }

    #[inline]
    pub(crate) fn filled_soon(&self, ahead: usize) -> Option<u32> {
        self.data.iter().rev().nth(ahead).copied()
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        self.packets.get(slot as usize).into_iter().for_each(prefetch);
    }

    #[inline]
    fn packet(&self, frame: &Frame) -> Packet {
        Packet { number: self.packets[frame.slot() as usize] & !SENT, len: frame.len() }
    }
}

pub(crate) struct View<'fabric> {
    pub(crate) pool: &'fabric mut Pool,
    pub(crate) slots: &'fabric mut Slots,
}

impl View<'_> {
    fn put(&mut self, slot: Option<u32>, packet: impl FnOnce(&mut Pool) -> Packet) -> Option<Frame> {
        let slot = slot?;
        let packet = packet(self.pool);
        self.slots.packets[slot as usize] = packet.number;
        Some(Frame::new(slot, packet.len))
    }
}

impl FrameStore for View<'_> {
    fn capacity(&self) -> u32 {
        self.slots.count()
    }

    #[inline]
    fn head(&self, frame: &Frame) -> &[u8] {
        self.pool.head(self.slots.packet(frame))
    }

    #[inline]
    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        self.pool.head_mut(self.slots.packet(frame))
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let len = self.pool.move_start(self.slots.packet(frame), by);
        len.inspect(|len| frame.resize(*len)).is_some()
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let (slot, packet) = (self.slots.data.pop(), self.slots.packet(frame));
        self.put(slot, |pool| pool.copy(packet))
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let slot = self.slots.data.pop();
        self.put(slot, |pool| pool.add_whole(bytes))
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        let slot = self.slots.control.pop();
        self.put(slot, |pool| pool.add_whole(bytes))
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        let (slot, len) = frame.into_parts();
        let number = self.slots.packets[slot as usize];
        if number & SENT == 0 {
            self.pool.free(Packet { number, len });
        }
        let free =
            if slot < self.slots.control_from { &mut self.slots.data } else { &mut self.slots.control };
        free.push(slot);
    }

    #[inline]
    fn leaves_soon(&self, slot: u32) {
        self.slots.prefetch(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_switch_fills_packet_slots_in_predicted_order() {
        let mut slots = Slots::new(4, 1);
        let freed = slots.data.remove(1);
        slots.data.push(freed);
        let expected: Vec<u32> = (0..5).map_while(|ahead| slots.filled_soon(ahead)).collect();
        let filled = (0..)
            .map_while(|number| slots.fill(Packet { number, len: 60 }).map(|frame| frame.into_parts().0));
        assert_eq!((expected.len(), filled.collect::<Vec<_>>()), (4, expected));
    }
}
