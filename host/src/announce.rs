//! Gratuitous ARP frames, from which switches learn a host's address, so that they need not flood frames to it.

use pnet_packet::arp::{ArpHardwareTypes, ArpOperations, MutableArpPacket};
use pnet_packet::ethernet::{EtherTypes, MutableEthernetPacket};
use xoff_wire::units::MacAddr;

use crate::payload::ip_address;

/// Length of a gratuitous ARP frame in bytes, without FCS.
pub const LEN: u32 = 60;

#[must_use]
pub fn gratuitous_arp(address: MacAddr) -> [u8; LEN as usize] {
    let mut bytes = [0; LEN as usize];
    let ip = ip_address(address);
    let mut ethernet =
        MutableEthernetPacket::new(&mut bytes).expect("the frame must have room for an Ethernet header");
    ethernet.set_destination(MacAddr::BROADCAST.0.into());
    ethernet.set_source(address.0.into());
    ethernet.set_ethertype(EtherTypes::Arp);
    let mut arp =
        MutableArpPacket::new(&mut bytes[14..]).expect("the frame must have room for an ARP packet");
    arp.set_hardware_type(ArpHardwareTypes::Ethernet);
    arp.set_protocol_type(EtherTypes::Ipv4);
    arp.set_hw_addr_len(6);
    arp.set_proto_addr_len(4);
    arp.set_operation(ArpOperations::Request);
    arp.set_sender_hw_addr(address.0.into());
    arp.set_sender_proto_addr(ip);
    arp.set_target_proto_addr(ip);
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use pnet_packet::arp::ArpPacket;
    use xoff_wire::Header;

    #[test]
    fn gratuitous_arp_names_host_as_sender_and_target() {
        let address = MacAddr([2, 0, 0, 1, 2, 3]);
        let bytes = gratuitous_arp(address);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(
            (header.dst, header.src, header.ether_type),
            (MacAddr::BROADCAST, address, EtherTypes::Arp)
        );
        let arp = ArpPacket::new(&bytes[14..]).unwrap();
        assert_eq!(arp.get_sender_proto_addr().octets(), [10, 1, 2, 3]);
        assert_eq!(arp.get_sender_proto_addr(), arp.get_target_proto_addr());
    }
}
