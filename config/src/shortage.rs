use xoff_wire::units::Bytes;

use crate::document::Document;
use crate::reader::problem::Problem;
use crate::written::{grouped, mebibytes};
use crate::{Config, Machine, budget};

/// Returns the lack of memory for a switch, or for the ports that a reload adds.
pub(crate) fn of(config: &Config, machine: &Machine, document: &Document) -> Option<Problem> {
    let available = machine.memory.as_ref()?; // a simulated switch needs no plan
    let without_spare =
        |config: &Config| config.memory(&config.workers(&machine.cores), &config.queues(machine)).needed();
    let (what, needed) = match &machine.running {
        Some(running) => ("the change", without_spare(config).saturating_sub(without_spare(running))),
        None => ("the switch", config.plan(machine).needed()),
    };
    let half = Bytes(available.bytes.0 / 2);
    let text = |than: &str| {
        format!("{what} needs {} MiB of memory, more than {than} {available}", grouped(mebibytes(needed)))
    };
    let (problem, allowed) = if needed > available.bytes {
        (Problem::error(text("the")), available.bytes)
    } else if needed > half && machine.running.is_none() {
        (Problem::warning(text("half of the")), half)
    } else {
        return None;
    };
    if machine.running.is_some() {
        return Some(problem.help("add fewer ports, or end other programs"));
    }
    let remedies = budget::remedies(document, machine);
    let first = remedies.first().map_or_else(String::new, |remedy| remedy.advice(needed, allowed) + "; ");
    Some(problem.help(format!(
        "{first}shorten stall_budget, raise smallest_frame (where lossless frames are larger on average), list fewer `queues`, or make \
         fewer classes lossless; `xoff check -v` shows the memory of each consumer, with --elsewhere on any machine"
    )))
}
