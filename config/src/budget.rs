//! Applies `memory.budget`: the lossy pool gets the memory that rings, headroom and other guaranteed memory leave of the budget.

use toml_span::Span;
use xoff_flow_control::settings::WhenFull;
use xoff_wire::units::{Bytes, TAGS};

use crate::document::{Document, Port};
use crate::keys::{MemoryModel, PeerResponse};
use crate::memory::Plan;
use crate::reader::problem::Problem;
use crate::reader::value;
use crate::sizing::largest;
use crate::written::mebibytes;
use crate::{Config, Machine, Remedy, defaults, quantity, remedies};

const TERMS: usize = 4;

/// Makes the lossy pool as large as `memory.budget` allows. Returns an error if this is impossible. A running switch keeps its pool.
pub(crate) fn apply(config: &mut Config, machine: &Machine, document: &Document) -> Option<Problem> {
    let keys = &document.memory;
    let key = keys.budget.as_ref()?;
    let no_effect = |why: &str| {
        let problem = Problem::error(format!("`budget` sets `lossy_pool`, but {why}"));
        Some(problem.at(key.span, "no effect").help("leave `budget` or the other key out"))
    };
    if value(keys.model.as_ref(), MemoryModel::Dedicated) == MemoryModel::Shared {
        return no_effect("`model = \"shared\"` has no lossy pool, only a `pool`");
    }
    if keys.lossy_pool.is_some() {
        return no_effect("`lossy_pool` is given, too");
    }
    if config.switch.when_full == WhenFull::Stop {
        return no_effect("`when_full = \"stop\"` drops no frames and has no lossy pool");
    }
    if machine.running.is_some() {
        return None;
    }
    let longest = config.switch.ports.iter().map(|port| Bytes::of_frame(port.mtu_frame + TAGS).0).max()?;
    let queues = config.switch.ports.iter().flat_map(|port| &port.classes).map(|class| class.egress_max);
    let most = queues.fold(Bytes::ZERO, Bytes::saturating_add).0;
    let places = config.switch.ports.len() as u64 + u64::from(config.shell.spare_ports);
    let least = 2 * longest * places;
    let smallest = plan(config, machine, least);
    if smallest.needed() > key.value {
        return Some(refusal(&smallest, key.value, key.span, &savings(document, machine)));
    }
    let fits = |pool| plan(config, machine, pool).needed() <= key.value;
    let pool = largest(least, most.max(least).saturating_add(1), fits);
    config.switch.lossy_pool = defaults::lossy_pool(Bytes(pool));
    None
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
        "write budget = \"{needed}MiB\" or more; most of this is {}, and {} MiB of the kernel; {savings}",
        terms.join(", "),
        mebibytes(least.kernel)
    ))
}
