//! Frames come in trains: many of one flow, one right after the other. What was found out of the first of a
//! train holds for the others.
//!
//! A frame follows the one before it at its port if it begins as that does: both addresses, the tag, the
//! EtherType and the DSCP are among the first 20 bytes. So it is of the same class, and stands right behind
//! that one in the ingress queue. And if both are decided at the same instant, as a batch is, and the bridge
//! has not changed in between, it goes where that one went and teaches nothing ([`Bridge::follow`]): neither its
//! bytes nor the forwarding database need to be looked at again. Within a batch, where nobody else is in
//! turn and nothing is to be decided ([`super::batch`]), the rest of a train moves on as one chain.
//!
//! [`Bridge::follow`]: crate::forward::Bridge::follow

use super::Switch;
use super::batch::{Like, Step, Way};
use crate::buffer::Load;
use crate::queue::Fifo;
use crate::settings::Accounting;
use crate::units::{Bytes, Class, PortId};
use crate::wire::cnm::Cnm;
use crate::wire::header::{Header, field};

/// All that a frame is classified and forwarded by, unless it has a CN-TAG.
const START: usize = 20;

/// In a frame of this length everything is there that a header may have, so that no further look at the length
/// is needed: a tag, and what IPv6 always has.
const LONG_ENOUGH: usize = field::TAGGED_PAYLOAD as usize + field::IPV6_LEN;

/// What a frame is, by how it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    /// Bytes of its tags that MTUs do not count.
    pub(super) tags: u8,
    /// Whether that is all in its start.
    pub(super) leads: bool,
}

impl Kind {
    /// Of a frame that begins with `head`.
    #[inline]
    pub(super) fn new(class: Class, header: &Header, head: &[u8]) -> Kind {
        let leads = header.cn_tag.is_none() && !Cnm::is_cnm(header);
        Kind { class, tags: header.tags_len(head), leads }
    }
}

/// A frame that others may follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leader {
    start: [u8; START],
    pub(super) kind: Kind,
}

impl Leader {
    /// Of a frame that begins with `head`; `None` where others may not follow.
    #[inline]
    pub(super) fn of(head: &[u8], kind: Kind) -> Option<Leader> {
        let start = *start(head).filter(|_| kind.leads)?;
        Some(Leader { start, kind })
    }

    /// Whether a frame that begins with `head` follows.
    #[inline]
    pub(super) fn leads(&self, head: &[u8]) -> bool {
        start(head) == Some(&self.start)
    }
}

/// The start of a frame that is long enough.
#[inline]
fn start(head: &[u8]) -> Option<&[u8; START]> {
    head.first_chunk::<LONG_ENOUGH>()?.first_chunk()
}

impl Switch {
    /// Moves on what follows the frame that has just gone to `egress`, as long as no other port is in turn.
    #[inline]
    pub(super) fn forward_train(&mut self, ingress: PortId, egress: PortId, class: Class, vid: u16) {
        let way = Way { step: Step::Enqueue, ingress, egress, class };
        let at = &self.ports[ingress.index()];
        let Some(first) = at.arrived[class.index()].front(&self.nodes) else { return };
        let is_in_turn = self.ingress_ready.next_from(self.next_ingress) == Some(ingress);
        if !is_in_turn || self.run.way() != way || self.accounting == Accounting::UntilForwarded {
            return;
        }
        let (longest, size) = (self.longest_for(egress, vid, first.tags), first.counted());
        let quiet = self.quiet_for(way, size);
        let mut load = Load::default();
        let train = self.ports[ingress.index()].arrived[class.index()].split_while(&mut self.nodes, |meta| {
            let size = meta.counted();
            let moves = meta.follows && meta.len <= longest && load.bytes + size <= quiet;
            if moves {
                load.add(size);
                (meta.vid, meta.egress) = (vid, egress);
            }
            moves
        });
        self.tally(load);
        self.ports[egress.index()].queues[class.index()].append(&mut self.nodes, train);
    }

    /// Takes out the frames that are like the last that left by `port`, `most` at most, as long as there is nothing to
    /// choose.
    #[inline]
    pub(super) fn transmit_train(&mut self, port: PortId, most: u32) -> Option<Fifo> {
        let (way, like) = (self.run.transmits(port)?, self.run.like);
        let class = way.class;
        let first = self.ports[port.index()].queues[class.index()].fifo()?.front(&self.nodes)?;
        if Like::of(first) != like {
            return None;
        }
        let size = Bytes::on_line(first.len);
        let quiet = self.quiet_for(way, size);
        let at = &mut self.ports[port.index()];
        let (queue, scheduler) = (at.queues[class.index()].fifo()?, &mut at.scheduler);
        let mut load = Load::default();
        let train = queue.split_while(&mut self.nodes, |meta| {
            let size = Bytes::on_line(meta.len);
            let leaves = load.frames < most && Like::of(meta) == like && load.bytes + size <= quiet;
            if leaves {
                load.add(size);
                scheduler.sends_again(class, size);
            }
            leaves
        });
        let now_empty = queue.is_empty();
        if now_empty {
            scheduler.sent(class, Bytes::ZERO, now_empty);
            at.backlogged.remove(class);
        }
        if load.frames > 0 {
            self.tally(load);
        }
        Some(train)
    }
}
