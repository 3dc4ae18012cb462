// Tests for SPECIFICATION.md: route-mirror

use xoff_netns_tests::wait_for;

use super::Fabric;

#[test]
fn routes_by_nexthop_object_work_without_compatibility_mode() {
    let fabric = Fabric::new(3, "");
    fabric.bed.far_namespace().sysctl("ipv4/nexthop_compat_mode", "0").unwrap();
    let await_paths = |prefix: &str, expected: &[&str]| {
        wait_for(&format!("{prefix} by {expected:?}"), || {
            let page = fabric.routes();
            let row = page.routes.iter().find(|row| row.prefix == prefix)?;
            let paths = row.via.iter().filter(|via| via.is_of_switch).map(|via| &via.interface[..]);
            (paths.collect::<Vec<_>>() == expected).then_some(())
        });
    };
    fabric.ip("nexthop add id 2 via 172.16.2.2 dev p2");
    fabric.ip("nexthop add id 3 via 172.16.3.2 dev p3");
    fabric.ip("nexthop add id 9 group 2/3");
    fabric.ip("nexthop add id 6 via fd16:3::2 dev p3");
    fabric.ip("route add 172.20.0.0/24 nhid 9");
    fabric.ip("route add 172.21.0.0/24 nhid 2");
    fabric.ip("route add fd17::/64 nhid 6");
    await_paths("172.20.0.0/24", &["p2", "p3"]);
    await_paths("172.21.0.0/24", &["p2"]);
    await_paths("fd17::/64", &["p3"]);
    fabric.ip("nexthop replace id 2 via 172.16.1.2 dev p1");
    await_paths("172.20.0.0/24", &["p1", "p3"]);
    await_paths("172.21.0.0/24", &["p1"]);
    fabric.ip("nexthop del id 3");
    await_paths("172.20.0.0/24", &["p1"]);
    fabric.finish();
}
