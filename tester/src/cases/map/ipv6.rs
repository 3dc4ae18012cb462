//! IPv6 packets whose traffic class has a given DSCP.

use crate::bench::Bench;
use crate::cases::streams::{FROM, TO};

const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const NO_NEXT_HEADER: u8 = 59;
const PAYLOAD: usize = 24;

/// Packets, one of each DSCP, distinguished by their last bytes.
pub(super) struct Packets {
    nonce: [u8; 8],
}

impl Packets {
    pub(super) fn send(bench: &mut Bench) -> Packets {
        let packets = Packets { nonce: bench.now().0.to_be_bytes() };
        for dscp in 0..64 {
            let [to, from] = [TO, FROM].map(|port| bench.port(port).mac().0);
            let vlan = bench.port(FROM).settings.vlan;
            let tag = vlan.map(|vlan| [[0x81, 0], vlan.to_be_bytes()].concat()).unwrap_or_default();
            let ethernet = [&to[..], &from, &tag, &TYPE_IPV6].concat();
            bench.send_now(FROM, &[ethernet, packets.ip(dscp)].concat());
        }
        packets
    }

    fn ip(&self, dscp: u8) -> Vec<u8> {
        let address = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        let mut bytes = vec![0x60 | dscp >> 2, dscp << 6, 0, 0, 0, 24, NO_NEXT_HEADER, 64];
        bytes.extend([address(1), address(2)].concat());
        bytes.resize(bytes.len() + PAYLOAD - self.nonce.len() - 1, 0);
        bytes.extend(self.nonce);
        bytes.push(dscp);
        bytes
    }

    pub(super) fn has_arrived(&self, bench: &Bench, dscp: u8) -> bool {
        let end = [&self.nonce[..], &[dscp]].concat();
        bench.others(TO).iter().any(|frame| frame.bytes.ends_with(&end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_test_packet_has_dscp_in_its_traffic_class() {
        let bytes = Packets { nonce: [7; 8] }.ip(0b10_1101);
        assert_eq!(bytes.len(), 40 + PAYLOAD);
        assert_eq!(bytes[..8], [0x6b, 0x40, 0, 0, 0, 24, 59, 64]);
        assert!(bytes.ends_with(&[7, 7, 0b10_1101]));
    }
}
