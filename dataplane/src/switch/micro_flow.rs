//! Micro-flows: consecutive frames of a port with equal MAC addresses, tags, EtherType and (in IP packets) DSCP.
//!
//! All get the class of the first frame. Frames forwarded at the same instant also get its egress, unless the bridge
//! changes between them.

use pnet_packet::ethernet::EtherTypes;
use xoff_wire::cnm::CNM;
use xoff_wire::header::{Layout, field};
use xoff_wire::units::{Class, Nanos, PortId};

use crate::forward::{Bridge, Decision, Forwarding};

const LONG_ENOUGH: usize = field::TAGGED_PAYLOAD as usize + field::IPV6_LEN;

#[derive(Debug, Default)]
pub(super) struct MicroFlow {
    last_in: Option<FirstFrame>,
    last_forwarded: Forwarded,
}

#[derive(Debug, Default)]
enum Forwarded {
    #[default]
    NotCached,
    SourceRefused,
    Repeats(Route),
}

#[derive(Debug)]
struct FirstFrame {
    start: Start,
    mask: &'static Start,
    kind: FrameKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FrameKind {
    pub(super) class: Class,
    pub(super) layout: Layout,
    pub(super) tags: u8,
}

/// First bytes of a frame, which decide class and egress unless the frame has a CN-TAG.
#[derive(Clone, Copy, Debug)]
struct Start {
    first: u128,
    rest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    class: Class,
    egress: PortId,
    vid: u16,
    at: Nanos,
    bridge_version: u64,
}

impl Start {
    const LEN: usize = 20;

    const OTHER: [u8; 2] = [0, 0];
    const IPV4: [u8; 2] = [0xff, 0xfc];
    const IPV6: [u8; 2] = [0xff, 0xc0];

    #[inline]
    fn of(head: &[u8]) -> Option<Start> {
        Some(Start::new(head.first_chunk::<LONG_ENOUGH>()?.first_chunk()?))
    }

    const fn new(bytes: &[u8; Start::LEN]) -> Start {
        let (first, rest) = bytes.split_at(size_of::<u128>());
        match (first.first_chunk(), rest.first_chunk()) {
            (Some(first), Some(rest)) => {
                Start { first: u128::from_ne_bytes(*first), rest: u32::from_ne_bytes(*rest) }
            }
            _ => unreachable!(),
        }
    }

    const fn mask(payload: u8, bits: [u8; 2]) -> Start {
        let (mut mask, mut at) = ([0; Start::LEN], payload as usize);
        [mask[at], mask[at + 1]] = bits;
        while at > 0 {
            at -= 1;
            mask[at] = 0xff;
        }
        Start::new(&mask)
    }

    #[inline]
    fn mask_of(layout: Layout) -> Option<&'static Start> {
        const UNTAGGED: u8 = field::PAYLOAD;
        const TAGGED: u8 = field::TAGGED_PAYLOAD;
        if layout.has_cn_tag() || layout.ether_type() == CNM {
            return None;
        }
        Some(match (layout.ether_type(), layout.has_tag()) {
            (EtherTypes::Ipv4, false) => const { &Start::mask(UNTAGGED, Start::IPV4) },
            (EtherTypes::Ipv4, true) => const { &Start::mask(TAGGED, Start::IPV4) },
            (EtherTypes::Ipv6, false) => const { &Start::mask(UNTAGGED, Start::IPV6) },
            (EtherTypes::Ipv6, true) => const { &Start::mask(TAGGED, Start::IPV6) },
            // Compare the bytes behind an 802.1ad tag, too: they may be a second tag.
            (EtherTypes::PBridge, _) | (_, true) => const { &Start::mask(TAGGED, Start::OTHER) },
            (_, false) => const { &Start::mask(UNTAGGED, Start::OTHER) },
        })
    }
}

impl FirstFrame {
    #[inline]
    fn is_joined_by(&self, start: &Start) -> bool {
        let first = (self.start.first ^ start.first) & self.mask.first;
        let rest = (self.start.rest ^ start.rest) & self.mask.rest;
        first | u128::from(rest) == 0
    }
}

impl MicroFlow {
    #[inline]
    pub(super) fn kind(&self, head: &[u8]) -> Option<FrameKind> {
        let first = self.last_in.as_ref()?;
        first.is_joined_by(&Start::of(head)?).then_some(first.kind)
    }

    #[inline]
    pub(super) fn class(&self) -> Option<Class> {
        self.last_in.as_ref().map(|first| first.kind.class)
    }

    #[inline]
    pub(super) fn begin(&mut self, head: &[u8], kind: FrameKind) {
        let start = Start::of(head).zip(Start::mask_of(kind.layout));
        self.last_in = start.map(|(start, mask)| FirstFrame { start, mask, kind });
    }

    pub(super) fn end(&mut self) {
        self.last_in = None;
    }

    #[inline]
    pub(super) fn route(&self, now: Nanos, class: Class, bridge: &Bridge) -> Option<(PortId, u16)> {
        let Forwarded::Repeats(route) = &self.last_forwarded else { return None };
        let holds = route.class == class && route.at == now && route.bridge_version == bridge.version();
        holds.then_some((route.egress, route.vid))
    }

    #[inline]
    pub(super) fn forwarded(&mut self, at: Nanos, class: Class, forwarding: &Forwarding, bridge: &Bridge) {
        let Forwarding { decision, vid, repeats, .. } = *forwarding;
        self.last_forwarded = match decision {
            Decision::Unicast(egress) if repeats => {
                Forwarded::Repeats(Route { class, egress, vid, at, bridge_version: bridge.version() })
            }
            _ if repeats => Forwarded::NotCached,
            _ => Forwarded::SourceRefused,
        };
    }

    pub(super) fn is_source_refused(&self) -> bool {
        matches!(self.last_forwarded, Forwarded::SourceRefused)
    }
}

// Tests for SPECIFICATION.md: batches
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::cn_tag::CN_TAG;
    use xoff_wire::header::Header;
    use xoff_wire::units::Class;

    use super::*;

    const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    const TAG: [u8; 4] = [0x81, 0x00, 0x60, 5];
    const SERVICE_TAG: [u8; 4] = [0x88, 0xa8, 0x60, 5];

    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = [&[&ADDRESSES[..]], parts].concat().concat();
        bytes.resize(LONG_ENOUGH.max(bytes.len()), 0);
        bytes
    }

    fn kind(bytes: &[u8]) -> FrameKind {
        let header = Header::parse(bytes).unwrap();
        FrameKind { class: Class::ALL[3], layout: header.layout(), tags: header.tags_len(bytes) }
    }

    fn joins(first: &[u8], next: &[u8]) -> bool {
        let mut flow = MicroFlow::default();
        flow.begin(first, kind(first));
        flow.kind(next).is_some()
    }

    #[test]
    fn packets_between_two_linux_hosts_share_a_micro_flow() {
        let ipv4 = |number: u8, protocol: u8| {
            let mut ip =
                [0x45, 24 << 2 | number & 3, 5, number, number, 7, 0x40, 0, 64, protocol, number, 1].to_vec();
            ip.extend([10, 0, 0, 1, 10, 0, 0, 2, number, 9, 18, 183]);
            [&[0x08, 0x00][..], &ip].concat()
        };
        let ipv6 = |number: u8, protocol: u8| {
            let mut ip = [0x66, (number & 3) << 4 | number & 15, number, 1, 5, number, protocol, 64].to_vec();
            ip.extend([0xfd; 32]);
            ip.extend([number, 9, 18, 183]);
            [&[0x86, 0xdd][..], &ip].concat()
        };
        let (tcp, udp) = (6, 17);
        for tags in [&[][..], &TAG] {
            for (a, b) in [(1, 2), (7, 200), (255, 0)] {
                for [p, q] in [[tcp, tcp], [udp, udp], [tcp, udp]] {
                    assert!(joins(&frame(&[tags, &ipv4(a, p)]), &frame(&[tags, &ipv4(b, q)])));
                    assert!(joins(&frame(&[tags, &ipv6(a, p)]), &frame(&[tags, &ipv6(b, q)])));
                }
            }
        }
    }

    #[test]
    fn frames_of_a_micro_flow_parse_to_the_same_header() {
        let (ipv4, ipv6) = ([0x08, 0x00, 0x45, 24 << 2], [0x86, 0xdd, 0x66, 0x00]);
        let other = [0x88, 0xb5, 0, 0];
        for tags in [&[][..], &TAG, &SERVICE_TAG, &[SERVICE_TAG, TAG].concat()] {
            for payload in [ipv4, ipv6, other] {
                let first = frame(&[tags, &payload]);
                assert!(joins(&first, &first));
                assert!(!joins(&first, &first[..LONG_ENOUGH - 1]));
                for bit in 0..LONG_ENOUGH * 8 {
                    let mut next = first.clone();
                    next[bit / 8] ^= 1 << (bit % 8);
                    let is_same = Header::parse(&next) == Header::parse(&first)
                        && kind(&next).tags == kind(&first).tags;
                    assert!(
                        is_same || !joins(&first, &next),
                        "frames whose headers differ in bit {bit} must not share a micro-flow: {first:02x?}"
                    );
                }
            }
        }
    }

    #[test]
    fn cnm_and_frame_with_cn_tag_start_no_micro_flow() {
        for ether_type in [CN_TAG, CNM] {
            for tags in [&[][..], &TAG] {
                let first = frame(&[tags, &ether_type.0.to_be_bytes()]);
                assert!(!joins(&first, &first));
            }
        }
    }
}
