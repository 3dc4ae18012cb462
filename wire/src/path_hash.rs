//! Hash of a frame, which selects one of several equal-cost paths.

use pnet_packet::ethernet::{EtherType, EtherTypes};
use pnet_packet::ip::IpNextHeaderProtocols;

use super::flow::{FlowKey, Upper, until_limit};
use super::header::Header;

const BRIDGED: EtherType = EtherType(0x6558);

/// Header fields that, besides the addresses, select the path of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct PathHash {
    pub protocol: bool,
    /// True if the hash includes ports of TCP, UDP, UDP-Lite, SCTP and DCCP. Fragments have none.
    pub ports: bool,
    /// True if a nonzero IPv6 flow label replaces protocol and ports (RFC 6438).
    pub flow_label: bool,
    /// True if headers inside VXLAN, GENEVE, GRE and IP-in-IP replace the outer ones.
    pub inner: bool,
}

impl Default for PathHash {
    fn default() -> PathHash {
        PathHash { protocol: true, ports: true, flow_label: false, inner: false }
    }
}

impl PathHash {
    /// Names of the fields in configuration and status.
    pub const FIELDS: [&str; 4] = ["protocol", "ports", "flow-label", "inner"];

    /// Creates a hash of the fields for whose names `includes` returns true.
    pub fn of_fields(includes: impl Fn(&str) -> bool) -> PathHash {
        let [protocol, ports, flow_label, inner] = PathHash::FIELDS.map(includes);
        PathHash { protocol, ports, flow_label, inner }
    }

    /// Returns the names of the fields in use.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let PathHash { protocol, ports, flow_label, inner } = self;
        let in_use = [protocol, ports, flow_label, inner];
        PathHash::FIELDS.into_iter().zip(in_use).filter_map(|(name, is_in_use)| is_in_use.then_some(name))
    }

    /// Returns the hash of a frame, which is the same on all machines and for all frames of a flow.
    #[must_use]
    pub fn digest(self, header: &Header, head: &[u8]) -> u64 {
        let head = until_limit(head);
        self.key(header, head).digest()
    }

    fn key(self, header: &Header, head: &[u8]) -> FlowKey {
        let packet = header.payload(head);
        let upper = Upper::of(header.ether_type, packet);
        if self.inner
            && let Some(payload) = upper.and_then(|upper| payload(&upper, packet))
            && let Some(inner) = self.key_of_payload(&payload)
        {
            return inner;
        }
        let key = upper.and_then(|upper| self.key_of_packet(header.ether_type, packet, &upper));
        key.unwrap_or_else(|| FlowKey::of(header, head))
    }

    fn key_of_payload(self, payload: &Payload<'_>) -> Option<FlowKey> {
        let (ether_type, packet) = match *payload {
            Payload::Packet(ether_type, packet) => (ether_type, packet),
            Payload::Frame(frame) => {
                let header = Header::parse(frame).ok()?;
                let packet = header.payload(frame);
                if Upper::of(header.ether_type, packet).is_none() {
                    return Some(FlowKey::of(&header, frame));
                }
                (header.ether_type, packet)
            }
        };
        self.key_of_packet(ether_type, packet, &Upper::of(ether_type, packet)?)
    }

    fn key_of_packet(self, ether_type: EtherType, packet: &[u8], upper: &Upper) -> Option<FlowKey> {
        let label = if self.flow_label { flow_label(ether_type, packet) } else { 0 };
        let mut key = FlowKey::of_packet(ether_type, packet, upper)?;
        if let FlowKey::V4 { protocol, ports, .. } | FlowKey::V6 { protocol, ports, .. } = &mut key {
            match label {
                0 => {
                    *protocol = if self.protocol { *protocol } else { 0 };
                    *ports = if self.ports { *ports } else { [0, 0] };
                }
                _ => {
                    let [_, high, low @ ..] = label.to_be_bytes();
                    (*protocol, *ports) = (0, [high.into(), u16::from_be_bytes(low)]);
                }
            }
        }
        Some(key)
    }
}

fn flow_label(ether_type: EtherType, packet: &[u8]) -> u32 {
    match *packet {
        [a, b, c, d, ..] if ether_type == EtherTypes::Ipv6 => u32::from_be_bytes([a, b, c, d]) & 0xf_ffff,
        _ => 0,
    }
}

enum Payload<'a> {
    Packet(EtherType, &'a [u8]),
    Frame(&'a [u8]),
}

impl<'a> Payload<'a> {
    fn of(ether_type: EtherType, bytes: Option<&'a [u8]>) -> Option<Payload<'a>> {
        match ether_type {
            BRIDGED => bytes.map(Payload::Frame),
            EtherTypes::Ipv4 | EtherTypes::Ipv6 => bytes.map(|packet| Payload::Packet(ether_type, packet)),
            _ => None,
        }
    }
}

fn payload<'a>(upper: &Upper, packet: &'a [u8]) -> Option<Payload<'a>> {
    let bytes = upper.payload(packet);
    match upper.protocol {
        IpNextHeaderProtocols::Ipv4 => Payload::of(EtherTypes::Ipv4, Some(bytes)),
        IpNextHeaderProtocols::Ipv6 => Payload::of(EtherTypes::Ipv6, Some(bytes)),
        IpNextHeaderProtocols::Gre => in_gre(bytes),
        IpNextHeaderProtocols::Udp => in_udp(bytes),
        _ => None,
    }
}

fn in_gre(bytes: &[u8]) -> Option<Payload<'_>> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    const VERSION: u8 = 0x07;
    let &[flags, version, t0, t1, ..] = bytes else { return None };
    if flags & ROUTING != 0 || version & VERSION != 0 {
        return None;
    }
    let options = [CHECKSUM, KEY, SEQUENCE].into_iter().filter(|option| flags & option != 0).count();
    Payload::of(EtherType(u16::from_be_bytes([t0, t1])), bytes.get(4 + 4 * options..))
}

fn in_udp(bytes: &[u8]) -> Option<Payload<'_>> {
    const HEADER: usize = 8;
    const VXLAN: u16 = 4789;
    const VXLAN_HAS_VNI: u8 = 0x08;
    const GENEVE: u16 = 6081;
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let tunnel = bytes.get(HEADER..)?;
    let &[first, _, t0, t1, ..] = tunnel else { return None };
    match port {
        VXLAN if first & VXLAN_HAS_VNI != 0 => tunnel.get(8..).map(Payload::Frame),
        GENEVE if first >> 6 == 0 => {
            let options = 4 * usize::from(first & 0x3f);
            Payload::of(EtherType(u16::from_be_bytes([t0, t1])), tunnel.get(8 + options..))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
