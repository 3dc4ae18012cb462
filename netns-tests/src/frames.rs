//! Builds frames byte by byte. Pause frames do not come from the switch's encoder, so that tests do not share the
//! encoder's errors.

use std::net::{Ipv4Addr, Ipv6Addr};

use pnet_packet::ipv4::{self, MutableIpv4Packet};
use pnet_packet::udp::{self, MutableUdpPacket};
use pnet_packet::{MutablePacket, ip::IpNextHeaderProtocols};
use xoff_wire::units::MacAddr;

/// Local experimental EtherType 1 of IEEE 802. Hosts ignore such frames; bridges forward them.
pub const EXPERIMENTAL: u16 = 0x88b5;
pub const MAC_CONTROL: u16 = 0x8808;
pub const PAUSE_ADDRESS: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 1]);

pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;

const CUSTOMER_TAG: u16 = 0x8100;

#[derive(Clone, Debug)]
pub struct Frame {
    header: Vec<u8>,
    ether_type: u16,
    payload: Vec<u8>,
}

impl Frame {
    #[must_use]
    pub fn new(source: MacAddr, destination: MacAddr) -> Frame {
        let header = [destination.0, source.0].concat();
        Frame { header, ether_type: EXPERIMENTAL, payload: Vec::new() }
    }

    #[must_use]
    pub fn tag(self, pcp: u8, vid: u16) -> Frame {
        self.tag_of_type(CUSTOMER_TAG, pcp, vid)
    }

    #[must_use]
    pub fn tag_of_type(mut self, tag_type: u16, pcp: u8, vid: u16) -> Frame {
        self.header.extend(tag_type.to_be_bytes());
        self.header.extend((u16::from(pcp) << 13 | vid).to_be_bytes());
        self
    }

    #[must_use]
    pub fn payload(mut self, ether_type: u16, payload: &[u8]) -> Frame {
        self.ether_type = ether_type;
        self.payload = payload.to_vec();
        self
    }

    /// Sets the experimental EtherType, and writes a number that [`sequence`] reads.
    #[must_use]
    pub fn numbered(self, number: u32) -> Frame {
        self.payload(EXPERIMENTAL, &number.to_be_bytes())
    }

    /// Adds a UDP datagram over IPv4 to the discard port.
    #[must_use]
    pub fn udp(self, dscp: u8, data: &[u8]) -> Frame {
        let mut bytes = vec![0; 28 + data.len()];
        let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
        let mut ip = MutableIpv4Packet::new(&mut bytes).unwrap();
        ip.set_version(4);
        ip.set_header_length(5);
        ip.set_dscp(dscp);
        ip.set_total_length(u16::try_from(28 + data.len()).unwrap());
        ip.set_ttl(64);
        ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
        ip.set_source(source);
        ip.set_destination(destination);
        ip.set_checksum(ipv4::checksum(&ip.to_immutable()));
        let mut datagram = MutableUdpPacket::new(ip.payload_mut()).unwrap();
        datagram.set_source(4791);
        datagram.set_destination(9);
        datagram.set_length(u16::try_from(8 + data.len()).unwrap());
        datagram.set_payload(data);
        let checksum = udp::ipv4_checksum(&datagram.to_immutable(), &source, &destination);
        datagram.set_checksum(checksum);
        self.payload(IPV4, &bytes)
    }

    #[must_use]
    pub fn ipv6(self, dscp: u8, data: &[u8]) -> Frame {
        let mut bytes = vec![0; 40];
        bytes[0] = 6 << 4 | dscp >> 2;
        bytes[1] = dscp << 6;
        bytes[4..6].copy_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        bytes[6..8].copy_from_slice(&[59, 64]); // no next header; hop limit
        bytes[8..24].copy_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
        bytes[24..40].copy_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).octets());
        bytes.extend(data);
        self.payload(IPV6, &bytes)
    }

    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        self.build_len(60)
    }

    #[must_use]
    pub fn build_len(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.header.clone();
        bytes.extend(self.ether_type.to_be_bytes());
        bytes.extend(&self.payload);
        bytes.resize(bytes.len().max(len), 0);
        bytes
    }
}

#[must_use]
pub fn pfc(source: MacAddr, classes: &[(u8, u16)]) -> Vec<u8> {
    let mut bytes = Frame::new(source, PAUSE_ADDRESS).payload(MAC_CONTROL, &[0x01, 0x01]).build();
    for &(class, quanta) in classes {
        let class = usize::from(class);
        bytes[17] |= 1 << class;
        bytes[18 + 2 * class..20 + 2 * class].copy_from_slice(&quanta.to_be_bytes());
    }
    bytes
}

/// Returns a frame that limits the peer to the line rate / 2^`step` in a class (GFC).
#[must_use]
pub fn rate(source: MacAddr, class: u8, step: u8) -> Vec<u8> {
    let mut bytes = pfc(source, &[]);
    bytes[34..38].copy_from_slice(b"GFC1");
    bytes[38] = 1 << class;
    bytes[40 + usize::from(class)] = step;
    bytes[48..50].copy_from_slice(&u16::MAX.to_be_bytes());
    bytes
}

#[must_use]
pub fn pause(source: MacAddr, quanta: u16) -> Vec<u8> {
    let [high, low] = quanta.to_be_bytes();
    Frame::new(source, PAUSE_ADDRESS).payload(MAC_CONTROL, &[0x00, 0x01, high, low]).build()
}

#[must_use]
pub fn has_type(bytes: &[u8], ether_type: u16) -> bool {
    bytes.get(12..14) == Some(&ether_type.to_be_bytes())
}

/// Returns the EtherType behind any VLAN tag; 0 for a truncated frame.
#[must_use]
pub fn ether_type(bytes: &[u8]) -> u16 {
    let at = if tag_of(bytes).is_some() { 16 } else { 12 };
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[must_use]
pub fn is_pfc(bytes: &[u8]) -> bool {
    has_type(bytes, MAC_CONTROL) && bytes.get(14..16) == Some(&[0x01, 0x01])
}

#[must_use]
pub fn pfc_time(bytes: &[u8], class: u8) -> Option<u16> {
    let at = 18 + 2 * usize::from(class);
    let enabled = is_pfc(bytes) && bytes[17] & (1 << class) != 0;
    enabled.then(|| u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

#[must_use]
pub fn tag_of(bytes: &[u8]) -> Option<(u8, u16)> {
    let control = u16::from_be_bytes([*bytes.get(14)?, *bytes.get(15)?]);
    has_type(bytes, CUSTOMER_TAG).then_some(((control >> 13) as u8, control & 0xfff))
}

#[must_use]
pub fn sequence(bytes: &[u8]) -> Option<u32> {
    let at = if tag_of(bytes).is_some() { 16 } else { 12 };
    let found = bytes.get(at..at + 2)? == EXPERIMENTAL.to_be_bytes();
    let number = bytes.get(at + 2..at + 6)?;
    found.then(|| u32::from_be_bytes([number[0], number[1], number[2], number[3]]))
}
