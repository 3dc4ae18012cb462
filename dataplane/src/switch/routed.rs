//! Routing of frames addressed to a routed port or a VLAN's router.
//!
//! A frame is rewritten only when its egress queue has space, so that waiting frames are rewritten once. Frames for the kernel
//! are punted at once ([`super::punts`]).

use std::sync::Arc;

use pnet_packet::ethernet::EtherTypes;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::Spread;
use xoff_wire::header::{Header, field};
use xoff_wire::ip::{self, Packet, Unroutable};
use xoff_wire::units::Site;

use super::{Batch, Switch};
use crate::forward::Decision;
use crate::frame::{Frame, FrameStore};
use crate::punt::PuntRefusal;
use crate::queue::{FrameMeta, Origin};
use crate::routing::{Fib, Hop, Interface, RouteDecision};

#[derive(Clone, Copy, Debug)]
enum RoutedFate {
    Host(PuntReason),
    Forward(Hop),
    Drop(DropReason),
}

impl Batch<'_> {
    /// Replaces the routing table. Waiting frames are then routed anew.
    #[must_use = "the returned old routing table may be large: drop it outside the packet loop"]
    pub fn set_fib(&mut self, fib: Arc<Fib>) -> Arc<Fib> {
        let switch = &mut *self.switch;
        switch.end_run();
        let before = std::mem::replace(&mut switch.fib, fib);
        let fib = &switch.fib;
        switch.bridge.adopt_routers(fib.routers_of_vlans());
        switch.resolutions.retain(switch.now, |destination| fib.is_unresolved(destination));
        switch.decide_unresolved_anew();
        switch.pipeline.try_again(switch.now);
        before
    }
}

impl Switch {
    #[inline(never)]
    pub(super) fn decide_routed<S: FrameStore>(&mut self, site: Site, frame: Frame, store: &mut S) {
        if self.fib.spread() != Spread::Flow {
            self.end_run(); // occupancies are read
            self.paths.hops_drawn = self.paths.hops_drawn.wrapping_add(1);
        }
        let hop = match self.look_up(site, &frame, store) {
            RoutedFate::Forward(hop) => hop,
            RoutedFate::Host(PuntReason::Unresolved) if self.waits_for_neighbour(&frame) => {
                return self.wait_for_neighbour(site, frame, store);
            }
            RoutedFate::Host(reason) => {
                self.leave_pipeline(&frame);
                return self.punt_admitted(site, reason, frame, store);
            }
            RoutedFate::Drop(reason) => return self.end_here(reason, frame, store),
        };
        let (decision, vid) = match hop.site {
            Site::Port(egress) => (Decision::Unicast(egress), 0),
            Site::Vlan(vid) => (self.bridge.forward_of_router(self.now, vid, hop.dst), vid),
        };
        self.nodes.meta_mut(&frame).vid = vid;
        match decision {
            Decision::Unicast(egress) if self.must_wait(egress, self.nodes.meta(&frame)) => {
                self.wait_for_room(egress, frame);
            }
            Decision::Unicast(egress) => {
                self.leave_pipeline(&frame);
                self.readdress(&frame, &hop, store);
                self.enqueue(egress, frame, store);
            }
            Decision::Group(group) => self.take_path(group, Some(hop), frame, store),
            Decision::Flood(ports, kind) => self.flood(ports, kind, Some(hop), frame, store),
            Decision::Drop(reason) => self.end_here(reason, frame, store),
            Decision::Route(_) => unreachable!("no frame from a router may be routed again by it"),
        }
    }

    fn look_up<S: FrameStore>(&self, site: Site, frame: &Frame, store: &S) -> RoutedFate {
        let fib = &*self.fib;
        let layout = self.nodes.meta(frame).layout;
        let head = store.head(frame);
        let header = Header::read(layout, head);
        let Some(interface) = fib.interface(site) else { return RoutedFate::Drop(DropReason::NoRouter) };
        if let Some(reason) = why_not_for(interface, &header) {
            return RoutedFate::Drop(reason);
        }
        if header.dst.is_group() || header.ether_type == EtherTypes::Arp {
            return RoutedFate::Host(reason_of_group(&header));
        }
        let room = frame.len() as usize - usize::from(header.l3);
        let packet = match Packet::read(header.ether_type, header.payload(head), room) {
            Some(Ok(packet)) => packet,
            Some(Err(Unroutable::Broken)) => return RoutedFate::Drop(DropReason::BadIp),
            Some(Err(Unroutable::Martian)) => return RoutedFate::Drop(DropReason::Martian),
            None => return RoutedFate::Host(PuntReason::Other),
        };
        if packet.has_options {
            return RoutedFate::Host(PuntReason::Options);
        }
        if packet.stays_on_link {
            return RoutedFate::Host(PuntReason::Local);
        }
        let hops = match fib.lookup(interface, &packet) {
            RouteDecision::Hops(_) | RouteDecision::Host(PuntReason::Unresolved)
                if fib.is_from_this_host(interface, &packet) =>
            {
                return RoutedFate::Drop(DropReason::Martian);
            }
            RouteDecision::Hops(_) | RouteDecision::Host(PuntReason::Unresolved) if packet.hops_left <= 1 => {
                return RoutedFate::Host(PuntReason::HopLimit);
            }
            RouteDecision::Host(reason) => return RoutedFate::Host(reason),
            RouteDecision::Nowhere => return RoutedFate::Drop(DropReason::Blackhole),
            RouteDecision::Hops(hops) => hops,
        };
        let hop = match &*hops.hops {
            [hop] => Some(*hop),
            _ => self.choose_hop(fib.spread(), hops, frame, head),
        };
        match hop {
            None => RoutedFate::Host(PuntReason::Unresolved),
            Some(hop) if packet.len > hop.mtu => RoutedFate::Host(PuntReason::TooBig),
            Some(hop) => RoutedFate::Forward(hop),
        }
    }

    #[cold]
    pub(super) fn packet<S: FrameStore>(&self, frame: &Frame, store: &S) -> Option<Packet> {
        let head = store.head(frame);
        let header = Header::read(self.nodes.meta(frame).layout, head);
        let room = frame.len() as usize - usize::from(header.l3);
        Packet::read(header.ether_type, header.payload(head), room)?.ok()
    }

    #[inline]
    pub(super) fn show_router<S: FrameStore>(&mut self, frame: &Frame, store: &S) {
        let &FrameMeta { ingress, vid, origin, layout, .. } = self.nodes.meta(frame);
        let (is_routed, is_snooped) =
            (self.bridge.router(vid).is_some(), self.bridge.multicast().is_snooped(vid));
        if origin == Origin::Host || !is_routed && !is_snooped {
            return;
        }
        let header = Header::read(layout, store.head(frame));
        let reason = match is_snooped && self.is_membership(frame, store) {
            true => PuntReason::Membership,
            false if is_routed && header.dst.is_group() => reason_of_group(&header),
            false => return,
        };
        let _ = self.punt((ingress, vid), reason, frame, store); // a copy; its loss is counted there
    }

    pub(super) fn end_here<S: FrameStore>(&mut self, reason: DropReason, frame: Frame, store: &mut S) {
        self.leave_pipeline(&frame);
        let port = self.nodes.meta(&frame).ingress;
        self.drop_admitted(port, reason, frame, store);
    }

    pub(super) fn readdress<S: FrameStore>(&self, frame: &Frame, hop: &Hop, store: &mut S) {
        let Header { ether_type, l3, .. } = Header::read(self.nodes.meta(frame).layout, store.head(frame));
        let head = store.head_mut(frame);
        head[field::DST].copy_from_slice(&hop.dst.0);
        head[field::SRC].copy_from_slice(&hop.src.0);
        ip::pass(ether_type, &mut head[usize::from(l3)..]);
    }

    #[cold]
    pub(super) fn punt_admitted<S: FrameStore>(
        &mut self,
        site: Site,
        reason: PuntReason,
        frame: Frame,
        store: &mut S,
    ) {
        self.end_run();
        let port = self.nodes.meta(&frame).ingress;
        match self.punt((port, site.vid()), reason, &frame, store) {
            Ok(()) => {
                self.ledger.consumed += 1;
                self.leave_congestion_point(&frame);
                self.finish(frame, store);
            }
            Err(refusal) => {
                let why = self.why_not_punted(reason, refusal, &frame, store);
                self.drop_admitted(port, why, frame, store);
            }
        }
    }

    fn why_not_punted<S: FrameStore>(
        &self,
        reason: PuntReason,
        refusal: PuntRefusal,
        frame: &Frame,
        store: &S,
    ) -> DropReason {
        let only_answered = || match reason {
            PuntReason::HopLimit | PuntReason::NoRoute => true,
            PuntReason::TooBig => {
                let header = Header::read(self.nodes.meta(frame).layout, store.head(frame));
                !ip::may_be_fragmented(header.ether_type, header.payload(store.head(frame)))
            }
            _ => false,
        };
        match refusal {
            _ if reason == PuntReason::Unresolved => DropReason::Unresolved,
            // Count the packet as unroutable: the host would only have answered with an error, at a limited rate (RFC 1812,
            // section 4.3.2.8).
            PuntRefusal::Rate if only_answered() => DropReason::Unroutable,
            PuntRefusal::Rate => DropReason::PuntLimit,
            PuntRefusal::Room => DropReason::PuntFull,
        }
    }
}

fn reason_of_group(header: &Header) -> PuntReason {
    if header.ether_type == EtherTypes::Arp { PuntReason::Arp } else { PuntReason::Group }
}

pub(super) fn names_vlan(header: &Header) -> bool {
    header.tag.is_some_and(|tag| tag.vid() != 0)
}

fn why_not_for(interface: &Interface, header: &Header) -> Option<DropReason> {
    match interface.site {
        Site::Port(_) if names_vlan(header) => Some(DropReason::NotMember),
        Site::Port(_) if !header.dst.is_group() && header.dst != interface.mac => {
            Some(DropReason::OtherStation)
        }
        Site::Port(_) | Site::Vlan(_) => None,
    }
}
