//! Frames come in trains: many of one flow, one right after the other. What was found out of the first of a
//! train holds for the others.
//!
//! A frame follows the one before it at its port if it begins as that does: both addresses, the tag, the
//! EtherType and the DSCP are among the first 20 bytes. So it is of the same class, and stands right behind
//! that one in the ingress queue. And if both are forwarded at the same instant, as a batch is, and the bridge
//! has not changed in between, it goes where that one went and teaches nothing: neither its bytes nor the
//! forwarding database need to be looked at again.

use crate::forward::{Bridge, Decision, Forwarding};
use crate::units::{Class, Nanos, PortId};
use crate::wire::cnm::Cnm;
use crate::wire::header::{Header, Layout, field};

/// All that a frame is classified and forwarded by, unless it has a CN-TAG.
const START: usize = 20;

/// In a frame of this length everything is there that a header may have, so that no further look at the length
/// is needed: a tag, and what IPv6 always has.
const LONG_ENOUGH: usize = field::TAGGED_PAYLOAD as usize + field::IPV6_LEN;

/// What was found out about the frame before, at one port: of the last that came in, what it is; of the last
/// that was forwarded, where it went.
#[derive(Debug, Default)]
pub(super) struct Train {
    last_in: Option<([u8; START], Kind)>,
    last_forwarded: Option<Route>,
}

/// What a frame is, by its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    pub(super) layout: Layout,
    /// Bytes of its tags that MTUs do not count.
    pub(super) tags: u8,
    /// Whether that is all in its start.
    is_in_start: bool,
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

impl Kind {
    /// Of a frame that begins with `head`.
    #[inline]
    pub(super) fn new(class: Class, header: &Header, head: &[u8]) -> Kind {
        let is_in_start = header.cn_tag.is_none() && !Cnm::is_cnm(header);
        Kind { class, layout: header.layout(), tags: header.tags_len(head), is_in_start }
    }
}

impl Train {
    /// What a frame is that begins with `head`, where it follows the one before.
    #[inline]
    pub(super) fn kind(&self, head: &[u8]) -> Option<Kind> {
        let (last, kind) = self.last_in.as_ref()?;
        (start(head) == Some(last)).then_some(*kind)
    }

    /// A frame that does not follow has been let in: the next may follow it.
    #[inline]
    pub(super) fn begin(&mut self, head: &[u8], kind: Kind) {
        self.last_in = start(head).filter(|_| kind.is_in_start).map(|start| (*start, kind));
    }

    /// Where a frame of `class` goes that follows the one before, and in which VLAN; `None` where the bridge is to be
    /// asked.
    #[inline]
    pub(super) fn route(&self, now: Nanos, class: Class, bridge: &Bridge) -> Option<(PortId, u16)> {
        let route = self.last_forwarded.as_ref()?;
        let holds = route.class == class && route.at == now && route.bridge_version == bridge.version();
        holds.then_some((route.egress, route.vid))
    }

    /// The bridge has been asked.
    #[inline]
    pub(super) fn forwarded(&mut self, at: Nanos, class: Class, forwarding: &Forwarding, bridge: &Bridge) {
        let Forwarding { decision, vid, repeats, .. } = *forwarding;
        self.last_forwarded = match decision {
            Decision::Unicast(egress) if repeats => {
                Some(Route { class, egress, vid, at, bridge_version: bridge.version() })
            }
            _ => None,
        };
    }
}

/// The start of a frame that is long enough.
#[inline]
fn start(head: &[u8]) -> Option<&[u8; START]> {
    head.first_chunk::<LONG_ENOUGH>()?.first_chunk()
}
