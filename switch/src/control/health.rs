//! What keeps a switch from doing its work, for `/healthz`. A link that is down is none of it: its peer may be off.

use xoff_dataplane::ledger::Ledger;

use super::mailbox::Answer;
use super::view::{Link, PortView, ProgramState, SwitchView};

/// Each fault in words.
pub(super) fn faults(view: &SwitchView, answers: &[Answer<Ledger>]) -> Vec<String> {
    let workers = answers.iter().enumerate().filter_map(|(worker, answer)| answer.fault(worker));
    let ports = view.ports().filter_map(|(id, port)| {
        Some(format!("port {}: {}", view.settings.ports[id.index()].name, of_port(port)?))
    });
    workers.chain(ports).collect()
}

fn of_port(port: &PortView) -> Option<String> {
    let device = port.device.get();
    match (port.link.get(), port.program.get()) {
        (Link::Gone, _) => Some(format!("its device {device} is gone")),
        (_, ProgramState::Attached) => None,
        (_, ProgramState::Detached) => {
            Some(format!("its XDP program was taken off {device}: it receives nothing"))
        }
        (_, ProgramState::Replaced) => {
            Some(format!("another XDP program is on {device}: it receives nothing"))
        }
    }
}
