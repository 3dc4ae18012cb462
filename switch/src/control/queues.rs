//! Ports whose devices get another number of receive queues while the switch runs (`ethtool -L`).
//!
//! A port has a socket for each queue that its device had when it was opened, and drivers run the XDP program on the queues of
//! that moment: veth hands what comes by a later one to the machine's own stack, and no counter of the switch's tells of it.
//! So such a port is closed and opened again, with sockets for all queues. Where that cannot be, because the device does not fit what is
//! configured, the port stays as it is: what its queues bring is forwarded. In either case what came meanwhile is a gap in the proof, and
//! `/healthz` says why as long as it lasts.

use std::io;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use xoff_dataplane::units::PortId;
use xoff_netlink::{QueueEvent, QueueMonitor};

use super::adoption::return_to;
use super::mailbox::Backlog;
use super::opener::{NotOpened, Opener};
use super::reload::ports::{cut, given_up};
use super::view::{Link, SwitchView};

/// How often announcements are taken: they wait in the socket, each with its number.
const TAKE_EVERY: Duration = Duration::from_millis(100);

/// What the kernel announces of the queues of devices.
pub(super) struct QueueEvents {
    monitor: Option<QueueMonitor>,
    times: Interval,
}

impl QueueEvents {
    /// Subscribes, where the kernel has such announcements. To be called inside the runtime.
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

    /// Waits a moment, and takes those that have come.
    pub async fn next(&mut self) -> Vec<QueueEvent> {
        let Some(monitor) = &mut self.monitor else { return std::future::pending().await };
        self.times.tick().await;
        monitor.take().unwrap_or_else(|error| {
            tracing::warn!(
                "cannot receive announcements of receive queues: {error}; they are polled once a second, and what changes and \
                 changes back in between goes unnoticed"
            );
            self.monitor = None;
            vec![QueueEvent::Missed]
        })
    }
}

/// Records that the device of a port changed to `queues` receive queues: the port is unproved until it is open again.
pub(super) fn begin(view: &SwitchView, id: PortId, queues: u32) {
    let (port, name) = (&view.ports[id.index()], view.name_of(id));
    let (device, had) = (port.device.get(), port.now().driver.queues_at_open());
    if port.unfollowed.get().is_some() {
        return; // it is tried again
    }
    let why = format!(
        "the receive queues of its device {device} changed, from {had} to {queues}: the port has to be opened again"
    );
    tracing::warn!(port = %name, %device, queues, "{why}; what came meanwhile by other queues is not counted");
    port.unfollowed.replace(Some(why));
    port.requeued.add(1);
}

/// Closes a port and opens it again, with a socket for each receive queue that its device has now; returns the name of the device. The
/// port's queued frames wait meanwhile. Where the device does not fit what is configured, the port stays as it is.
pub(super) async fn reopen(
    view: &SwitchView,
    opener: &Opener,
    id: PortId,
) -> Result<Option<String>, NotOpened> {
    opener.fits(id).await.unwrap_or(Err(NotOpened::Panicked))?;
    let port = &view.ports[id.index()];
    let backlog = Backlog::Kept { even_unsent: false };
    let Some(old) = given_up(view, id, backlog).await else { return Ok(None) }; // its device is gone, or it was taken away
    let link = port.link.get();
    if link == Link::Gone {
        let _ = opener.close_now(old).await; // it went while the worker gave it away
        return Ok(None);
    }
    port.is_closed();
    let _ = opener.close_now(old).await; // or the thread has ended
    match opener.open(id).await.unwrap_or(Err(NotOpened::Panicked)) {
        Ok(opened) => {
            let device = return_to(view, opener, id, opened).await;
            if device.is_some() {
                port.link.set(link); // as the workers have it, to whom only changes are reported
            }
            Ok(device)
        }
        Err(why) => {
            cut(view, id); // frames cannot wait for a port that may not come back
            Err(why)
        }
    }
}

/// The port could not be opened anew: it stays as it is, and says why.
pub(super) fn refused(view: &SwitchView, id: PortId, why: &NotOpened) {
    let (port, name) = (&view.ports[id.index()], view.name_of(id));
    let why =
        format!("its sockets do not follow the receive queues of its device {}: {why}", port.device.get());
    if port.unfollowed.replace(Some(why.clone())).as_ref() != Some(&why) {
        tracing::error!(port = %name, "{why}; tried again each second");
    }
}
