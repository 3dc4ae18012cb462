//! Ports that a reload adds, and takes away.
//!
//! A port to come is opened before anything is changed: a device that refuses changes nothing. Its worker adopts it when its
//! settings hold.
//!
//! A port to go belongs to no VLAN any more and holds its peer to nothing, and so do its settings say before it goes. It sends what it
//! has, for [`DRAIN`] at most: a peer that stops it keeps nobody waiting for ever. What is left then is dropped as where a link is
//! lost. To the others nothing happens.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use xoff_config::Config;
use xoff_dataplane::units::{Class, MacAddr, PortId};
use xoff_xdp::Port;

use super::super::link::log_open;
use super::super::mailbox::Request;
use super::super::opener::{NotOpened, Opener};
use super::super::view::{PortDevice, SwitchView};
use super::NotReloaded;

/// How long a port that is to go may send what it has.
const DRAIN: Duration = Duration::from_secs(1);
/// How long its device may have frames that it was given before.
const GIVEN_BACK: Duration = Duration::from_secs(5);
/// How often it is asked whether it is done.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Ports that are open, and no worker's yet.
#[derive(Debug)]
pub(super) struct Added(Vec<(PortId, Box<Port>)>, Arc<Config>);

/// Opens all of these as they are configured, or none.
pub(super) async fn open(
    opener: &Opener,
    ids: &[PortId],
    config: &Config,
    queues: &[Option<u32>],
) -> Result<Added, NotReloaded> {
    let mut added = Added(Vec::new(), Arc::new(config.clone()));
    for &id in ids {
        let queues = queues[id.index()].unwrap_or(1);
        let opened = opener.open_as(id, &added.1, queues).await.unwrap_or(Err(NotOpened::Panicked));
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
        self.0.into_iter().for_each(|(id, port)| drop(opener.close_now(id, port)));
    }

    /// The addresses of their devices.
    pub fn macs(&self) -> impl Iterator<Item = (PortId, MacAddr)> {
        self.0.iter().map(|(id, port)| (*id, port.facts().mac))
    }

    /// They take part from now on.
    pub fn join(self, view: &SwitchView, opener: &Opener) {
        let Added(ports, config) = self;
        for (id, port) in ports {
            let (place, name) = (&view.ports[id.index()], &config.switch.ports[id.index()].name);
            log_open(port.facts());
            place.added(name, (&port.facts().device, PortDevice::of(&port)));
            let _ = view.workers[place.worker].mailbox.send(Request::Adopt(id, port)); // or it has ended
            opener.joined();
        }
    }
}

/// Has all of these go, which were configured so.
pub(super) async fn leave(view: &SwitchView, opener: &Opener, config: &Config, ids: &[PortId]) {
    join_all(ids.iter().map(|&id| leave_one(view, opener, id))).await;
    for &id in ids {
        let classes = &config.switch.ports[id.index()].classes;
        let lossless = Class::ALL.into_iter().filter(|class| classes[class.index()].lossless);
        view.books.left(view, id, lossless.collect());
    }
}

async fn leave_one(view: &SwitchView, opener: &Opener, id: PortId) {
    let (place, name, begin) = (&view.ports[id.index()], view.name_of(id), Instant::now());
    let mut is_cut = false;
    let given_up = loop {
        let (done, answer) = oneshot::channel();
        let _ = view.workers[place.worker].mailbox.send(Request::GiveUp { port: id, done }); // or it has ended
        match answer.await {
            Ok(Some(port)) => break Some(port),
            Ok(None) if begin.elapsed() > DRAIN + GIVEN_BACK => {
                tracing::error!(port = %name, "the port's device keeps frames that it was given: it is the switch's until that ends");
                break None;
            }
            Ok(None) => {}
            Err(_) => break None, // its device was gone
        }
        if !is_cut && begin.elapsed() > DRAIN {
            cut(view, id);
            is_cut = true;
        }
        sleep(ASK_EVERY).await;
    };
    cut(view, id);
    place.removed();
    if let Some(port) = given_up {
        let _ = opener.close_now(id, port).await; // or the thread has ended
    }
    tracing::info!(port = %name, "the port is taken away");
}

/// Nothing is sent there any more, and no station is there.
fn cut(view: &SwitchView, port: PortId) {
    for worker in &view.workers {
        let _ = worker.mailbox.send(Request::Link { port, up: false }); // or it has ended
    }
}
