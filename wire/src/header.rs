//! Frame header, parsed once: one 802.1Q tag, and one CN-TAG (802.1Qau) after it or in its place.
//!
//! An 802.1ad tag (0x88A8) counts as payload, the frame as untagged. A frame with a broken IP header is well-formed,
//! but has no DSCP.

use pnet_packet::ethernet::{EtherType, EtherTypes};

use super::cn_tag::{CN_TAG, CnTag};
use crate::units::{Class, MacAddr};

/// Offsets and lengths of header fields in bytes. `TCI` and `TAGGED_*` apply only to frames with an 802.1Q tag.
pub mod field {
    use std::ops::Range;

    /// Destination address.
    pub const DST: Range<usize> = 0..6;
    /// Source address.
    pub const SRC: Range<usize> = 6..12;
    /// EtherType of an untagged frame.
    pub const ETHER_TYPE: Range<usize> = 12..14;
    /// Payload offset without tags.
    pub const PAYLOAD: u8 = 14;
    /// TCI of an 802.1Q tag.
    pub const TCI: Range<usize> = 14..16;
    /// EtherType behind an 802.1Q tag.
    pub const TAGGED_ETHER_TYPE: Range<usize> = 16..18;
    /// Payload offset behind an 802.1Q tag.
    pub const TAGGED_PAYLOAD: u8 = 18;
    /// Length of an 802.1Q tag: TPID and TCI.
    pub const TAG_LEN: u8 = 4;
    /// Length of a CN-TAG: EtherType and RPID.
    pub const CN_TAG_LEN: u8 = 4;
    /// Length of an IPv4 header without options.
    pub const IPV4_LEN: usize = 20;
    /// Length of an IPv6 header without extensions.
    pub const IPV6_LEN: usize = 40;
}

/// Header fields of a frame. `ether_type` (or an 802.3 length) follows the tags; `l3` is the payload offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Header {
    pub dst: MacAddr,
    pub src: MacAddr,
    /// 802.1Q tag; VID 0 makes it a priority tag.
    pub tag: Option<Tci>,
    pub cn_tag: Option<CnTag>,
    pub ether_type: EtherType,
    /// DSCP, 0..=63; `None` without a complete fixed IP header.
    pub dscp: Option<u8>,
    pub l3: u8,
}

/// Header offsets found by [`Header::parse`], cached so that [`Header::read`] need not parse again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    ether_type: EtherType,
    l3: u8,
    parts: u8,
}

const _: () = assert!(size_of::<Layout>() == 4, "a `Layout` must have exactly 4 bytes");

impl Layout {
    /// Layout of an unparsed frame.
    pub const UNKNOWN: Layout = Layout { ether_type: EtherType(0), l3: 0, parts: 0 };

    const TAG: u8 = 1;
    const CN_TAG: u8 = 2;
    const DSCP: u8 = 4;
    const VID: u8 = 8;

    const fn has(self, part: u8) -> bool {
        self.parts & part != 0
    }

    /// Returns the EtherType (or 802.3 length) after the tags.
    #[inline]
    #[must_use]
    pub const fn ether_type(self) -> EtherType {
        self.ether_type
    }

    /// Returns whether the frame has an 802.1Q tag.
    #[inline]
    #[must_use]
    pub const fn has_tag(self) -> bool {
        self.has(Layout::TAG)
    }

    /// Returns whether the frame has a CN-TAG.
    #[inline]
    #[must_use]
    pub const fn has_cn_tag(self) -> bool {
        self.has(Layout::CN_TAG)
    }

    /// Returns whether the frame has a tag with a nonzero VID.
    #[inline]
    #[must_use]
    pub const fn names_vlan(self) -> bool {
        self.has(Layout::VID)
    }

    /// Returns whether both frames have the same kind of 802.1Q tag: none, priority tag, or VLAN.
    #[inline]
    #[must_use]
    pub const fn is_tagged_like(self, other: Layout) -> bool {
        (self.parts ^ other.parts) & (Layout::TAG | Layout::VID) == 0
    }
}

/// TCI of an 802.1Q tag: PCP (3 bits), DEI (1), VID (12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tci(pub u16);

/// Reason why a frame's header is malformed.
#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the frame ends before its EtherType")]
    TooShort,
    #[error("the frame ends within its 802.1Q tag")]
    TagTruncated,
    #[error("the frame ends within its CN-TAG")]
    CnTagTruncated,
}

impl Header {
    /// Parses a frame's header. `head` must have the first 96 bytes, or the whole of a shorter frame.
    ///
    /// # Errors
    ///
    /// Fails if the Ethernet header is truncated.
    #[inline]
    pub fn parse(head: &[u8]) -> Result<Header, Malformed> {
        let fixed = head.first_chunk::<{ field::PAYLOAD as usize }>().ok_or(Malformed::TooShort)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *fixed;
        let mut header = Header {
            dst: MacAddr([d0, d1, d2, d3, d4, d5]),
            src: MacAddr([s0, s1, s2, s3, s4, s5]),
            tag: None,
            cn_tag: None,
            ether_type: EtherType(u16::from_be_bytes([t0, t1])),
            dscp: None,
            l3: field::PAYLOAD,
        };
        if header.ether_type == EtherTypes::Vlan {
            header.read_tag(head)?;
        }
        if header.ether_type == CN_TAG {
            header.read_cn_tag(head)?;
        }
        header.dscp = header.read_dscp(head);
        Ok(header)
    }

    /// Returns the header's layout, from which [`Header::read`] reads the header again.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> Layout {
        let part = |is_there: bool, part: u8| if is_there { part } else { 0 };
        let parts = part(self.tag.is_some(), Layout::TAG)
            | part(self.tag.is_some_and(|tag| tag.vid() != 0), Layout::VID)
            | part(self.cn_tag.is_some(), Layout::CN_TAG)
            | part(self.dscp.is_some(), Layout::DSCP);
        Layout { ether_type: self.ether_type, l3: self.l3, parts }
    }

    /// Reads a header whose `layout` [`Header::parse`] found before. With a wrong layout, the result is arbitrary.
    #[inline]
    #[must_use]
    pub fn read(layout: Layout, head: &[u8]) -> Header {
        let Layout { ether_type, l3, .. } = layout;
        let payload = usize::from(l3);
        let tag = layout.has(Layout::TAG).then(|| Tci(u16::from_be_bytes(part(head, field::TCI.start))));
        let cn_tag = layout
            .has(Layout::CN_TAG)
            .then(|| CnTag(u16::from_be_bytes(part(head, payload.saturating_sub(4)))));
        let dst = MacAddr(part(head, field::DST.start));
        let src = MacAddr(part(head, field::SRC.start));
        let dscp = layout.has(Layout::DSCP).then(|| match part::<2>(head, payload) {
            [first, second] if ether_type == EtherTypes::Ipv6 => (first & 0x0f) << 2 | second >> 6,
            [_, second] => second >> 2,
        });
        Header { dst, src, tag, cn_tag, ether_type, dscp, l3 }
    }

    /// Returns the bytes of `head` after the Ethernet header.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        head.get(usize::from(self.l3)..).unwrap_or_default()
    }

    /// Returns the bytes of tags that MTUs do not count: at most two 802.1Q or 802.1ad tags. As in Linux devices, MTUs
    /// count CN-TAGs.
    #[inline]
    #[must_use]
    pub fn tags_len(&self, head: &[u8]) -> u8 {
        let is_tag = |ether_type| matches!(ether_type, EtherTypes::Vlan | EtherTypes::PBridge);
        let inner = match self.tag {
            Some(_) => self.ether_type,
            None if self.ether_type == EtherTypes::PBridge => {
                EtherType(u16::from_be_bytes(part(head, usize::from(self.l3) + 2)))
            }
            None => return 0,
        };
        field::TAG_LEN + if is_tag(inner) { field::TAG_LEN } else { 0 }
    }

    #[inline]
    fn read_tag(&mut self, head: &[u8]) -> Result<(), Malformed> {
        let tagged =
            head.first_chunk::<{ field::TAGGED_PAYLOAD as usize }>().ok_or(Malformed::TagTruncated)?;
        self.tag = Some(Tci(be16(tagged, field::TCI.start)));
        self.ether_type = EtherType(be16(tagged, field::TAGGED_ETHER_TYPE.start));
        self.l3 = field::TAGGED_PAYLOAD;
        Ok(())
    }

    #[cold]
    fn read_cn_tag(&mut self, head: &[u8]) -> Result<(), Malformed> {
        match *self.payload(head) {
            [r0, r1, t0, t1, ..] => {
                self.cn_tag = Some(CnTag(u16::from_be_bytes([r0, r1])));
                self.ether_type = EtherType(u16::from_be_bytes([t0, t1]));
                self.l3 += field::CN_TAG_LEN;
                Ok(())
            }
            _ => Err(Malformed::CnTagTruncated),
        }
    }

    #[inline]
    fn read_dscp(&self, head: &[u8]) -> Option<u8> {
        let ip = self.payload(head);
        match self.ether_type {
            EtherTypes::Ipv4 if ip.len() >= field::IPV4_LEN && matches!(ip[0], 0x45..=0x4f) => {
                Some(ip[1] >> 2)
            }
            EtherTypes::Ipv6 if ip.len() >= field::IPV6_LEN && ip[0] >> 4 == 6 => {
                Some((ip[0] & 0x0f) << 2 | ip[1] >> 6)
            }
            _ => None,
        }
    }
}

#[inline]
fn part<const N: usize>(head: &[u8], at: usize) -> [u8; N] {
    head.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

#[inline]
fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Tci {
    /// Builds a TCI from PCP, DEI, and the low 12 bits of `vid`.
    #[must_use]
    pub const fn new(pcp: Class, dei: bool, vid: u16) -> Tci {
        Tci((pcp.get() as u16) << 13 | (dei as u16) << 12 | vid & 0x0fff)
    }

    /// Returns the priority code point.
    #[inline]
    #[must_use]
    pub const fn pcp(self) -> Class {
        Class::from_low_bits((self.0 >> 13) as u8)
    }

    /// Returns the drop eligible indicator.
    #[inline]
    #[must_use]
    pub const fn dei(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// Returns the VID; 0 in a priority tag.
    #[inline]
    #[must_use]
    pub const fn vid(self) -> u16 {
        self.0 & 0x0fff
    }

    /// Returns the tag with another PCP.
    #[inline]
    #[must_use]
    pub const fn with_pcp(self, pcp: Class) -> Tci {
        Tci::new(pcp, self.dei(), self.vid())
    }

    /// Returns the tag with another VID.
    #[inline]
    #[must_use]
    pub const fn with_vid(self, vid: u16) -> Tci {
        Tci::new(self.pcp(), self.dei(), vid)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pnet_packet::Packet;
    use pnet_packet::ethernet::EthernetPacket;
    use pnet_packet::ipv4::Ipv4Packet;
    use pnet_packet::ipv6::Ipv6Packet;
    use pnet_packet::vlan::VlanPacket;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::frame_bytes;
    use crate::units::TAGS;
    use xoff_explore::explore;

    fn by_views(bytes: &[u8]) -> Result<Header, Malformed> {
        let ethernet = EthernetPacket::new(bytes).ok_or(Malformed::TooShort)?;
        let outer = (None, ethernet.get_ethertype(), 14, ethernet.payload().to_vec());
        let (tag, mut ether_type, mut l3, mut payload) = if ethernet.get_ethertype() == EtherTypes::Vlan {
            let vlan = VlanPacket::new(ethernet.payload()).ok_or(Malformed::TagTruncated)?;
            let pcp = Class::new(vlan.get_priority_code_point().0).unwrap();
            let tci = Tci::new(pcp, vlan.get_drop_eligible_indicator() == 1, vlan.get_vlan_identifier());
            (Some(tci), vlan.get_ethertype(), 18, vlan.payload().to_vec())
        } else {
            outer
        };
        let mut cn_tag = None;
        if ether_type == EtherType(0x22e9) {
            // Read the CN-TAG by hand, because `pnet_packet` cannot parse it.
            let words = payload.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
            let [rpid, next] = words.take(2).collect::<Vec<_>>()[..] else {
                return Err(Malformed::CnTagTruncated);
            };
            (cn_tag, ether_type, l3) = (Some(CnTag(rpid)), EtherType(next), l3 + 4);
            payload.drain(..4);
        }
        let dscp = match ether_type {
            EtherTypes::Ipv4 => {
                let whole = |ip: &Ipv4Packet| ip.get_version() == 4 && ip.get_header_length() >= 5;
                Ipv4Packet::new(&payload).filter(whole).map(|ip| ip.get_dscp())
            }
            EtherTypes::Ipv6 => Ipv6Packet::new(&payload)
                .filter(|ip| ip.get_version() == 6)
                .map(|ip| ip.get_traffic_class() >> 2),
            _ => None,
        };
        Ok(Header {
            dst: MacAddr(ethernet.get_destination().octets()),
            src: MacAddr(ethernet.get_source().octets()),
            tag,
            cn_tag,
            ether_type,
            dscp,
            l3,
        })
    }

    #[test]
    fn mtu_counts_vlan_tags_only_beyond_two() {
        let tags_len = |types: &[u16]| {
            let mut bytes = vec![0; 12];
            types.iter().for_each(|tag| bytes.extend([&tag.to_be_bytes()[..], &[0, 1]].concat()));
            bytes.extend([0x88, 0xb5]);
            Header::parse(&bytes).unwrap().tags_len(&bytes)
        };
        assert_eq!([&[][..], &[0x8100], &[0x88a8]].map(tags_len), [0, 4, 4]);
        for two in [[0x88a8, 0x8100], [0x8100, 0x8100], [0x88a8, 0x88a8]] {
            assert_eq!(u32::from(tags_len(&two)), TAGS);
            assert_eq!(u32::from(tags_len(&[two[0], two[1], 0x8100])), TAGS);
        }
        assert_eq!([&[0x22e9][..], &[0x22e9, 0x8100]].map(tags_len), [0, 0]);
    }

    explore! {
        #[test]
        fn parser_agrees_with_pnet_packet_on_truncated_frames(bytes in frame_bytes()) {
            prop_assert_eq!(Header::parse(&bytes), by_views(&bytes));
        }

        #[test]
        fn header_read_by_cached_layout_equals_parsed_header(bytes in frame_bytes()) {
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(Header::read(header.layout(), &bytes), header);
            }
        }

        #[test]
        fn parser_agrees_with_pnet_packet_on_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            prop_assert_eq!(Header::parse(&bytes), by_views(&bytes));
        }

        #[test]
        fn vlan_tci_returns_the_fields_it_was_built_from(pcp in 0u8..8, dei: bool, vid in 0u16..4096) {
            let tci = Tci::new(Class::new(pcp).unwrap(), dei, vid);
            prop_assert_eq!((tci.pcp().get(), tci.dei(), tci.vid()), (pcp, dei, vid));
            prop_assert_eq!(tci.with_vid(7).with_pcp(Class::ALL[5]), Tci::new(Class::ALL[5], dei, 7));
        }
    }

    #[test]
    fn truncated_header_and_truncated_tag_are_different_errors() {
        let mut untagged = [0u8; 14];
        untagged[12..].copy_from_slice(&[0x88, 0xb5]);
        assert_eq!(Header::parse(&untagged[..13]), Err(Malformed::TooShort));
        assert!(Header::parse(&untagged).is_ok());
        let mut tagged = [0u8; 18];
        tagged[12..].copy_from_slice(&[0x81, 0x00, 0x60, 0x05, 0x88, 0xb5]);
        assert_eq!(Header::parse(&tagged[..17]), Err(Malformed::TagTruncated));
        let header = Header::parse(&tagged).unwrap();
        assert_eq!(header.tag.map(Tci::vid), Some(5));
        assert_eq!((header.tags_len(&tagged), header.l3), (4, 18));
    }

    #[test] // proves: classification
    fn cn_tag_is_parsed_and_headers_behind_it_are_read() {
        let ipv4 = [0x08, 0x00, 0x45, 26 << 2];
        for (tags, vlan) in [(&[][..], None), (&[0x81, 0x00, 0x60, 0x05], Some(Tci(0x6005)))] {
            let mut bytes = vec![2; 12];
            bytes.extend(tags);
            let at = bytes.len();
            bytes.extend([0x22, 0xe9, 0x12, 0x34]);
            bytes.extend(ipv4);
            bytes.resize(100, 0);
            let header = Header::parse(&bytes).unwrap();
            assert_eq!((header.tag, header.cn_tag), (vlan, Some(CnTag(0x1234))));
            assert_eq!((header.ether_type, header.dscp), (EtherTypes::Ipv4, Some(26)));
            assert_eq!(Header::parse(&bytes[..at + 5]), Err(Malformed::CnTagTruncated));
            assert!(Header::parse(&bytes[..at + 6]).is_ok());
            let mut without = bytes.clone();
            without.drain(at..at + 4);
            let plain = Header::parse(&without).unwrap();
            assert_eq!(plain, Header { cn_tag: None, l3: header.l3 - 4, ..header });
        }
    }

    #[test]
    fn second_cn_tag_of_a_frame_counts_as_payload() {
        let mut bytes = [0u8; 64];
        bytes[12..20].copy_from_slice(&[0x22, 0xe9, 0, 1, 0x22, 0xe9, 0, 2]);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!((header.cn_tag, header.ether_type, header.l3), (Some(CnTag(1)), CN_TAG, 18));
    }

    #[test]
    fn truncated_ip_header_has_no_dscp() {
        let mut bytes = [0u8; 54];
        bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 26 << 2]);
        assert_eq!(Header::parse(&bytes[..33]).unwrap().dscp, None);
        assert_eq!(Header::parse(&bytes[..34]).unwrap().dscp, Some(26));
        bytes[12..16].copy_from_slice(&[0x86, 0xdd, 0x66, 0x80]);
        assert_eq!(Header::parse(&bytes[..53]).unwrap().dscp, None);
        assert_eq!(Header::parse(&bytes).unwrap().dscp, Some(26));
    }

    #[test]
    fn frame_with_802_1ad_tag_counts_as_untagged() {
        let mut bytes = [0u8; 64];
        bytes[12..18].copy_from_slice(&[0x88, 0xa8, 0x60, 0x05, 0x08, 0x00]);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!((header.tag, header.ether_type, header.l3), (None, EtherTypes::PBridge, 14));
    }
}
