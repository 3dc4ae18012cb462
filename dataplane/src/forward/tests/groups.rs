// Tests for SPECIFICATION.md: groups

use xoff_flow_control::settings::{GroupSettings, Member, Spread};

use super::*;

fn grouped(uplinks: bool) -> SwitchSettings {
    let mut settings = settings(6);
    settings.groups = [[1, 2], [3, 4]].map(|ports| group(&ports, uplinks)).into();
    settings
}

fn group(ports: &[u8], uplinks: bool) -> GroupSettings {
    let members = ports.iter().map(|port| Member { port: PortId(*port), weight: 1 }).collect();
    GroupSettings {
        name: format!("g{}", ports[0]),
        members,
        spread: Spread::Flow,
        uplinks,
        lacp: None,
        salt: 0,
    }
}

fn ports(of: &[u8]) -> PortSet {
    of.iter().map(|port| PortId(*port)).collect()
}

const C: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xc]);
const FIRST: Decision = Decision::Group(GroupId(0));

#[test]
fn station_behind_group_member_is_learned_at_group() {
    let mut bridge = Bridge::new(&grouped(false));
    decide(&mut bridge, 2, A, B);
    assert_eq!(decide(&mut bridge, 0, B, A), FIRST);
    decide(&mut bridge, 1, A, B);
    assert_eq!(decide(&mut bridge, 0, B, A), FIRST);
    let fdb = bridge.fdb();
    assert_eq!(
        (fdb.len(), fdb.moved_to(PortId(1)), fdb.moved_to(PortId(2))),
        (2, 0, 0),
        "station moved between members of its group"
    );
    assert_eq!(fdb.learned_at(PortId(1)), 1, "station not learned at the first member");
}

#[test]
fn frame_to_static_address_of_member_goes_to_its_group() {
    let mut settings = grouped(false);
    settings.fdb.statics = vec![(1, A, PortId(4))];
    let mut bridge = Bridge::new(&settings);
    assert_eq!(decide(&mut bridge, 0, B, A), Decision::Group(GroupId(1)));
    assert_eq!(decide(&mut bridge, 3, B, A), Decision::Drop(DropReason::Hairpin));
}

#[test]
fn frame_never_returns_to_ingress_group() {
    let mut bridge = Bridge::new(&grouped(false));
    decide(&mut bridge, 1, A, B);
    assert_eq!(decide(&mut bridge, 2, B, A), Decision::Drop(DropReason::Hairpin));
    let unknown = MacAddr([2, 0, 0, 0, 0, 99]);
    for dst in [MacAddr::BROADCAST, GROUP, unknown] {
        for member in [1, 2] {
            let Decision::Flood(out, _) = decide(&mut bridge, member, A, dst) else {
                panic!("frame was not flooded")
            };
            assert_eq!(out, ports(&[0, 3, 5]), "flood did not leave by one member of the other group");
        }
        let Decision::Flood(out, _) = decide(&mut bridge, 0, B, dst) else { panic!("frame was not flooded") };
        assert_eq!(out, ports(&[1, 3, 5]), "flood did not leave by one member of each group");
    }
}

#[test]
fn uplink_groups_exchange_no_frames() {
    let mut bridge = Bridge::new(&grouped(true));
    let Decision::Flood(out, _) = decide(&mut bridge, 4, A, MacAddr::BROADCAST) else {
        panic!("frame was not flooded")
    };
    assert_eq!(out, ports(&[0, 5]));
    assert_eq!(decide(&mut bridge, 1, B, A), Decision::Drop(DropReason::Isolated));
    assert_eq!(decide(&mut bridge, 0, B, A), Decision::Group(GroupId(1)));
    let Decision::Flood(out, _) = decide(&mut bridge, 0, B, MacAddr::BROADCAST) else {
        panic!("frame was not flooded")
    };
    assert_eq!(out, ports(&[1, 3, 5]), "flood of a host missed an uplink group");
}

#[test] // proves: link-down, groups
fn group_stays_reachable_while_one_member_has_link() {
    let mut bridge = Bridge::new(&grouped(false));
    decide(&mut bridge, 2, A, B);
    decide(&mut bridge, 0, B, A);
    bridge.set_link(PortId(1), false);
    assert_eq!(decide(&mut bridge, 0, B, A), FIRST, "address was forgotten although its group has a link");
    let Decision::Flood(out, _) = decide(&mut bridge, 0, B, GROUP) else { panic!("frame was not flooded") };
    assert_eq!(out, ports(&[1, 3, 5]), "the bridge did not name the group by its first member");
    bridge.apply_remote(&FdbUpdate { vid: 1, mac: C, port: PortId(1), last_active: NOW });
    assert_eq!(decide(&mut bridge, 0, B, C), FIRST, "update of another worker was ignored");
    bridge.set_link(PortId(2), false);
    let Decision::Flood(out, _) = decide(&mut bridge, 0, B, A) else { panic!("frame was not flooded") };
    assert_eq!(out, ports(&[3, 5]), "address was kept although its group has no link");
    bridge.apply_remote(&FdbUpdate { vid: 1, mac: C, port: PortId(1), last_active: NOW });
    assert!(matches!(decide(&mut bridge, 0, B, C), Decision::Flood(..)));
    bridge.set_link(PortId(2), true);
    decide(&mut bridge, 2, A, B);
    assert_eq!(decide(&mut bridge, 0, B, A), FIRST);
}

#[test]
fn frame_to_static_address_of_group_without_link_is_dropped() {
    let mut settings = grouped(false);
    settings.fdb.statics = vec![(1, A, PortId(1))];
    let mut bridge = Bridge::new(&settings);
    [1, 2].into_iter().for_each(|port| bridge.set_link(PortId(port), false));
    assert_eq!(decide(&mut bridge, 0, B, A), Decision::Drop(DropReason::LinkDown));
}

#[test] // proves: group-changes
fn change_of_group_members_removes_addresses_of_group() {
    let mut bridge = Bridge::new(&grouped(false));
    decide(&mut bridge, 2, A, B);
    decide(&mut bridge, 4, B, A);
    decide(&mut bridge, 0, C, A);
    let mut settings = grouped(false);
    settings.groups[0] = group(&[1, 2, 5], false);
    let mut vlans = Vlans::new(&settings.vlans, &settings.ports);
    let mut groups = Groups::new(&settings);
    bridge.revise(&settings, &mut vlans, &mut groups);
    assert_eq!(bridge.fdb().len(), 2);
    assert_eq!(decide(&mut bridge, 0, C, B), Decision::Group(GroupId(1)));
    decide(&mut bridge, 5, A, B);
    assert_eq!(decide(&mut bridge, 0, C, A), FIRST);
}
