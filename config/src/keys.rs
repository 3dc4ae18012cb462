use std::net::Ipv4Addr;
use std::path::PathBuf;

use toml_span::value::ValueInner;
use toml_span::{Spanned, Value};
use xoff_flow_control::settings::{
    Accounting, CountUnit, Culprit, Dcbx, EgressLimits, FrameRate, HeadroomPlace, IngressOrder,
    LoopDetection, MEMBERS_MAX, PolicyKind, QueueKind, Service, StormLimit, Trust, Turns, UnknownGroups,
    WEIGHT_MAX, WatchdogAction, WatchdogSettings, WhenFull,
};
use xoff_wire::PathHash;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos};

use crate::choices::{Choice as _, SpreadKind};
use crate::profile::Profile;
use crate::reader::Parsed;
use crate::reader::parse::{self, OrOff};
use crate::shell::{HttpAt, LogFormat, Mode, Queues, ReceiveChunks, Sighup, ZeroCopy};

crate::keys! {
    struct SwitchKeys {
        name: String = parse::name;
        profile: Profile = parse::choice(&[("plain", Profile::Plain), ("roce", Profile::Roce)]);
        stall_budget: Nanos = parse::time(Nanos::ZERO..=Nanos::from_secs(10));
        smallest_frame: u32 = parse::integer(64..=9_000);
        poll: PollKind = parse::choice(&[("adaptive", PollKind::Adaptive), ("busy", PollKind::Busy)]);
        idle_after: Nanos = parse::time(Nanos::ZERO..=Nanos::from_secs(1));
        zero_copy: ZeroCopy = parse::choice(ZeroCopy::WORDS);
        workers: WorkersKey = workers;
        spare_ports: u8 = parse::integer(0..=u8::MAX);
        accounting: Accounting = parse::choice(Accounting::WORDS);
        policy: PolicyByClass = policies;
        shadow: Vec<PolicyKind> = shadows;
        when_full: WhenFull = when_full;
        hash: PathHash = hash;
        http: OrOff<HttpAt> = parse::or_word("off", parse::http);
        http_netns: PathBuf = parse::netns;
        http_hosts: Vec<String> = parse::hosts;
        user: OrOff<String> = parse::or_word("off", parse::name);
        log: &'static str = parse::log_level;
        sighup: Sighup = parse::choice(Sighup::WORDS);
        log_format: LogFormat = parse::choice(LogFormat::WORDS);
    }
}

crate::keys! {
    struct PipelineKeys {
        rate: OrOff<FrameRate> = parse::or_word("none", parse::frame_rate);
        delay: OrOff<Nanos> = parse::or_word("none", parse::time(Nanos(1)..=Nanos::from_secs(1)));
        ingress: IngressOrder = parse::choice(&[
            ("by-class", IngressOrder::ByClass),
            ("fifo", IngressOrder::Fifo),
        ]);
    }
}

crate::keys! {
    struct MemoryKeys {
        model: MemoryModel = parse::choice(&[
            ("dedicated", MemoryModel::Dedicated),
            ("shared", MemoryModel::Shared),
        ]);
        budget: Bytes = parse::bytes;
        receive_chunks: ReceiveChunks = parse::choice(ReceiveChunks::WORDS);
        lossy_pool: OrOff<Bytes> = parse::or_word("none", parse::bytes);
        pool: Bytes = parse::bytes;
        ingress_limit: Bytes = parse::bytes;
        egress_limit: Bytes = parse::bytes;
        port_limit: Bytes = parse::bytes;
        egress_port_limit: Bytes = parse::bytes;
        egress_limits: EgressLimits = parse::choice(EgressLimits::WORDS);
        headroom: HeadroomPlace = parse::choice(HeadroomPlace::WORDS);
        alpha_log2: OrOff<i8> = parse::or_word("none", parse::integer(-7..=6));
    }
}

crate::keys! {
    struct CaPfcKeys {
        cut: f64 = parse::share;
        count: CountUnit = parse::choice(CountUnit::WORDS);
        scale: Scale = parse::choice(&[("none", Scale::None), ("speed", Scale::Speed)]);
    }
}

crate::keys! {
    struct OfcKeys {
        alpha: f64 = parse::part;
        flows: u32 = parse::integer(1..=1_048_576);
        congested_flows: u32 = parse::integer(1..=65_536);
        paused_flows: u32 = parse::integer(1..=65_536);
    }
}

crate::keys! {
    struct QcnKeys {
        ingress: ClassSet = parse::classes;
        egress: ClassSet = parse::classes;
        set_point: Bytes = parse::bytes;
        weight: u32 = parse::integer(0..=64);
        sample_every: Bytes = parse::bytes;
        jitter: u8 = parse::integer(0..=50);
        frames_per_cnm: u32 = parse::integer(1..=1_000_000);
        culprit: Culprit = parse::choice(Culprit::WORDS);
        flows: u16 = parse::integer(1..=16_384);
        seed: u64 = parse::integer(0..=i64::MAX.unsigned_abs()); // the maximum number in TOML
    }
}

crate::keys! {
    struct PPfcKeys {
        prediction: OrOff<Nanos> = parse::or_word("off", parse::time(Nanos::from_micros(1)..=Nanos::from_secs(1)));
    }
}

crate::keys! {
    struct GfcKeys {
        first: f64 = parse::share;
        steps: u8 = parse::integer(1..=16);
    }
}

crate::keys! {
    struct GPfcKeys {
        pause_lower: f64 = parse::share;
        resume_lower: f64 = parse::share;
    }
}

crate::keys! {
    struct FdbKeys {
        capacity: u32 = parse::integer(16..=1_048_576);
        ageing: OrOff<Nanos> = parse::or_word("never", parse::time(Nanos::from_secs(1)..=Nanos::from_secs(1_000_000)));
    }
}

crate::keys! {
    struct MulticastKeys {
        snooping: bool = parse::boolean;
        unknown: UnknownGroups = parse::choice(UnknownGroups::WORDS);
        querier: OrOff<Ipv4Addr> = parse::or_word("off", querier);
        groups: usize = parse::integer(1..=8_192);
    }
}

crate::keys! {
    struct StaticKeys {
        mac: MacAddr = parse::mac;
        port: String = parse::name;
        group: String = parse::name;
        vlan: u16 = parse::vid;
    }
}

crate::keys! {
    struct GroupKeys {
        name: String = parse::name;
        ports: Vec<MemberKey> = group_members;
        spread: SpreadKind = parse::choice(SpreadKind::WORDS);
        turns: Turns = parse::choice(Turns::WORDS);
        low: Bytes = parse::bytes;
        high: Bytes = parse::bytes;
        uplinks: bool = parse::boolean;
        lacp: OrOff<bool> = parse::or_word("off", parse::choice(&[("active", true), ("passive", false)]));
        lacp_timeout: bool = parse::choice(&[("long", false), ("short", true)]);
    }
}

crate::keys! {
    struct RouterKeys {
        netns: PathBuf = parse::netns;
        spread: SpreadKind = parse::choice(SpreadKind::WORDS);
        low: Bytes = parse::bytes;
        high: Bytes = parse::bytes;
    }
}

crate::keys! {
    struct PuntKeys {
        rate: u32 = parse::integer(1..=1_000_000);
        burst: u32 = parse::integer(1..=100_000);
    }
}

crate::keys! {
    struct VlanKeys {
        vid: u16 = parse::vid;
        router: bool = parse::boolean;
        snooping: bool = parse::boolean;
        name: String = parse::name;
    }
}

crate::keys! {
    struct PortIdentityKeys {
        name: String = parse::name;
        device: String = parse::device;
    }
}

crate::keys! {
    layered struct PortKeys {
        speed: BitRate = parse::rate;
        mtu: u32 = parse::integer(256..=9_216);
        queues: Queues = queues;
        mode: Mode = parse::choice(Mode::WORDS);
        lossless: ClassSet = parse::classes;
        pause: Pause = parse::choice(&[
            ("pfc", Pause::Pfc),
            ("asymmetric", Pause::Asymmetric),
            ("802.3x", Pause::Whole),
            ("ignore", Pause::Ignore),
        ]);
        lldp: OrOff<bool> = parse::or_word("kernel", parse::boolean);
        dcbx: Dcbx = parse::choice(Dcbx::WORDS);
        ofc_peer: OrOff<bool> = parse::or_word("auto", parse::boolean);
        gfc_peer: OrOff<bool> = parse::or_word("auto", parse::boolean);
        pause_time: u16 = parse::integer(1..=65_535);
        refresh: OrOff<Nanos> = parse::or_word("auto", parse::time(Nanos(1_000)..=Nanos::from_secs(4)));
        peer_response: PeerResponse = peer_response;
        cable: u64 = parse::metres;
        burst: Bytes = parse::bytes;
        commit: Bytes = parse::bytes;
        max_rate: BitRate = parse::rate;
        trust: Trust = parse::choice(Trust::WORDS);
        default_class: Class = parse::class;
        pcp_map: [Option<Class>; 8] = parse::class_map;
        dscp_map: [Option<Class>; 64] = parse::class_map;
        rewrite_pcp: OrOff<[u8; CLASSES]> = parse::or_word("off", parse::by_class(7, [0, 1, 2, 3, 4, 5, 6, 7]));
        rewrite_dscp: OrOff<[u8; CLASSES]> = parse::or_word("off", parse::by_class(63, [0, 8, 16, 24, 32, 40, 48, 56]));
        pvid: OrOff<u16> = parse::or_word("none", parse::vid);
        tagged: Vec<u16> = parse::vids;
        untagged: Vec<u16> = parse::vids;
        learning: bool = parse::boolean;
        learn_limit: OrOff<u32> = parse::or_word("none", parse::integer(0..=1_048_576));
        storm_limit: OrOff<StormLimit> = parse::or_word("none", parse::storm_limit);
        loop_detection: LoopDetection = parse::choice(LoopDetection::WORDS);
        flood_unknown: bool = parse::boolean;
        flood_group: bool = parse::boolean;
        multicast_router: bool = parse::boolean;
        fast_leave: bool = parse::boolean;
        isolated: bool = parse::boolean;
        routed: bool = parse::boolean;
    }
}

crate::keys! {
    layered struct ClassKeys {
        xoff: Bytes = parse::bytes;
        xon: Bytes = parse::bytes;
        headroom: Bytes = parse::bytes;
        xoff_frames: u32 = parse::integer(1..=u32::MAX);
        ingress_reserve: Bytes = parse::bytes;
        ingress_max: Bytes = parse::bytes;
        egress_max: Bytes = parse::bytes;
        egress_max_frames: u32 = parse::integer(1..=u32::MAX);
        egress_reserve: Bytes = parse::bytes;
        egress_warn: Bytes = parse::bytes;
        egress_xoff: Bytes = parse::bytes;
        egress_xon: Bytes = parse::bytes;
        queue: QueueKind = parse::choice(QueueKind::WORDS);
        weight: Service = weight;
        max_rate: BitRate = parse::rate;
        ecn_min: OrOff<OrOff<Bytes>> = parse::or_word("off", parse::or_word("auto", parse::bytes));
        ecn_max: Bytes = parse::bytes;
        ecn_probability: f64 = parse::share;
        wred: bool = parse::boolean;
        watchdog: OrOff<WatchdogAction> = parse::or_word("off", parse::choice(&[
            ("drop", WatchdogAction::Drop),
            ("forward", WatchdogAction::Forward),
            ("alert", WatchdogAction::Alert),
        ]));
        watchdog_detect: Nanos = parse::time(Nanos::from_millis(1)..=Nanos::from_secs(60));
        watchdog_restore: Nanos = parse::time(Nanos::from_millis(1)..=Nanos::from_secs(60));
        watchdog_share: u8 = parse::integer(50..=WatchdogSettings::UNBROKEN);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollKind {
    Busy,
    Adaptive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryModel {
    Dedicated,
    Shared,
}

pub(crate) type PolicyByClass = [Option<PolicyKind>; CLASSES];

/// Scale of CaPFC's default thresholds, which are for 1 Gb/s: none, or in proportion to the port's speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    #[default]
    None,
    Speed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Pfc,
    Asymmetric,
    Whole,
    Ignore,
}

/// Value of `peer_response`: time in which the peer stops after XOFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerResponse {
    /// Response of a peer in software: the stall budget of this switch.
    Software,
    /// Response that 802.3 allows hardware.
    Standard,
    Within(Nanos),
}

#[derive(Clone, Debug)]
pub(crate) enum WorkersKey {
    Auto,
    Count(u16),
    List(Vec<WorkerKey>),
}

#[derive(Clone, Debug)]
pub(crate) struct WorkerKey {
    pub(crate) core: Option<Spanned<u16>>,
    pub(crate) ports: Vec<Spanned<String>>,
}

fn queues(value: &Value<'_>) -> Parsed<Queues> {
    if value.as_str() == Some("all") {
        return Ok(Queues::All);
    }
    let list = parse::list(value, parse::integer(0..=1_023)).filter(|list| !list.is_empty());
    let distinct = list.filter(|list| list.iter().enumerate().all(|(at, queue)| !list[..at].contains(queue)));
    distinct
        .map(Queues::List)
        .ok_or_else(|| "\"all\", or a list of different queue numbers, such as [0, 1]".into())
}

fn policy(value: &Value<'_>) -> Parsed<PolicyKind> {
    if value.as_str() == Some(PolicyKind::Custom.name()) {
        return Ok(PolicyKind::Custom);
    }
    let names = PolicyKind::ALL.map(|kind| (kind.name(), kind));
    parse::choice(&names)(value)
        .map_err(|allowed| format!("{allowed}, or \"custom\" if the program has its own policy"))
}

fn policies(value: &Value<'_>) -> Parsed<PolicyByClass> {
    if value.as_str().is_some() {
        return policy(value).map(|kind| [Some(kind); CLASSES]);
    }
    let allowed = |word: String| {
        format!("{word}, or a table of policies by class, such as {{ 3 = \"capfc-stop-max\" }}")
    };
    let mut by_class = [None; CLASSES];
    for (key, entry) in value
        .as_table()
        .ok_or_else(|| allowed(policy(value).expect_err("a number or list cannot be a policy")))?
    {
        let class = key.name.parse().ok().and_then(Class::new).ok_or_else(|| allowed("one name".into()))?;
        by_class[class.index()] = Some(policy(entry).map_err(allowed)?);
    }
    Ok(by_class)
}

fn shadows(value: &Value<'_>) -> Parsed<Vec<PolicyKind>> {
    let list = parse::list(value, policy);
    list.filter(|list| list.iter().enumerate().all(|(at, kind)| !list[..at].contains(kind))).ok_or_else(
        || {
            let names = PolicyKind::ALL.map(|kind| format!("\"{}\"", kind.name()));
            format!(
                "a list of different policies out of {}, or \"custom\" if the program has its own policy",
                names.join(", ")
            )
        },
    )
}

fn peer_response(value: &Value<'_>) -> Parsed<PeerResponse> {
    match value.as_str() {
        Some("software") => Ok(PeerResponse::Software),
        Some("standard") => Ok(PeerResponse::Standard),
        _ => parse::time(Nanos::ZERO..=Nanos::from_secs(10))(value)
            .map(PeerResponse::Within)
            .map_err(|allowed| format!("\"software\", \"standard\", or {allowed}")),
    }
}

fn weight(value: &Value<'_>) -> Parsed<Service> {
    if value.as_str() == Some("strict") {
        return Ok(Service::Strict);
    }
    parse::integer(1..=100_000)(value)
        .map(Service::Weighted)
        .map_err(|allowed| format!("\"strict\", or {allowed}"))
}

fn querier(value: &Value<'_>) -> Parsed<Ipv4Addr> {
    let address = match value.as_bool() {
        Some(true) => Some(Ipv4Addr::UNSPECIFIED),
        _ => value.as_str().and_then(|text| text.parse().ok()).filter(|address: &Ipv4Addr| {
            let first = address.octets()[0];
            (1..224).contains(&first) && first != 127
        }),
    };
    address.ok_or_else(|| "true, or the IPv4 address of the querier, such as \"192.0.2.1\"".into())
}

fn when_full(value: &Value<'_>) -> Parsed<WhenFull> {
    if value.as_str() == Some("stop-class") {
        let allowed =
            "\"stop\" (halts every port and class, needs workers = 1) or \"drop\" (drops the frame)";
        return Err(format!("{allowed}: \"stop-class\" was removed"));
    }
    parse::choice(&[("drop", WhenFull::Drop), ("stop", WhenFull::Stop)])(value)
}

fn hash(value: &Value<'_>) -> Parsed<PathHash> {
    let words = parse::list(value, parse::choice(&PathHash::FIELDS.map(|word| (word, word))));
    let distinct =
        words.filter(|words| words.iter().enumerate().all(|(at, word)| !words[..at].contains(word)));
    let words = distinct.ok_or_else(|| {
        let fields = PathHash::FIELDS.map(|word| format!("\"{word}\""));
        format!("a list of different fields out of {}; addresses are always hashed", fields.join(", "))
    })?;
    Ok(PathHash::of_fields(|field| words.contains(&field)))
}

fn workers(value: &Value<'_>) -> Parsed<WorkersKey> {
    let allowed = || {
        format!(
            "\"auto\", a number from 1 to 64, or a list such as [{{ core = 1, ports = [\"a\", \"b\"] }}, \
             {{ ports = [\"c\"] }}] with cores from 0 to {CORE_MAX}"
        )
    };
    match value.as_ref() {
        ValueInner::String(text) if text == "auto" => Ok(WorkersKey::Auto),
        ValueInner::Integer(_) => parse::integer(1..=64)(value).map(WorkersKey::Count).map_err(|_| allowed()),
        ValueInner::Array(_) => parse::list(value, worker)
            .filter(|list| !list.is_empty())
            .map(WorkersKey::List)
            .ok_or_else(allowed),
        _ => Err(allowed()),
    }
}

const CORE_MAX: u16 = 1_023;

fn worker(value: &Value<'_>) -> Parsed<WorkerKey> {
    let wrong = String::new;
    let table = value.as_table().ok_or_else(wrong)?;
    if table.keys().any(|key| key.name != "core" && key.name != "ports") {
        return Err(wrong());
    }
    let number = parse::integer(0..=CORE_MAX);
    let core = table.get("core").map(|core| Ok::<_, String>(Spanned::with_span(number(core)?, core.span)));
    let name = |entry: &Value<'_>| parse::name(entry).map(|name| Spanned::with_span(name, entry.span));
    let ports =
        table.get("ports").and_then(|ports| parse::list(ports, name)).filter(|ports| !ports.is_empty());
    Ok(WorkerKey { core: core.transpose()?, ports: ports.ok_or_else(wrong)? })
}

#[derive(Clone, Debug)]
pub(crate) struct MemberKey {
    pub(crate) port: Spanned<String>,
    pub(crate) weight: u16,
}

fn group_members(value: &Value<'_>) -> Parsed<Vec<MemberKey>> {
    let list = parse::list(value, group_member).filter(|list| (1..=MEMBERS_MAX).contains(&list.len()));
    list.ok_or_else(|| {
        format!(
            "a list of 1 to {MEMBERS_MAX} ports by name, such as [\"a\", \"b\"], with weights where they differ: \
             [{{ port = \"a\", weight = 2 }}, \"b\"], each from 1 to {WEIGHT_MAX}"
        )
    })
}

fn group_member(value: &Value<'_>) -> Parsed<MemberKey> {
    let named = |value: &Value<'_>| Ok::<_, String>(Spanned::with_span(parse::name(value)?, value.span));
    let ValueInner::Table(table) = value.as_ref() else {
        return Ok(MemberKey { port: named(value)?, weight: 1 });
    };
    if table.keys().any(|key| key.name != "port" && key.name != "weight") {
        return Err(String::new());
    }
    let weight = table.get("weight").map_or(Ok(1), parse::integer(1..=WEIGHT_MAX))?;
    Ok(MemberKey { port: named(table.get("port").ok_or_else(String::new)?)?, weight })
}
