//! Opens ports whose devices have come back or that a reload adds, and closes those whose devices are gone or that a reload takes
//! away.
//!
//! All of it is system calls that take their time, and opening takes capabilities that no other thread has any more. So
//! a thread of its own does it: it speaks with nobody but the control thread, which says which port, and the worker
//! that owns the port.
//!
//! Whatever comes back is opened as it is configured, with packet memory of its own. A device that does not fit that is refused, in
//! words.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::{Notify, oneshot};
use xoff_config::shell::PortShell;
use xoff_config::{Config, Device, Problem};
use xoff_dataplane::units::PortId;
use xoff_xdp::{Port, XdpError};

use super::current::Current;
use crate::confine::{ConfineError, Part, Privileges};
use crate::{machine, port_options};

/// Why a port is not open again.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// There is no device of its name.
    #[error("there is no such device")]
    Missing,
    /// It does not fit what is configured.
    #[error("{}", .0.help.as_ref().map_or_else(|| .0.message.clone(), |help| format!("{}; {help}", .0.message)))]
    Misfit(Problem),
    /// The kernel refuses.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// A bug of ours.
    #[error("the thread that opens ports has panicked, which is a bug of xoff")]
    Panicked,
}

enum Order {
    Look(String, oneshot::Sender<Device>),
    Fit(Wanted, oneshot::Sender<Result<(), NotOpened>>),
    Open(Wanted, oneshot::Sender<Result<Box<Port>, NotOpened>>),
    Close(Closing),
}

/// A port to be opened.
struct Wanted {
    port: PortId,
    /// In which it is.
    config: Arc<Config>,
}

/// A port to be closed: that its worker is about to give away, or that is in hand.
enum Closing {
    GivenUp(oneshot::Receiver<Option<Box<Port>>>),
    InHand(Box<Port>, oneshot::Sender<()>),
}

/// Asks the thread that opens and closes ports; it ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Opener {
    asked: Sender<Order>,
    configured: Arc<Current<Arc<Config>>>,
    joined: Arc<Notify>,
}

impl Opener {
    /// The name of the device that a port is to have.
    #[must_use]
    pub fn device(&self, port: PortId) -> String {
        self.configured.get().shell.ports[port.index()].device.clone()
    }

    /// This is configured from now on.
    pub fn configure(&self, config: &Arc<Config>) {
        self.configured.set(Arc::clone(config));
    }

    /// A port takes part that this has opened: what was said of its device before was not about a port.
    pub fn joined(&self) {
        self.joined.notify_one();
    }

    /// Waits until one does.
    pub async fn has_joined(&self) {
        self.joined.notified().await;
    }

    /// What there is of a device: to look at one takes its time, too.
    pub async fn look(&self, device: &str) -> Device {
        let (answer, seen) = oneshot::channel();
        let _ = self.asked.send(Order::Look(device.to_owned(), answer)); // nothing is known where the thread has ended
        seen.await.unwrap_or(Device::Unknown)
    }

    /// Whether the device of a port is as it is configured and memory was set aside for.
    pub fn fits(&self, port: PortId) -> oneshot::Receiver<Result<(), NotOpened>> {
        let (answer, fits) = oneshot::channel();
        let wanted = Wanted { port, config: Arc::clone(&self.configured.get()) };
        let _ = self.asked.send(Order::Fit(wanted, answer)); // who waits learns that the thread has ended
        fits
    }

    /// Opens a port as it is configured; the answer comes when that is done.
    pub fn open(&self, port: PortId) -> oneshot::Receiver<Result<Box<Port>, NotOpened>> {
        self.open_as(port, &self.configured.get())
    }

    /// Opens a port as this configuration has it.
    pub fn open_as(
        &self,
        port: PortId,
        config: &Arc<Config>,
    ) -> oneshot::Receiver<Result<Box<Port>, NotOpened>> {
        let (answer, opened) = oneshot::channel();
        let wanted = Wanted { port, config: Arc::clone(config) };
        let _ = self.asked.send(Order::Open(wanted, answer)); // who waits learns that the thread has ended
        opened
    }

    /// Closes a port that its worker is about to give up.
    pub fn close(&self, port: oneshot::Receiver<Option<Box<Port>>>) {
        let _ = self.asked.send(Order::Close(Closing::GivenUp(port))); // it is closed when it is dropped
    }

    /// Closes a port that its worker has given up, or never had; the answer comes when the device is as it was found.
    pub fn close_now(&self, port: Box<Port>) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        let _ = self.asked.send(Order::Close(Closing::InHand(port, done))); // as before
        closed
    }
}

/// Starts the thread, in the network namespace of the calling one and with the privileges that that still has.
///
/// # Errors
/// Where there is no thread to be had, or its privileges cannot be dropped.
pub fn start(config: &Config, privileges: &Privileges) -> Result<(Opener, JoinHandle<()>), ConfineError> {
    let (asked, received) = channel();
    let configured = Arc::new(Current::new(Arc::new(config.clone())));
    let thread = privileges.spawn(Part::Opener, "xoff-opener", move || obey(&received))?;
    Ok((Opener { asked, configured, joined: Arc::default() }, thread))
}

fn obey(asked: &Receiver<Order>) {
    for order in asked {
        match order {
            Order::Look(device, answer) => drop(answer.send((machine::here().device)(&device))),
            Order::Fit(wanted, answer) => drop(answer.send(fit(&wanted).map(drop))),
            Order::Open(wanted, answer) => drop(answer.send(open(&wanted))),
            Order::Close(Closing::InHand(port, done)) => {
                port.close();
                let _ = done.send(()); // or nobody waits
            }
            Order::Close(Closing::GivenUp(port)) => {
                if let Ok(Some(port)) = port.blocking_recv() {
                    port.close();
                }
            }
        }
    }
}

/// What the port's device is to be opened as, where it fits that.
fn fit(wanted: &Wanted) -> Result<&PortShell, NotOpened> {
    let Wanted { port: id, config } = wanted;
    let shell = &config.shell.ports[id.index()];
    let found = (machine::here().device)(&shell.device);
    if found == Device::Missing {
        return Err(NotOpened::Missing);
    }
    config.misfit(*id, &found).map_or(Ok(shell), |misfit| Err(NotOpened::Misfit(misfit)))
}

fn open(wanted: &Wanted) -> Result<Box<Port>, NotOpened> {
    match Port::without_chunks(&port_options::of_port(&wanted.config.shell, fit(wanted)?)) {
        Err(XdpError::NoSuchInterface { .. }) => Err(NotOpened::Missing),
        port => Ok(Box::new(port?)),
    }
}
