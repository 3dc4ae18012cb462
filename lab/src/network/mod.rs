//! A network from one file, of switches and of hosts that run any programs, for `xoff lab`.
//!
//! ```text
//! crate::config   the file, and every error with its place
//! running         namespaces, wires, switches, addresses, agents of hosts; and their removal
//! view            state for any thread: counters of hosts and switches
//! account         account of all frames, and the verdict
//! control         socket for other commands: exec, status, graph, pcap, down
//! agents          one per host, makes its kernel obey pauses; sinks serve hosts without
//! leftovers       remains of a killed network, found by a mark in its namespaces, and ended
//! ```
//!
//! The process that made a network holds it: switches are its threads, and namespaces have no names outside. When the
//! process ends in any way, devices and switches vanish. The next network ends programs that still run in the
//! namespaces.

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

/// Error of making, finding or entering a network.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum NetworkError {
    /// The file is invalid.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    /// Namespaces or wires cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A switch cannot start.
    #[error("switch {switch}: {error}")]
    Run {
        /// Name of the switch.
        switch: String,
        /// Reason of the failure.
        error: Box<RunError>,
    },
    /// A network of this name is up already.
    #[error("a lab called {name} is up already")]
    #[diagnostic(help("end it with `xoff lab down {name}`, or give this one another `name`"))]
    Exists {
        /// Name of the network.
        name: String,
    },
    /// No network is up, or none of this name.
    #[error("{}", match name { Some(name) => format!("no lab called {name} is up"), None => "no lab is up".to_owned() })]
    #[diagnostic(help("`xoff lab up FILE` makes one, `xoff lab list` shows which there are"))]
    None {
        /// Requested name.
        name: Option<String>,
    },
    /// Several networks are up, and none was named.
    #[error("several labs are up: {}", names.join(", "))]
    #[diagnostic(help("say which with --lab NAME, or with XOFF_LAB in the environment"))]
    Several {
        /// Names of the networks.
        names: Vec<String>,
    },
    /// The process that holds the network is stopped.
    #[error("lab {name} cannot answer: process {pid}, which holds it, is stopped")]
    #[diagnostic(help(
        "continue it: kill -CONT {pid}; or end it with kill -KILL {pid}: the next lab that is made removes what is left"
    ))]
    HolderStopped {
        /// Name of the network.
        name: String,
        /// Id of the process.
        pid: i32,
    },
    /// The process that holds the network accepts no further connection.
    #[error("lab {name} does not answer: too many commands wait for its process already")]
    #[diagnostic(help(
        "if its process hangs or is stopped, end it: the next lab that is made removes what is left"
    ))]
    Full {
        /// Name of the network.
        name: String,
    },
    /// No reply came in time.
    #[error("lab {name} gave no answer within {seconds} s; it may still do what it was asked for")]
    #[diagnostic(help("if its process hangs, end it: the next lab that is made removes what is left"))]
    Late {
        /// Name of the network.
        name: String,
        /// Time limit in seconds.
        seconds: u64,
    },
    /// The connection broke, or the reply cannot be parsed.
    #[error("lab {name} does not answer: {error}")]
    #[diagnostic(help("if its process hangs, end it: the next lab that is made removes what is left"))]
    Silent {
        /// Name of the network.
        name: String,
        /// The connection's error.
        error: io::Error,
    },
    /// The network has no such node.
    #[error("lab {lab} has no node {node:?}")]
    #[diagnostic(help("its nodes are {nodes}"))]
    NoNode {
        /// Name of the network.
        lab: String,
        /// Requested node.
        node: String,
        /// Existing nodes.
        nodes: String,
    },
    /// The place of a host cannot be found.
    #[error("host {host}: {reason}")]
    NoPlace {
        /// Name of the host.
        host: String,
        /// Reason and remedy.
        reason: String,
    },
    /// The agent of a host does not run.
    #[error("the agent of host {host} {what}; what it said stands above, or in the log")]
    #[diagnostic(help("`nic = false` for that host leaves it out; then its kernel does not obey pauses"))]
    NoAgent {
        /// Name of the host.
        host: String,
        /// Event that ended the agent.
        what: &'static str,
    },
    /// No program can be started in a virtual machine from outside.
    #[error("host {host} is a virtual machine, of which only the TAP device is here")]
    #[diagnostic(help(
        "run the program inside; `xoff lab pcap {host}` shows what the machine sends and receives"
    ))]
    Guest {
        /// Name of the host.
        host: String,
    },
    /// The network has no such wire.
    #[error("lab {lab} has no link {link:?}")]
    #[diagnostic(help("its links are {links}; one end is enough where it has one"))]
    NoLink {
        /// Name of the network.
        lab: String,
        /// Requested wire.
        link: String,
        /// Existing wires.
        links: String,
    },
    /// The system refused an action.
    #[error("cannot {what}: {error}")]
    Io {
        /// Phrase that names the refused action.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// A signal or request ended the network while it came up.
    #[error("lab {name} stopped while it came up: nothing is left of it")]
    Stopped {
        /// Name of the network.
        name: String,
    },
    /// A network in the background ended before it was up.
    #[error("{output}")]
    NotUp {
        /// Output of the network's process.
        output: String,
    },
}

impl NetworkError {
    /// Returns a conversion of system errors for the action `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> NetworkError {
        let what = what.into();
        move |error| NetworkError::Io { what, error }
    }
}
