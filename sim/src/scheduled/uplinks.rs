use std::collections::VecDeque;

use xoff_wire::units::{PortId, PortSet};

use crate::pool::Packet;

#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) slot: u32,
    pub(super) index: u8,
}

#[derive(Debug)]
pub(super) struct Uplinks {
    first: u8,
    idle: PortSet,
    open: PortSet,
    with_messages: PortSet,
    places: Box<[u8]>,
    messages: Box<[VecDeque<Packet>]>,
    turn: PortId,
    pub(super) granted: VecDeque<Granted>,
}

impl Uplinks {
    pub(super) fn new(first: u8, spines: u8, places: u8) -> Uplinks {
        let all: PortSet = (0..spines).map(|spine| PortId(first + spine)).collect();
        Uplinks {
            first,
            idle: all,
            open: all,
            with_messages: PortSet::NONE,
            places: vec![places; spines.into()].into(),
            messages: (0..spines).map(|_| VecDeque::new()).collect(),
            turn: PortId(first),
            granted: VecDeque::new(),
        }
    }

    fn index(&self, port: PortId) -> usize {
        usize::from(port.0 - self.first)
    }

    pub(super) fn put_message(&mut self, port: PortId, message: Packet) {
        self.messages[self.index(port)].push_back(message);
        self.with_messages.insert(port);
    }

    pub(super) fn return_places(&mut self, port: PortId, places: u8) {
        if places > 0 {
            self.places[self.index(port)] += places;
            self.open.insert(port);
        }
    }

    pub(super) fn set_idle(&mut self, port: PortId) {
        self.idle.insert(port);
    }

    pub(super) fn take_message(&mut self) -> Option<(PortId, Packet)> {
        let port = self.idle.and(&self.with_messages).first_from(PortId(0))?;
        let messages = &mut self.messages[usize::from(port.0 - self.first)];
        let message = messages.pop_front()?;
        if messages.is_empty() {
            self.with_messages.remove(port);
        }
        self.idle.remove(port);
        Some((port, message))
    }

    pub(super) fn take_for_cell(&mut self) -> Option<PortId> {
        let port = self.idle.and(&self.open).next_from(self.turn)?;
        let places = &mut self.places[usize::from(port.0 - self.first)];
        *places -= 1;
        if *places == 0 {
            self.open.remove(port);
        }
        self.idle.remove(port);
        self.turn = PortId(port.0.wrapping_add(1));
        Some(port)
    }

    pub(super) fn packets(&self) -> usize {
        self.messages.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: sim-scheduled
    fn leaf_may_use_port_numbers_up_to_255_for_uplinks() {
        for (hosts, spines) in [(192, 64), (255, 1)] {
            let mut uplinks = Uplinks::new(hosts, spines, 1);
            let taken: Vec<_> = std::iter::from_fn(|| uplinks.take_for_cell()).collect();
            assert_eq!(taken, (hosts..=u8::MAX).map(PortId).collect::<Vec<_>>());
        }
    }
}
