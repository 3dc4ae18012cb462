//! Frames that the host sends by a routed port, or a VLAN with a router. They count only at egress, so that they take
//! no ingress memory from peers. A port that stays paused ([`super::paused_floods`]) drops host frames to a VLAN:
//! they would use up the limit for host frames.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{HOST_FRAMES_MAX, Lldp};
use xoff_wire::header::Header;
use xoff_wire::lldp::LLDP;
use xoff_wire::mac_control::MacControl;
use xoff_wire::units::{CLASSES, Class, PortId, Site};

use super::routed::names_vlan;
use super::{Batch, Switch};
use crate::forward::Decision;
use crate::frame::FrameStore;
use crate::queue::{FrameMeta, Origin};

impl Batch<'_> {
    /// Sends a frame of the host by the routed port or VLAN `site`. Counts it at `port`: the routed port, or any port
    /// of this worker for a VLAN.
    pub fn send_of_host<S: FrameStore>(&mut self, site: Site, port: PortId, bytes: &[u8], store: &mut S) {
        self.switch.send_of_host(site, port, bytes, store);
    }
}

impl Switch {
    fn send_of_host<S: FrameStore>(&mut self, site: Site, port: PortId, bytes: &[u8], store: &mut S) {
        self.end_run();
        let at = &self.ports[port.index()];
        let Ok(header) = Header::parse(bytes) else {
            return self.refuse_of_host(port, at.settings.default_class, DropReason::Malformed);
        };
        let class = at.ingress.classifier.classify(&header);
        let is_lldp_of_host = matches!(site, Site::Port(_)) && at.settings.lldp == Lldp::Kernel;
        if MacControl::is_mac_control(&header) || header.ether_type == LLDP && !is_lldp_of_host {
            return self.refuse_of_host(port, class, DropReason::HostControl);
        }
        if header.dst.is_link_local() {
            let refused = match site {
                Site::Vlan(_) => Some(DropReason::NotMember), // a VLAN has no neighbour of its own
                Site::Port(_) if !at.up => Some(DropReason::LinkDown),
                Site::Port(_) if self.inject(port, class, bytes, store) => None,
                Site::Port(_) => Some(DropReason::HostLimit),
            };
            if let Some(reason) = refused {
                self.refuse_of_host(port, class, reason);
            }
            return;
        }
        if names_vlan(&header) {
            return self.refuse_of_host(port, class, DropReason::NotMember);
        }
        if !has_room(&at.ingress.of_host, class) {
            return self.refuse_of_host(port, class, DropReason::HostLimit);
        }
        let Some(frame) = store.make(bytes) else {
            return self.refuse_of_host(port, class, DropReason::NoFrames);
        };
        self.ledger.made += 1;
        self.ports[port.index()].ingress.of_host[class.index()] += 1;
        let meta = FrameMeta::new(self.now, port, class, frame.len());
        let (layout, tags) = (header.layout(), header.tags_len(bytes));
        let (decision, vid) = match site {
            Site::Port(egress) => (Decision::Unicast(egress), 0),
            Site::Vlan(vid) => (self.bridge.forward_of_router(self.now, vid, header.dst), vid),
        };
        *self.nodes.meta_mut(&frame) = FrameMeta { layout, tags, vid, origin: Origin::Host, ..meta };
        match decision {
            Decision::Unicast(egress) => _ = self.enqueue(egress, frame, store),
            Decision::Group(group) => self.take_path(group, None, frame, store),
            Decision::Flood(ports, kind) => self.flood(ports, kind, None, frame, store),
            Decision::Drop(reason) => self.drop_admitted(port, reason, frame, store),
            Decision::Route(_) => unreachable!("no frame from a router may be routed again by it"),
        }
    }

    #[inline]
    pub(super) fn host_misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        is_of_vlan(meta) && self.ports[egress.index()].peer.lets_nothing_pass().contains(meta.class)
    }

    pub(super) fn drop_of_vlans<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        if self.bridge.has_or_had_routers() {
            self.drop_queued(port, class, DropReason::HostLimit, is_of_vlan, store);
        }
    }

    fn refuse_of_host(&mut self, port: PortId, class: Class, reason: DropReason) {
        self.counters.class(port, class).drops[reason.index()].add(1);
        self.ledger.made += 1;
        self.ledger.dropped += 1;
    }
}

fn is_of_vlan(meta: &FrameMeta) -> bool {
    meta.origin == Origin::Host && meta.vid != 0
}

fn has_room(of_host: &[u32; CLASSES], class: Class) -> bool {
    of_host[class.index()] + of_host.iter().sum::<u32>() < HOST_FRAMES_MAX
}
