//! Everything around the forwarding threads that people look at.
//!
//! One control thread serves `/metrics`, `/status`, `/healthz` and `/policy` and follows the links of the
//! ports over netlink. What it knows of the switch is a [`SwitchView`]: settings, counters that their
//! workers write and anybody reads, and ways to ask a port's driver that its worker never notices.
//! A scrape of `/metrics` therefore never touches a forwarding thread. Only what cannot be read from
//! outside (the ledger, the forwarding database) and what a worker must be told (a link went down)
//! goes through its [`mailbox`], which costs the worker two loads per loop.
//!
//! ```no_run
//! # fn example(view: std::sync::Arc<xoff::control::SwitchView>) -> Result<(), xoff::control::ControlError> {
//! let listener = xoff::control::listen(([127, 0, 0, 1], 9464).into())?;
//! let control = xoff::control::start(view, Some(listener))?;
//! // the switch runs
//! control.stop();
//! # Ok(())
//! # }
//! ```

mod exposition;
mod health;
mod http;
mod link;
pub mod logging;
pub mod mailbox;
mod metrics;
pub mod notification;
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

use tokio::sync::oneshot;

pub use snapshot::{Answer, snapshot};
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

/// The running control thread; it ends when this is stopped or dropped.
#[derive(Debug)]
pub struct ControlHandle {
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ControlHandle {
    /// Where it listens: the address asked for, with the port that port 0 became.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Ends it, open requests included, and waits until it has ended.
    pub fn stop(self) {}
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error says that the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked");
        }
    }
}

/// The socket for [`start`] to serve HTTP on, in the network namespace of the calling thread. It may
/// need a privilege (a port below 1024), which serving does not.
///
/// # Errors
/// [`ControlError::Listen`].
pub fn listen(address: SocketAddr) -> Result<TcpListener, ControlError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| ControlError::Listen { listen: address, error })
}

/// Starts the control thread. It serves HTTP on `listener` (`None`: nowhere) and keeps the links of
/// `view` up to date, in the network namespace of the calling thread.
///
/// # Errors
/// Everything that can fail has been tried when this returns.
pub fn start(view: Arc<SwitchView>, listener: Option<TcpListener>) -> Result<ControlHandle, ControlError> {
    let address = listener.as_ref().map(TcpListener::local_addr).transpose().map_err(ControlError::Thread)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ControlError::Thread)?;
    let (links, listener) = {
        let _context = runtime.enter();
        let links = link::Follower::open(Arc::clone(&view)).map_err(ControlError::Netlink)?;
        let listener = listener.map(tokio::net::TcpListener::from_std).transpose();
        (links, listener.map_err(ControlError::Thread)?)
    };
    let (stop, stopped) = oneshot::channel();
    let work = async move {
        tokio::select! {
            () = links.follow() => {}
            () = http::serve(Arc::clone(&view), listener.zip(address)) => {}
            () = storms::tell(&view) => {}
            _ = stopped => {}
        }
    };
    let thread = std::thread::Builder::new().name("xoff-control".into());
    let thread = thread.spawn(move || runtime.block_on(work)).map_err(ControlError::Thread)?;
    Ok(ControlHandle { address, stop: Some(stop), thread: Some(thread) })
}
