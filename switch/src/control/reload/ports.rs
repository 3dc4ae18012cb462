//! Ports that a reload adds or removes.
//!
//! A removed port first gets settings without a VLAN or lossless class. Then it sends its queued frames for at most
//! [`DRAIN`], because a peer's pause must not delay the removal forever. Remaining frames are dropped.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;
use xoff_config::Config;
use xoff_wire::units::PortId;
use xoff_xdp::Port;

use super::super::adoption::{DRAIN, adopt, cut, given_up};
use super::super::ask;
use super::super::mailbox::Backlog;
use super::super::opener::{NotOpened, Opener};
use super::super::view::SwitchView;
use super::NotReloaded;

const GIVEN_BACK: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Added(Vec<(PortId, Box<Port>)>, Arc<Config>);

pub(super) async fn open(opener: &Opener, ids: &[PortId], config: &Config) -> Result<Added, NotReloaded> {
    let mut added = Added(Vec::new(), Arc::new(config.clone()));
    for &id in ids {
        let opened = opener.open_as(id, &added.1).await.unwrap_or(Err(NotOpened::Panicked));
        match opened {
            Ok(port) => added.0.push((id, port)),
            Err(error) => {
                added.close(opener);
                let name = config.switch.ports[id.index()].name.clone();
                return Err(NotReloaded::NotAdded { name, error: Box::new(error) });
            }
        }
    }
    Ok(added)
}

impl Added {
    pub fn close(self, opener: &Opener) {
        self.0.into_iter().for_each(|(_, port)| drop(opener.close_now(port)));
    }

    pub async fn join(self, view: &SwitchView, opener: &Opener) {
        let Added(ports, config) = self;
        for (id, port) in ports {
            let (place, name) = (&view.ports[id.index()], &config.switch.ports[id.index()].name);
            let device = port.facts().device.clone();
            place.added(name, (&device, adopt(view, id, port).await));
            opener.joined();
        }
    }
}

/// Removes the ports `ids`; continues in the background if that takes long. Returns remarks for the operator.
pub(super) async fn leave(view: &Arc<SwitchView>, opener: &Opener, ids: &[PortId]) -> Vec<String> {
    let left = ids.iter().map(|&id| {
        let leaving = tokio::spawn(leave_one(Arc::clone(view), opener.clone(), id));
        async move {
            let name = view.name_of(id);
            match timeout(DRAIN + GIVEN_BACK, leaving).await {
                Ok(Ok(losses)) => losses,
                Ok(Err(panic)) => vec![format!("port {name} could not be removed, which is a bug of xoff: {panic}")],
                Err(_) => vec![format!(
                    "port {name} is not removed yet: the worker does not answer, or the device still has frames to send"
                )],
            }
        }
    });
    join_all(left).await.concat()
}

async fn leave_one(view: Arc<SwitchView>, opener: Opener, id: PortId) -> Vec<String> {
    let (place, name) = (&view.ports[id.index()], view.name_of(id));
    place.begin_to_leave();
    settle(&view).await;
    let given_up = given_up(&view, id, Backlog::Sent).await;
    cut(&view, id);
    place.removed();
    if let Some(port) = given_up {
        let _ = opener.close_now(port).await; // fails if the thread has ended
    }
    settle(&view).await;
    tracing::info!(port = %name, "port removed");
    let lost = view.books.left(&view.counters, id).into_iter();
    let describe = |(class, frames)| {
        format!("port {name}: {frames} lossless frames of class {class} were dropped by the removal")
    };
    let losses: Vec<String> = lost.map(describe).collect();
    losses.iter().for_each(|loss| tracing::error!("{loss}"));
    losses
}

async fn settle(view: &SwitchView) {
    for _ in 0..2 {
        ask(view).await;
    }
}
