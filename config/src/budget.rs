//! Applies `memory.budget`: the lossy pool gets the part of the budget that rings, headroom and other guaranteed memory do not need.

use toml_span::Span;
use xoff_flow_control::settings::WhenFull;
use xoff_wire::units::{Bytes, TAGS};

use crate::document::{Document, Port};
use crate::keys::{MemoryModel, PeerResponse};
use crate::memory::Plan;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::sizing::largest;
use crate::written::mebibytes;
use crate::{Config, Machine, Remedy, build, defaults, quantity, remedies, shared};

const TERMS: usize = 4;

/// Sets the lossy pool by `budget`, except on a reload, which keeps the running switch's lossy pool. Returns `None` after an error.
pub(crate) fn apply(
    config: &mut Config,
    machine: &Machine,
    document: &Document,
    problems: &mut Problems,
) -> Option<()> {
    let keys = &document.memory;
    let Some(key) = &keys.budget else { return Some(()) };
    let excluded = if value(keys.model.as_ref(), MemoryModel::Dedicated) == MemoryModel::Shared {
        Some("`model = \"shared\"` has no lossy pool, only a `pool`")
    } else if keys.lossy_pool.is_some() {
        Some("the file itself gives `lossy_pool`")
    } else if config.switch.when_full == WhenFull::Stop {
        Some("`when_full = \"stop\"` drops no frames and has no lossy pool")
    } else {
        None
    };
    if let Some(why) = excluded {
        let problem = Problem::error(format!("`budget` sets `lossy_pool`, but {why}"));
        problems
            .push(problem.at(key.span, "no effect").help("leave out `budget`, or the key that excludes it"));
        return None;
    }
    if machine.running.is_some() {
        return Some(());
    }
    let least = least(config);
    let smallest = plan(config, machine, least);
    if smallest.needed() > key.value {
        problems.push(refusal(&smallest, key.value, key.span, &savings(document, machine)));
        return None;
    }
    let most = shared::unlimiting_pool(&config.switch.ports, config.shell.spare_ports).0.max(least);
    let largest_plan = mebibytes(plan(config, machine, most).needed());
    if key.value.0 > largest_plan << 20 {
        let value = quantity::bytes(key.value);
        let text = format!("`budget` is {value}, but the switch can use only {largest_plan} MiB");
        let problem = Problem::warning(text).at(key.span, "cannot be used");
        problems.push(problem.help(format!("write budget = \"{largest_plan}MiB\"")));
    }
    let fits = |pool| plan(config, machine, pool).needed() <= key.value;
    let pool = if fits(most) { most } else { largest(least, most, fits) };
    config.switch.lossy_pool = defaults::lossy_pool(Bytes(pool));
    Some(())
}

pub(crate) fn remedies(document: &Document, machine: &Machine) -> Vec<Remedy> {
    match document.memory.budget {
        Some(_) => smallest(document, machine).into_iter().collect(),
        None => remedies::of(document, machine),
    }
}

fn smallest(document: &Document, machine: &Machine) -> Option<Remedy> {
    let ignored = &mut Problems::default();
    let mut config = build::build(document, ignored)?;
    apply(&mut config, machine, document, ignored)?;
    let needed = [config.plan(machine), plan(&config, machine, least(&config))].map(|plan| plan.needed());
    let saved = needed[0].saturating_sub(needed[1]);
    (saved > Bytes::ZERO).then_some(Remedy { change: "the smallest possible `budget`", saved })
}

fn least(config: &Config) -> u64 {
    let longest = config.switch.ports.iter().map(|port| Bytes::of_frame(port.mtu_frame + TAGS).0).max();
    let places = config.switch.ports.len() as u64 + u64::from(config.shell.spare_ports);
    2 * longest.unwrap_or(0) * places
}

fn savings(document: &Document, machine: &Machine) -> String {
    let mut document = document.clone();
    document.memory.budget = None;
    let remedies = remedies::of(&document, machine).into_iter();
    let saved = |remedy: Remedy| format!("{} saves {} MiB", remedy.change, remedy.saved.0 >> 20);
    let mut savings: Vec<String> = remedies.map(saved).collect();
    let is_software = |port: &Port| {
        value(port.keys.peer_response.as_ref(), document.hardware.peer()) == PeerResponse::Software
    };
    if document.ports.iter().any(is_software) {
        savings.push("with hardware peers, peer_response = \"standard\" saves headroom".to_owned());
    }
    savings.join("; ")
}

fn plan(config: &Config, machine: &Machine, pool: u64) -> Plan {
    let mut config = config.clone();
    config.switch.lossy_pool = defaults::lossy_pool(Bytes(pool));
    config.plan(machine)
}

fn refusal(least: &Plan, budget: Bytes, span: Span, savings: &str) -> Problem {
    let mut terms = least.consumers.clone();
    terms.sort_by_key(|consumer| std::cmp::Reverse(consumer.bytes));
    let term =
        |consumer: &crate::memory::Consumer| format!("{} {} MiB", consumer.what, mebibytes(consumer.bytes));
    let terms: Vec<String> = terms.iter().take(TERMS).map(term).collect();
    let needed = mebibytes(least.needed());
    Problem::error(format!(
        "`budget` is {}, but the switch needs {needed} MiB with the smallest lossy pool",
        quantity::bytes(budget)
    ))
    .at(span, "too little")
    .help(format!(
        "write budget = \"{needed}MiB\" or more; the largest parts are {}, and {} MiB in the kernel; {savings}",
        terms.join(", "),
        mebibytes(least.kernel)
    ))
}
