use toml_span::{Span, Spanned};
use xoff_flow_control::settings::{PuntLimit, Spread, SwitchSettings, Turns, VlanSettings};
use xoff_wire::units::{MacAddr, Site};

use crate::bridge::numbered;
use crate::choices::{Choice as _, SpreadKind};
use crate::defaults;
use crate::document::{self, Document};
use crate::draft::Draft;
use crate::groups::salt;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::shell::{Router, RouterInterface};

const NAME_LEN_MAX: usize = 15;

/// Names that the kernel reserves: loopback, and directories for all interfaces in `/proc/sys/net`.
const RESERVED: [&str; 3] = ["lo", "all", "default"];
const IPV6_MTU: u32 = 1_280;

pub(crate) fn punt_limit(document: &Document) -> PuntLimit {
    let PuntLimit { rate, burst } = PuntLimit::PLAIN;
    PuntLimit {
        rate: value(document.punt.rate.as_ref(), rate),
        burst: value(document.punt.burst.as_ref(), burst),
    }
}

pub(crate) fn routed_vlans(
    document: &Document,
    vlans: &[VlanSettings],
    problems: &mut Problems,
) -> Vec<(u16, MacAddr)> {
    let mut routed = Vec::new();
    let digest = salt(&value(document.switch.name.as_ref(), defaults::NAME.to_owned()));
    let mut vids_read: Vec<&Spanned<u16>> = Vec::new();
    for entry in &document.vlans {
        for key in &entry.missing {
            problems.push(document::missing("vlan", key, entry.span));
        }
        let Some(vid) = &entry.keys.vid else { continue };
        if let Some(first) = vids_read.iter().find(|first| first.value == vid.value) {
            problems.push(
                Problem::error(format!("two [[vlan]] have the vid {}", vid.value))
                    .at(vid.span, "given again")
                    .at(first.span, "first given here"),
            );
        }
        vids_read.push(vid);
        if !vlans.iter().any(|vlan| vlan.vid == vid.value) {
            problems.push(
                Problem::error(format!("VLAN {} has no port", vid.value))
                    .at(vid.span, "no port is a member")
                    .help("list the VLAN in `tagged` or `untagged` of a port, or as its `pvid`"),
            );
            continue;
        }
        if value(entry.keys.router.as_ref(), false) {
            routed.push((vid.value, address(digest, vid.value)));
        } else if let Some(name) = &entry.keys.name {
            problems.push(
                Problem::warning(format!(
                    "VLAN {} has a name, but no router interface with this name",
                    vid.value
                ))
                .at(name.span, "no effect")
                .help("write router = true"),
            );
        }
    }
    routed
}

fn address(digest: u64, vid: u16) -> MacAddr {
    let [_, _, a, b, c, _, _, _] = digest.to_be_bytes();
    let [high, low] = vid.to_be_bytes();
    MacAddr([2, a, b, c, high, low])
}

pub(crate) fn router(
    document: &Document,
    drafts: &[Draft<'_>],
    switch: &SwitchSettings,
    problems: &mut Problems,
) -> Option<Router> {
    let (mut interfaces, mut shortest) = (Vec::new(), Vec::new());
    let netns = document.router.netns.as_ref().map(|key| key.value.clone());
    for (id, draft) in numbered(drafts).filter(|(_, draft)| draft.is_routed()) {
        bridges_nothing(draft, switch, problems);
        let place = draft.port.identity.name.as_ref().map(|name| name.span).unwrap_or_default();
        if draft.port.identity.name.is_some() {
            nameable(&draft.name, place, problems);
        }
        if netns.is_none()
            && draft.port.identity.device.as_ref().is_some_and(|device| device.value == draft.name)
        {
            problems.push(
                Problem::error(format!("port {} is routed and has the name of its device", draft.name))
                    .at(place, "the host interface needs another name")
                    .help("give the host interfaces another namespace with `netns` in [router], or rename the port"),
            );
        }
        shortest.push((draft.name.clone(), draft));
        interfaces.push(RouterInterface {
            site: Site::Port(id),
            name: draft.name.clone(),
            mtu: draft.line.mtu(),
        });
    }
    let is_routed = |vlan: &&VlanSettings| switch.routed_vlans.iter().any(|(vid, _)| *vid == vlan.vid);
    for vlan in switch.vlans.iter().filter(is_routed) {
        let entry =
            document.vlans.iter().find(|it| it.keys.vid.as_ref().is_some_and(|vid| vid.value == vlan.vid));
        let key = entry.and_then(|entry| entry.keys.name.as_ref());
        let name = key.map_or_else(|| format!("vlan{}", vlan.vid), |key| key.value.clone());
        let place = key.map(|key| key.span).or(entry.map(|entry| entry.span)).unwrap_or_default();
        nameable(&name, place, problems);
        if interfaces.iter().any(|interface| interface.name == name) {
            problems.push(
                Problem::error(format!("two interfaces of the router have the name {name:?}"))
                    .at(place, "this name already belongs to a port or to another VLAN"),
            );
        }
        let members =
            numbered(drafts).filter(|(id, _)| vlan.tagged.contains(id) || vlan.untagged.contains(id));
        let shortest_member = members.map(|(_, draft)| draft).min_by_key(|draft| draft.line.mtu());
        let mtu = shortest_member.map_or(defaults::MTU, |draft| draft.line.mtu());
        shortest.extend(shortest_member.map(|draft| (name.clone(), draft)));
        interfaces.push(RouterInterface { site: Site::Vlan(vlan.vid), name, mtu });
    }
    let spread = spread(document, problems);
    without_ipv6(&shortest, problems);
    if interfaces.is_empty() {
        document.router_place.into_iter().for_each(|place| problems.push(of_nothing(place)));
        return None;
    }
    Some(Router { netns, interfaces, spread })
}

fn spread(document: &Document, problems: &mut Problems) -> Spread {
    let keys = &document.router;
    let kind = value(keys.spread.as_ref(), SpreadKind::default());
    let thresholds = [("low", &keys.low), ("high", &keys.high)];
    for (key, given) in thresholds.iter().filter_map(|(key, given)| Some((key, given.as_ref()?))) {
        if kind != SpreadKind::Adaptive {
            problems.push(
                Problem::error(format!("`{key}` has no effect with spread = \"{}\"", kind.word()))
                    .at(given.span, "not used")
                    .help("leave the key out, or write spread = \"adaptive\""),
            );
        }
    }
    let low = value(keys.low.as_ref(), defaults::SPREAD_LOW);
    let high = value(keys.high.as_ref(), defaults::SPREAD_HIGH.max(low));
    if let Some(place) = keys.high.as_ref().filter(|_| high < low) {
        problems.push(
            Problem::error(format!("`high` is {} bytes, less than `low` ({})", high.0, low.0))
                .at(place.span, "below `low`"),
        );
    }
    match kind {
        SpreadKind::Flow => Spread::Flow,
        SpreadKind::Frame => Spread::Frame(Turns::Random),
        SpreadKind::Adaptive => Spread::Adaptive { low, high },
    }
}

fn bridges_nothing(draft: &Draft<'_>, switch: &SwitchSettings, problems: &mut Problems) {
    let keys = &draft.port.own;
    // Accept `storm_limit` at a routed port if a VLAN is routed: the VLAN floods packets from this port while their next
    // hop is not learned.
    let limits_floods = !switch.routed_vlans.is_empty();
    let bridging_keys = [
        ("pvid", keys.pvid.as_ref().map(|key| key.span)),
        ("tagged", keys.tagged.as_ref().map(|key| key.span)),
        ("untagged", keys.untagged.as_ref().map(|key| key.span)),
        ("learning", keys.learning.as_ref().map(|key| key.span)),
        ("isolated", keys.isolated.as_ref().map(|key| key.span)),
        ("learn_limit", keys.learn_limit.as_ref().map(|key| key.span)),
        ("loop_detection", keys.loop_detection.as_ref().map(|key| key.span)),
        ("flood_unknown", keys.flood_unknown.as_ref().map(|key| key.span)),
        ("flood_group", keys.flood_group.as_ref().map(|key| key.span)),
        ("multicast_router", keys.multicast_router.as_ref().map(|key| key.span)),
        ("fast_leave", keys.fast_leave.as_ref().map(|key| key.span)),
        ("storm_limit", keys.storm_limit.as_ref().filter(|_| !limits_floods).map(|key| key.span)),
    ];
    for (key, span) in bridging_keys.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        problems.push(
            Problem::error(format!("port {} is routed, but `{key}` is for bridged ports", draft.name))
                .at(span, "no effect")
                .help("leave the key out, or write routed = false: a routed port is a member of no VLAN"),
        );
    }
}

fn without_ipv6(interfaces: &[(String, &Draft<'_>)], problems: &mut Problems) {
    let mut too_short: Vec<(&Spanned<u32>, Vec<&str>)> = Vec::new();
    for (name, draft) in interfaces.iter().filter(|(_, draft)| draft.line.mtu() < IPV6_MTU) {
        let Some(key) = draft.port.keys.mtu.as_ref() else { continue };
        match too_short.iter_mut().find(|(other, _)| other.span == key.span) {
            Some((_, names)) => names.push(name),
            None => too_short.push((key, vec![name])),
        }
    }
    for (key, names) in too_short {
        problems.push(
            Problem::warning(format!(
                "no IPv6 at {}: the MTU is {}, but IPv6 needs {IPV6_MTU}",
                names.join(", "),
                key.value
            ))
            .at(key.span, "too short for IPv6")
            .help(format!("write mtu = {IPV6_MTU} or more, unless only IPv4 is routed there")),
        );
    }
}

fn of_nothing(place: Span) -> Problem {
    Problem::warning("[router] is given, but no port or VLAN is routed")
        .at(Span::new(place.start, place.end.min(place.start + "[router]".len())), "no effect")
        .help("write routed = true at a [[port]] or router = true at a [[vlan]], or leave [router] out")
}

fn nameable(name: &str, place: Span, problems: &mut Problems) {
    let is_fine = (1..=NAME_LEN_MAX).contains(&name.len())
        && ![".", ".."].contains(&name)
        && !name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace());
    if RESERVED.contains(&name) {
        problems.push(
            Problem::error(format!(
                "the router's interface cannot have the name {name:?}, which the kernel reserves"
            ))
            .at(place, "name of an interface in the kernel")
            .help(format!("choose any name but {}", RESERVED.map(|name| format!("{name:?}")).join(", "))),
        );
    } else if !is_fine {
        problems.push(
            Problem::error(format!("{name:?} cannot be the name of an interface"))
                .at(place, "name of an interface in the kernel")
                .help(format!("names have at most {NAME_LEN_MAX} bytes, without spaces, slashes and colons")),
        );
    }
}
