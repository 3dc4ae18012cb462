use xoff_config::Config;
use xoff_config::memory;
use xoff_config::shell::{Chunks, ReceiveChunks, Worker as WorkerPlan};
use xoff_dataplane::switch::WorkerId;
use xoff_wire::units::{ETHERNET_HEADER, PortId};
use xoff_xdp::{Port, Share, Store, XdpError};

use super::RunError;
use crate::control::{self, Link, PortDevice, PortView};
use crate::port_options;

/// Open ports of all workers. They have no receive chunks yet: frames that arrive during the start are not
/// forwarded.
pub(super) struct OpenedPorts {
    pub stores: Vec<Store>,
    pub ports: Vec<Vec<(PortId, Port)>>,
    pub views: Vec<PortView>,
}

pub(super) fn open(config: &Config, plans: &[WorkerPlan], shares: &[Share]) -> Result<OpenedPorts, XdpError> {
    let stores = Store::cut(shares)?;
    let mut views = Vec::new();
    let mut ports: Vec<Vec<(PortId, Port)>> = plans.iter().map(|_| Vec::new()).collect();
    for (id, port) in (0..=u8::MAX).map(PortId).zip(&config.shell.ports) {
        let worker = owner(plans, id).index();
        if port.is_vacant() {
            views.push(PortView::spare(worker));
            continue;
        }
        let open = Port::without_chunks(&port_options::of_port(&config.shell, port))?;
        views.push(port_view(&open, worker).named(&config.switch.ports[id.index()].name));
        ports[worker].push((id, open));
    }
    Ok(OpenedPorts { stores, ports, views })
}

pub(super) fn shares(
    config: &Config,
    plans: &[WorkerPlan],
    queues: &[Option<u32>],
) -> Result<Vec<Share>, RunError> {
    let planned = plans.iter().map(|plan| config.share(plans.len(), &plan.ports, queues));
    planned.map(|planned| share(&planned).ok_or(RunError::TooMuchMemory)).collect()
}

pub(crate) fn share(planned: &memory::Share) -> Option<Share> {
    let number = |many: u64| u32::try_from(many).ok();
    let (data, control) = (planned.data(), planned.control);
    Some(Share {
        frames: number(data.frames)?,
        cells: number(data.cells)?,
        control_frames: number(control.frames)?,
        control_cells: number(control.cells)?,
    })
}

fn port_view(port: &Port, worker: usize) -> PortView {
    let facts = port.facts();
    control::log_open(facts);
    let view = PortView::new(&facts.device, worker, PortDevice::of(port));
    if !facts.carrier {
        view.link.set(Link::Down);
    }
    view
}

pub(super) fn owner(plans: &[WorkerPlan], port: PortId) -> WorkerId {
    let ids = (0..=u8::MAX).map(WorkerId).zip(plans);
    let mut owners = ids.filter(|(_, plan)| plan.ports.contains(&port)).map(|(id, _)| id);
    owners.next().expect("each port must have a worker that owns it")
}

pub(super) fn in_terms_of(config: &Config, error: XdpError) -> RunError {
    match error {
        XdpError::NoMultiBuffer { device } if config.shell.chunks.receive == ReceiveChunks::Small => {
            RunError::SmallChunks { device }
        }
        XdpError::NoMultiBuffer { device } => {
            let mtus = config.switch.ports.iter().map(|port| port.mtu_frame - ETHERNET_HEADER);
            RunError::LongFrames { device, mtu: mtus.max().unwrap_or(0), most: Chunks::MTU_OF_ONE }
        }
        error => error.into(),
    }
}
