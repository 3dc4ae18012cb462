//! Thread that opens and closes ports: these calls are slow, and need capabilities that no other thread keeps.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::{Notify, oneshot};
use xoff_config::shell::PortShell;
use xoff_config::{Config, Device, Problem};
use xoff_wire::units::PortId;
use xoff_xdp::{Port, XdpError};

use super::current::Current;
use crate::confine::{ConfineError, Part, Privileges};
use crate::{machine, port_options};

#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    #[error("the device does not exist")]
    Missing,
    #[error("{}", with_help(.0))]
    Misfit(Problem),
    #[error(transparent)]
    Xdp(#[from] XdpError),
    #[error("the thread that opens ports has panicked, which is a bug of xoff")]
    Panicked,
}

fn with_help(problem: &Problem) -> String {
    let message = &problem.message;
    problem.help.as_ref().map_or_else(|| message.clone(), |help| format!("{message}; {help}"))
}

enum Order {
    Look(String, oneshot::Sender<Device>),
    Fit(PortRequest, oneshot::Sender<Result<(), NotOpened>>),
    Open(PortRequest, oneshot::Sender<Result<Box<Port>, NotOpened>>),
    Close(Closing),
}

struct PortRequest {
    port: PortId,
    config: Arc<Config>,
}

enum Closing {
    GivenUp(oneshot::Receiver<Option<Box<Port>>>),
    InHand(Box<Port>, oneshot::Sender<()>),
}

#[derive(Clone, Debug)]
pub struct Opener {
    orders: Sender<Order>,
    configured: Arc<Current<Arc<Config>>>,
    joined: Arc<Notify>,
}

impl Opener {
    #[must_use]
    pub fn device(&self, port: PortId) -> String {
        self.configured.get().shell.ports[port.index()].device.clone()
    }

    pub fn configure(&self, config: &Arc<Config>) {
        self.configured.set(Arc::clone(config));
    }

    /// Makes the control thread check the device of an added port.
    pub fn joined(&self) {
        self.joined.notify_one();
    }

    pub async fn has_joined(&self) {
        self.joined.notified().await;
    }

    pub async fn look(&self, device: &str) -> Device {
        let (answer, facts) = oneshot::channel();
        let _ = self.orders.send(Order::Look(device.to_owned(), answer)); // `Unknown` if the thread has ended
        facts.await.unwrap_or(Device::Unknown)
    }

    pub fn fits(&self, port: PortId) -> oneshot::Receiver<Result<(), NotOpened>> {
        let (answer, fits) = oneshot::channel();
        let wanted = PortRequest { port, config: Arc::clone(&self.configured.get()) };
        let _ = self.orders.send(Order::Fit(wanted, answer));
        fits
    }

    pub fn open(&self, port: PortId) -> oneshot::Receiver<Result<Box<Port>, NotOpened>> {
        self.open_as(port, &self.configured.get())
    }

    pub fn open_as(
        &self,
        port: PortId,
        config: &Arc<Config>,
    ) -> oneshot::Receiver<Result<Box<Port>, NotOpened>> {
        let (answer, opened) = oneshot::channel();
        let wanted = PortRequest { port, config: Arc::clone(config) };
        let _ = self.orders.send(Order::Open(wanted, answer)); // the receiver reports the end, as above
        opened
    }

    pub fn close(&self, port: oneshot::Receiver<Option<Box<Port>>>) {
        let _ = self.orders.send(Order::Close(Closing::GivenUp(port))); // dropping it closes the port, as below
    }

    pub fn close_now(&self, port: Box<Port>) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        let _ = self.orders.send(Order::Close(Closing::InHand(port, done)));
        closed
    }
}

pub fn start(config: &Config, privileges: &Privileges) -> Result<(Opener, JoinHandle<()>), ConfineError> {
    let (orders, received) = channel();
    let configured = Arc::new(Current::new(Arc::new(config.clone())));
    let thread = privileges.spawn(Part::Opener, "xoff-opener", move || obey(&received))?;
    Ok((Opener { orders, configured, joined: Arc::default() }, thread))
}

fn obey(orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Look(device, answer) => drop(answer.send(machine::device(&device))),
            Order::Fit(wanted, answer) => drop(answer.send(fit(&wanted).map(drop))),
            Order::Open(wanted, answer) => drop(answer.send(open(&wanted))),
            Order::Close(Closing::InHand(port, done)) => {
                port.close();
                let _ = done.send(());
            }
            Order::Close(Closing::GivenUp(port)) => {
                if let Ok(Some(port)) = port.blocking_recv() {
                    port.close();
                }
            }
        }
    }
}

fn fit(wanted: &PortRequest) -> Result<(&PortShell, Vec<Problem>), NotOpened> {
    let PortRequest { port: id, config } = wanted;
    let shell = &config.shell.ports[id.index()];
    let found = machine::device(&shell.device);
    if found == Device::Missing {
        return Err(NotOpened::Missing);
    }
    let (mut misfits, warnings): (Vec<_>, _) =
        config.device_problems(*id, &found).into_iter().partition(Problem::is_error);
    if misfits.is_empty() { Ok((shell, warnings)) } else { Err(NotOpened::Misfit(misfits.remove(0))) }
}

fn open(wanted: &PortRequest) -> Result<Box<Port>, NotOpened> {
    let (shell, warnings) = fit(wanted)?;
    let port = match Port::without_chunks(&port_options::of_port(&wanted.config.shell, shell)) {
        Err(XdpError::NoSuchInterface { .. }) => return Err(NotOpened::Missing),
        port => Box::new(port?),
    };
    warnings.iter().for_each(|warning| tracing::warn!("{}", with_help(warning)));
    Ok(port)
}
