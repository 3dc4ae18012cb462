//! Everything around the forwarding threads that people look at.
//!
//! One thread serves the live page, `/metrics`, `/status`, `/addresses`, `/routes`, `/healthz`, `/log`, `/policy`, `/reload`,
//! `/acknowledge` and `/capture`, apart from all that may do anything to a device ([`crate::confine`]); the control thread
//! follows the links of the ports over netlink. What they know of the switch is a [`SwitchView`]: settings, counters that their
//! workers write and anybody reads, and ways to ask a port's driver that its worker never notices.
//! A scrape of `/metrics` therefore never touches a forwarding thread. Only what cannot be read from
//! outside (the ledger, the forwarding database) and what a worker must be told (a link went down)
//! goes through its [`mailbox`], which costs the worker two loads per loop.
//!
//! ```no_run
//! # fn example(view: std::sync::Arc<xoff_switch::control::SwitchView>) -> Result<(), xoff_switch::control::ControlError> {
//! let http = xoff_switch::control::listen(&std::net::SocketAddr::from(([127, 0, 0, 1], 9464)).into(), None, &[])?;
//! let control = xoff_switch::control::start(view, Some(http), None, None, &Default::default(), ())?;
//! // the switch runs
//! control.stop().expect("it runs until it is stopped");
//! # Ok(())
//! # }
//! ```

pub mod acknowledge;
mod addresses;
mod adoption;
mod asker;
mod books;
pub mod capture;
mod connections;
pub mod current;
pub mod exposition;
mod groups;
mod health;
pub mod host_interfaces;
pub mod http;
mod judged;
mod link;
pub mod listen;
mod lldp;
mod log_line;
mod log_queue;
pub mod logging;
mod loops;
pub mod loss_books;
pub mod mailbox;
pub mod metrics;
pub mod mirroring;
pub mod neighbors;
pub mod notification;
pub mod opener;
mod page;
mod pipeline;
pub mod policy;
pub mod policy_cells;
mod port_view;
pub mod process;
mod program;
mod proof;
mod queues;
pub mod reload;
mod routes;
pub mod schema;
pub mod series;
pub mod service;
pub mod snapshot;
pub mod status;
mod storms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod trust;
mod unseen;
mod verdict;
mod view;
mod waits;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use xoff_config::shell::HttpAt;

use self::listen::{Listener, Place};
use self::opener::Opener;
use self::reload::{Reloader, Reloads};
use crate::confine::{ConfineError, Confinement, Part};

pub use addresses::AddressPage;
pub(crate) use adoption::log_open;
pub use connections::CONNECTIONS_MAX;
pub use health::{Health, PartHealth};
pub use judged::GoingOn;
pub use listen::{Http, listen};
pub use mailbox::Answer;
pub use routes::RoutePage;
pub use snapshot::ask;
pub use snapshot::snapshot;
pub use view::{Link, PortDevice, PortView, ProgramState, SwitchView, WorkerFacts, WorkerView};

/// Why the control thread could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The address is taken, or is not one of this machine; or there can be no socket there.
    #[error(
        "cannot serve metrics and status on {listen}: {error}; set `http` to a free address of this \
         machine, to \"unix:/run/xoff/NAME.sock\", or to \"off\""
    )]
    Listen {
        /// Where, from the configuration.
        listen: HttpAt,
        /// What the system said.
        error: io::Error,
    },
    /// A switch serves there.
    #[error(
        "{name} is already running, pid {process}: it serves at {listen}; stop it first, or give this one another `http`"
    )]
    Running {
        /// Where, from the configuration.
        listen: HttpAt,
        /// The name of that switch.
        name: String,
        /// Its process.
        process: u32,
    },
    /// No netlink socket.
    #[error("cannot follow the links of the ports over netlink: {0}")]
    Netlink(io::Error),
    /// No runtime for a thread.
    #[error("cannot start the control thread: {0}")]
    Thread(io::Error),
    /// No thread, or one that keeps privileges.
    #[error(transparent)]
    Confine(#[from] ConfineError),
}

/// The control thread, or that of HTTP, ended before it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlEnded {
    /// The kernel closed its netlink socket.
    #[error("the control thread ended: netlink closed its socket, and links could not be followed any more")]
    ByItself,
    /// A bug of ours. What it said stands in the log.
    #[error("the control thread panicked, which is a bug of xoff")]
    Panicked,
}

/// The running threads of control and of HTTP; they end when this is stopped or dropped.
#[derive(Debug)]
pub struct ControlHandle {
    at: Option<Place>,
    running: Vec<Service>,
}

/// A thread that ends when it is told to.
#[derive(Debug)]
struct Service {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Service {
    fn finish(self) -> Result<(), ControlEnded> {
        let was_running = self.stop.send(()).is_ok();
        match self.thread.join() {
            Ok(()) if was_running => Ok(()),
            Ok(()) => Err(ControlEnded::ByItself),
            Err(_) => Err(ControlEnded::Panicked),
        }
    }
}

impl ControlHandle {
    /// Where it listens: the address asked for, with the port that port 0 became.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.at.as_ref()?.at() {
            HttpAt::Tcp(address) => Some(*address),
            HttpAt::Unix(_) => None,
        }
    }

    /// The same, whatever it is.
    #[must_use]
    pub fn at(&self) -> Option<&HttpAt> {
        self.at.as_ref().map(Place::at)
    }

    /// Ends them, open requests included, and waits until they have ended.
    ///
    /// # Errors
    /// One had ended by itself.
    pub fn stop(mut self) -> Result<(), ControlEnded> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), ControlEnded> {
        self.at = None; // nobody comes to a switch that is about to end
        let ended: Vec<_> = self.running.drain(..).map(Service::finish).collect(); // each of them, whatever becomes of one
        ended.into_iter().collect()
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!("{error}");
        }
    }
}

/// Starts the control thread, which keeps the links of `view` up to date and has devices that come back opened by `opener`
/// (`None`: they are not), and one that serves HTTP on `http` (`None`: nowhere), both in the network namespace of the calling
/// thread. `reload` says when the configuration is to be read again, and does that. When one of them ends, however it does, its
/// `ended` is dropped.
///
/// # Errors
/// Everything that can fail has been tried when this returns.
pub fn start(
    view: Arc<SwitchView>,
    http: Option<Http>,
    opener: Option<Opener>,
    reload: Option<(Reloads, Reloader)>,
    confinement: &Confinement,
    ended: impl Clone + Send + 'static,
) -> Result<ControlHandle, ControlError> {
    let (http, at) = http.map(Http::apart).unzip();
    let (reloads, reloader) = reload.unzip();
    let mut running = Vec::new();
    if let Some((listener, names)) = http {
        let routes = http::routes(Arc::clone(&view), names, reloads);
        running.push(serve(listener, routes, confinement, ended.clone())?);
    }
    let runtime = runtime()?;
    let links = {
        let _context = runtime.enter();
        link::Follower::open(Arc::clone(&view), opener).map_err(ControlError::Netlink)?
    };
    let (stop, stopped) = oneshot::channel();
    let mut watch = watch::Watch::new(&view);
    let work = async move {
        tokio::select! {
            () = links.follow() => {}
            () = service::lives(&view) => {}
            () = watch.run(&view) => {}
            () = reload::run(reloader) => {}
            _ = stopped => {}
        }
        watch.end(&view); // the workers have ended, and said the last
    };
    let thread = std::thread::Builder::new().name("xoff-control".into()).spawn(move || {
        let _ended = ended;
        runtime.block_on(work);
    });
    running.push(Service { stop, thread: thread.map_err(ControlError::Thread)? });
    Ok(ControlHandle { at, running })
}

/// Serves these routes by HTTP in a thread of its own, which needs no privilege.
///
/// # Errors
/// No thread, or no runtime for it.
pub fn serve_routes(http: Http, routes: Router) -> Result<ControlHandle, ControlError> {
    let ((listener, names), place) = http.apart();
    let service = serve(listener, http::by_name(routes, names), &Confinement::default(), ())?;
    Ok(ControlHandle { at: Some(place), running: vec![service] })
}

/// A thread that serves these by HTTP, and can do nothing else.
fn serve(
    listener: Listener,
    routes: Router,
    confinement: &Confinement,
    ended: impl Send + 'static,
) -> Result<Service, ControlError> {
    let runtime = runtime()?;
    let listener = {
        let _context = runtime.enter();
        listener.registered().map_err(ControlError::Thread)?
    };
    let (stop, stopped) = oneshot::channel();
    let work = async move {
        tokio::select! {
            () = connections::serve(listener, routes) => {}
            _ = stopped => {}
        }
    };
    process::prepare();
    let thread = confinement.spawn(Part::Http, "xoff-http", move || {
        let _ended = ended;
        runtime.block_on(work);
    })?;
    Ok(Service { stop, thread })
}

fn runtime() -> Result<Runtime, ControlError> {
    Builder::new_current_thread().enable_all().build().map_err(ControlError::Thread)
}
