//! Table `[memory]`: limits of shared memory, and warnings about losses of lossless classes.

use toml_span::Span;
use xoff_flow_control::settings::{
    Accounting, ClassSettings, EgressLimits, HeadroomPlace, LossyPool, Memory, PortSettings, SharedMemory,
    WhenFull,
};
use xoff_wire::units::{Bytes, Class};

use crate::document::Document;
use crate::draft::Draft;
use crate::keys::{MemoryKeys, MemoryModel};
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::{defaults, quantity, thresholds, written};

pub(crate) fn memory(
    document: &Document,
    drafts: &[Draft<'_>],
    ports: &[PortSettings],
    problems: &mut Problems,
) -> Memory {
    let keys = &document.memory;
    if value(keys.model.as_ref(), MemoryModel::Dedicated) == MemoryModel::Dedicated {
        dedicated(keys, problems);
        return Memory::Dedicated;
    }
    let longest = drafts.iter().map(|draft| draft.line.longest()).max().unwrap_or_default();
    let limits = [
        ("pool", &keys.pool),
        ("ingress_limit", &keys.ingress_limit),
        ("egress_limit", &keys.egress_limit),
        ("port_limit", &keys.port_limit),
        ("egress_port_limit", &keys.egress_port_limit),
    ];
    for (name, limit) in limits {
        if let Some(limit) = limit.as_ref().filter(|limit| limit.value < longest) {
            problems.push(
                Problem::error(format!("`{name}` is {} bytes, less than one frame", limit.value.0))
                    .at(limit.span, "less than the longest frame")
                    .help(format!("write {} bytes or more: the longest frame", longest.0)),
            );
        }
    }
    let running_pool = document.running.as_ref().and_then(|running| running.default_pool());
    let default_pool = || running_pool.unwrap_or(Bytes(thresholds::wanted(ports).0 / 2));
    let pool = keys.pool.as_ref().map_or_else(default_pool, |key| key.value);
    let shared = SharedMemory {
        pool,
        ingress_limit: value(keys.ingress_limit.as_ref(), pool),
        egress_limit: value(keys.egress_limit.as_ref(), pool),
        port_limit: value(keys.port_limit.as_ref(), pool),
        egress_port_limit: value(keys.egress_port_limit.as_ref(), pool),
        egress_limits: value(keys.egress_limits.as_ref(), Default::default()),
        headroom: value(keys.headroom.as_ref(), Default::default()),
        alpha_log2: value(keys.alpha_log2.as_ref(), OrOff::Is(defaults::ALPHA_LOG2)).into_option(),
    };
    room_for_a_frame(&shared, drafts, ports, keys, problems);
    if drafts.iter().any(|draft| !draft.lossless.is_empty()) {
        what_may_be_lost(document, &shared, ports, problems);
        reserves_hold_a_frame(&shared, drafts, ports, keys, problems);
        classes_share_pool(ports, keys, problems);
    }
    Memory::Shared(shared)
}

pub(crate) fn lossy_pool(
    document: &Document,
    drafts: &[Draft<'_>],
    ports: &[PortSettings],
    problems: &mut Problems,
) -> LossyPool {
    let key = document.memory.lossy_pool.as_ref();
    let is_shared = value(document.memory.model.as_ref(), MemoryModel::Dedicated) == MemoryModel::Shared;
    if let Some(key) = key.filter(|_| is_shared) {
        problems.push(
            Problem::error("`lossy_pool` is for dedicated memory, but `model` is \"shared\"")
                .at(key.span, "no effect")
                .help("write `pool` and its limits instead"),
        );
    }
    let longest = drafts.iter().map(|draft| draft.line.longest()).max().unwrap_or_default();
    let spare = value(document.switch.spare_ports.as_ref(), 0);
    let places = ports.len() as u64 + u64::from(spare);
    let least = Bytes(longest.0.saturating_mul(2 * places));
    let is_running = document.running.is_some(); // a reload cannot change the pool
    let stops = value(document.switch.when_full.as_ref(), WhenFull::default()) == WhenFull::Stop;
    if let Some(key) = key.filter(|key| stops && matches!(key.value, OrOff::Is(_))) {
        problems.push(
            Problem::error("`lossy_pool` drops frames, but `when_full = \"stop\"` must drop none")
                .at(key.span, "no effect")
                .help("leave `lossy_pool` or `when_full` out"),
        );
    }
    match key.map(|key| (key.value.clone(), key.span)) {
        Some((OrOff::Is(bytes), span)) if bytes < least && !is_shared && !is_running => {
            problems.push(
                Problem::error(format!(
                    "`lossy_pool` is {} bytes, too little for two frames of each port and spare port",
                    bytes.0
                ))
                .at(span, "too little")
                .help(format!(
                    "write {} bytes or more: two of the longest frames for each port and spare port",
                    least.0
                )),
            );
            LossyPool::UNLIMITED
        }
        Some((OrOff::Is(bytes), span)) => {
            let most = unlimiting_pool(ports, spare);
            if bytes > most && !is_running {
                let text = format!(
                    "`lossy_pool` is {}, but even a pool of {} bytes would limit no queue",
                    quantity::bytes(bytes),
                    most.0
                );
                problems.push(
                    Problem::warning(text)
                        .at(span, "no limit")
                        .help("write lossy_pool = \"none\", or a smaller size"),
                );
            }
            defaults::lossy_pool(bytes)
        }
        Some((OrOff::Off, _)) => LossyPool::UNLIMITED,
        // A pipeline that halts when a queue is full drops no frames, so ingress limits suffice.
        None if is_shared || stops => LossyPool::UNLIMITED,
        None => document.hardware.lossy_pool(ports),
    }
}

/// Returns the size of a lossy pool that limits no queue: twice the sum of all egress queues of classes that are lossy at every
/// port. Each of `spare` further ports counts as the largest port.
pub(crate) fn unlimiting_pool(ports: &[PortSettings], spare: u8) -> Bytes {
    let is_lossy = |class: &Class| ports.iter().all(|port| !port.classes[class.index()].lossless);
    let classes: Vec<Class> = Class::ALL.into_iter().filter(is_lossy).collect();
    let of_port = |port: &PortSettings| {
        let queues = classes.iter().map(|class| port.classes[class.index()].egress_max);
        queues.fold(Bytes::ZERO, Bytes::saturating_add)
    };
    let largest = ports.iter().map(of_port).max().unwrap_or_default();
    let of_spare = Bytes(largest.0.saturating_mul(spare.into()));
    Bytes(ports.iter().map(of_port).fold(of_spare, Bytes::saturating_add).0.saturating_mul(2))
}

fn dedicated(keys: &MemoryKeys, problems: &mut Problems) {
    fn span<T>(key: Option<&toml_span::Spanned<T>>) -> Option<Span> {
        key.map(|key| key.span)
    }
    let given = [
        ("pool", span(keys.pool.as_ref())),
        ("ingress_limit", span(keys.ingress_limit.as_ref())),
        ("egress_limit", span(keys.egress_limit.as_ref())),
        ("port_limit", span(keys.port_limit.as_ref())),
        ("egress_port_limit", span(keys.egress_port_limit.as_ref())),
        ("egress_limits", span(keys.egress_limits.as_ref())),
        ("headroom", span(keys.headroom.as_ref())),
        ("alpha_log2", span(keys.alpha_log2.as_ref())),
    ];
    for (key, span) in given.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        problems.push(
            Problem::error(format!("`{key}` is for shared memory, but `model` is \"dedicated\""))
                .at(span, "no effect")
                .help("write model = \"shared\" in [memory], or leave the key out"),
        );
    }
}

fn room_for_a_frame(
    shared: &SharedMemory,
    drafts: &[Draft<'_>],
    ports: &[PortSettings],
    keys: &MemoryKeys,
    problems: &mut Problems,
) {
    let Some(n) = shared.alpha_log2 else { return };
    let most = match n {
        0.. => shared.pool.0.saturating_mul(1 << n),
        _ => shared.pool.0 >> n.unsigned_abs(),
    };
    for (draft, port) in drafts.iter().zip(ports) {
        let longest = draft.line.longest();
        let short = |class: &&Class| {
            let settings = &port.classes[class.index()];
            !settings.lossless && settings.ingress_reserve.saturating_add(Bytes(most)) < longest
        };
        let short: Vec<u8> = Class::ALL.iter().filter(short).map(|class| class.get()).collect();
        if short.is_empty() {
            continue;
        }
        let problem = Problem::warning(format!(
            "the longest frames ({} bytes) do not fit in classes {} of port {}: a queue may take at most {most} bytes (`pool` x 2^{n})",
            longest.0,
            written::ranges(&short),
            port.name
        ))
        .help(format!(
            "write a larger pool or alpha_log2 (now {n}), or give each used class an `ingress_reserve` that lets it take {} bytes",
            longest.0
        ));
        let place = keys.alpha_log2.as_ref().map(|key| key.span).or(keys.pool.as_ref().map(|key| key.span));
        problems.push(match place {
            Some(span) => problem.at(span, format!("at most {most} bytes for a queue")),
            None => problem,
        });
        return;
    }
}

/// With `headroom = "pool"`, requires an `ingress_reserve` of one frame, because other queues may fill the rest of the pool.
fn reserves_hold_a_frame(
    shared: &SharedMemory,
    drafts: &[Draft<'_>],
    ports: &[PortSettings],
    keys: &MemoryKeys,
    problems: &mut Problems,
) {
    let Some(key) = keys.headroom.as_ref().filter(|_| shared.headroom == HeadroomPlace::Pool) else { return };
    for (draft, port) in drafts.iter().zip(ports) {
        let longest = draft.line.longest();
        let short = draft.lossless.iter().find(|class| port.classes[class.index()].ingress_reserve < longest);
        if let Some(class) = short {
            let reserve = port.classes[class.index()].ingress_reserve;
            problems.push(
                Problem::error(format!(
                    "`headroom = \"pool\"` needs an `ingress_reserve` of {} bytes, one frame: class {} of {} has {}",
                    longest.0,
                    class.get(),
                    port.name,
                    reserve.0
                ))
                .at(key.span, "only a queue's reserve is sure to be free for its first frame")
                .help("write an ingress_reserve for the lossless classes, or headroom = \"reserved\""),
            );
            return;
        }
    }
}

fn classes_share_pool(ports: &[PortSettings], keys: &MemoryKeys, problems: &mut Problems) {
    let of = |holds: &dyn Fn(&ClassSettings) -> bool| -> Vec<u8> {
        let holds = |class: &&Class| ports.iter().any(|port| holds(&port.classes[class.index()]));
        Class::ALL.iter().filter(holds).map(|class| class.get()).collect()
    };
    let lossless = of(&|class| class.lossless);
    let bare = of(&|class| class.lossless && class.ingress_reserve == Bytes::ZERO);
    let (Some(model), true) = (&keys.model, lossless.len() > 1 && !bare.is_empty()) else { return };
    problems.push(
        Problem::note(format!(
            "a congested class can fill the shared pool; the switch then pauses classes {} as well",
            written::ranges(&bare)
        ))
        .at(model.span, "one pool for all classes")
        .help("write an `ingress_reserve` for these classes; `xoff status causes` names pauses for lack of `pool`"),
    );
}

fn what_may_be_lost(
    document: &Document,
    shared: &SharedMemory,
    ports: &[PortSettings],
    problems: &mut Problems,
) {
    let keys = &document.memory;
    let when_full = value(document.switch.when_full.as_ref(), WhenFull::default());
    let accounting = value(document.switch.accounting.as_ref(), Accounting::default());
    let of_port = |port: &PortSettings| {
        let classes = port.classes.iter().map(|class| class.ingress_most());
        classes.fold(Bytes::ZERO, Bytes::saturating_add)
    };
    let at_one = ports.iter().map(of_port).max().unwrap_or_default();
    let at_all = ports.iter().map(of_port).fold(Bytes::ZERO, Bytes::saturating_add);
    let of_egress = match shared.egress_limits {
        EgressLimits::All if accounting == Accounting::UntilForwarded => shared.egress_limit,
        EgressLimits::All | EgressLimits::Lossy => Bytes::ZERO,
    };
    let wanted = [
        ("pool", shared.pool, at_all.saturating_add(of_egress)),
        ("ingress_limit", shared.ingress_limit, at_all),
        ("port_limit", shared.port_limit, at_one),
    ];
    let mut short = wanted.into_iter().filter(|(_, has, wanted)| has < wanted).peekable();
    if let Some(key) = keys.headroom.as_ref().filter(|key| key.value == HeadroomPlace::Pool)
        && short.peek().is_some()
    {
        let or = match at_all {
            Bytes::MAX => {
                "an `ingress_max` for lossy classes, which otherwise may take the whole pool".to_owned()
            }
            _ if of_egress > Bytes::ZERO && keys.egress_limit.is_none() => {
                format!("an `egress_limit`, and a `pool` that exceeds this limit by {} bytes", at_all.0)
            }
            _ => short
                .map(|(key, _, wanted)| format!("{key} = {}", wanted.0))
                .collect::<Vec<_>>()
                .join(" and "),
        };
        problems.push(
            Problem::warning(
                "a lossless class may lose frames: its headroom is only the part of the pool that other classes leave free",
            )
            .at(key.span, "not reserved")
            .help(format!("write headroom = \"reserved\", or {or}")),
        );
    }
    if let Some(key) = keys.egress_limits.as_ref().filter(|key| key.value == EgressLimits::All)
        && when_full == WhenFull::Drop
        && shared.egress_limit.min(shared.egress_port_limit) < at_all
    {
        problems.push(
            Problem::warning("frames of a lossless class may be dropped at egress, because limits for all egress queues include this class")
                .at(key.span, "lossless queues included")
                .help("write egress_limits = \"lossy\", or when_full = \"stop\""),
        );
    }
}
