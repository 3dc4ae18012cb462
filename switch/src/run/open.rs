//! What a switch takes from the kernel before its first thread runs: packet memory, and its ports.

use xoff_config::Config;
use xoff_config::shell::{Chunks, Worker as WorkerPlan, ZeroCopy};
use xoff_dataplane::switch::WorkerId;
use xoff_dataplane::units::{ETHERNET_HEADER, PortId};
use xoff_xdp::{Port, Share, Store, Umem, XdpError};

use super::RunError;
use crate::control::{self, Link, PortDevice, PortView};
use crate::port_options;

/// Everything that is taken from the kernel. Ports have no chunks yet: to open many takes seconds, and what comes to the first
/// meanwhile is not for this switch.
pub(super) struct Opened {
    pub umem: Umem,
    pub stores: Vec<Store>,
    /// By worker.
    pub ports: Vec<Vec<(PortId, Port)>>,
    pub views: Vec<PortView>,
}

pub(super) fn open(
    config: &Config,
    plans: &[WorkerPlan],
    shares: &[Share],
    zero_copy: ZeroCopy,
) -> Result<Opened, XdpError> {
    let (umem, stores) = Umem::new(port_options::of_memory(config, zero_copy), shares)?;
    let mut views = Vec::new();
    let mut ports: Vec<Vec<(PortId, Port)>> = plans.iter().map(|_| Vec::new()).collect();
    for (id, port) in (0..=u8::MAX).map(PortId).zip(&config.shell.ports) {
        let worker = owner(plans, id).index();
        if port.is_vacant() {
            views.push(PortView::spare(worker));
            continue;
        }
        let open = Port::without_chunks(&umem, &port_options::of_port(port))?;
        views.push(port_view(&open, worker).named(&config.switch.ports[id.index()].name));
        ports[worker].push((id, open));
    }
    Ok(Opened { umem, stores, ports, views })
}

/// Each worker has the chunks of its ports.
pub(super) fn shares(
    config: &Config,
    plans: &[WorkerPlan],
    queues: &[Option<u32>],
) -> Result<Vec<Share>, RunError> {
    let sum = |plan: &WorkerPlan, control: bool| -> u64 {
        let chunks = config.worker_chunks(&plan.ports, queues).into_iter();
        chunks.filter(|(what, _)| (*what == "control frames") == control).map(|(_, chunks)| chunks).sum()
    };
    let number = |chunks: u64| u32::try_from(chunks).map_err(|_| RunError::TooMuchMemory { chunks });
    plans
        .iter()
        .map(|plan| Ok(Share { chunks: number(sum(plan, false))?, control: number(sum(plan, true))? }))
        .collect()
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
    owners.next().expect("a plan gives every port to one worker")
}

/// What a refusal means for what was configured.
pub(super) fn in_terms_of(config: &Config, error: XdpError) -> RunError {
    match error {
        XdpError::NoMultiBuffer { device } => {
            let mtus = config.switch.ports.iter().map(|port| port.mtu_frame - ETHERNET_HEADER);
            RunError::LongFrames { device, mtu: mtus.max().unwrap_or(0), most: Chunks::MTU_OF_ONE }
        }
        error => error.into(),
    }
}
