//! Everything around the forwarding threads that people look at.
//!
//! One control thread serves `/metrics`, `/status`, `/addresses`, `/healthz` and `/policy` and follows the links of the
//! ports over netlink. What it knows of the switch is a [`SwitchView`]: settings, counters that their
//! workers write and anybody reads, and ways to ask a port's driver that its worker never notices.
//! A scrape of `/metrics` therefore never touches a forwarding thread. Only what cannot be read from
//! outside (the ledger, the forwarding database) and what a worker must be told (a link went down)
//! goes through its [`mailbox`], which costs the worker two loads per loop.
//!
//! ```no_run
//! # fn example(view: std::sync::Arc<xoff::control::SwitchView>) -> Result<(), xoff::control::ControlError> {
//! let http = xoff::control::listen(([127, 0, 0, 1], 9464).into(), &[])?;
//! let control = xoff::control::start(view, Some(http), ())?;
//! // the switch runs
//! control.stop().expect("it runs until it is stopped");
//! # Ok(())
//! # }
//! ```

mod addresses;
mod books;
mod connections;
mod exposition;
mod health;
mod http;
mod link;
mod log_queue;
pub mod logging;
mod loops;
pub mod mailbox;
mod metrics;
pub mod notification;
mod pipeline;
pub mod policy;
pub mod policy_cells;
pub mod privileges;
mod program;
mod proof;
mod snapshot;
pub mod status;
mod storms;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
mod trust;
mod view;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use futures::future::OptionFuture;
use tokio::sync::oneshot;

pub use addresses::AddressPage;
pub use connections::CONNECTIONS_MAX;
pub use mailbox::Answer;
pub use snapshot::snapshot;
pub use view::{Link, PortView, ProgramState, SwitchView, WorkerFacts, WorkerView};

/// Why the control thread could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The address is taken, or is not one of this machine.
    #[error(
        "cannot serve metrics and status on {listen}: {error}; set `http` to a free address of this \
         machine, or to \"off\""
    )]
    Listen {
        /// The address from the configuration.
        listen: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// No netlink socket.
    #[error("cannot follow the links of the ports over netlink: {0}")]
    Netlink(io::Error),
    /// No thread, or no runtime for it.
    #[error("cannot start the control thread: {0}")]
    Thread(io::Error),
}

/// The control thread ended before it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlEnded {
    /// The kernel closed its netlink socket.
    #[error("the control thread ended: netlink closed its socket, and links could not be followed any more")]
    ByItself,
    /// A bug of ours. What it said stands in the log.
    #[error("the control thread panicked, which is a bug of xoff")]
    Panicked,
}

/// The running control thread; it ends when this is stopped or dropped.
#[derive(Debug)]
pub struct ControlHandle {
    address: Option<SocketAddr>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl ControlHandle {
    /// Where it listens: the address asked for, with the port that port 0 became.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Ends it, open requests included, and waits until it has ended.
    ///
    /// # Errors
    /// It had ended by itself.
    pub fn stop(mut self) -> Result<(), ControlEnded> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), ControlEnded> {
        let Some((stop, thread)) = self.running.take() else { return Ok(()) };
        let was_running = stop.send(()).is_ok();
        match thread.join() {
            Ok(()) if was_running => Ok(()),
            Ok(()) => Err(ControlEnded::ByItself),
            Err(_) => Err(ControlEnded::Panicked),
        }
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!("{error}");
        }
    }
}

/// Where HTTP is served, and by which names it may be asked.
#[derive(Debug)]
pub struct Http {
    listener: TcpListener,
    address: SocketAddr,
    names: trust::Names,
}

/// What [`start`] serves HTTP on, in the network namespace of the calling thread. It may need a privilege (a
/// port below 1024), which serving does not. `names` are those that it may be asked by beside `localhost`, the
/// machine's own, and addresses.
///
/// # Errors
/// [`ControlError::Listen`].
pub fn listen(address: SocketAddr, names: &[String]) -> Result<Http, ControlError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Http { listener, address, names: trust::Names::new(address.ip(), names) })
    });
    bound.map_err(|error| ControlError::Listen { listen: address, error })
}

/// Starts the control thread. It serves HTTP on `http` (`None`: nowhere) and keeps the links of
/// `view` up to date, in the network namespace of the calling thread. When it ends, however it does,
/// `ended` is dropped.
///
/// # Errors
/// Everything that can fail has been tried when this returns.
pub fn start(
    view: Arc<SwitchView>,
    http: Option<Http>,
    ended: impl Send + 'static,
) -> Result<ControlHandle, ControlError> {
    let address = http.as_ref().map(|http| http.address);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ControlError::Thread)?;
    let (links, requests) = {
        let _context = runtime.enter();
        let links = link::Follower::open(Arc::clone(&view)).map_err(ControlError::Netlink)?;
        let requests = http.map(|http| {
            let listener = tokio::net::TcpListener::from_std(http.listener)?;
            Ok(connections::serve(listener, http::routes(Arc::clone(&view), http.names)))
        });
        (links, OptionFuture::from(requests.transpose().map_err(ControlError::Thread)?))
    };
    let (stop, stopped) = oneshot::channel();
    let mut loops = loops::Teller::new(&view);
    let work = async move {
        tokio::select! {
            () = links.follow() => {}
            Some(()) = requests => {}
            () = storms::tell(&view) => {}
            () = loops.tell(&view) => {}
            _ = stopped => {}
        }
        loops.look(&view); // the workers have ended, and said the last
    };
    let thread = std::thread::Builder::new().name("xoff-control".into());
    let thread = thread.spawn(move || {
        let _ended = ended;
        runtime.block_on(work);
    });
    Ok(ControlHandle { address, running: Some((stop, thread.map_err(ControlError::Thread)?)) })
}
