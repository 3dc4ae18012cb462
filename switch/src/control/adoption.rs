//! How a port that is open comes to its worker, at a reload and when its device is back.

use tokio::sync::oneshot;
use xoff_dataplane::units::PortId;
use xoff_xdp::{Facts, Port};

use super::mailbox::{Backlog, Request};
use super::opener::Opener;
use super::view::{Link, PortDevice, SwitchView};

/// Says in the log what a port that is open turned out to be.
pub(crate) fn log_open(facts: &Facts) {
    for warning in &facts.warnings {
        tracing::warn!("{warning}");
    }
    let copy = if facts.zero_copy { "packet memory shared with the device" } else { "frames copied" };
    tracing::info!(
        device = %facts.device,
        mac = %facts.mac,
        queues = facts.queues,
        mode = %facts.mode,
        zero_copy = facts.zero_copy,
        "port open: {} XDP, {copy}", facts.mode
    );
}

/// Gives a port that is open to its worker, and answers the device that it has from now on; what comes in before is no loss.
pub(crate) async fn adopt(view: &SwitchView, id: PortId, opened: Box<Port>) -> PortDevice {
    log_open(opened.facts());
    let (device, monitor) = (PortDevice::of(&opened), opened.monitor());
    let (done, adopted) = oneshot::channel();
    let worker = &view.workers[view.ports[id.index()].worker];
    let _ = worker.mailbox.send(Request::Adopt { port: id, opened, done }); // or it has ended
    let _ = adopted.await; // as before
    monitor.begin();
    device
}

/// Has a port back whose device was gone, unless it was taken away meanwhile; the name of its device.
pub(super) async fn return_to(
    view: &SwitchView,
    opener: &Opener,
    id: PortId,
    opened: Box<Port>,
) -> Option<String> {
    let port = &view.ports[id.index()];
    if !port.is_there() || port.link.get() != Link::Gone {
        drop(opener.close_now(opened));
        return None;
    }
    let name = opened.facts().device.clone();
    let device = adopt(view, id, opened).await;
    if !port.is_there() {
        // Who took it away asked its worker for it before that had it.
        give_up(view, opener, id);
        return None;
    }
    match port.returned(&name, device) {
        true => {
            tracing::info!(port = %view.name_of(id), device = %name, "the port's device is back, and open again")
        }
        false => {
            tracing::info!(port = %view.name_of(id), device = %name, "the port is open again, with its device's queues")
        }
    }
    Some(name)
}

/// Has the worker of a port give it up, and the port closed then.
pub(super) fn give_up(view: &SwitchView, opener: &Opener, id: PortId) {
    let (done, given_up) = oneshot::channel();
    let worker = &view.workers[view.ports[id.index()].worker];
    let _ = worker.mailbox.send(Request::GiveUp { port: id, backlog: Backlog::Sent, done }); // or it has ended
    opener.close(given_up);
}
