use xoff_wire::units::Bytes;

use crate::document::Document;
use crate::reader::problem::Problem;
use crate::written::{grouped, mebibytes};
use crate::{Config, Machine, budget};

pub(crate) fn of(config: &Config, machine: &Machine, document: &Document) -> Option<Problem> {
    let available = machine.memory.as_ref()?; // a simulated switch needs no plan
    let needed = config.plan(machine).needed();
    let half = Bytes(available.bytes.0 / 2);
    let text = |than: &str| {
        format!("the switch needs {} MiB of memory, more than {than} {available}", grouped(mebibytes(needed)))
    };
    let (problem, allowed) = if needed > available.bytes {
        (Problem::error(text("the")), available.bytes)
    } else if needed > half {
        (Problem::warning(text("half of the")), half)
    } else {
        return None;
    };
    let remedies = budget::remedies(document, machine);
    let first = remedies.first().map_or_else(String::new, |remedy| remedy.advice(needed, allowed) + "; ");
    Some(problem.help(format!(
        "{first}shorten stall_budget, raise smallest_frame (where lossless frames are larger on average), list fewer `queues`, or make \
         fewer classes lossless; `xoff check -v` shows the memory of each consumer, with --elsewhere on any machine"
    )))
}
