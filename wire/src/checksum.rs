//! Unfinished TCP and UDP checksums. With checksum offload, a host writes only the sum of the pseudo-header (RFC 9293
//! section 3.1), and leaves the rest to its device. Virtual devices may pass such frames on; receivers discard them.

use pnet_packet::ethernet::EtherTypes;

use crate::header::Header;
use crate::header::field::{IPV4_LEN, IPV6_LEN};
use crate::ip::{ones_complement, words};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns whether the frame's TCP or UDP checksum is unfinished: its field has only the sum of the pseudo-header. By
/// chance, one in 65,536 finished checksums has this value. `None` if `head` (the first 96 bytes) has no such checksum,
/// and for fragments.
#[must_use]
pub fn is_unfinished(header: &Header, head: &[u8]) -> Option<bool> {
    let packet = header.payload(head);
    let (addresses, protocol, length, header_length) = match header.ether_type {
        EtherTypes::Ipv4 => {
            let fixed = packet.first_chunk::<IPV4_LEN>()?;
            let header_length = u16::from(fixed[0] & 0x0f) * 4;
            let is_fragment = (u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff) != 0;
            if is_fragment || !(0x45..=0x4f).contains(&fixed[0]) {
                return None;
            }
            let length = u16::from_be_bytes([fixed[2], fixed[3]]).checked_sub(header_length)?;
            (&fixed[12..], fixed[9], length, usize::from(header_length))
        }
        EtherTypes::Ipv6 => {
            let fixed = packet.first_chunk::<IPV6_LEN>()?;
            (&fixed[8..], fixed[6], u16::from_be_bytes([fixed[4], fixed[5]]), IPV6_LEN)
        }
        _ => return None,
    };
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let field = packet.get(header_length..)?.get(at..)?.first_chunk()?;
    let is_absent = protocol == UDP && *field == [0, 0];
    let [high, low] = length.to_be_bytes();
    let last = [0, protocol, high, low];
    (!is_absent).then(|| ones_complement(words(addresses) + words(&last)) == u16::from_be_bytes(*field))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, checksum: u16, length: u16, flags: u16) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        bytes.extend([0x08, 0x00, 0x45, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(flags.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        bytes.resize(96, 0);
        let at = 34 + if protocol == TCP { 16 } else { 6 };
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn judged(bytes: &[u8]) -> Option<bool> {
        is_unfinished(&Header::parse(bytes).unwrap(), bytes)
    }

    #[test] // proves: unfinished-checksums
    fn checksum_equal_to_pseudo_header_sum_is_unfinished() {
        const DONT_FRAGMENT: u16 = 0x4000;
        // Sum of the pseudo-header: addresses (0x0a09 + 1 + 0x0a09 + 2), protocol, and length behind the IP header.
        let sum = |protocol: u8, length: u16| 0x1415 + u16::from(protocol) + length;
        for (protocol, length) in [(TCP, 40), (UDP, 1_008)] {
            let sum = sum(protocol, length);
            for (checksum, unfinished) in [(sum, true), (!sum, false), (sum + 1, false)] {
                assert_eq!(judged(&ipv4(protocol, checksum, length + 20, DONT_FRAGMENT)), Some(unfinished));
            }
            assert_eq!(judged(&ipv4(protocol, sum, length + 20, 0x2000)), None, "first fragment");
            assert_eq!(judged(&ipv4(protocol, sum, length + 20, 1)), None, "later fragment");
            assert_eq!(judged(&ipv4(protocol, sum, length + 20, 0)[..40]), None, "truncated");
            assert_eq!(judged(&ipv4(1, sum, length + 20, 0)), None, "ICMP");
        }
        assert_eq!(judged(&ipv4(UDP, 0, 100, 0)), None, "UDP without checksum");
        assert_eq!(judged(&ipv4(TCP, sum(TCP, 0), 19, 0)), None, "packet shorter than its IP header");
        let mut ipv6 = vec![2; 12];
        ipv6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, TCP, 64]);
        ipv6.extend([0xfd; 32]);
        ipv6.resize(96, 0);
        let sum = ones_complement(words(&[0xfd; 32]) + words(&[0, TCP, 0, 40]));
        ipv6[70..72].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(judged(&ipv6), Some(true));
        ipv6[71] ^= 1;
        assert_eq!(judged(&ipv6), Some(false));
    }
}
