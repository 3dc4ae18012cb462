//! Builds the settings of a switch from its configuration file, and reports contradictions between keys.

use toml_span::Spanned;
use xoff_flow_control::headroom::Headroom;
use xoff_flow_control::settings::{
    CountUnit, FlowControl, GPfcSettings, GfcSettings, PPfcSettings, PolicySettings, PortSettings, PuntLimit,
    SwitchSettings,
};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, PORTS_MAX};

use crate::document::{self, Document};
use crate::draft::{Draft, flow_control, policies};
use crate::keys::Pause;
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::sizing::Line;
use crate::written::names;
use crate::{
    Config, bridge, defaults, groups, lldp, multicast, ofc, own, pipeline, qcn, quantity, router, shared,
    sockets, spare, thresholds, unreached,
};

pub(crate) fn build(document: &Document, problems: &mut Problems) -> Option<Config> {
    identities(document, problems);
    let hardware = document.hardware;
    let pauses = document.ports.iter().map(|port| Line::of(&port.keys, Nanos::ZERO, hardware).pause());
    let shortest_pause = pauses.min().unwrap_or(Nanos::NEVER);
    let stall_budget = value(document.switch.stall_budget.as_ref(), hardware.stall_budget(shortest_pause));
    let drafts: Vec<Draft<'_>> =
        document.ports.iter().map(|port| Draft::of(port, stall_budget, hardware)).collect();

    let vlans = bridge::vlans(&drafts, problems);
    let groups = groups::settings(document, &drafts, problems);
    let fdb = bridge::fdb(document, &drafts, &vlans, &groups, problems);
    let multicast = multicast::settings(document, &vlans, problems);
    let routed_vlans = router::routed_vlans(document, &vlans, problems);
    let classes = thresholds::classes(document, &drafts, problems);
    let ports =
        drafts.iter().zip(classes).map(|(draft, classes)| settings(draft, classes, stall_budget, problems));
    let punt_limit = router::punt_limit(document);
    let ports: Vec<PortSettings> = ports.map(|port| PortSettings { punt_limit, ..port }).collect();
    let switch = SwitchSettings {
        qcn: qcn::settings(document, &ports, problems),
        memory: shared::memory(document, &drafts, &ports, problems),
        lossy_pool: shared::lossy_pool(document, &drafts, &ports, problems),
        accounting: value(document.switch.accounting.as_ref(), Default::default()),
        when_full: value(document.switch.when_full.as_ref(), Default::default()),
        pipeline: pipeline::settings(document),
        policies: policies(document),
        hash: value(document.switch.hash.as_ref(), Default::default()),
        shadows: value(document.switch.shadow.as_ref(), Vec::new()),
        policy: policy(document, problems),
        ports,
        fdb,
        vlans,
        groups,
        routed_vlans,
        multicast,
    };
    ofc::check(document, &drafts, &switch, problems);
    pipeline::check(document, &switch, problems);
    unreached::check(document, &drafts, &switch, problems);
    let keys = &document.switch;
    let places = [keys.policy.as_ref().map(|key| key.span), keys.shadow.as_ref().map(|key| key.span)];
    own::check(places, &switch, problems);
    let mut shell = sockets::shell(document, &drafts, stall_budget, problems);
    shell.router = router::router(document, &drafts, &switch, problems);
    assumptions(&drafts, problems);
    let headroom = drafts.iter().map(by_class).collect();
    let cables = drafts.iter().map(|draft| draft.line.cable).collect();
    let (warnings, notes) = (Vec::new(), Vec::new());
    (!problems.has_errors()).then_some(Config { switch, shell, headroom, cables, warnings, notes })
}

fn by_class(draft: &Draft<'_>) -> [Option<Headroom>; CLASSES] {
    Class::ALL.map(|class| draft.lossless.contains(class).then_some(draft.headroom))
}

fn identities(document: &Document, problems: &mut Problems) {
    if document.ports.is_empty() && !document.ports_garbled {
        problems.push(Problem::error("the switch has no ports").help(
            "give each port a [[port]] with name, device and speed, for example:\n[[port]]\nname = \"a\"\ndevice = \"eth1\"\nspeed = \"1G\"",
        ));
    }
    if let Some(port) = document.ports.get(PORTS_MAX) {
        let found = document.ports.len();
        problems.push(
            Problem::error(format!("{found} ports, but a switch has at most {PORTS_MAX}"))
                .at(port.span, "one too many"),
        );
    }
    if let Some(key) = &document.switch.spare_ports
        && let Some(problem) = spare::too_many(document.ports.len(), key.value)
    {
        problems.push(problem.at(key.span, "too many"));
    }
    for port in &document.ports {
        for key in &port.missing {
            problems.push(document::missing("port", key, port.span));
        }
    }
    distinct("name", document.ports.iter().filter_map(|port| port.identity.name.as_ref()), problems);
    distinct("device", document.ports.iter().filter_map(|port| port.identity.device.as_ref()), problems);
}

fn distinct<'a>(key: &str, values: impl Iterator<Item = &'a Spanned<String>>, problems: &mut Problems) {
    let mut values_read: Vec<&Spanned<String>> = Vec::new();
    for value in values {
        match values_read.iter().find(|first| first.value == value.value) {
            Some(first) => problems.push(
                Problem::error(format!("two ports have the {key} {:?}", value.value))
                    .at(value.span, "given again")
                    .at(first.span, "first given here")
                    .help(format!("give each port a different {key}")),
            ),
            None => values_read.push(value),
        }
    }
}

fn settings(
    draft: &Draft<'_>,
    classes: [xoff_flow_control::settings::ClassSettings; CLASSES],
    stall_budget: Nanos,
    problems: &mut Problems,
) -> PortSettings {
    let keys = &draft.port.keys;
    PortSettings {
        name: draft.name.clone(),
        mac: MacAddr::default(),
        speed: draft.line.speed,
        max_rate: max_rate(draft, problems),
        mtu_frame: draft.line.mtu_frame,
        trust: value(keys.trust.as_ref(), Default::default()),
        default_class: value(keys.default_class.as_ref(), defaults::DEFAULT_CLASS),
        pcp_to_class: map(keys.pcp_map.as_ref(), |pcp| pcp),
        dscp_to_class: map(keys.dscp_map.as_ref(), |dscp| dscp / 8),
        rewrite_pcp: keys.rewrite_pcp.clone().and_then(|map| map.value.into_option()),
        rewrite_dscp: keys.rewrite_dscp.clone().and_then(|map| map.value.into_option()),
        pvid: bridge::pvid(keys).filter(|_| !draft.is_routed()),
        learning: value(keys.learning.as_ref(), defaults::LEARNING),
        learn_limit: keys
            .learn_limit
            .clone()
            .and_then(|limit| limit.value.into_option())
            .map(|limit| limit as usize),
        storm_limit: keys.storm_limit.clone().and_then(|limit| limit.value.into_option()).unwrap_or_default(),
        loop_detection: value(keys.loop_detection.as_ref(), Default::default()),
        flood_unknown: value(keys.flood_unknown.as_ref(), defaults::FLOOD),
        flood_group: value(keys.flood_group.as_ref(), defaults::FLOOD),
        multicast_router: value(keys.multicast_router.as_ref(), false),
        fast_leave: value(keys.fast_leave.as_ref(), false),
        isolated: value(keys.isolated.as_ref(), defaults::ISOLATED),
        routed: draft.is_routed(),
        flow_control: flow_control(draft),
        lldp: lldp::speaker(draft, problems),
        punt_limit: PuntLimit::PLAIN, // replaced when all ports are known
        dcbx: lldp::dcbx(draft, problems),
        auto_peer: lldp::auto_peer(draft),
        ofc_peer: keys.ofc_peer.as_ref().is_some_and(|key| key.value == OrOff::Is(true)),
        gfc_peer: gfc_peer(draft, problems),
        pause_time: draft.line.pause_time,
        refresh: refresh(draft, stall_budget, problems),
        burst: room_for_a_frame("burst", draft.line.burst, keys.burst.as_ref(), draft, problems),
        commit: room_for_a_frame("commit", draft.line.commit, keys.commit.as_ref(), draft, problems),
        past_xoff: draft.headroom.total(),
        peer_response: draft.line.peer_response(),
        classes,
    }
}

fn map<const N: usize>(
    named: Option<&Spanned<[Option<Class>; N]>>,
    default: impl Fn(u8) -> u8,
) -> [Class; N] {
    std::array::from_fn(|code| {
        let default = u8::try_from(code).map_or(Class::default(), |code| Class::from_low_bits(default(code)));
        named.and_then(|map| map.value[code]).unwrap_or(default)
    })
}

fn max_rate(draft: &Draft<'_>, problems: &mut Problems) -> Option<BitRate> {
    let Spanned { value, span } = draft.port.keys.max_rate.as_ref()?;
    if *value > draft.line.speed && draft.port.keys.speed.is_some() {
        problems.push(
            Problem::error(format!("`max_rate` of port {} is more than its speed", draft.name))
                .at(*span, "above the speed")
                .help(format!("the speed is {}", quantity::rate(draft.line.speed))),
        );
    }
    Some(*value)
}

fn room_for_a_frame(
    key: &str,
    size: Bytes,
    given: Option<&Spanned<Bytes>>,
    draft: &Draft<'_>,
    problems: &mut Problems,
) -> Bytes {
    let least = draft.line.longest_on_line();
    if let Some(given) = given.filter(|given| given.value < least) {
        problems.push(
            Problem::error(format!("`{key}` is {} bytes, less than one frame", given.value.0))
                .at(given.span, "less than the longest frame")
                .help(format!(
                    "the longest frame of port {} takes {} bytes on the line",
                    draft.name, least.0
                )),
        );
    }
    size
}

fn refresh(draft: &Draft<'_>, stall_budget: Nanos, problems: &mut Problems) -> Nanos {
    let (pause, ahead) = (draft.line.pause(), draft.line.ahead());
    let given = draft.port.keys.refresh.as_ref().and_then(|key| match key.value {
        OrOff::Is(time) => Some((time, key.span)),
        OrOff::Off => None,
    });
    let late = |refresh: Nanos| {
        let message = format!(
            "a stall of {} can delay a refresh beyond the pause time of {} us: the peer of port {} would resume by itself",
            quantity::time(stall_budget),
            pause.0 / 1_000,
            draft.name
        );
        let worst = refresh.after(stall_budget).after(ahead).0 / 1_000;
        Problem::warning(message).help(format!(
            "a refresh may be sent {worst} us after the previous one; shorten stall_budget, or lengthen pause_time"
        ))
    };
    match given {
        Some((time, span)) if time >= pause && draft.port.keys.speed.is_some() => {
            problems.push(
                Problem::error(format!(
                    "`refresh` is {}, not less than the pause time",
                    quantity::time(time)
                ))
                .at(span, "a pause would run out before it is refreshed")
                .help(format!(
                    "the pause time of port {} is {} us",
                    draft.name,
                    pause.0 / 1_000
                )),
            );
            time
        }
        Some((time, span)) => {
            if time.after(stall_budget).after(ahead) > pause && !draft.lossless.is_empty() {
                problems.push(late(time).at(span, "a refresh that a stall delays comes too late"));
            }
            time
        }
        None => defaults::refresh(pause, stall_budget, ahead).unwrap_or_else(|| {
            let half = Nanos(pause.0 / 2);
            if !draft.lossless.is_empty() {
                problems.push(late(half));
            }
            half
        }),
    }
}

fn gfc_peer(draft: &Draft<'_>, problems: &mut Problems) -> bool {
    let Some(key) = draft.port.keys.gfc_peer.as_ref() else { return false };
    if key.value != OrOff::Is(false) && !matches!(flow_control(draft), FlowControl::Pfc { .. }) {
        problems.push(
            Problem::error(format!("`gfc_peer` of port {} needs PFC", draft.name))
                .at(key.span, "no PFC here")
                .help("write pause = \"pfc\" or \"asymmetric\", or leave `gfc_peer` out"),
        );
    }
    key.value == OrOff::Is(true)
}

fn policy(document: &Document, problems: &mut Problems) -> PolicySettings {
    let default = PolicySettings::default();
    let prediction = document.p_pfc.prediction.clone().map(|key| key.value.into_option());
    let g_pfc = GPfcSettings {
        pause_lower: value(document.g_pfc.pause_lower.as_ref(), default.g_pfc.pause_lower),
        resume_lower: value(document.g_pfc.resume_lower.as_ref(), default.g_pfc.resume_lower),
    };
    let place = document.g_pfc.resume_lower.as_ref().or(document.g_pfc.pause_lower.as_ref());
    if let Some(place) = place.filter(|_| g_pfc.resume_lower > g_pfc.pause_lower) {
        problems.push(
            Problem::error(format!(
                "`resume_lower` ({}) is above `pause_lower` ({})",
                g_pfc.resume_lower, g_pfc.pause_lower
            ))
            .at(place.span, "above `pause_lower`")
            .help("lower classes pause at pause_lower x XOFF and resume below resume_lower x XOFF"),
        );
    }
    PolicySettings {
        capfc_cut: value(document.capfc.cut.as_ref(), default.capfc_cut),
        capfc_count_unit: value(document.capfc.count.as_ref(), CountUnit::default()),
        ofc: ofc::settings(document),
        p_pfc: PPfcSettings { prediction: prediction.unwrap_or(default.p_pfc.prediction) },
        g_pfc,
        gfc: GfcSettings {
            first: value(document.gfc.first.as_ref(), default.gfc.first),
            steps: value(document.gfc.steps.as_ref(), default.gfc.steps),
        },
        custom: document.custom.clone(),
    }
}

fn assumptions(drafts: &[Draft<'_>], problems: &mut Problems) {
    let pauses = |draft: &&Draft<'_>| {
        !draft.lossless.is_empty() && value(draft.port.keys.pause.as_ref(), Pause::Pfc) != Pause::Ignore
    };
    let silent: Vec<&Draft<'_>> =
        drafts.iter().filter(pauses).filter(|draft| draft.port.keys.peer_response.is_none()).collect();
    if silent.is_empty() {
        return;
    }
    let bytes = |draft: &&Draft<'_>| draft.headroom.peer_response.0 + draft.headroom.peer_backlog.0;
    let cost = silent.iter().map(bytes).max().unwrap_or(0);
    problems.push(
        Problem::warning(format!(
            "peer_response is not given for {}: xoff assumes that the peers are software that may stall as long as this switch",
            names(silent.iter().map(|draft| draft.name.as_str()))
        ))
        .help(format!(
            "write peer_response = \"software\" to confirm this, or \"standard\" for hardware peers: that saves up to {cost} bytes of headroom for each port and class"
        )),
    );
}
