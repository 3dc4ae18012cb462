//! Control of a switch, outside the forwarding threads.
//!
//! One thread serves HTTP without any privileges ([`crate::confine`]); the control thread follows the ports' links.
//! Both share a [`SwitchView`]. A scrape of `/metrics` never touches a forwarding thread. Requests to workers use their
//! [`mailbox`].
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
mod books;
mod caller;
pub mod capture;
mod connections;
pub mod current;
pub mod exposition;
mod external_losses;
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

use self::listen::{BoundAddress, Listener};
use self::opener::Opener;
use self::reload::{Reloader, Reloads};
use crate::confine::{ConfineError, Confinement, Part};

pub use addresses::AddressPage;
pub(crate) use adoption::log_open;
pub use connections::CONNECTIONS_MAX;
pub use health::{Health, PartHealth};
pub use judged::OngoingConditions;
pub use listen::{Http, listen};
pub use mailbox::Answer;
pub use routes::RoutePage;
pub use snapshot::ask;
pub use snapshot::snapshot;
pub use view::{Link, PortDevice, PortView, ProgramState, SwitchView, WorkerFacts, WorkerView};

/// Error of starting the control thread.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The listener.
    #[error(
        "cannot serve metrics and status on {listen}: {error}; set `http` to a free address of this \
         machine, to \"unix:/run/xoff/NAME.sock\", or to \"off\""
    )]
    Listen {
        /// Configured address.
        listen: HttpAt,
        /// System's error.
        error: io::Error,
    },
    /// Another switch serves there.
    #[error(
        "{name} is already running, pid {process}: it serves at {listen}; stop it first, or give this one another `http`"
    )]
    Running {
        /// Configured address.
        listen: HttpAt,
        /// Other switch.
        name: String,
        /// Other process's id.
        process: u32,
    },
    /// The netlink socket.
    #[error("cannot follow the links of the ports over netlink: {0}")]
    Netlink(io::Error),
    /// The thread's runtime.
    #[error("cannot start the control thread: {0}")]
    Thread(io::Error),
    /// The thread, or its privileges.
    #[error(transparent)]
    Confine(#[from] ConfineError),
}

/// Early end of a control or HTTP thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlEnded {
    /// The kernel closed the netlink socket.
    #[error("the control thread ended: netlink closed its socket, and links could not be followed any more")]
    ByItself,
    /// Panic: a bug of xoff.
    #[error("the control thread panicked, which is a bug of xoff")]
    Panicked,
}

/// Threads of control and HTTP; dropping it stops them.
#[derive(Debug)]
pub struct ControlHandle {
    at: Option<BoundAddress>,
    running: Vec<Service>,
}

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
    /// Returns the address, with the actual port for port 0; `None` for a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.at.as_ref()?.at() {
            HttpAt::Tcp(address) => Some(*address),
            HttpAt::Unix(_) => None,
        }
    }

    /// Returns the address or socket.
    #[must_use]
    pub fn at(&self) -> Option<&HttpAt> {
        self.at.as_ref().map(BoundAddress::at)
    }

    /// Stops the threads, with open requests.
    ///
    /// # Errors
    /// A thread had ended early.
    pub fn stop(mut self) -> Result<(), ControlEnded> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), ControlEnded> {
        self.at = None; // no new clients
        let ended: Vec<_> = self.running.drain(..).map(Service::finish).collect(); // all, even if one failed
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

/// Starts the control thread, and a thread that serves `http`, in the calling thread's network namespace. The control
/// thread keeps the links of `view` current, reopens devices by `opener`, and executes `reload`. Each thread drops its
/// `ended` when it ends.
///
/// # Errors
/// Anything cannot start; later steps cannot fail.
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
    let mut watch = watch::ConditionMonitor::new(&view);
    let work = async move {
        tokio::select! {
            () = links.follow() => {}
            () = service::lives(&view) => {}
            () = watch.run(&view) => {}
            () = reload::run(reloader) => {}
            _ = stopped => {}
        }
        watch.end(&view); // after the workers' last counts
    };
    let thread = std::thread::Builder::new().name("xoff-control".into()).spawn(move || {
        let _ended = ended;
        runtime.block_on(work);
    });
    running.push(Service { stop, thread: thread.map_err(ControlError::Thread)? });
    Ok(ControlHandle { at, running })
}

/// Serves these routes in a thread without privileges.
///
/// # Errors
/// No thread or runtime.
pub fn serve_routes(http: Http, routes: Router) -> Result<ControlHandle, ControlError> {
    let ((listener, names), place) = http.apart();
    let service = serve(listener, http::by_name(routes, names), &Confinement::default(), ())?;
    Ok(ControlHandle { at: Some(place), running: vec![service] })
}

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
