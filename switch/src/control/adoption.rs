use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use xoff_wire::units::PortId;
use xoff_xdp::{Facts, Port};

use super::mailbox::{Backlog, Request};
use super::opener::Opener;
use super::view::{Link, PortDevice, SwitchView};

/// Maximum time for a closing port to send its queued frames.
pub(super) const DRAIN: Duration = Duration::from_secs(1);
const ASK_EVERY: Duration = Duration::from_millis(10);

pub(crate) fn log_open(facts: &Facts) {
    for warning in &facts.warnings {
        tracing::warn!("{warning}");
    }
    let copy = if facts.zero_copy { "packet memory shared with the device" } else { "frames copied" };
    let because =
        |reason: &Option<String>| reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    let [generic, copied] = [&facts.fallbacks.generic, &facts.fallbacks.copy].map(because);
    tracing::info!(
        device = %facts.device,
        mac = %facts.mac,
        queues = facts.queues,
        mode = %facts.mode,
        zero_copy = facts.zero_copy,
        "port open: {} XDP{generic}, {copy}{copied}", facts.mode
    );
}

/// Gives an open port to its worker. Frames that the port lost earlier are not counted as losses.
pub(crate) async fn adopt(view: &SwitchView, id: PortId, opened: Box<Port>) -> PortDevice {
    log_open(opened.facts());
    let (device, monitor) = (PortDevice::of(&opened), opened.monitor());
    let (done, adopted) = oneshot::channel();
    let worker = &view.workers[view.ports[id.index()].worker];
    let _ = worker.mailbox.send(Request::Adopt { port: id, opened, done }); // fails if the worker has ended, as the next line
    let _ = adopted.await;
    monitor.begin();
    device
}

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
        // Take the port back: a reload removed it before the worker received it.
        if let Some(port) = given_up(view, id, Backlog::Sent).await {
            let _ = opener.close_now(port).await; // fails if the thread has ended
        }
        return None;
    }
    match port.returned(&name, device) {
        true => {
            tracing::info!(port = %view.name_of(id), device = %name, "the port's device is back; port reopened")
        }
        false => {
            tracing::info!(port = %view.name_of(id), device = %name, "port reopened with a socket for each receive queue of its device")
        }
    }
    Some(name)
}

pub(super) fn give_up(view: &SwitchView, opener: &Opener, id: PortId) {
    let (done, given_up) = oneshot::channel();
    let worker = &view.workers[view.ports[id.index()].worker];
    let _ = worker.mailbox.send(Request::GiveUp { port: id, backlog: Backlog::Sent, done }); // fails if the worker has ended
    opener.close(given_up);
}

pub(super) async fn given_up(view: &SwitchView, id: PortId, mut backlog: Backlog) -> Option<Box<Port>> {
    let (place, begin) = (&view.ports[id.index()], Instant::now());
    let mut is_cut = false;
    loop {
        let (done, answer) = oneshot::channel();
        let sent = view.workers[place.worker].mailbox.send(Request::GiveUp { port: id, backlog, done });
        match answer.await {
            Ok(Some(port)) => return Some(port),
            Ok(None) => {}
            Err(_) if sent.is_err() || place.link.get() == Link::Gone || !place.is_there() => return None,
            Err(_) => {}
        }
        if !is_cut && begin.elapsed() > DRAIN {
            match &mut backlog {
                Backlog::Sent => cut(view, id),
                Backlog::Kept { even_unsent } => *even_unsent = true,
            }
            is_cut = true;
        }
        sleep(ASK_EVERY).await;
    }
}

pub(super) fn cut(view: &SwitchView, port: PortId) {
    for worker in &view.workers {
        let _ = worker.mailbox.send(Request::Link { port, up: false }); // fails if the worker has ended
    }
}
