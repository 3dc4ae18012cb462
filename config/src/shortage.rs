use xoff_wire::units::{Bytes, PortId};

use crate::document::Document;
use crate::reader::problem::Problem;
use crate::written::{grouped, mebibytes};
use crate::{AvailableMemory, Config, Device, Machine, budget, sockets};

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
    let largest = largest_headroom(config);
    Some(problem.help(format!(
        "{first}{largest}shorten stall_budget, raise smallest_frame (where lossless frames are larger on average), list fewer `queues`, or make \
         fewer classes lossless; `xoff check -v` shows the memory of each consumer, with --elsewhere on any machine"
    )))
}

impl Config {
    /// Returns an error if the added ports need too much memory. Buffer memory does not count: it was
    /// allocated at the start.
    #[must_use]
    pub fn shortage_of_added(
        &self,
        added: &[(PortId, Device)],
        available: Option<&AvailableMemory>,
    ) -> Option<Problem> {
        let available = available?;
        let of_port = |(port, device): &(PortId, Device)| {
            self.port_memory(*port, sockets(&self.shell.ports[port.index()], || device.clone()))
        };
        let needed = added.iter().map(of_port).fold(Bytes::ZERO, Bytes::saturating_add);
        (needed > available.bytes).then(|| {
            Problem::error(format!(
                "the added ports need {} MiB of memory, more than the {available}",
                grouped(mebibytes(needed))
            ))
            .help("list fewer `queues` for them, or add fewer ports")
        })
    }
}

fn largest_headroom(config: &Config) -> String {
    let of_ports = config.switch.ports.iter().zip(&config.headroom);
    let all = of_ports.flat_map(|(port, classes)| classes.iter().flatten().map(move |it| (port, it)));
    let Some((port, headroom)) = all.max_by_key(|(_, headroom)| headroom.total()) else {
        return String::new();
    };
    let largest = headroom.terms().into_iter().max_by_key(|(_, bytes)| *bytes);
    let (term, bytes) = largest.unwrap_or_default();
    let [total, bytes] = [headroom.total(), bytes].map(|bytes| grouped(mebibytes(bytes)));
    let name = &port.name;
    format!(
        "the largest headroom is {total} MiB for a class at port {name}, of which {bytes} MiB for {term}; "
    )
}
