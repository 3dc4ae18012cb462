use xoff_flow_control::settings::{MulticastSettings, VlanSettings};

use crate::document::Document;
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;

pub(crate) fn settings(
    document: &Document,
    vlans: &[VlanSettings],
    problems: &mut Problems,
) -> MulticastSettings {
    let (keys, default) = (&document.multicast, MulticastSettings::default());
    let of_all = value(keys.snooping.as_ref(), false);
    let is_snooped = |vid: &u16| {
        let of_vlan = |keys: &&crate::keys::VlanKeys| keys.vid.as_ref().is_some_and(|key| key.value == *vid);
        let own = document.vlans.iter().map(|entry| &entry.keys).find(of_vlan);
        value(own.and_then(|keys| keys.snooping.as_ref()), of_all)
    };
    let vlans: Vec<u16> = vlans.iter().map(|vlan| vlan.vid).filter(is_snooped).collect();
    let places = [
        ("unknown", keys.unknown.as_ref().map(|key| key.span)),
        ("querier", keys.querier.as_ref().map(|key| key.span)),
        ("groups", keys.groups.as_ref().map(|key| key.span)),
    ];
    for (key, span) in places.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        if vlans.is_empty() {
            problems.push(
                Problem::warning(format!("`{key}` has no effect, because no VLAN is snooped"))
                    .at(span, "no effect")
                    .help("write snooping = true in [multicast] or at a [[vlan]], or leave the key out"),
            );
        }
    }
    MulticastSettings {
        vlans,
        unknown: value(keys.unknown.as_ref(), default.unknown),
        querier: value(keys.querier.as_ref(), OrOff::Off).into_option(),
        groups_max: value(keys.groups.as_ref(), default.groups_max),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv4Addr;

    use xoff_flow_control::settings::UnknownGroups;

    use super::*;
    use crate::{Config, Machine};

    fn read(tables: &str) -> Result<Config, String> {
        let port = |name: &str| {
            let vlans = "tagged = [10, 20]\nspeed = \"1G\"\n";
            format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\n{vlans}")
        };
        let text = format!("{tables}\n{}{}", port("a"), port("b"));
        Config::from_toml("test", &text, Machine::default()).map_err(|error| format!("{error:?}"))
    }

    #[test] // proves: snooping
    fn snooping_setting_of_vlan_overrides_that_of_switch() {
        let all =
            read("[multicast]\nsnooping = true\nunknown = \"routers\"\nquerier = \"192.0.2.1\"\ngroups = 7");
        let expected = MulticastSettings {
            vlans: vec![1, 10, 20],
            unknown: UnknownGroups::Routers,
            querier: Some(Ipv4Addr::new(192, 0, 2, 1)),
            groups_max: 7,
        };
        assert_eq!(all.unwrap().switch.multicast, expected);
        let vlans = |tables: &str| read(tables).unwrap().switch.multicast.vlans;
        assert_eq!(vlans("[multicast]\nsnooping = true\n[[vlan]]\nvid = 10\nsnooping = false"), [1, 20]);
        assert_eq!(vlans("[[vlan]]\nvid = 10\nsnooping = true\n[[vlan]]\nvid = 20"), [10]);
        let own = read("[multicast]\nsnooping = true\nquerier = true").unwrap();
        assert_eq!(own.switch.multicast.querier, Some(Ipv4Addr::UNSPECIFIED));
        let unused = read("[multicast]\nquerier = true").unwrap();
        assert!(unused.warnings.iter().any(|it| it.message.starts_with("`querier` has no effect")));
        for address in ["239.1.1.1", "127.0.0.1", "255.255.255.255", "fe80::1", "on"] {
            let refused = read(&format!("[multicast]\nsnooping = true\nquerier = \"{address}\""));
            assert!(refused.is_err(), "{address}");
        }
    }
}
