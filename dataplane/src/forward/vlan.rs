//! VLANs: the VLAN of a received frame, and the ports of a VLAN.
//!
//! Untagged and priority-tagged frames get the port's VLAN (PVID). A port admits only its VLANs (ingress filtering).

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{PortSettings, VlanSettings};
use xoff_wire::header::Tci;
use xoff_wire::units::{MacAddr, PortId, PortSet};

pub const DEFAULT_VID: u16 = 1;
const VIDS: usize = 4096;
const VID_RESERVED: u16 = 4095;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub members: PortSet,
    pub tagged: PortSet,
    pub router: Option<MacAddr>,
}

#[derive(Clone, Debug)]
pub struct Vlans {
    places: Box<[u16; VIDS]>,
    memberships: Vec<Membership>,
    pvids: Vec<Option<u16>>,
    has_routers: bool,
    had_routers: bool,
}

impl Vlans {
    #[must_use]
    pub fn new(vlans: &[VlanSettings], ports: &[PortSettings]) -> Vlans {
        let mut all = Vlans {
            places: Box::new([0; VIDS]),
            memberships: vec![Membership::default()],
            pvids: ports.iter().map(|port| port.pvid).collect(),
            has_routers: false,
            had_routers: false,
        };
        if vlans.is_empty() {
            let bridged = (0..=u8::MAX).map(PortId).zip(ports).filter(|(_, port)| !port.routed);
            let members = bridged.map(|(id, _)| id).collect();
            all.add(DEFAULT_VID, Membership { members, ..Membership::default() });
        }
        for vlan in vlans {
            let tagged: PortSet = vlan.tagged.iter().copied().collect();
            let members = vlan.tagged.iter().chain(&vlan.untagged).copied().collect();
            all.add(vlan.vid, Membership { members, tagged, router: None });
        }
        all
    }

    #[must_use]
    pub fn with_routers(mut self, routers: &[(u16, MacAddr)]) -> Vlans {
        for &(vid, router) in routers {
            let place = self.places[usize::from(vid) % VIDS];
            if place != 0 {
                self.has_routers = true;
                self.memberships[usize::from(place)].router = Some(router);
            }
        }
        self
    }

    /// Sets the MAC address of a VLAN's router, if any. Returns whether the address changed.
    pub fn set_router(&mut self, vid: u16, mac: MacAddr) -> bool {
        let place = self.places[usize::from(vid) % VIDS];
        let router = &mut self.memberships[usize::from(place)].router;
        let changes = router.is_some_and(|before| before != mac);
        if changes {
            *router = Some(mac);
        }
        changes
    }

    /// Copies the routers' current MAC addresses from the replaced VLANs `before`. Records whether `before` had
    /// routers: frames from them may still be queued.
    pub fn succeed(&mut self, before: &Vlans, routers: &[(u16, MacAddr)]) {
        self.had_routers = before.has_routers || before.had_routers;
        for &(vid, _) in routers {
            if let Some(mac) = before.get(vid).router {
                self.set_router(vid, mac);
            }
        }
    }

    #[inline]
    pub fn admit(&self, ingress: PortId, tag: Option<Tci>) -> Result<u16, DropReason> {
        let vid = match tag.map_or(0, Tci::vid) {
            0 => self.pvids[ingress.index()].ok_or(DropReason::NotAdmitted)?,
            VID_RESERVED => return Err(DropReason::ReservedVid),
            vid => vid,
        };
        if self.get(vid).members.contains(ingress) { Ok(vid) } else { Err(DropReason::NotMember) }
    }

    #[inline]
    pub(crate) fn pvid(&self, ingress: PortId) -> Option<u16> {
        *self.pvids.get(ingress.index())?
    }

    #[must_use]
    pub const fn has_routers(&self) -> bool {
        self.has_routers
    }

    #[must_use]
    pub const fn has_or_had_routers(&self) -> bool {
        self.has_routers || self.had_routers
    }

    #[inline]
    #[must_use]
    pub fn get(&self, vid: u16) -> &Membership {
        let place = self.places[usize::from(vid) % VIDS];
        &self.memberships[usize::from(place)]
    }

    fn add(&mut self, vid: u16, membership: Membership) {
        let place = u16::try_from(self.memberships.len()).expect("there must be fewer than 65,536 VLANs");
        self.places[usize::from(vid) % VIDS] = place;
        self.memberships.push(membership);
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::Class;

    use super::*;
    use crate::testing::port_settings;

    const UNTAGGED: Option<Tci> = None;

    fn tag(vid: u16) -> Option<Tci> {
        Some(Tci::new(Class::ALL[3], false, vid))
    }

    fn ports(pvids: &[Option<u16>]) -> Vec<PortSettings> {
        (0..).zip(pvids).map(|(index, &pvid)| PortSettings { pvid, ..port_settings(index) }).collect()
    }

    #[test]
    fn without_vlan_settings_all_ports_are_untagged_in_vlan_1() {
        let vlans = Vlans::new(&[], &ports(&[Some(1); 3]));
        assert_eq!(vlans.admit(PortId(2), UNTAGGED), Ok(1));
        assert_eq!(vlans.admit(PortId(2), tag(0)), Ok(1));
        assert_eq!(vlans.admit(PortId(2), tag(1)), Ok(1));
        assert_eq!(vlans.admit(PortId(2), tag(2)), Err(DropReason::NotMember));
        assert_eq!((vlans.get(1).members.len(), vlans.get(1).tagged), (3, PortSet::NONE));
    }

    #[test]
    fn port_admits_only_frames_of_vlans_it_is_member_of() {
        let settings: Vec<_> = (1..=4094u16)
            .map(|vid| VlanSettings { vid, tagged: vec![PortId((vid % 3) as u8)], untagged: vec![] })
            .collect();
        let vlans = Vlans::new(&settings, &ports(&[None, Some(1), Some(1)]));
        for vid in 1..=4094u16 {
            for port in 0..3u8 {
                let expected = if vid % 3 == u16::from(port) { Ok(vid) } else { Err(DropReason::NotMember) };
                assert_eq!(
                    vlans.admit(PortId(port), tag(vid)),
                    expected,
                    "port {port} must admit exactly its VLANs, tested with VLAN {vid}"
                );
            }
        }
        for untagged in [UNTAGGED, tag(0)] {
            assert_eq!(
                vlans.admit(PortId(0), untagged),
                Err(DropReason::NotAdmitted),
                "a port without PVID must admit no untagged frame"
            );
            assert_eq!(vlans.admit(PortId(1), untagged), Ok(1));
            assert_eq!(
                vlans.admit(PortId(2), untagged),
                Err(DropReason::NotMember),
                "a port must not admit its PVID unless it is a member of that VLAN"
            );
        }
        assert_eq!(vlans.admit(PortId(0), tag(4095)), Err(DropReason::ReservedVid));
    }

    #[test]
    fn tagged_vlan_member_is_in_set_of_ports_that_send_tags() {
        let vlan = VlanSettings { vid: 7, tagged: vec![PortId(0)], untagged: vec![PortId(1)] };
        let vlans = Vlans::new(&[vlan], &ports(&[Some(7); 2]));
        let membership = vlans.get(7);
        assert!(membership.tagged.contains(PortId(0)) && !membership.tagged.contains(PortId(1)));
        assert_eq!(membership.members.len(), 2);
    }
}
