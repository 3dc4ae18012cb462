use xoff_wire::units::Bytes;

use crate::document::Document;
use crate::reader::problem::Problem;
use crate::written::mebibytes;
use crate::{Config, Machine, Remedy, remedies};

pub(crate) fn of(config: &Config, machine: &Machine, document: Option<&Document>) -> Option<Problem> {
    let available = machine.memory.as_ref()?; // a simulated switch needs no plan
    let needed = config.plan(machine).needed();
    let needs = mebibytes(needed);
    let half = Bytes(available.bytes.0 / 2);
    let (problem, allowed) = if needed > available.bytes {
        let text = format!("the switch needs {needs} MiB of memory, more than the {available}");
        (Problem::error(text), available.bytes)
    } else if needed > half {
        let text = format!("the switch needs {needs} MiB of memory, more than half of the {available}");
        (Problem::warning(text), half)
    } else {
        return None;
    };
    let remedies = document.map(|document| remedies::of(document, machine)).unwrap_or_default();
    let first = match remedies.first() {
        Some(Remedy { change, saved }) => {
            let alone =
                if needed.saturating_sub(*saved) <= allowed { "suffices" } else { "does not suffice alone" };
            format!("{change} helps most: it saves {} MiB, and {alone}; ", saved.0 >> 20)
        }
        None if config.shell.budget.is_some() => "lower `budget` in [memory]; ".to_owned(),
        None => String::new(),
    };
    Some(problem.help(format!(
        "{first}shorten stall_budget, raise smallest_frame (where lossless frames are larger on average), list fewer `queues`, or make \
         fewer classes lossless; `xoff check -v` shows the memory of each consumer, with --elsewhere on any machine"
    )))
}
