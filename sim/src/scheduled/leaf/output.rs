use xoff_flow_control::pause::Resumed;
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, Quanta};
use xoff_wire::{Header, MacControl, Pfc};

use super::super::frames::StoredFrame;
use super::super::header::{CellHeader, Kind};
use super::super::reassembly::Complete;
use super::CellLeaf;
use super::port::Sending;
use crate::node::Net;
use crate::pool::Packet;

impl CellLeaf {
    pub(super) fn grant(&mut self, port: PortId, class: Class, net: &mut Net) {
        while let Some(input) = self.ports[port.index()].arbiters[class.index()].grant() {
            let grant = CellHeader {
                kind: Kind::Grant,
                class,
                from: self.server(port),
                to: input,
                sequence: 0,
                index: 0,
                cells: 0,
                returned: 0,
                frame_len: 0,
            };
            self.put_message(&grant, net);
        }
    }

    pub(super) fn queue(&mut self, port: PortId, class: Class, (packet, cells): Complete, net: &mut Net) {
        let to = self.server(port);
        let frame =
            StoredFrame { packet: Some(packet), class, port, to, cells, sequence: 0, len: packet.len };
        let slot = self.frames.put(frame);
        let at = &mut self.ports[port.index()];
        at.queues[class.index()].push_back(slot);
        at.backlogged.insert(class);
        let counters = self.counters.class(port, class);
        counters.egress_bytes.add(frame.size().0);
        counters.egress_watermark.raise(counters.egress_bytes.get());
        if self.congestion.egress().contains(class) {
            self.sample(port, slot, Bytes(counters.egress_bytes.get()), net);
        }
        self.send_to_server(port, net);
    }

    pub(super) fn send_to_server(&mut self, port: PortId, net: &mut Net) {
        if self.ports[port.index()].is_busy {
            return;
        }
        let packet = self.next_pause(port, net).or_else(|| self.ports[port.index()].notices.pop_front());
        let Some(packet) = packet.or_else(|| self.next_frame(port)) else { return };
        self.ports[port.index()].is_busy = true;
        net.start(self.place, port, packet);
    }

    fn next_pause(&mut self, port: PortId, net: &mut Net) -> Option<Packet> {
        let at = &mut self.ports[port.index()];
        let what = at.held.announce(net.now().floor())?;
        let time = |class| if what.xon.contains(class) { Quanta(0) } else { at.settings.pause_time };
        let pfc = what.vector().iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time(class)));
        let bytes = MacControl::Pfc(pfc).encode(at.settings.mac);
        self.counters.port(port).pause_frames_sent.add(1);
        for class in what.vector().iter() {
            let counters = self.counters.class(port, class);
            counters.xoff_sent.add(u64::from(what.xoff.contains(class)));
            counters.xon_sent.add(u64::from(what.xon.contains(class)));
            counters.refreshes_sent.add(u64::from(what.refreshed.contains(class)));
        }
        self.schedule(port, net);
        Some(self.make_pause(port, &bytes, net))
    }

    fn next_frame(&mut self, port: PortId) -> Option<Packet> {
        let at = &mut self.ports[port.index()];
        let class = at.next_class()?;
        let queue = &mut at.queues[class.index()];
        let slot = queue.pop_front()?;
        if queue.is_empty() {
            at.backlogged.remove(class);
        }
        at.last_class = class.index();
        let frame = *self.frames.get(slot);
        at.sending = Some(Sending { class, size: frame.size(), cells: frame.cells });
        if self.congestion.egress().contains(class) {
            self.congestion.left(port, port, class, slot, frame.size());
        }
        self.frames.free(slot);
        frame.packet
    }

    pub(super) fn left_to_server(&mut self, port: PortId, net: &mut Net) {
        let at = &mut self.ports[port.index()];
        at.is_busy = false;
        if let Some(Sending { class, size, cells }) = at.sending.take() {
            at.arbiters[class.index()].give_back(cells);
            let counters = self.counters.class(port, class);
            counters.egress_bytes.sub(size.0);
            counters.tx_frames.add(1);
            counters.tx_bytes.add(size.0);
            self.grant(port, class, net);
            self.send_to_spines(net);
        }
        self.send_to_server(port, net);
    }

    pub(super) fn obey(&mut self, port: PortId, header: &Header, packet: Packet, net: &mut Net) {
        let now = net.now().floor();
        let at = &mut self.ports[port.index()];
        let counters = self.counters.port(port);
        let (classes, times) = match MacControl::parse(header, net.pool.head(packet)) {
            Ok(MacControl::Pfc(pfc)) => {
                counters.pfc_frames_received.add(1);
                let mut times = [Quanta(0); CLASSES];
                pfc.iter().for_each(|(class, time)| times[class.index()] = time);
                (pfc.iter().map(|(class, _)| class).collect(), times)
            }
            Ok(MacControl::Pause(time)) => {
                counters.pause_frames_received.add(1);
                (Class::ALL.into_iter().collect(), [time; CLASSES])
            }
            Err(error) => {
                counters.malformed_control[error.index()].add(1);
                (ClassSet::NONE, [Quanta(0); CLASSES])
            }
        };
        let resumed = at.paused.receive(now, classes, &times);
        for class in classes.iter() {
            let counters = &counters.classes[class.index()];
            let is_xoff = times[class.index()] > Quanta(0);
            counters.xoff_received.add(u64::from(is_xoff));
            counters.xon_received.add(u64::from(!is_xoff));
            if let Some(since) = at.paused.since(class) {
                counters.paused_since.set(since.0.max(1));
            }
        }
        self.note_resumed(port, &resumed);
        net.pool.free(packet);
        self.schedule(port, net);
    }

    pub(super) fn advance(&mut self, port: PortId, now: Nanos) {
        let at = &mut self.ports[port.index()];
        at.held.advance(now);
        let resumed = at.paused.expire(now);
        self.note_resumed(port, &resumed);
    }

    fn note_resumed(&self, port: PortId, resumed: &Resumed) {
        for class in resumed.classes.iter() {
            let (counters, paused_for) = (self.class(port, class), resumed.paused_for[class.index()].0);
            counters.paused_since.set(0);
            counters.paused_nanos.add(paused_for);
            counters.paused_durations.record(paused_for);
        }
    }
}
