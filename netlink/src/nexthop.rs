//! Next-hop objects (`ip nexthop`). If `net.ipv4.nexthop_compat_mode` is 0, the kernel reports a route with the number
//! of its object, without paths.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};

use crate::Conversation;
use crate::attributes::{attributes, message, word};
use crate::conversation::NLM_F_DUMP_INTR;

const RTM_NEWNEXTHOP: u16 = 104;
const RTM_GETNEXTHOP: u16 = 106;
/// Length of struct nhmsg: family, scope, protocol and padding of a byte each, then flags.
const HEADER: usize = 8;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;

/// Next-hop object: a single path, or a group of other next-hop objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nexthop {
    pub id: u32,
    /// Flags (RTNH_F_*).
    pub flags: u32,
    /// Index of the egress interface; 0 for a group.
    pub link: u32,
    pub gateway: Option<IpAddr>,
    pub is_encapsulated: bool,
    /// Ids and weights of a group's members; empty for a single path.
    pub members: Vec<(u32, u16)>,
}

impl Nexthop {
    fn read(body: &[u8]) -> Option<Nexthop> {
        let mut object = Nexthop { flags: word(body, 1), ..Nexthop::default() };
        for (kind, value) in attributes(body.get(HEADER..)?) {
            match kind {
                NHA_ID => object.id = word(value, 0),
                NHA_OIF => object.link = word(value, 0),
                NHA_GATEWAY => object.gateway = address(value),
                NHA_ENCAP_TYPE => object.is_encapsulated = true,
                NHA_GROUP => object.members = value.chunks_exact(8).map(member).collect(),
                _ => {}
            }
        }
        (object.id != 0).then_some(object)
    }
}

/// Parses struct nexthop_grp: id, weight minus 1 (lower byte, upper byte), padding.
fn member(entry: &[u8]) -> (u32, u16) {
    (word(entry, 0), u16::from_le_bytes([entry[4], entry[5]]).saturating_add(1))
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

impl Conversation {
    pub fn nexthops(&mut self, mut give: impl FnMut(Nexthop)) -> io::Result<bool> {
        let mut request = message(RTM_GETNEXTHOP, NLM_F_REQUEST | NLM_F_DUMP, &[0; HEADER]);
        let answer = self.converse(&mut request, |part| {
            if part.message_type() == RTM_NEWNEXTHOP {
                Nexthop::read(part.payload()).into_iter().for_each(&mut give);
            }
        })?;
        Ok(answer.accepted()? & NLM_F_DUMP_INTR == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Attributes;

    #[test]
    fn nexthop_object_is_read_as_path_or_group() {
        let read = |attributes: &Attributes| {
            let header = [&[2, 0, 0, 0][..], &16_u32.to_ne_bytes()].concat();
            Nexthop::read(&[&header, attributes.as_bytes()].concat())
        };
        let path = Attributes::default().u32(NHA_ID, 7).u32(NHA_OIF, 3).bytes(NHA_GATEWAY, &[10, 0, 0, 1]);
        let expected =
            Nexthop { id: 7, flags: 16, link: 3, gateway: Some([10, 0, 0, 1].into()), ..Nexthop::default() };
        assert_eq!(read(&path), Some(expected));
        let tunnel = read(&path.clone().u16(NHA_ENCAP_TYPE, 1).bytes(NHA_GATEWAY, &[0xfd; 16]));
        assert!(tunnel.is_some_and(|it| it.is_encapsulated && it.gateway == Some([0xfd; 16].into())));
        let entries = [[7, 0, 0, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0xff, 1, 0, 0]].map(|mut entry| {
            let id = u32::from(entry[0]);
            entry[..4].copy_from_slice(&id.to_ne_bytes());
            entry
        });
        let group = read(&Attributes::default().u32(NHA_ID, 9).bytes(NHA_GROUP, &entries.concat()));
        assert_eq!(group.map(|it| it.members), Some(vec![(7, 1), (8, 512)]));
        assert_eq!((read(&Attributes::default().u32(NHA_OIF, 3)), Nexthop::read(&[0; 7])), (None, None));
    }
}
