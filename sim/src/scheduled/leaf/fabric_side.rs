use xoff_wire::units::{Bytes, PortId};

use super::super::header::{BYTES, CellHeader, Kind, LEN};
use super::super::uplinks::Granted;
use super::CellLeaf;
use crate::node::Net;
use crate::pool::Packet;

impl CellLeaf {
    pub(super) fn arrived_from_spine(&mut self, uplink: PortId, packet: Packet, net: &mut Net) {
        let Some(header) = CellHeader::parse(net.pool.head(packet)) else {
            return net.pool.free(packet);
        };
        self.uplinks.return_places(uplink, header.returned);
        let port = self.fabric.port_of(header.to);
        match header.kind {
            Kind::Cell => self.arrived_cell(port, &header, packet, net),
            Kind::Request => {
                let arbiter = &mut self.ports[port.index()].arbiters[header.class.index()];
                arbiter.request(header.from, header.cells);
                self.grant(port, header.class, net);
            }
            Kind::Grant => {
                let voq = self.ports[port.index()].voqs.get_mut(&(header.from, header.class));
                let slot = voq.and_then(|voq| voq.waiting.pop_front());
                self.uplinks.granted.extend(slot.map(|slot| Granted { slot, index: 0 }));
            }
            Kind::Returned => (),
        }
        if header.kind != Kind::Cell {
            net.pool.free(packet);
        }
        self.send_to_spines(net);
    }

    pub(super) fn send_to_spines(&mut self, net: &mut Net) {
        while let Some((port, message)) = self.uplinks.take_message() {
            net.start_bytes(self.place, port, message, Bytes(message.len.into()));
        }
        while let Some(&Granted { slot, index }) = self.uplinks.granted.front()
            && let Some(uplink) = self.uplinks.take_for_cell()
        {
            let is_last = index + 1 == self.frames.get(slot).cells;
            let cell = self.make_cell(slot, index, net);
            net.start_bytes(self.place, uplink, cell, Bytes(cell.len.into()));
            if is_last {
                self.uplinks.granted.pop_front();
                self.end_injection(slot, net);
            } else if let Some(granted) = self.uplinks.granted.front_mut() {
                granted.index += 1;
            }
        }
    }

    fn make_cell(&mut self, slot: u32, index: u8, net: &mut Net) -> Packet {
        let frame = *self.frames.get(slot);
        let header = CellHeader {
            kind: Kind::Cell,
            class: frame.class,
            from: self.server(frame.port),
            to: frame.to,
            sequence: frame.sequence,
            index,
            cells: frame.cells,
            returned: 0,
            frame_len: u16::try_from(frame.len).unwrap_or(u16::MAX),
        };
        let header = header.encode();
        let len = self.fabric.payload(frame.len, index.into()) + BYTES;
        let stored = self.frames.get_mut(slot).packet.take();
        let Some(packet) = stored else { return net.pool.add(&header, len) };
        if self.congestion.ingress().contains(frame.class) {
            self.congestion.left(frame.port, frame.port, frame.class, slot, frame.size());
        }
        net.pool.move_start(packet, -HEADER_LEN);
        net.pool.head_mut(packet)[..LEN].copy_from_slice(&header);
        net.pool.resize(packet, len)
    }

    fn end_injection(&mut self, slot: u32, net: &mut Net) {
        let frame = *self.frames.get(slot);
        self.frames.free(slot);
        let rest = self.ports[frame.port.index()].buffered[frame.class.index()].saturating_sub(frame.size());
        self.set_buffered(frame.port, frame.class, rest, net.now().floor());
        self.send_to_server(frame.port, net);
    }

    fn arrived_cell(&mut self, port: PortId, header: &CellHeader, packet: Packet, net: &mut Net) {
        let first = if header.index == 0 {
            net.pool.move_start(packet, HEADER_LEN);
            Some(net.pool.resize(packet, header.frame_len.into()))
        } else {
            net.pool.free(packet);
            None
        };
        let complete: Vec<_> = self.ports[port.index()].reassembly.add(header, first).collect();
        for (frame, cells) in complete {
            self.queue(port, header.class, (frame, cells), net);
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // 32
const HEADER_LEN: i32 = LEN as i32;
