//! A network from one file, of switches and of hosts that run any programs, for `xoff lab`.
//!
//! ```text
//! crate::config   the file, and every error with its place
//! running         namespaces, wires, switches, addresses, agents of hosts; and their removal
//! view            state for any thread: counters of hosts and switches
//! account         account of all frames, and the verdict
//! control         socket for other commands
//! agents          makes hosts' kernels obey pauses; sinks serve hosts without
//! leftovers       remains of a killed network, found by marks
//! ```
//!
//! The process that made a network holds it; when that process ends, devices and switches vanish. The next network ends programs that
//! still run.

pub mod account;
mod agents;
pub mod control;
pub mod enter;
mod files;
pub mod leftovers;
pub mod names;
mod places;
pub mod running;
mod sinks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod view;

use std::io;

use xoff_config::ConfigError;

use crate::LabError;
use xoff_switch::run::RunError;

pub use account::Account;
pub use files::log_file;
pub use running::RunningNetwork;
pub use view::{NetworkStatus, NetworkView};

/// Error of a network.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum NetworkError {
    /// Invalid file.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    /// Failed namespace or wire.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Failed switch start.
    #[error("switch {switch}: {error}")]
    Run {
        /// Switch name.
        switch: String,
        /// Cause.
        error: Box<RunError>,
    },
    /// The name is in use.
    #[error("a lab called {name} is up already")]
    #[diagnostic(help("end it with `xoff lab down --lab {name}`, or give this one another `name`"))]
    Exists {
        /// Network name.
        name: String,
    },
    /// No network is up, or none of this name.
    #[error("{}", match name { Some(name) => format!("no lab called {name} is up"), None => "no lab is up".to_owned() })]
    #[diagnostic(help("`xoff lab up FILE` makes one, `xoff lab list` shows which there are"))]
    None {
        /// Requested name.
        name: Option<String>,
    },
    /// Several networks are up, none was named.
    #[error("several labs are up: {}", names.join(", "))]
    #[diagnostic(help("say which with --lab NAME, or with XOFF_LAB in the environment"))]
    Several {
        /// Network names.
        names: Vec<String>,
    },
    /// The network's process is stopped.
    #[error("lab {name} cannot answer: process {pid}, which holds it, is stopped")]
    #[diagnostic(help(
        "continue it: kill -CONT {pid}; or end it with kill -KILL {pid}: the next lab that is made removes what is left"
    ))]
    HolderStopped {
        /// Network name.
        name: String,
        /// Process id.
        pid: i32,
    },
    /// The network accepts no connection.
    #[error("lab {name} does not answer: too many commands wait for its process already")]
    #[diagnostic(help(
        "if its process hangs or is stopped, end it: the next lab that is made removes what is left"
    ))]
    Full {
        /// Network name.
        name: String,
    },
    /// No reply in time.
    #[error("lab {name} gave no answer within {seconds} s; it may still do what it was asked for")]
    #[diagnostic(help("if its process hangs, end it: the next lab that is made removes what is left"))]
    Late {
        /// Network name.
        name: String,
        /// Limit, seconds.
        seconds: u64,
    },
    /// Broken connection or malformed reply.
    #[error("lab {name} does not answer: {error}")]
    #[diagnostic(help("if its process hangs, end it: the next lab that is made removes what is left"))]
    Silent {
        /// Network name.
        name: String,
        /// Connection's error.
        error: io::Error,
    },
    /// Unknown node.
    #[error("lab {lab} has no node {node:?}")]
    #[diagnostic(help("its nodes are {nodes}"))]
    NoNode {
        /// Network name.
        lab: String,
        /// Requested node.
        node: String,
        /// Existing nodes.
        nodes: String,
    },
    /// A host's place is missing.
    #[error("host {host}: {reason}")]
    NoPlace {
        /// Host name.
        host: String,
        /// Reason and remedy.
        reason: String,
    },
    /// A host's agent does not run.
    #[error("the agent of host {host} {what}; what it said stands above, or in the log")]
    #[diagnostic(help("`nic = false` for that host leaves it out; then its kernel does not obey pauses"))]
    NoAgent {
        /// Host name.
        host: String,
        /// Event that ended the agent.
        what: &'static str,
    },
    /// No program can be started in a virtual machine.
    #[error("host {host} is a virtual machine, of which only the TAP device is here")]
    #[diagnostic(help(
        "run the program inside; `xoff lab capture {host}` shows what the machine sends and receives"
    ))]
    Guest {
        /// Host name.
        host: String,
    },
    /// Unknown wire.
    #[error("lab {lab} has no link {link:?}")]
    #[diagnostic(help("its links are {links}; one end is enough where it has one"))]
    NoLink {
        /// Network name.
        lab: String,
        /// Requested wire.
        link: String,
        /// Existing wires.
        links: String,
    },
    /// Refused action.
    #[error("cannot {what}: {error}")]
    Io {
        /// Refused action.
        what: String,
        /// System's error.
        error: io::Error,
    },
    /// The network was ended while it came up.
    #[error("lab {name} stopped while it came up: nothing is left of it")]
    Stopped {
        /// Network name.
        name: String,
    },
    /// A background network ended before it was up.
    #[error("{output}")]
    NotUp {
        /// Output of the network's process.
        output: String,
    },
}

impl NetworkError {
    /// Returns a converter of errors of action `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> NetworkError {
        let what = what.into();
        move |error| NetworkError::Io { what, error }
    }
}
