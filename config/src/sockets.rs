use toml_span::{Span, Spanned};
use xoff_flow_control::settings::{Accounting, LossyPool, WhenFull};
use xoff_wire::units::{Bytes, Nanos, PortId};

use crate::document::Document;
use crate::draft::{Draft, policies};
use crate::keys::{MemoryModel, PollKind, WorkerKey, WorkersKey};
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::shell::{Chunks, Poll, PortShell, ReceiveChunks, Rings, ShellSettings, Worker, Workers, ZeroCopy};
use crate::sizing::RING_MOST;
use crate::sizing::largest;
use crate::{bridge, defaults, pipeline, qcn, quantity};

pub(crate) fn shell(
    document: &Document,
    drafts: &[Draft<'_>],
    stall_budget: Nanos,
    problems: &mut Problems,
) -> ShellSettings {
    let keys = &document.switch;
    let mtu_most = drafts.iter().map(|draft| draft.line.mtu()).max().unwrap_or(defaults::MTU);
    let smallest_frame = value(keys.smallest_frame.as_ref(), document.hardware.smallest_frame());
    let chunks = chunks(document, mtu_most, problems);
    let idle_after = value(keys.idle_after.as_ref(), defaults::IDLE_AFTER);
    ShellSettings {
        name: value(keys.name.as_ref(), defaults::NAME.to_owned()),
        ports: drafts
            .iter()
            .map(|draft| port_shell(document, draft, smallest_frame, chunks, problems))
            .collect(),
        workers: workers(document, drafts, problems),
        spare_ports: value(keys.spare_ports.as_ref(), 0),
        poll: match value(keys.poll.as_ref(), PollKind::Adaptive) {
            PollKind::Busy => Poll::Busy,
            PollKind::Adaptive => Poll::Adaptive { idle_after },
        },
        http: value(keys.http.as_ref(), OrOff::Is(defaults::HTTP.into())).into_option(),
        http_netns: keys.http_netns.as_ref().map(|key| key.value.clone()),
        http_hosts: value(keys.http_hosts.as_ref(), Vec::new()),
        user: value(keys.user.as_ref(), OrOff::Off).into_option(),
        log: value(keys.log.as_ref(), defaults::LOG).to_owned(),
        log_format: value(keys.log_format.as_ref(), Default::default()),
        sighup: value(keys.sighup.as_ref(), Default::default()),
        stall_budget,
        smallest_frame,
        zero_copy: value(keys.zero_copy.as_ref(), Default::default()),
        chunks,
        router: None, // set when VLANs are known
        budget: document.memory.budget.as_ref().map(|key| key.value),
        lossy_pool: document.memory.lossy_pool.as_ref().map(|key| match key.value {
            OrOff::Is(bytes) => defaults::lossy_pool(bytes),
            OrOff::Off => LossyPool::UNLIMITED,
        }),
        pool: document.memory.pool.as_ref().map(|key| key.value),
    }
}

fn chunks(document: &Document, mtu_most: u32, problems: &mut Problems) -> Chunks {
    let chunks = Chunks::for_mtu(mtu_most);
    let Some(key) = &document.memory.receive_chunks else { return chunks };
    let zero_copy = document.switch.zero_copy.as_ref().filter(|key| key.value == ZeroCopy::On);
    match key.value {
        ReceiveChunks::Whole => chunks,
        ReceiveChunks::Small => {
            if let Some(zero_copy) = zero_copy {
                problems.push(
                    Problem::error(
                        "`receive_chunks = \"small\"` needs copies by the kernel, but `zero_copy` is \"on\"",
                    )
                    .at(zero_copy.span, "excludes copies")
                    .help("leave `receive_chunks` or `zero_copy` out"),
                );
            }
            chunks.with_small()
        }
    }
}

fn port_shell(
    document: &Document,
    draft: &Draft<'_>,
    smallest_frame: u32,
    chunks: Chunks,
    problems: &mut Problems,
) -> PortShell {
    let keys = &draft.port.keys;
    let stall_chunks = draft.line.stall_chunks(smallest_frame, chunks);
    let rings = draft.line.rings(stall_chunks, smallest_frame).unwrap_or_else(|| {
        problems.push(beyond_rings(document, draft, stall_chunks, smallest_frame, chunks));
        Rings { fill: 0, rx: 0, tx: 0, completion: 0 }
    });
    PortShell {
        device: value(draft.port.identity.device.as_ref(), String::new()),
        queues: value(keys.queues.as_ref(), Default::default()),
        mode: value(keys.mode.as_ref(), Default::default()),
        rings,
        stall_chunks: u32::try_from(stall_chunks).unwrap_or(u32::MAX),
        transmit_chunks: draft.line.transmit_frames(smallest_frame),
    }
}

fn beyond_rings(
    document: &Document,
    draft: &Draft<'_>,
    stall_chunks: u64,
    smallest_frame: u32,
    chunks: Chunks,
) -> Problem {
    let (line, name) = (draft.line, &draft.name);
    let (keys, stall) = (&draft.port.keys, quantity::time(line.stall_budget));
    let sends = |commit: u64| {
        let mut line = line;
        line.commit = Bytes(commit);
        line.has_transmit_ring(smallest_frame)
    };
    let receives = |burst: u64| {
        let mut line = line;
        (line.burst, line.commit) = (Bytes(burst), Bytes::ZERO);
        line.rings(line.stall_chunks(smallest_frame, chunks), smallest_frame).is_some()
    };
    if let Some(commit) = keys.commit.as_ref().filter(|commit| !sends(commit.value.0)) {
        let frames = line.transmit_frames(smallest_frame);
        return Problem::error(format!(
            "port {name} needs {frames} transmit chunks for its `commit`, more than a ring can hold ({RING_MOST})"
        ))
        .at(commit.span, format!("{frames} frames of {smallest_frame} bytes"))
        .help(format!("write commit = {} or less", largest(0, commit.value.0, sends)));
    }
    let least = line.longest_on_line().0;
    if let Some(burst) = keys.burst.as_ref().filter(|burst| burst.value.0 > least && receives(least)) {
        return Problem::error(format!(
            "port {name} needs {stall_chunks} receive chunks for a stall of {stall} and its `burst`, more than a ring can hold \
             ({RING_MOST})"
        ))
        .at(burst.span, "more bytes than a ring can take after a stall")
        .help(format!("write burst = {} or less", largest(least, burst.value.0, receives)));
    }
    let whole = Chunks { receive: ReceiveChunks::Whole, ..chunks };
    let fits_whole = || line.rings(line.stall_chunks(smallest_frame, whole), smallest_frame).is_some();
    let problem = Problem::error(format!(
        "port {name} needs {stall_chunks} receive chunks for a stall of {stall}, more than a ring can hold ({RING_MOST})"
    ))
    .help(match chunks.receive {
        ReceiveChunks::Small if fits_whole() => {
            "shorten stall_budget, or write receive_chunks = \"whole\" in [memory]"
        }
        _ => "shorten stall_budget, or raise smallest_frame if your lossless frames are larger on average",
    });
    let budget = document.switch.stall_budget.as_ref().map(|key| key.span);
    match budget.or(keys.speed.as_ref().map(|key| key.span)) {
        Some(span) => {
            problem.at(span, format!("{stall_chunks} receive chunks at speed {}", quantity::rate(line.speed)))
        }
        None => problem,
    }
}

fn for_one_worker(document: &Document) -> Option<String> {
    let keys = &document.switch;
    if value(document.memory.model.as_ref(), MemoryModel::Dedicated) == MemoryModel::Shared {
        // Each of several workers would count only its own ports' frames, so one alone could fill the pool.
        Some("`model = \"shared\"`".into())
    } else if value(keys.accounting.as_ref(), Accounting::default()) == Accounting::UntilForwarded {
        // With several workers, frames handed over between them would count at no port.
        Some("`accounting = \"until-forwarded\"`".into())
    } else if pipeline::settings(document).rate.is_some() {
        Some("`rate` in `[pipeline]`".into())
    } else if value(keys.when_full.as_ref(), WhenFull::default()) == WhenFull::Stop {
        // With several workers, only the pipeline of one would halt.
        Some("`when_full = \"stop\"`".into())
    } else if !qcn::classes(document).is_empty() {
        // A congestion point counts queued frames of all ports, so one worker must own all ports.
        Some("`[qcn]`".into())
    } else {
        let shadows = value(keys.shadow.as_ref(), Vec::new());
        let kinds = policies(document).into_iter().chain(shadows);
        let needs = kinds.into_iter().find(|kind| kind.needs_one_worker(document.custom.as_ref()));
        needs.map(|kind| format!("policy \"{}\"", kind.name()))
    }
}

fn workers(document: &Document, drafts: &[Draft<'_>], problems: &mut Problems) -> Workers {
    let alone = for_one_worker(document);
    let auto = if alone.is_some() { Workers::Count(1) } else { Workers::Auto };
    let Some(key) = &document.switch.workers else { return auto };
    let several = match &key.value {
        WorkersKey::Auto => false,
        WorkersKey::Count(count) => *count > 1,
        WorkersKey::List(list) => list.len() > 1,
    };
    if let Some(what) = alone.filter(|_| several) {
        problems.push(
            Problem::error(format!("{what} needs one worker"))
                .at(key.span, "several")
                .help("write workers = 1, or leave `workers` out"),
        );
    }
    match &key.value {
        WorkersKey::Auto => auto,
        WorkersKey::Count(count) => Workers::Count(*count),
        WorkersKey::List(list) => {
            let mut taken: Vec<(PortId, Span)> = Vec::new();
            let mut worker = |listed: &WorkerKey| Worker {
                core: listed.core.as_ref().map(|core| core.value),
                ports: listed
                    .ports
                    .iter()
                    .filter_map(|name| claim(name, drafts, &mut taken, problems))
                    .collect(),
            };
            let workers: Vec<Worker> = list.iter().map(&mut worker).collect();
            let idle = |id: PortId| !taken.iter().any(|(other, _)| *other == id);
            for (_, draft) in bridge::numbered(drafts).filter(|(id, _)| idle(*id)) {
                problems.push(
                    Problem::error(format!("port {} has no worker", draft.name))
                        .at(key.span, format!("{} is missing here", draft.name))
                        .help("name every port in exactly one worker, or write workers = \"auto\""),
                );
            }
            crowded(&workers, key.span, document, problems);
            Workers::List(workers)
        }
    }
}

fn crowded(workers: &[Worker], span: Span, document: &Document, problems: &mut Problems) {
    let cores: Vec<u16> = workers.iter().filter_map(|worker| worker.core).collect();
    let shared = cores.iter().enumerate().find(|(at, core)| cores[..*at].contains(core));
    if value(document.switch.poll.as_ref(), PollKind::Adaptive) == PollKind::Busy
        && let Some((_, core)) = shared
    {
        problems.push(
            Problem::warning(format!("two workers poll without sleep on core {core}"))
                .at(span, "one core for two polling workers")
                .help("give each worker a different core, or write poll = \"adaptive\""),
        );
    }
}

fn claim(
    name: &Spanned<String>,
    drafts: &[Draft<'_>],
    taken: &mut Vec<(PortId, Span)>,
    problems: &mut Problems,
) -> Option<PortId> {
    let id = bridge::port_named(name, drafts, problems)?;
    if let Some((_, first)) = taken.iter().find(|(other, _)| *other == id) {
        problems.push(
            Problem::error(format!("port {} has two workers", name.value))
                .at(name.span, "named again")
                .at(*first, "first named here"),
        );
        return None;
    }
    taken.push((id, name.span));
    Some(id)
}
