use xoff_host::{Gate, Obedience};
use xoff_wire::Header;
use xoff_wire::units::{Class, MacAddr, Nanos, PortId};

use crate::ends::Line;
use crate::node::{Net, Node, Place};
use crate::pool::{Packet, is_mac_control};
use crate::time::Picos;

const LINE: PortId = PortId(0);
const HEAD: usize = 60;
const SEQUENCE: std::ops::Range<usize> = 18..20;

/// Flow of equal frames to one host, sent at line rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Flow {
    pub to: u32,
    pub class: Class,
    /// Frame length in bytes, without FCS; at least 60.
    pub frame_len: u32,
    pub frames: u64,
    pub from: Picos,
}

/// Simulated host that sends at most one flow at a time.
#[derive(Debug)]
pub struct Host {
    place: Place,
    is_free: bool,
    class: Class,
    frame_len: u32,
    from: Picos,
    left: u64,
    paused_until: Nanos,
    head: [u8; HEAD],
    sent: u64,
    received: u64,
    bytes_received: u64,
    last_received: Picos,
    out_of_order: u64,
    expected: u16,
    gate: Box<Gate>,
}

/// Returns the MAC address of a host.
#[must_use]
pub fn address(number: u32) -> MacAddr {
    let [a, b, c, d] = number.to_be_bytes();
    MacAddr([2, 0, a, b, c, d])
}

pub(crate) const fn ip(number: u32) -> [u8; 4] {
    (0x0a00_0001 + number).to_be_bytes()
}

impl Host {
    pub(crate) fn new(place: Place, lines: &[Line]) -> Host {
        Host {
            place,
            is_free: true,
            class: Class::ALL[0],
            frame_len: 0,
            from: Picos::NEVER,
            left: 0,
            paused_until: Nanos::ZERO,
            head: [0; HEAD],
            sent: 0,
            received: 0,
            bytes_received: 0,
            last_received: Picos::ZERO,
            out_of_order: 0,
            expected: 0,
            gate: Box::new(Gate::new(lines[0].rate, Obedience::Obey, false)),
        }
    }

    pub(crate) fn begin(&mut self, number: u32, flow: &Flow, net: &mut Net) {
        assert!(self.left == 0, "host {number} still has {} frames of another flow to send", self.left);
        self.head = head(number, flow);
        (self.class, self.frame_len) = (flow.class, flow.frame_len);
        (self.from, self.left) = (flow.from, flow.frames);
        self.look_at_gate(net); // the gate may already know of pauses of this class
        net.wake(self.place, flow.from);
    }

    /// Returns how many frames the host has sent, including one still on the line.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns how many frames have arrived.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns how many bytes have arrived, without FCS.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received
    }

    /// Returns the arrival time of the last received frame.
    #[must_use]
    pub fn last_received(&self) -> Picos {
        self.last_received
    }

    /// Returns how many frames arrived out of order, or after a missing one.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Returns the gate, which obeys and counts received pauses.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    #[cold]
    fn obey(&mut self, now: Nanos, head: &[u8]) {
        if let Ok(header) = Header::parse(head) {
            self.gate.receive(now, &header, head);
        }
    }

    #[cold]
    fn look_at_gate(&mut self, net: &mut Net) {
        let now = net.now().floor();
        let is_paused = self.gate.paused(now).contains(self.class);
        self.paused_until = if is_paused { self.gate.next_change() } else { Nanos::ZERO };
        if is_paused && self.paused_until < Nanos::NEVER {
            net.wake(self.place, Picos::from(self.paused_until));
        }
    }

    #[inline]
    fn send(&mut self, net: &mut Net) {
        if !self.is_free || net.now() < self.from || self.left == 0 {
            return;
        }
        if self.paused_until > Nanos::ZERO {
            if net.now().floor() < self.paused_until {
                return;
            }
            self.look_at_gate(net);
            if self.paused_until > Nanos::ZERO {
                return;
            }
        }
        self.is_free = false;
        #[allow(clippy::cast_possible_truncation)] // the low bits suffice
        let sequence = self.sent as u16;
        self.head[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
        self.sent += 1;
        self.left -= 1;
        let packet = net.pool.add(&self.head, self.frame_len);
        net.start(self.place, LINE, packet);
    }
}

impl Node for Host {
    #[inline]
    fn arrived(&mut self, _: PortId, packet: Packet, net: &mut Net) {
        let head = net.pool.head(packet);
        if is_mac_control(head) {
            self.obey(net.now().floor(), head);
            net.pool.free(packet);
            self.look_at_gate(net);
            return self.send(net);
        }
        let sequence = head.get(SEQUENCE).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes);
        self.out_of_order += u64::from(sequence != Some(self.expected));
        self.expected = sequence.unwrap_or(self.expected).wrapping_add(1);
        self.received += 1;
        self.bytes_received += u64::from(packet.len);
        self.last_received = net.now();
        net.pool.free(packet);
    }

    #[inline]
    fn left(&mut self, _: PortId, net: &mut Net) {
        self.is_free = true;
        self.send(net);
    }

    #[inline]
    fn due(&mut self, net: &mut Net) {
        self.send(net);
    }

    fn linked(&mut self, _: PortId, is_up: bool, net: &mut Net) {
        if !is_up {
            self.gate.link_lost(net.now().floor());
            self.look_at_gate(net);
            self.send(net);
        }
    }

    fn holds(&self) -> u64 {
        0
    }
}

fn head(number: u32, flow: &Flow) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..6].copy_from_slice(&address(flow.to).0);
    head[6..12].copy_from_slice(&address(number).0);
    let [high, low] = u16::try_from(flow.frame_len.saturating_sub(14)).unwrap_or(u16::MAX).to_be_bytes();
    head[12..24].copy_from_slice(&[8, 0, 0x45, flow.class.get() << 5, high, low, 0, 0, 0x40, 0, 64, 17]);
    head[26..30].copy_from_slice(&ip(number));
    head[30..34].copy_from_slice(&ip(flow.to));
    head[34..38].copy_from_slice(&[0xc0, 0, 0x12, 0xb7]); // RoCEv2's port
    head
}
