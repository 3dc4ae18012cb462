//! `[memory]`: who may take how much of the memory that queues share, and what a lossless class may lose by that.

use toml_span::Span;
use xoff_dataplane::settings::{EgressLimits, HeadroomPlace, Memory, PortSettings, SharedMemory, WhenFull};
use xoff_dataplane::units::Bytes;

use crate::document::Document;
use crate::draft::{Draft, value};
use crate::keys::{MemoryKeys, MemoryModel};
use crate::parse::OrOff;
use crate::problem::{Problem, Problems};
use crate::{defaults, thresholds};

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
                    .at(limit.span, "cannot hold a frame")
                    .help(format!("the longest frame takes {} bytes", longest.0)),
            );
        }
    }
    let pool = value(keys.pool.as_ref(), Bytes(thresholds::wanted(ports).0 / 2));
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
    if drafts.iter().any(|draft| !draft.lossless.is_empty()) {
        let when_full = value(document.switch.when_full.as_ref(), WhenFull::default());
        what_may_be_lost(keys, &shared, ports, when_full, problems);
    }
    Memory::Shared(shared)
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
                .at(span, "has no meaning here")
                .help("write model = \"shared\" in [memory], or leave it out"),
        );
    }
}

/// Lossless frames for which there is room only where others have left some.
fn what_may_be_lost(
    keys: &MemoryKeys,
    shared: &SharedMemory,
    ports: &[PortSettings],
    when_full: WhenFull,
    problems: &mut Problems,
) {
    let of_port = |port: &PortSettings| {
        let classes = port.classes.iter().map(|class| class.ingress_most());
        classes.fold(Bytes::ZERO, Bytes::saturating_add)
    };
    let at_one = ports.iter().map(of_port).max().unwrap_or_default();
    let at_all = ports.iter().map(of_port).fold(Bytes::ZERO, Bytes::saturating_add);
    let ingress = shared.pool.min(shared.ingress_limit);
    if let Some(key) = keys.headroom.as_ref().filter(|key| key.value == HeadroomPlace::Pool)
        && (ingress < at_all || shared.port_limit < at_one)
    {
        problems.push(
            Problem::warning(
                "a lossless class may lose frames: its headroom is what others have left of the pool",
            )
            .at(key.span, "not reserved")
            .help(format!(
                "write headroom = \"reserved\", or a pool for all that can come in, {} bytes",
                at_all.0
            )),
        );
    }
    if let Some(key) = keys.egress_limits.as_ref().filter(|key| key.value == EgressLimits::All)
        && when_full == WhenFull::Drop
        && shared.egress_limit.min(shared.egress_port_limit) < at_all
    {
        problems.push(
            Problem::warning("a lossless class may be dropped at egress: limits that all egress queues share hold for it, too")
                .at(key.span, "lossless queues included")
                .help("write egress_limits = \"lossy\", or when_full = \"stop\""),
        );
    }
}
