//! Groups of ports that lead to the same stations. All ports of a group must have the same settings, because a frame may
//! leave by any of them.

use toml_span::Spanned;
use xoff_flow_control::settings::{GroupSettings, Lacp, Member, Spread, Turns};
use xoff_wire::units::PortId;

use crate::bridge::{port_named, pvid, untagged};
use crate::choices::{Choice as _, SpreadKind};
use crate::defaults;
use crate::document::{self, Document};
use crate::draft::Draft;
use crate::keys::{GroupKeys, MemberKey};
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;

pub(crate) fn settings(
    document: &Document,
    drafts: &[Draft<'_>],
    problems: &mut Problems,
) -> Vec<GroupSettings> {
    let salt = salt(&value(document.switch.name.as_ref(), defaults::NAME.to_owned()));
    let mut members_read: Vec<(PortId, &MemberKey)> = Vec::new();
    let mut names: Vec<&Spanned<String>> = Vec::new();
    let mut groups = Vec::new();
    for group in &document.groups {
        for key in &group.missing {
            problems.push(document::missing("group", key, group.span));
        }
        let (Some(name), Some(ports)) = (&group.keys.name, &group.keys.ports) else { continue };
        if let Some(first) = names.iter().find(|first| first.value == name.value) {
            problems.push(
                Problem::error(format!("two groups have the name {:?}", name.value))
                    .at(name.span, "given again")
                    .at(first.span, "first given here")
                    .help("give each group a different name"),
            );
        }
        names.push(name);
        let mut members = Vec::new();
        for key in &ports.value {
            let Some(port) = port_named(&key.port, drafts, problems) else { continue };
            if let Some((_, first)) = members_read.iter().find(|(other, _)| *other == port) {
                problems.push(
                    Problem::error(format!("port {} is listed twice as a member of groups", key.port.value))
                        .at(key.port.span, "again")
                        .at(first.port.span, "here first")
                        .help("a port can be a member of one group only"),
                );
                continue;
            }
            members_read.push((port, key));
            members.push(Member { port, weight: key.weight });
        }
        let mut of_group =
            members_read.iter().filter(|(port, _)| members.iter().any(|member| member.port == *port));
        match of_group.find(|(port, _)| drafts[port.index()].is_routed()) {
            Some((_, key)) => problems.push(routed_member(name, key)),
            None => check_identical_traits(name, &members, ports, drafts, problems),
        }
        let spread = spread(&group.keys, problems);
        if !members.is_empty() {
            let uplinks = value(group.keys.uplinks.as_ref(), false);
            let lacp = lacp(&group.keys, problems);
            groups.push(GroupSettings { name: name.value.clone(), members, spread, uplinks, lacp, salt });
        }
    }
    groups
}

fn spread(keys: &GroupKeys, problems: &mut Problems) -> Spread {
    let kind = value(keys.spread.as_ref(), SpreadKind::default());
    let restricted_keys = [
        ("turns", keys.turns.as_ref().map(|key| key.span), SpreadKind::Frame),
        ("low", keys.low.as_ref().map(|key| key.span), SpreadKind::Adaptive),
        ("high", keys.high.as_ref().map(|key| key.span), SpreadKind::Adaptive),
    ];
    for (key, span, of) in restricted_keys {
        if let Some(span) = span.filter(|_| kind != of) {
            problems.push(
                Problem::error(format!("`{key}` has no effect with spread = \"{}\"", kind.word()))
                    .at(span, "not used")
                    .help(format!("leave `{key}` out, or write spread = \"{}\"", of.word())),
            );
        }
    }
    let low = value(keys.low.as_ref(), defaults::SPREAD_LOW);
    let high = value(keys.high.as_ref(), defaults::SPREAD_HIGH.max(low));
    if let Some(place) = keys.high.as_ref().filter(|_| high < low) {
        problems.push(
            Problem::error(format!("`high` is {} bytes, less than `low` ({})", high.0, low.0))
                .at(place.span, "below `low`")
                .help("members with less than `low` queued bytes are preferred, then those with less than `high`"),
        );
    }
    match kind {
        SpreadKind::Flow => Spread::Flow,
        SpreadKind::Frame => Spread::Frame(value(keys.turns.as_ref(), Turns::default())),
        SpreadKind::Adaptive => Spread::Adaptive { low, high },
    }
}

fn lacp(keys: &GroupKeys, problems: &mut Problems) -> Option<Lacp> {
    let mode = value(keys.lacp.as_ref(), OrOff::Off).into_option();
    if let Some(timeout) = keys.lacp_timeout.as_ref().filter(|_| mode.is_none()) {
        problems.push(
            Problem::error("`lacp_timeout` has no effect without LACP")
                .at(timeout.span, "not used")
                .help("leave `lacp_timeout` out, or write lacp = \"active\" or \"passive\""),
        );
    }
    let short_timeout = value(keys.lacp_timeout.as_ref(), false);
    mode.map(|active| Lacp { active, short_timeout })
}

fn routed_member(name: &Spanned<String>, key: &MemberKey) -> Problem {
    Problem::error(format!(
        "port {} of group {:?} is routed, but members of a group must be bridged",
        key.port.value, name.value
    ))
    .at(key.port.span, "routed port")
    .help(
        "leave the group out: a route with several next hops goes by several routed ports (`ip route add ... nexthop`, or a daemon), \
         and `spread` in [router] says how; or write routed = false",
    )
}

fn check_identical_traits(
    name: &Spanned<String>,
    members: &[Member],
    ports: &Spanned<Vec<MemberKey>>,
    drafts: &[Draft<'_>],
    problems: &mut Problems,
) {
    let traits: Vec<Vec<(&str, String)>> =
        members.iter().map(|member| traits(&drafts[member.port.index()])).collect();
    let Some((first, others)) = traits.split_first() else { return };
    for (other, member) in others.iter().zip(&members[1..]) {
        let differing = first.iter().zip(other).find(|((_, of_first), (_, of_other))| of_first != of_other);
        let Some(((key, of_first), (_, of_other))) = differing else { continue };
        let [a, b] = [members[0], *member].map(|member| &drafts[member.port.index()].name);
        let key_of = |port: &str| ports.value.iter().find(|key| key.port.value == port);
        problems.push(
            Problem::error(format!("ports {a} and {b} of group {:?} differ in `{key}`", name.value))
                .at(key_of(b).map_or(ports.span, |key| key.port.span), of_other.clone())
                .at(key_of(a).map_or(ports.span, |key| key.port.span), of_first.clone())
                .help("a frame may take any member: give all members the same settings"),
        );
    }
}

fn traits(draft: &Draft<'_>) -> Vec<(&'static str, String)> {
    let keys = &draft.port.keys;
    let list = |vids: &[u16]| format!("{vids:?}");
    vec![
        ("pvid", pvid(keys).map_or_else(|| "none".into(), |vid| vid.to_string())),
        ("tagged", list(keys.tagged.as_ref().map_or(&[], |key| &key.value))),
        ("untagged", list(&untagged(keys))),
        ("mtu", draft.line.mtu().to_string()),
        ("lossless", format!("{:?}", draft.lossless.iter().map(|class| class.get()).collect::<Vec<_>>())),
        ("learning", value(keys.learning.as_ref(), defaults::LEARNING).to_string()),
        ("learn_limit", format!("{:?}", keys.learn_limit.as_ref().map(|key| &key.value))),
        ("flood_unknown", value(keys.flood_unknown.as_ref(), defaults::FLOOD).to_string()),
        ("flood_group", value(keys.flood_group.as_ref(), defaults::FLOOD).to_string()),
        ("isolated", value(keys.isolated.as_ref(), defaults::ISOLATED).to_string()),
    ]
}

pub(crate) fn salt(name: &str) -> u64 {
    let step = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
