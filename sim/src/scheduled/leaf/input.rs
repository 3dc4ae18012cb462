use xoff_flow_control::cause::{Cause, Trigger};
use xoff_flow_control::congestion::culprit::flow_digest;
use xoff_flow_control::congestion::points::Arrival;
use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::cnm::CnmFrame;
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId};
use xoff_wire::{Header, MacControl};

use super::super::frames::StoredFrame;
use super::super::header::{BYTES, CellHeader, Kind};
use super::CellLeaf;
use super::port::input_most;
use crate::node::Net;
use crate::pool::Packet;

impl CellLeaf {
    pub(super) fn arrived_from_server(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        let head = net.pool.head(packet);
        let settings = &self.ports[port.index()].settings;
        let Ok(header) = Header::parse(head) else {
            let class = settings.default_class;
            return self.drop_frame((port, class), DropReason::Malformed, packet, net);
        };
        if MacControl::is_mac_control(&header) {
            self.obey(port, &header, packet, net);
            return self.send_to_server(port, net);
        }
        let class = self.ports[port.index()].classifier.classify(&header);
        let counters = self.class(port, class);
        counters.rx_frames.add(1);
        counters.rx_bytes.add(Bytes::of_frame(packet.len).0);
        match self.destination(port, header.dst) {
            Ok(to) => _ = self.admit(port, class, to, packet, net),
            Err(reason) => self.drop_frame((port, class), reason, packet, net),
        }
    }

    fn destination(&self, port: PortId, to: MacAddr) -> Result<u16, DropReason> {
        let number = self.server_of(to).ok_or(DropReason::NoDestination)?;
        if number == self.server(port) { Err(DropReason::Hairpin) } else { Ok(number) }
    }

    fn server_of(&self, address: MacAddr) -> Option<u16> {
        let [first, second, number @ ..] = address.0;
        let number = u32::from_be_bytes(number);
        let exists = [first, second] == [2, 0] && number < self.fabric.servers();
        u16::try_from(number).ok().filter(|_| exists)
    }

    /// Queues a frame to server `to`; returns false if it was dropped.
    fn admit(&mut self, port: PortId, class: Class, to: u16, packet: Packet, net: &mut Net) -> bool {
        let settings = self.ports[port.index()].settings.classes[class.index()];
        let size = Bytes::of_frame(packet.len);
        let buffered = self.ports[port.index()].buffered[class.index()].saturating_add(size);
        let cells = u8::try_from(self.fabric.cells(packet.len));
        let reason = match cells {
            Err(_) => Some(DropReason::TooLong),
            Ok(_) if packet.len > self.ports[port.index()].settings.mtu_frame => Some(DropReason::TooLong),
            Ok(_) if buffered <= input_most(&settings) => None,
            Ok(_) if settings.lossless => Some(DropReason::HeadroomExhausted),
            Ok(_) => Some(DropReason::IngressFull),
        };
        if let Some(reason) = reason {
            self.drop_frame((port, class), reason, packet, net);
            return false;
        }
        let cells = cells.unwrap_or(u8::MAX);
        let voq = self.ports[port.index()].voqs.entry((to, class)).or_default();
        let sequence = voq.next;
        let frame = StoredFrame { packet: Some(packet), class, port, to, cells, sequence, len: packet.len };
        let slot = self.frames.put(frame);
        voq.next = sequence.wrapping_add(1);
        voq.waiting.push_back(slot);
        self.set_buffered(port, class, buffered, net.now().floor());
        let request = CellHeader {
            kind: Kind::Request,
            class,
            from: self.server(port),
            to,
            sequence,
            index: 0,
            cells,
            returned: 0,
            frame_len: 0,
        };
        self.put_message(&request, net);
        if self.congestion.ingress().contains(class) {
            self.sample(port, slot, buffered, net);
        }
        self.send_to_server(port, net);
        self.send_to_spines(net);
        true
    }

    pub(super) fn put_message(&mut self, message: &CellHeader, net: &mut Net) {
        let spine = self.fabric.spine_of_messages(message.from, message.to);
        let packet = net.pool.add(&message.encode(), BYTES);
        self.uplinks.put_message(self.fabric.uplink(spine), packet);
    }

    pub(super) fn set_buffered(&mut self, port: PortId, class: Class, bytes: Bytes, now: Nanos) {
        let at = &mut self.ports[port.index()];
        at.buffered[class.index()] = bytes;
        let settings = &at.settings.classes[class.index()];
        let counters = self.counters.class(port, class);
        counters.ingress_bytes.set(bytes.0);
        counters.ingress_watermark.raise(bytes.0);
        if settings.lossless {
            let beyond = bytes.saturating_sub(settings.xoff).0;
            counters.headroom_bytes.set(beyond);
            counters.headroom_watermark.raise(beyond);
        }
        if !at.sends_pauses.contains(class) {
            return;
        }
        if bytes >= settings.xoff && at.held.xoff(now, class) {
            let trigger = Trigger::Ingress.index();
            let cause = Cause { trigger, class, culprit: None, relayed: false };
            counters.held_since.set(now.0.max(1));
            counters.held_cause.set(cause.pack());
            counters.xoff_causes.count(cause);
        } else if bytes < settings.xon
            && let Some(held_for) = at.held.xon(now, class)
        {
            counters.end_hold(held_for);
        }
    }

    /// Counts a frame at a port's congestion point (QCN). If a sample is due, sends a CNM to the source of the frame
    /// chosen as culprit.
    pub(super) fn sample(&mut self, port: PortId, slot: u32, occupancy: Bytes, net: &mut Net) {
        let frame = *self.frames.get(slot);
        let class = frame.class;
        let arrival = Arrival { port, class, slot, size: frame.size(), occupancy };
        let flow = || {
            let head = frame.packet.map_or(&[][..], |packet| net.pool.head(packet));
            Header::parse(head).map_or(0, |header| flow_digest(&header, head))
        };
        let Some(sample) = self.congestion.arrived(&arrival, flow) else { return };
        let counters = self.counters.class(port, class);
        counters.qcn_samples.add(1);
        counters.qcn_feedback.set(sample.feedback.into());
        if !sample.notify {
            return;
        }
        let culprit = self.congestion.culprit(port, class, slot, |slot| self.frames.get(slot).size());
        let packet = culprit.and_then(|slot| self.frames.get(slot).packet);
        let notice = packet.and_then(|packet| {
            let head = net.pool.head(packet);
            let mac = self.ports[port.index()].settings.mac;
            sample.notice((&Header::parse(head).ok()?, head), mac, class)
        });
        let is_sent = notice
            .is_some_and(|(envelope, cnm)| self.send_notice(port, envelope.dst, &cnm.encode(&envelope), net));
        let counters = self.class(port, class);
        if is_sent {
            counters.cnms_sent.add(1);
            counters.cnm_feedback_sum.add(sample.feedback.into());
        } else {
            counters.cnms_not_sent.add(1);
        }
    }

    fn send_notice(&mut self, port: PortId, to: MacAddr, notice: &CnmFrame, net: &mut Net) -> bool {
        let Some(server) = self.server_of(to) else { return false };
        let packet = net.pool.add_whole(notice.as_bytes());
        if u32::from(self.fabric.leaf_of(server)) == self.place.id().0 {
            let at = self.fabric.port_of(server);
            self.ports[at.index()].notices.push_back(packet);
            self.send_to_server(at, net);
            true
        } else {
            let class = self.ports[port.index()].settings.default_class;
            self.admit(port, class, server, packet, net)
        }
    }
}
