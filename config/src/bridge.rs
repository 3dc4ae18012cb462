use std::collections::BTreeMap;

use toml_span::Spanned;
use xoff_flow_control::settings::{FdbSettings, GroupSettings, HashSeed, VlanSettings};
use xoff_wire::units::{MacAddr, PortId};

use crate::defaults;
use crate::document::{self, Document};
use crate::draft::Draft;
use crate::keys::{PortKeys, StaticKeys};
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::{closest, value};
use crate::written::ranges;

pub(crate) fn numbered<'a, 'b>(drafts: &'a [Draft<'b>]) -> impl Iterator<Item = (PortId, &'a Draft<'b>)> {
    (0..=u8::MAX).map(PortId).zip(drafts)
}

pub(crate) fn port_named(
    name: &Spanned<String>,
    drafts: &[Draft<'_>],
    problems: &mut Problems,
) -> Option<PortId> {
    let found = numbered(drafts).find(|(_, draft)| draft.name == name.value);
    if found.is_none() {
        let names: Vec<&str> = drafts.iter().map(|draft| draft.name.as_str()).collect();
        let help = match closest(&name.value, &names) {
            Some(close) => format!("did you mean {close:?}?"),
            None => format!("ports: {}", names.join(", ")),
        };
        let problem =
            Problem::error(format!("there is no port {:?}", name.value)).at(name.span, "no such port");
        problems.push(problem.help(help));
    }
    found.map(|(id, _)| id)
}

fn group_named<'a>(
    name: &Spanned<String>,
    groups: &'a [GroupSettings],
    problems: &mut Problems,
) -> Option<&'a GroupSettings> {
    let found = groups.iter().find(|group| group.name == name.value);
    if found.is_none() {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let help = match closest(&name.value, &names) {
            Some(close) => format!("did you mean {close:?}?"),
            None if names.is_empty() => "add a [[group]] of that name".into(),
            None => format!("groups: {}", names.join(", ")),
        };
        let problem = Problem::error(format!("there is no group {:?}", name.value));
        problems.push(problem.at(name.span, "no such group").help(help));
    }
    found
}

pub(crate) fn pvid(keys: &PortKeys) -> Option<u16> {
    value(keys.pvid.as_ref(), OrOff::Is(defaults::VID)).into_option()
}

pub(crate) fn untagged(keys: &PortKeys) -> Vec<u16> {
    let tagged = keys.tagged.as_ref().map_or(&[][..], |tagged| &tagged.value);
    let default = pvid(keys).filter(|vid| !tagged.contains(vid));
    value(keys.untagged.as_ref(), default.into_iter().collect())
}

pub(crate) fn vlans(drafts: &[Draft<'_>], problems: &mut Problems) -> Vec<VlanSettings> {
    let mut vlans: BTreeMap<u16, VlanSettings> = BTreeMap::new();
    for (id, draft) in numbered(drafts).filter(|(_, draft)| !draft.is_routed()) {
        let keys = &draft.port.keys;
        let tagged = value(keys.tagged.as_ref(), Vec::new());
        let untagged = untagged(keys);
        membership(draft, &tagged, &untagged, problems);
        let mut entry = |vid: u16, list: fn(&mut VlanSettings) -> &mut Vec<PortId>| {
            let empty = || VlanSettings { vid, tagged: Vec::new(), untagged: Vec::new() };
            list(vlans.entry(vid).or_insert_with(empty)).push(id);
        };
        tagged.iter().for_each(|&vid| entry(vid, |vlan| &mut vlan.tagged));
        untagged.iter().for_each(|&vid| entry(vid, |vlan| &mut vlan.untagged));
    }
    let lonely: Vec<u16> = vlans
        .values()
        .filter(|vlan| drafts.len() > 1 && vlan.tagged.len() + vlan.untagged.len() == 1)
        .map(|vlan| vlan.vid)
        .collect();
    if !lonely.is_empty() {
        problems.push(
            Problem::warning(format!("VLAN {} has only one port: its frames go nowhere", ranges(&lonely)))
                .help("add the VLAN to `tagged` or `untagged` of another port"),
        );
    }
    vlans.into_values().collect()
}

fn membership(draft: &Draft<'_>, tagged: &[u16], untagged: &[u16], problems: &mut Problems) {
    let keys = &draft.port.keys;
    let place = keys.untagged.as_ref().map(|key| key.span).or(keys.tagged.as_ref().map(|key| key.span));
    let Some(place) = place else { return };
    if let Some(both) = tagged.iter().find(|vid| untagged.contains(vid)) {
        problems.push(
            Problem::error(format!("VLAN {both} is both tagged and untagged on port {}", draft.name))
                .at(place, "in both lists")
                .help("a port sends a VLAN's frames either with a tag or without"),
        );
    }
    if let Some(vid) = pvid(keys).filter(|vid| !tagged.contains(vid) && !untagged.contains(vid)) {
        problems.push(
            Problem::error(format!(
                "port {} puts untagged frames into VLAN {vid}, of which it is no member",
                draft.name
            ))
            .at(
                keys.pvid.as_ref().map_or(place, |key| key.span),
                format!("VLAN {vid} is neither in `tagged` nor in `untagged`"),
            )
            .help(format!("add {vid} to `untagged`, or write pvid = \"none\" to admit tagged frames only")),
        );
    }
}

pub(crate) fn fdb(
    document: &Document,
    drafts: &[Draft<'_>],
    vlans: &[VlanSettings],
    groups: &[GroupSettings],
    problems: &mut Problems,
) -> FdbSettings {
    let keys = &document.fdb;
    let capacity = value(keys.capacity.as_ref(), defaults::FDB_CAPACITY) as usize;
    if document.statics.len() > capacity {
        let problem = Problem::error(format!(
            "{} static addresses exceed the address table, whose `capacity` is {capacity}",
            document.statics.len()
        ));
        let place = keys.capacity.as_ref().map(|key| key.span).unwrap_or_default();
        problems
            .push(problem.at(place, "too small").help("raise `capacity`: static addresses count towards it"));
    }
    let mut statics: Vec<(u16, MacAddr, PortId)> = Vec::new();
    for entry in &document.statics {
        for key in &entry.missing {
            problems.push(document::missing("fdb.static", key, entry.span));
        }
        let Some(address) = resolve(&entry.keys, drafts, vlans, groups, problems) else { continue };
        if statics.iter().any(|other| (other.0, other.1) == (address.0, address.1)) {
            let message = format!("static address {} is given twice for VLAN {}", address.1, address.0);
            problems.push(Problem::error(message).at(entry.span, "given again"));
        }
        statics.push(address);
    }
    FdbSettings {
        capacity,
        ageing: value(keys.ageing.as_ref(), OrOff::Is(defaults::FDB_AGEING)).into_option(),
        statics,
        seed: HashSeed::PUBLIC,
    }
}

fn resolve(
    entry: &StaticKeys,
    drafts: &[Draft<'_>],
    vlans: &[VlanSettings],
    groups: &[GroupSettings],
    problems: &mut Problems,
) -> Option<(u16, MacAddr, PortId)> {
    let (name, port) = match (&entry.port, &entry.group) {
        (Some(port), Some(group)) => {
            problems.push(
                Problem::error("an address is at a port or at a group, not at both")
                    .at(group.span, "at a group")
                    .at(port.span, "at a port")
                    .help("leave `port` or `group` out"),
            );
            return None;
        }
        (Some(name), None) => {
            let port = port_named(name, drafts, problems)?;
            if let Some(group) =
                groups.iter().find(|group| group.members.iter().any(|member| member.port == port))
            {
                problems.push(
                    Problem::error(format!("port {} is a member of group {:?}", name.value, group.name))
                        .at(name.span, "member of a group")
                        .help(format!("write group = {:?} instead of `port`", group.name)),
                );
            }
            (name, port)
        }
        (None, Some(name)) => {
            let group = group_named(name, groups, problems)?;
            (name, group.members.iter().map(|member| member.port).min()?)
        }
        (None, None) => return None,
    };
    let vid = value(entry.vlan.as_ref(), defaults::VID);
    let member = |vlan: &VlanSettings| {
        vlan.vid == vid && (vlan.tagged.contains(&port) || vlan.untagged.contains(&port))
    };
    if !vlans.iter().any(member) {
        let span = entry.vlan.as_ref().map_or(name.span, |vlan| vlan.span);
        problems.push(
            Problem::error(format!(
                "{} {} is no member of VLAN {vid}",
                if entry.group.is_some() { "group" } else { "port" },
                name.value
            ))
            .at(span, "not a VLAN of the port or group")
            .help("add the VLAN to `tagged` or `untagged` of the port"),
        );
    }
    Some((vid, entry.mac.as_ref()?.value, port))
}
