//! Reopens ports whose number of receive queues changed (`ethtool -L`). Until then, frames in a new queue of a
//! veth go uncounted to the kernel's own stack.

use std::io;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use xoff_netlink::{QueueEvent, QueueMonitor};
use xoff_wire::units::PortId;

use super::adoption::{cut, given_up, return_to};
use super::mailbox::Backlog;
use super::opener::{NotOpened, Opener};
use super::view::{Link, SwitchView};

const TAKE_EVERY: Duration = Duration::from_millis(100);

pub(super) struct QueueEvents {
    monitor: Option<QueueMonitor>,
    times: Interval,
}

impl QueueEvents {
    pub fn open() -> io::Result<QueueEvents> {
        let monitor = QueueMonitor::open()?;
        if monitor.is_none() {
            tracing::warn!(
                "kernel without CONFIG_ETHTOOL_NETLINK: receive queues are polled once a second, and a change undone within that \
                 second is missed"
            );
        }
        let mut times = tokio::time::interval(TAKE_EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(QueueEvents { monitor, times })
    }

    pub async fn next(&mut self) -> Vec<QueueEvent> {
        let Some(monitor) = &mut self.monitor else { return std::future::pending().await };
        self.times.tick().await;
        monitor.take().unwrap_or_else(|error| {
            tracing::warn!(
                "cannot receive changes of receive queues: {error}; receive queues are polled once a second, and a change \
                 undone within that second is missed"
            );
            self.monitor = None;
            vec![QueueEvent::Missed]
        })
    }
}

pub(super) fn begin(view: &SwitchView, id: PortId, queues: u32) {
    let (port, name) = (&view.ports[id.index()], view.name_of(id));
    let (device, had) = (port.device.get(), port.now().driver.queues_at_open());
    if port.unfollowed.get().is_some() {
        return; // already being retried
    }
    let why =
        format!("{device} now has {queues} receive queues instead of {had}: the port has to be reopened");
    tracing::warn!(port = %name, %device, queues, "{why}; frames of queues without a socket are not counted");
    port.unfollowed.replace(Some(why));
    port.requeued.add(1);
}

/// Reopens a port with a socket for each receive queue, and keeps its queued frames. Changes nothing if the device
/// does not fit the configuration.
pub(super) async fn reopen(
    view: &SwitchView,
    opener: &Opener,
    id: PortId,
) -> Result<Option<String>, NotOpened> {
    opener.fits(id).await.unwrap_or(Err(NotOpened::Panicked))?;
    let port = &view.ports[id.index()];
    let backlog = Backlog::Kept { even_unsent: false };
    let Some(old) = given_up(view, id, backlog).await else { return Ok(None) }; // device gone, or port removed
    let link = port.link.get();
    if link == Link::Gone {
        let _ = opener.close_now(old).await; // the device vanished
        return Ok(None);
    }
    port.is_closed();
    let _ = opener.close_now(old).await; // fails if the thread has ended
    match opener.open(id).await.unwrap_or(Err(NotOpened::Panicked)) {
        Ok(opened) => {
            let device = return_to(view, opener, id, opened).await;
            if device.is_some() {
                port.link.set(link); // workers get changes only
            }
            Ok(device)
        }
        Err(why) => {
            cut(view, id); // the port may not come back
            Err(why)
        }
    }
}

pub(super) fn refused(view: &SwitchView, id: PortId, why: &NotOpened) {
    let (port, name) = (&view.ports[id.index()], view.name_of(id));
    let why = format!("the sockets do not match the receive queues of {}: {why}", port.device.get());
    if port.unfollowed.replace(Some(why.clone())).as_ref() != Some(&why) {
        tracing::error!(port = %name, "{why}; the switch tries again every second");
    }
}
