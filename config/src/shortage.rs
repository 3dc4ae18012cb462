use crate::document::Document;
use crate::reader::problem::Problem;
use crate::written::mebibytes;
use crate::{Config, Machine, remedies};

pub(crate) fn of(config: &Config, machine: &Machine, document: Option<&Document>) -> Option<Problem> {
    let available = machine.memory?; // a simulated switch needs no plan
    let needed = config.plan(machine).needed();
    let (needs, has) = (mebibytes(needed), available.0 >> 20);
    let problem = if needed > available {
        Problem::error(format!("the switch needs {needs} MiB of memory, but the machine has {has} MiB"))
    } else if needed.0 > available.0 / 2 {
        Problem::warning(format!("the switch takes {needs} of the machine's {has} MiB of memory"))
    } else {
        return None;
    };
    let remedies = document.map(|document| remedies::of(document, machine)).unwrap_or_default();
    let first = match remedies.first() {
        Some(remedy) => format!("{} helps most, and saves {} MiB; ", remedy.change, remedy.saved.0 >> 20),
        None if config.shell.budget.is_some() => "lower `budget` in [memory]; ".to_owned(),
        None => String::new(),
    };
    Some(problem.help(format!(
        "{first}shorten stall_budget, raise smallest_frame (where lossless frames are larger on average), list fewer `queues`, or make \
         fewer classes lossless; `xoff check -v` shows the memory of each consumer, with --elsewhere on any machine"
    )))
}
