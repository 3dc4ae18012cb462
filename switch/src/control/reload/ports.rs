//! Ports that a reload adds, and takes away.
//!
//! A port to come is opened before anything is changed: a device that refuses changes nothing. Its worker adopts it when its
//! settings hold. What comes in before that is not for the switch, and no loss.
//!
//! A port to go belongs to no VLAN any more and holds its peer to nothing, and so do its settings say before it goes. It sends what it
//! has, for [`DRAIN`] at most: a peer that stops it keeps nobody waiting for ever. What is left then is dropped as where a link is
//! lost. To the others nothing happens.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use xoff_config::Config;
use xoff_dataplane::units::PortId;
use xoff_xdp::Port;

use super::super::adoption::adopt;
use super::super::ask;
use super::super::mailbox::{Backlog, Request};
use super::super::opener::{NotOpened, Opener};
use super::super::view::{Link, SwitchView};
use super::NotReloaded;

/// How long a port that is to go may send what it has.
const DRAIN: Duration = Duration::from_secs(1);
/// How long is waited for frames that its device was given before.
const GIVEN_BACK: Duration = Duration::from_secs(5);
/// How often it is asked whether it is done.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Ports that are open, and no worker's yet.
#[derive(Debug)]
pub(super) struct Added(Vec<(PortId, Box<Port>)>, Arc<Config>);

/// Opens all of these as they are configured, or none.
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
    /// Nothing comes of it.
    pub fn close(self, opener: &Opener) {
        self.0.into_iter().for_each(|(_, port)| drop(opener.close_now(port)));
    }

    /// They take part from now on.
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

/// Has all of these go; what there is to say about it. What takes longer goes on without anybody who waits.
pub(super) async fn leave(view: &Arc<SwitchView>, opener: &Opener, ids: &[PortId]) -> Vec<String> {
    let left = ids.iter().map(|&id| {
        let leaving = tokio::spawn(leave_one(Arc::clone(view), opener.clone(), id));
        async move {
            let name = view.name_of(id);
            match timeout(DRAIN + GIVEN_BACK, leaving).await {
                Ok(Ok(said)) => said,
                Ok(Err(panic)) => vec![format!("port {name} is not taken away, by a bug of xoff: {panic}")],
                Err(_) => vec![format!(
                    "port {name} has not gone yet: its worker does not answer, or its device keeps frames that it was given"
                )],
            }
        }
    });
    join_all(left).await.concat()
}

/// What it lost of what it owed, in words.
async fn leave_one(view: Arc<SwitchView>, opener: Opener, id: PortId) -> Vec<String> {
    let (place, name) = (&view.ports[id.index()], view.name_of(id));
    place.begin_to_leave();
    settle(&view).await;
    let given_up = given_up(&view, id, Backlog::Sent).await;
    cut(&view, id);
    place.removed();
    if let Some(port) = given_up {
        let _ = opener.close_now(port).await; // or the thread has ended
    }
    settle(&view).await;
    tracing::info!(port = %name, "the port is taken away");
    let lost = view.books.left(&view.counters, id).into_iter();
    let said = |(class, frames)| {
        format!("port {name}: {frames} lossless frames of class {class} were dropped as it went")
    };
    let said: Vec<String> = lost.map(said).collect();
    said.iter().for_each(|said| tracing::error!("{said}"));
    said
}

/// Waits until the worker of a port has given it away; `None` where the worker has no such port, or has ended. What has to be sent before
/// that is dropped after [`DRAIN`].
pub(in super::super) async fn given_up(
    view: &SwitchView,
    id: PortId,
    mut backlog: Backlog,
) -> Option<Box<Port>> {
    let (place, begin) = (&view.ports[id.index()], Instant::now());
    let mut is_cut = false;
    loop {
        let (done, answer) = oneshot::channel();
        let asked = view.workers[place.worker].mailbox.send(Request::GiveUp { port: id, backlog, done });
        match answer.await {
            Ok(Some(port)) => return Some(port),
            Ok(None) => {}
            Err(_) if asked.is_err() || place.link.get() == Link::Gone || !place.is_there() => return None,
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

/// Waits until all workers have done what they were told, and have taken what others had handed over to them by then.
async fn settle(view: &SwitchView) {
    for _ in 0..2 {
        ask(view).await;
    }
}

/// Nothing is sent there any more, and no station is there.
pub(in super::super) fn cut(view: &SwitchView, port: PortId) {
    for worker in &view.workers {
        let _ = worker.mailbox.send(Request::Link { port, up: false }); // or it has ended
    }
}
