//! Connection of a bridge to a VLAN's router. Frames to the router leave the bridge; frames from it have no ingress
//! port.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::Flooded;
use xoff_wire::units::{MacAddr, Nanos};

use super::{Bridge, Decision};

impl Bridge {
    #[inline]
    #[must_use]
    pub(crate) fn router(&self, vid: u16) -> Option<MacAddr> {
        self.vlans.get(vid).router
    }

    /// Sets the MAC addresses of VLANs' routers. A router missing in `routers`, as while its interface is down,
    /// keeps its address.
    pub(crate) fn adopt_routers(&mut self, routers: impl Iterator<Item = (u16, MacAddr)>) {
        for (vid, mac) in routers {
            if self.vlans.set_router(vid, mac) {
                self.version += 1;
            }
        }
    }

    #[must_use]
    pub(crate) const fn has_routers(&self) -> bool {
        self.vlans.has_routers()
    }

    #[must_use]
    pub(crate) const fn has_or_had_routers(&self) -> bool {
        self.vlans.has_or_had_routers()
    }

    #[must_use]
    pub(crate) fn forward_of_router(&self, now: Nanos, vid: u16, dst: MacAddr) -> Decision {
        let members = &self.vlans.get(vid).members;
        let (exits, kind) = if dst.is_group() {
            let kind = if dst == MacAddr::BROADCAST { Flooded::Broadcast } else { Flooded::Multicast };
            (self.of_router.group, kind)
        } else if let Some(port) = self.fdb.lookup(now, vid, dst) {
            return match self.groups.of(port) {
                _ if self.of_router.all.contains(port) && members.contains(port) => Decision::Unicast(port),
                Some(group) if !self.groups.members(group).and(&self.open).and(members).is_empty() => {
                    Decision::Group(group)
                }
                Some(_) | None if !self.leads_on(port) => Decision::Drop(DropReason::LinkDown),
                Some(_) | None => Decision::Drop(DropReason::NoDestination),
            };
        } else {
            (self.of_router.unknown, Flooded::Unknown)
        };
        let ports = exits.and(members);
        if ports.is_empty() {
            Decision::Drop(DropReason::NoDestination)
        } else {
            Decision::Flood(ports, kind)
        }
    }
}
