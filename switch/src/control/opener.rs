//! Opens ports whose devices have come back, and closes those whose devices are gone.
//!
//! Both are system calls that take their time, and opening takes capabilities that no other thread has any more. So
//! a thread of its own does it: it speaks with nobody but the control thread, which says which port, and the worker
//! that owns the port, which has the chunks.
//!
//! Whatever comes back is opened as it was configured. A device that needs more than was set aside for it (more queues,
//! a smaller MTU) is refused, in words.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use xoff_config::shell::Queues;
use xoff_config::{Config, Device, Problem};
use xoff_dataplane::units::PortId;
use xoff_xdp::{Port, Umem, XdpError};

use super::SwitchView;
use super::mailbox::Request;
use crate::confine::{ConfineError, Part, Privileges};
use crate::machine;

/// Why a port is not open again.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// There is no device of its name.
    #[error("there is no such device")]
    Missing,
    /// It does not fit what is configured.
    #[error("{}", .0.help.as_ref().map_or_else(|| .0.message.clone(), |help| format!("{}; {help}", .0.message)))]
    Misfit(Problem),
    /// The packet memory was cut for fewer queues.
    #[error(
        "it has {has} receive queues, and memory was set aside for {had}: `ethtool -L {device} rx {had}` (or combined), \
         write `queues` for the port, or restart the switch"
    )]
    MoreQueues {
        /// Its name.
        device: String,
        /// How many it has.
        has: u32,
        /// How many there were.
        had: u32,
    },
    /// The kernel refuses.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The switch is about to end.
    #[error("the worker has ended")]
    Ended,
    /// A bug of ours.
    #[error("the thread that opens ports has panicked, which is a bug of xoff")]
    Panicked,
}

enum Order {
    Open(PortId, oneshot::Sender<Result<Box<Port>, NotOpened>>),
    Close(oneshot::Receiver<Box<Port>>),
}

/// Asks the thread that opens and closes ports; it ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Opener {
    asked: Sender<Order>,
    config: Arc<Config>,
}

impl Opener {
    /// The name of the device that a port is to have.
    #[must_use]
    pub fn device(&self, port: PortId) -> &str {
        &self.config.shell.ports[port.index()].device
    }

    /// Opens a port; the answer comes when that is done.
    pub fn open(&self, port: PortId) -> oneshot::Receiver<Result<Box<Port>, NotOpened>> {
        let (answer, opened) = oneshot::channel();
        let _ = self.asked.send(Order::Open(port, answer)); // who waits learns that the thread has ended
        opened
    }

    /// Closes a port that its worker is about to give up.
    pub fn close(&self, port: oneshot::Receiver<Box<Port>>) {
        let _ = self.asked.send(Order::Close(port)); // it is closed when it is dropped
    }
}

/// What the thread knows.
struct Opening {
    umem: Umem,
    config: Arc<Config>,
    /// How many queues each port had at the start.
    queues: Vec<u32>,
    view: Arc<SwitchView>,
}

/// Starts the thread, in the network namespace of the calling one and with the privileges that that still has.
/// `umem` is what the ports of `view` were opened on.
///
/// # Errors
/// Where there is no thread to be had, or its privileges cannot be dropped.
pub fn start(
    umem: Umem,
    config: &Config,
    view: Arc<SwitchView>,
    privileges: &Privileges,
) -> Result<(Opener, JoinHandle<()>), ConfineError> {
    let config = Arc::new(config.clone());
    let (asked, received) = channel();
    let queues = view.ports.iter().map(|port| port.now().queues).collect();
    let opening = Opening { umem, config: Arc::clone(&config), queues, view };
    let thread = privileges.spawn(Part::Opener, "xoff-opener", move || opening.obey(&received))?;
    Ok((Opener { asked, config }, thread))
}

impl Opening {
    fn obey(&self, asked: &Receiver<Order>) {
        for order in asked {
            match order {
                Order::Open(port, answer) => drop(answer.send(self.open(port))),
                Order::Close(port) => drop(port.blocking_recv()),
            }
        }
    }

    fn open(&self, id: PortId) -> Result<Box<Port>, NotOpened> {
        let shell = &self.config.shell.ports[id.index()];
        let found = (machine::here().device)(&shell.device);
        match (&found, &shell.queues) {
            (Device::Missing, _) => return Err(NotOpened::Missing),
            (Device::Has { queues, .. }, Queues::All) if *queues > self.queues[id.index()] => {
                let (device, had) = (shell.device.clone(), self.queues[id.index()]);
                return Err(NotOpened::MoreQueues { device, has: *queues, had });
            }
            _ => {}
        }
        if let Some(misfit) = self.config.misfit(id, &found) {
            return Err(NotOpened::Misfit(misfit));
        }
        let port = match Port::without_chunks(&self.umem, shell) {
            Err(XdpError::NoSuchInterface { .. }) => return Err(NotOpened::Missing),
            port => Box::new(port?),
        };
        let mailbox = &self.view.workers[self.view.ports[id.index()].worker].mailbox;
        let (done, filled) = oneshot::channel();
        mailbox.send(Request::Fill { port, done }).map_err(|_| NotOpened::Ended)?;
        let port = filled.blocking_recv().map_err(|_| NotOpened::Ended)?;
        port.begin();
        Ok(port)
    }
}
