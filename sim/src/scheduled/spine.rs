use std::collections::VecDeque;
use std::sync::Arc;

use xoff_flow_control::counters::Counters;
use xoff_wire::units::{Bytes, Class, PortId};

use super::Scheduled;
use super::header::{BYTES, CellHeader, Kind, RETURNED};
use crate::node::{Net, Node, Place};
use crate::pool::Packet;

/// Spine of a scheduled fabric: forwards cells, requests and grants to their destination's leaf.
///
/// A cell waits in the input buffer until the output buffer has a free place. A leaf sends only as many cells as the
/// input buffer has free places. Requests and grants overtake cells.
#[derive(Debug)]
pub struct CellSpine {
    place: Place,
    fabric: Scheduled,
    counters: Arc<Counters>,
    ports: Box<[SpinePort]>,
}

#[derive(Debug)]
struct SpinePort {
    is_busy: bool,
    messages: VecDeque<Packet>,
    /// Cells to this port's leaf, with class and input port; the first ones in this port's output buffer, the others
    /// still in input buffers.
    cells: VecDeque<(Packet, Class, PortId)>,
    /// Freed places in the input buffer, to be reported to the leaf by the next packet, or by a message once they are
    /// half of the buffer.
    owed: u8,
}

impl CellSpine {
    /// Creates a spine.
    #[must_use]
    pub fn new(place: Place, fabric: Scheduled) -> CellSpine {
        let port =
            || SpinePort { is_busy: false, messages: VecDeque::new(), cells: VecDeque::new(), owed: 0 };
        CellSpine {
            place,
            fabric,
            counters: Counters::new(fabric.leaves.into()),
            ports: (0..fabric.leaves).map(|_| port()).collect(),
        }
    }

    /// Returns the spine's counters, which count cells as frames.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn free_place(&mut self, input: PortId, net: &mut Net) {
        self.ports[input.index()].owed += 1;
        self.send(input, net);
    }

    fn send(&mut self, to: PortId, net: &mut Net) {
        let port = &mut self.ports[to.index()];
        if port.is_busy {
            return;
        }
        let mut freed = None;
        let packet = if let Some(message) = port.messages.pop_front() {
            message
        } else if let Some((cell, class, _)) = port.cells.pop_front() {
            freed = port.cells.get(usize::from(self.fabric.spine_buffer) - 1).map(|(.., input)| *input);
            let counters = self.counters.class(to, class);
            counters.egress_bytes.sub(cell.len.into());
            counters.tx_frames.add(1);
            counters.tx_bytes.add(cell.len.into());
            cell
        } else if port.owed >= self.fabric.spine_buffer.div_ceil(2) {
            net.pool.add(&CellHeader::ONLY_RETURNED.encode(), BYTES)
        } else {
            return;
        };
        port.is_busy = true;
        net.pool.head_mut(packet)[RETURNED] = std::mem::take(&mut port.owed);
        net.start_bytes(self.place, to, packet, Bytes(packet.len.into()));
        if let Some(input) = freed {
            self.free_place(input, net);
        }
    }
}

impl Node for CellSpine {
    fn arrived(&mut self, from: PortId, packet: Packet, net: &mut Net) {
        let Some(header) = CellHeader::parse(net.pool.head(packet)) else {
            return net.pool.free(packet);
        };
        let to = PortId(self.fabric.leaf_of(header.to));
        let port = &mut self.ports[to.index()];
        if header.kind == Kind::Cell {
            let (rx, tx) = (self.counters.class(from, header.class), self.counters.class(to, header.class));
            rx.rx_frames.add(1);
            rx.rx_bytes.add(packet.len.into());
            tx.egress_bytes.add(packet.len.into());
            tx.egress_watermark.raise(tx.egress_bytes.get());
            port.cells.push_back((packet, header.class, from));
            if port.cells.len() <= self.fabric.spine_buffer.into() {
                self.free_place(from, net);
            }
        } else {
            port.messages.push_back(packet);
        }
        self.send(to, net);
    }

    fn left(&mut self, to: PortId, net: &mut Net) {
        self.ports[to.index()].is_busy = false;
        self.send(to, net);
    }

    fn due(&mut self, _: &mut Net) {}

    fn holds(&self) -> u64 {
        self.ports.iter().map(|port| (port.messages.len() + port.cells.len()) as u64).sum()
    }
}
