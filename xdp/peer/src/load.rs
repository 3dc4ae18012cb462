//! Frames for a benchmark: UDP over IPv4, with headers as Linux sends them.
//!
//! Each flow has its own addresses and ports, and a rising IPv4 Identification. The flows send round robin, so successive headers
//! differ.

use std::str::FromStr;

use xoff_wire::units::MacAddr;

const FCS: usize = 4;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const UDP_NUMBER: u8 = 17;
const FRAME_MIN: u16 = 64;
const FRAME_MAX: u16 = 1518;

/// Maximum number of flows: the last byte of a flow's address is the flow's number plus one.
pub const FLOWS_MAX: u16 = 254;

/// Simple IMIX: frame sizes in bytes with FCS. Short, medium and long frames occur in the ratio 7:4:1.
const IMIX: [u16; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameBytes {
    Fixed(u16),
    Imix,
}

impl FromStr for FrameBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<FrameBytes, String> {
        match text.parse() {
            _ if text == "imix" => Ok(FrameBytes::Imix),
            Ok(bytes @ FRAME_MIN..=FRAME_MAX) => Ok(FrameBytes::Fixed(bytes)),
            _ => {
                Err(format!("\"{text}\" is not a frame size: give {FRAME_MIN} to {FRAME_MAX} bytes, or imix"))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub frame_bytes: FrameBytes,
    /// Number of flows. The sum of `first` and `flows` is at most [`FLOWS_MAX`].
    pub flows: u16,
    pub first: u16,
    /// Destination MAC address of all frames; `None` gives each flow its own.
    pub via: Option<MacAddr>,
}

impl Load {
    /// Returns an endless sequence of frames, without FCS. Every twelve successive frames of a flow contain the whole mix of sizes.
    pub fn frames(self) -> impl Iterator<Item = Vec<u8>> {
        (0_u16..).flat_map(move |turn| {
            (0..self.flows)
                .map(move |flow| frame(usize::from(self.bytes(turn, flow)) - FCS, self.first + flow, turn))
                .map(move |frame| self.addressed(frame))
        })
    }

    fn addressed(self, mut frame: Vec<u8>) -> Vec<u8> {
        if let Some(router) = self.via {
            frame[..6].copy_from_slice(&router.0);
        }
        frame
    }

    fn bytes(self, turn: u16, flow: u16) -> u16 {
        match self.frame_bytes {
            FrameBytes::Fixed(bytes) => bytes,
            // Each flow goes through the whole mix, because five and twelve have no common factor.
            FrameBytes::Imix => IMIX[(5 * usize::from(turn) + usize::from(flow)) % IMIX.len()],
        }
    }
}

fn frame(len: usize, flow: u16, identification: u16) -> Vec<u8> {
    let number = u8::try_from(flow + 1).expect("a flow number must be at most 254");
    let (from, to) = ([10, 1, 0, number], [10, 2, 0, number]);
    let short =
        |len: usize| u16::try_from(len).expect("a frame must have at most 65,535 bytes").to_be_bytes();
    let mut frame = Vec::with_capacity(len);
    frame.extend([2, 0, 0, 0, 2, number, 2, 0, 0, 0, 1, number, 0x08, 0x00]);
    frame.extend([0x45, 0]);
    frame.extend(short(len - ETHERNET));
    frame.extend(identification.to_be_bytes());
    frame.extend([0x40, 0, 64, UDP_NUMBER, 0, 0]); // don't fragment; TTL 64
    frame.extend(from);
    frame.extend(to);
    let header = checksum(&[&frame[ETHERNET..]]);
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&header);
    let datagram_len = short(len - ETHERNET - IPV4);
    frame.extend((20_000 + flow).to_be_bytes());
    frame.extend((30_000 + flow).to_be_bytes());
    frame.extend(datagram_len);
    frame.extend([0, 0]);
    frame.extend((0..=u8::MAX).cycle().take(len - ETHERNET - IPV4 - UDP));
    let pseudo_header = [from, to, [0, UDP_NUMBER, datagram_len[0], datagram_len[1]]].concat();
    let datagram = checksum(&[&pseudo_header, &frame[ETHERNET + IPV4..]]);
    let at = ETHERNET + IPV4 + 6;
    frame[at..at + 2].copy_from_slice(&datagram);
    frame
}

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 =
        words.map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let [_, _, high, low] = (!sum).to_be_bytes();
    [high, low]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use pnet_packet::Packet as _;
    use pnet_packet::ethernet::{EtherTypes, EthernetPacket};
    use pnet_packet::ipv4::{self, Ipv4Packet};
    use pnet_packet::udp::{self, UdpPacket};

    use super::*;

    #[test]
    fn generated_frames_have_valid_lengths_and_checksums() {
        for frame_bytes in [FrameBytes::Fixed(64), FrameBytes::Fixed(1518), FrameBytes::Imix] {
            for bytes in (Load { frame_bytes, flows: 16, first: 0, via: None }).frames().take(200) {
                let frame = EthernetPacket::new(&bytes).unwrap();
                assert_eq!(frame.get_ethertype(), EtherTypes::Ipv4);
                let packet = Ipv4Packet::new(frame.payload()).unwrap();
                assert_eq!(packet.get_checksum(), ipv4::checksum(&packet));
                assert_eq!(usize::from(packet.get_total_length()), frame.payload().len());
                let datagram = UdpPacket::new(packet.payload()).unwrap();
                let (from, to) = (packet.get_source(), packet.get_destination());
                assert_eq!(datagram.get_checksum(), udp::ipv4_checksum(&datagram, &from, &to));
                assert_eq!(usize::from(datagram.get_length()), packet.payload().len());
            }
        }
    }

    #[test]
    fn routed_frames_differ_only_in_destination_mac() {
        let direct = Load { frame_bytes: FrameBytes::Imix, flows: 16, first: 0, via: None };
        let router = MacAddr([2, 0, 0, 0, 9, 9]);
        let routed = Load { via: Some(router), ..direct };
        for (direct, routed) in direct.frames().zip(routed.frames()).take(200) {
            assert_eq!((&routed[..6], &routed[6..]), (&router.0[..], &direct[6..]));
        }
    }

    #[test]
    fn flows_send_round_robin_with_rising_identifications() {
        let load = Load { frame_bytes: FrameBytes::Fixed(64), flows: 3, first: 4, via: None };
        let frames: Vec<_> = load.frames().take(9).collect();
        for (frame, at) in frames.iter().zip(0_u8..) {
            let packet = Ipv4Packet::new(&frame[ETHERNET..]).unwrap();
            assert_eq!((frame.len(), frame[5], frame[11]), (60, at % 3 + 5, at % 3 + 5));
            assert_eq!(packet.get_identification(), u16::from(at / 3));
        }
    }

    #[test]
    fn each_flow_sends_the_whole_mix_of_sizes() {
        let mut by_flow: HashMap<u8, HashMap<usize, u32>> = HashMap::new();
        for frame in
            (Load { frame_bytes: FrameBytes::Imix, flows: 16, first: 0, via: None }).frames().take(192)
        {
            *by_flow.entry(frame[5]).or_default().entry(frame.len() + FCS).or_default() += 1;
        }
        assert_eq!(by_flow.len(), 16);
        for sizes in by_flow.values() {
            assert_eq!(*sizes, HashMap::from([(64, 7), (594, 4), (1518, 1)]));
        }
    }

    #[test]
    fn unsupported_frame_sizes_are_refused() {
        assert_eq!("imix".parse(), Ok(FrameBytes::Imix));
        assert_eq!("1518".parse(), Ok(FrameBytes::Fixed(1518)));
        for text in ["63", "1519", "9000", "-1", "mix", ""] {
            let message = text.parse::<FrameBytes>().unwrap_err();
            assert_eq!(message, format!("\"{text}\" is not a frame size: give 64 to 1518 bytes, or imix"));
        }
    }
}
