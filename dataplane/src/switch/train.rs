//! Frames come in trains: many of one flow, one right after the other. What was found out of the first of a
//! train holds for the others.
//!
//! A frame follows the one before it at its port if it begins as that does, as far as anybody looks at how it begins:
//! both addresses, the tags, the EtherType, and the DSCP of an IP packet. The rest of an IP header may differ, as it
//! does from frame to frame of what is really sent: length, Identification, flow label, ECN, ports. So it is of the same
//! class, and stands right behind that one in the ingress queue. And if both are forwarded at the same instant, as a
//! batch is, and the bridge has not changed in between, it goes where that one went and teaches nothing: neither its
//! bytes nor the forwarding database need to be looked at again.

use pnet_packet::ethernet::EtherTypes;
use xoff_wire::cnm::CNM;
use xoff_wire::header::{Layout, field};
use xoff_wire::units::{Class, Nanos, PortId};

use crate::forward::{Bridge, Decision, Forwarding};

/// In a frame of this length everything is there that a header may have, so that no further look at the length
/// is needed: a tag, and what IPv6 always has.
const LONG_ENOUGH: usize = field::TAGGED_PAYLOAD as usize + field::IPV6_LEN;

/// What was found out about the frame before, at one port: of the last that came in, what it is; of the last
/// that was forwarded, where it went.
#[derive(Debug, Default)]
pub(super) struct Train {
    last_in: Option<Leader>,
    last_forwarded: Forwarded,
}

/// What became of the frame that was forwarded last.
#[derive(Debug, Default)]
enum Forwarded {
    /// The next may go elsewhere.
    #[default]
    Elsewhere,
    /// The same, because its source address was refused.
    Unlearned,
    /// Frames that follow go the same way.
    Repeats(Route),
}

/// The frame that others may follow.
#[derive(Debug)]
struct Leader {
    start: Start,
    /// What of it a frame has to have, too.
    mask: &'static Start,
    kind: Kind,
}

/// What a frame is, by its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    pub(super) layout: Layout,
    /// Bytes of its tags that MTUs do not count.
    pub(super) tags: u8,
}

/// The first bytes of a frame: all that it is classified and forwarded by, unless it has a CN-TAG.
#[derive(Clone, Copy, Debug)]
struct Start {
    first: u128,
    /// What follows where there is a tag.
    rest: u32,
}

/// Where a frame went that taught the bridge nothing by which the next would fare otherwise.
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

    /// Bits of the version and the traffic class of a packet that are not ECN, by what follows Ethernet's header.
    const OTHER: [u8; 2] = [0, 0];
    const IPV4: [u8; 2] = [0xff, 0xfc];
    const IPV6: [u8; 2] = [0xff, 0xc0];

    /// Of a frame that is long enough.
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

    /// All up to the payload of Ethernet, and these bits of it.
    const fn mask(payload: u8, bits: [u8; 2]) -> Start {
        let (mut mask, mut at) = ([0; Start::LEN], payload as usize);
        [mask[at], mask[at + 1]] = bits;
        while at > 0 {
            at -= 1;
            mask[at] = 0xff;
        }
        Start::new(&mask)
    }

    /// What decides of a frame of this layout, if that is all in its start.
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
            // Whether another tag follows an 802.1ad tag is looked at.
            (EtherTypes::PBridge, _) | (_, true) => const { &Start::mask(TAGGED, Start::OTHER) },
            (_, false) => const { &Start::mask(UNTAGGED, Start::OTHER) },
        })
    }
}

impl Leader {
    #[inline]
    fn is_followed_by(&self, start: &Start) -> bool {
        let first = (self.start.first ^ start.first) & self.mask.first;
        let rest = (self.start.rest ^ start.rest) & self.mask.rest;
        first | u128::from(rest) == 0
    }
}

impl Train {
    /// What a frame is that begins with `head`, where it follows the one before.
    #[inline]
    pub(super) fn kind(&self, head: &[u8]) -> Option<Kind> {
        let leader = self.last_in.as_ref()?;
        leader.is_followed_by(&Start::of(head)?).then_some(leader.kind)
    }

    /// The class of the frame that came in last, where others may follow it.
    #[inline]
    pub(super) fn class(&self) -> Option<Class> {
        self.last_in.as_ref().map(|leader| leader.kind.class)
    }

    /// A frame that does not follow has been read: the next may follow it.
    #[inline]
    pub(super) fn begin(&mut self, head: &[u8], kind: Kind) {
        let start = Start::of(head).zip(Start::mask_of(kind.layout));
        self.last_in = start.map(|(start, mask)| Leader { start, mask, kind });
    }

    /// A frame has not been let in: none follows it.
    pub(super) fn end(&mut self) {
        self.last_in = None;
    }

    /// Where a frame of `class` goes that follows the one before, and in which VLAN; `None` where the bridge is to be
    /// asked.
    #[inline]
    pub(super) fn route(&self, now: Nanos, class: Class, bridge: &Bridge) -> Option<(PortId, u16)> {
        let Forwarded::Repeats(route) = &self.last_forwarded else { return None };
        let holds = route.class == class && route.at == now && route.bridge_version == bridge.version();
        holds.then_some((route.egress, route.vid))
    }

    /// The bridge has been asked.
    #[inline]
    pub(super) fn forwarded(&mut self, at: Nanos, class: Class, forwarding: &Forwarding, bridge: &Bridge) {
        let Forwarding { decision, vid, repeats, .. } = *forwarding;
        self.last_forwarded = match decision {
            Decision::Unicast(egress) if repeats => {
                Forwarded::Repeats(Route { class, egress, vid, at, bridge_version: bridge.version() })
            }
            _ if repeats => Forwarded::Elsewhere,
            _ => Forwarded::Unlearned,
        };
    }

    /// Whether the bridge refused to learn the source address of the frame that was forwarded last.
    pub(super) fn is_unlearned(&self) -> bool {
        matches!(self.last_forwarded, Forwarded::Unlearned)
    }
}

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

    fn look(bytes: &[u8]) -> Kind {
        let header = Header::parse(bytes).unwrap();
        Kind { class: Class::ALL[3], layout: header.layout(), tags: header.tags_len(bytes) }
    }

    fn follows(leader: &[u8], next: &[u8]) -> bool {
        let mut train = Train::default();
        train.begin(leader, look(leader));
        train.kind(next).is_some()
    }

    /// What the kernel changes from packet to packet, and from flow to flow of two hosts: lengths, Identification,
    /// flow label, ECN, protocol and ports.
    // proves: batches
    #[test]
    fn packets_as_linux_sends_them_follow_each_other() {
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
        let (tcp, udp) = (6, 17); // RoCEv2 is UDP
        for tags in [&[][..], &TAG] {
            for (a, b) in [(1, 2), (7, 200), (255, 0)] {
                for [p, q] in [[tcp, tcp], [udp, udp], [tcp, udp]] {
                    assert!(follows(&frame(&[tags, &ipv4(a, p)]), &frame(&[tags, &ipv4(b, q)])));
                    assert!(follows(&frame(&[tags, &ipv6(a, p)]), &frame(&[tags, &ipv6(b, q)])));
                }
            }
        }
    }

    /// Whatever bit differs: the frame does not follow, or is what the one before is.
    // proves: batches
    #[test]
    fn what_follows_is_what_a_look_would_say() {
        let (ipv4, ipv6) = ([0x08, 0x00, 0x45, 24 << 2], [0x86, 0xdd, 0x66, 0x00]);
        let other = [0x88, 0xb5, 0, 0];
        for tags in [&[][..], &TAG, &SERVICE_TAG, &[SERVICE_TAG, TAG].concat()] {
            for payload in [ipv4, ipv6, other] {
                let leader = frame(&[tags, &payload]);
                assert!(follows(&leader, &leader));
                assert!(!follows(&leader, &leader[..LONG_ENOUGH - 1]));
                for bit in 0..LONG_ENOUGH * 8 {
                    let mut next = leader.clone();
                    next[bit / 8] ^= 1 << (bit % 8);
                    let is_same = Header::parse(&next) == Header::parse(&leader)
                        && look(&next).tags == look(&leader).tags;
                    assert!(is_same || !follows(&leader, &next), "bit {bit} of {leader:02x?}");
                }
            }
        }
    }

    // proves: batches
    #[test]
    fn nobody_follows_what_is_looked_at_farther_in_or_each_time() {
        for ether_type in [CN_TAG, CNM] {
            for tags in [&[][..], &TAG] {
                let leader = frame(&[tags, &ether_type.0.to_be_bytes()]);
                assert!(!follows(&leader, &leader));
            }
        }
    }
}
