//! `/healthz`: faults of ports, workers, host interfaces and groups with LACP.
//!
//! A link that is down is no fault, because the peer may be off.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use xoff_dataplane::ledger::Ledger;
use xoff_flow_control::settings::GroupSettings;

use super::groups;
use super::mailbox::Answer;
use super::view::{Link, PortView, ProgramState, SwitchView};
use crate::router::{InterfaceView, Presence};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub ready: bool,
    pub ports: Vec<PartHealth>,
    pub workers: Vec<PartHealth>,
    #[serde(default)]
    pub interfaces: Vec<PartHealth>,
    #[serde(default)]
    pub groups: Vec<PartHealth>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartHealth {
    pub name: String,
    pub ready: bool,
    pub note: Option<String>,
}

impl PartHealth {
    fn line(&self, what: &str) -> String {
        let state = if self.ready { "ready" } else { "not ready" };
        let note = self.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
        format!("{what} {}: {state}{note}\n", self.name)
    }
}

impl Health {
    pub(super) fn of(view: &SwitchView, answers: &[Answer<Ledger>]) -> Health {
        let port = |(id, port): (xoff_wire::units::PortId, &PortView)| {
            let fault = fault_of_port(port);
            let is_down = port.link.get() == Link::Down;
            PartHealth {
                name: view.name_of(id).to_owned(),
                ready: fault.is_none(),
                note: fault.or_else(|| is_down.then(|| "link down".to_owned())),
            }
        };
        let worker = |(number, answer): (usize, &Answer<Ledger>)| {
            let fault = answer.fault(number);
            PartHealth { name: number.to_string(), ready: fault.is_none(), note: fault }
        };
        let ports: Vec<PartHealth> = view.ports().map(port).collect();
        let workers: Vec<PartHealth> = answers.iter().enumerate().map(worker).collect();
        let router_interfaces = view.router.iter().flat_map(|router| &router.interfaces);
        let interfaces: Vec<PartHealth> = router_interfaces.map(of_interface).collect();
        let settings = view.settings();
        let with_lacp = settings.groups.iter().filter(|group| group.lacp.is_some());
        let groups: Vec<PartHealth> = with_lacp.map(|group| of_group(view, group)).collect();
        let ready = ports.iter().chain(&workers).chain(&interfaces).chain(&groups).all(|part| part.ready);
        Health { ready, ports, workers, interfaces, groups }
    }

    #[must_use]
    pub fn text(&self) -> String {
        let ports = self.ports.iter().map(|port| port.line("port"));
        let workers = self.workers.iter().map(|worker| worker.line("worker"));
        let state = if self.ready { "ok\n" } else { "not ok\n" };
        let interfaces = self.interfaces.iter().map(|interface| interface.line("host interface"));
        let groups = self.groups.iter().map(|group| group.line("group"));
        std::iter::once(state.to_owned())
            .chain(ports)
            .chain(workers)
            .chain(interfaces)
            .chain(groups)
            .collect()
    }

    pub(super) fn respond(self, headers: &HeaderMap) -> Response {
        let code = if self.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match accepts.contains("application/json") {
            true => (code, Json(self)).into_response(),
            false => (code, self.text()).into_response(),
        }
    }
}

fn of_group(view: &SwitchView, group: &GroupSettings) -> PartHealth {
    let idle = groups::idle_reason(view, group);
    let ready = idle.is_none();
    let note = idle.map(|reason| format!("LACP lets no port send data: {reason}"));
    let out = group.members.iter().filter_map(|member| {
        let reason = groups::out_reason(view, group, member.port)?;
        Some(format!("LACP lets port {} send no data: {reason}", view.name_of(member.port)))
    });
    let out = Some(out.collect::<Vec<_>>().join("; ")).filter(|out| !out.is_empty());
    PartHealth { name: group.name.clone(), ready, note: note.or(out) }
}

fn of_interface(view: &InterfaceView) -> PartHealth {
    let presence = view.presence();
    PartHealth {
        name: view.interface.name.clone(),
        ready: presence != Presence::Gone,
        note: presence.fault().map(str::to_owned),
    }
}

fn fault_of_port(port: &PortView) -> Option<String> {
    if let Some(fault) = port.unfollowed.get() {
        return Some(fault);
    }
    let device = port.device.get();
    match (port.link.get(), port.program.get()) {
        (Link::Gone, _) => Some(port.missing_device()),
        (_, ProgramState::Attached) => port.short_mtu.get().or_else(|| port.unfiltered.get()),
        (_, ProgramState::Detached) => {
            Some(format!("the XDP program was removed from {device}: the port receives nothing"))
        }
        (_, ProgramState::Replaced) => {
            Some(format!("another XDP program is on {device}: the port receives nothing"))
        }
    }
}
