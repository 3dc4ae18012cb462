pub mod acknowledge;
mod addresses;
mod adoption;
pub(crate) mod aggregation;
mod books;
mod caller;
pub mod capture;
mod connections;
pub(crate) mod current;
pub mod exposition;
mod external_losses;
mod groups;
mod health;
pub(crate) mod host_interfaces;
pub mod http;
mod judged;
mod link;
pub mod listen;
mod lldp;
mod log_line;
mod log_queue;
pub mod logging;
mod loops;
pub(crate) mod loss_books;
pub mod mailbox;
pub mod metrics;
pub(crate) mod mirroring;
mod multicast;
pub(crate) mod neighbors;
mod notification;
pub(crate) mod opener;
pub mod page;
mod pipeline;
pub mod policy;
pub(crate) mod policy_cells;
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
pub(crate) mod snooping;
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
mod worker_status;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use xoff_config::shell::HttpAt;
use xoff_xdp::thread_refused;

use self::listen::{BoundAddress, Listener};
use self::opener::Opener;
use self::reload::{Reloader, Reloads};
use crate::confine::{ConfineError, Confinement, Part};

pub use addresses::AddressPage;
pub(crate) use adoption::log_open;
pub(crate) use connections::CONNECTIONS_MAX;
pub use current::Current;
pub(crate) use judged::OngoingConditions;
pub use judged::UNFINISHED_CHECKSUM;
pub use listen::{Http, listen};
pub use mailbox::Answer;
pub use policy_cells::PolicyNames;
pub use routes::RoutePage;
pub use snapshot::ask;
pub use snapshot::snapshot;
pub use view::{Link, ProgramState, SwitchView, WorkerFacts};
pub(crate) use view::{PortDevice, PortView, WorkerView};

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(
        "cannot serve metrics and status on {listen}: {error}; set `http` to a free address of this \
         machine, to \"unix:/run/xoff/NAME.sock\", or to \"off\""
    )]
    Listen { listen: HttpAt, error: io::Error },
    #[error(
        "{name} is already running, pid {process}: it serves at {listen}; stop it first, or give this one another `http`"
    )]
    Running { listen: HttpAt, name: String, process: u32 },
    #[error("cannot follow the links of the ports over netlink: {0}")]
    Netlink(io::Error),
    #[error("cannot start the control thread: {0}")]
    Thread(io::Error),
    #[error(transparent)]
    Confine(#[from] ConfineError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlEnded {
    #[error(
        "the control thread has ended, because the kernel closed its netlink socket: it could not see changes of links"
    )]
    ByItself,
    #[error("the control thread panicked, which is a bug of xoff")]
    Panicked,
}

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
    /// Returns the HTTP server's address with the actual port; `None` for a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.at.as_ref()?.at() {
            HttpAt::Tcp(address) => Some(*address),
            HttpAt::Unix(_) => None,
        }
    }

    #[must_use]
    pub fn at(&self) -> Option<&HttpAt> {
        self.at.as_ref().map(BoundAddress::at)
    }

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

/// Starts the control and HTTP threads in the calling thread's network namespace. Each reports its end by dropping
/// its clone of `ended`.
pub(crate) fn start(
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
    running.push(Service {
        stop,
        thread: thread.map_err(|error| ControlError::Thread(thread_refused(&error)))?,
    });
    Ok(ControlHandle { at, running })
}

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
