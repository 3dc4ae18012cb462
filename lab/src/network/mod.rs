//! A network from one file, of hosts that run anybody's programs and of switches: what `xoff lab` makes, looks at and accounts for.
//!
//! ```text
//! crate::config      the file, every mistake with its place
//! up                 namespaces, wires, switches, addresses, agents of hosts; and down again
//! seen               what can be seen of it from any thread: counters of hosts and switches
//! account            what became of every frame, and whether the promise was kept
//! control            a socket at which other commands find it: exec, status, graph, pcap, down
//! agents             one for each host, by which its kernel obeys pauses; unheard is for those that have none
//! leftovers          what a network that was killed has left is found by a mark in its namespaces, and ended
//! ```
//!
//! The process that made a network holds it: its switches are threads of that process, and its namespaces have no other name
//! than descriptors there. When it goes, by whatever road, the devices and switches go with it, and programs that still run in a
//! namespace are ended by the next network that is made.

pub mod account;
mod agents;
pub mod control;
pub mod enter;
mod files;
pub mod leftovers;
pub mod names;
mod places;
pub mod seen;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod unheard;
pub mod up;

use std::io;

use xoff_config::ConfigError;

use crate::LabError;
use xoff_switch::run::RunError;

pub use account::Account;
pub use files::log_file;
pub use seen::{NetworkStatus, Seen};
pub use up::Up;

/// Why a network cannot be made, found or entered.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum NetworkError {
    /// The file.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    /// Namespaces and wires.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A switch cannot start.
    #[error("switch {switch}: {error}")]
    Run {
        /// Its name.
        switch: String,
        /// Why.
        error: Box<RunError>,
    },
    /// One of this name is there already.
    #[error("a lab called {name} is up already")]
    #[diagnostic(help("end it with `xoff lab down {name}`, or give this one another `name`"))]
    Exists {
        /// Its name.
        name: String,
    },
    /// There is none, or none of this name.
    #[error("{}", match name { Some(name) => format!("no lab called {name} is up"), None => "no lab is up".to_owned() })]
    #[diagnostic(help("`xoff lab up FILE` makes one, `xoff lab list` shows which there are"))]
    None {
        /// The name that was asked for.
        name: Option<String>,
    },
    /// There are several.
    #[error("several labs are up: {}", names.join(", "))]
    #[diagnostic(help("say which with --lab NAME, or with XOFF_LAB in the environment"))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// The process that holds the network is stopped.
    #[error("lab {name} cannot answer: process {pid}, which holds it, is stopped")]
    #[diagnostic(help(
        "continue it: kill -CONT {pid}; or end it with kill -KILL {pid}: the next lab that is made removes what is left"
    ))]
    HolderStopped {
        /// The network's name.
        name: String,
        /// The id of the process.
        pid: i32,
    },
    /// The process that holds the network accepts no further connection.
    #[error("lab {name} does not answer: too many commands wait for its process already")]
    #[diagnostic(help(
        "if its process hangs or is stopped, end it: the next lab that is made removes what is left"
    ))]
    Full {
        /// The network's name.
        name: String,
    },
    /// No answer came in time.
    #[error("lab {name} gave no answer within {seconds} s; it may still do what it was asked for")]
    #[diagnostic(help("if its process hangs, end it: the next lab that is made removes what is left"))]
    Late {
        /// The network's name.
        name: String,
        /// The time, in seconds.
        seconds: u64,
    },
    /// The connection broke, or the answer cannot be read.
    #[error("lab {name} does not answer: {error}")]
    #[diagnostic(help("if its process hangs, end it: the next lab that is made removes what is left"))]
    Silent {
        /// Its name.
        name: String,
        /// What happened instead.
        error: io::Error,
    },
    /// A node that is not there.
    #[error("lab {lab} has no node {node:?}")]
    #[diagnostic(help("its nodes are {known}"))]
    NoNode {
        /// The lab.
        lab: String,
        /// What was asked for.
        node: String,
        /// What there is.
        known: String,
    },
    /// A host lives where it cannot be found.
    #[error("host {host}: {reason}")]
    NoPlace {
        /// The host.
        host: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A host's agent does not run.
    #[error("the agent of host {host} {what}; what it said stands above, or in the log")]
    #[diagnostic(help("`nic = false` for that host leaves it out; then its kernel does not obey pauses"))]
    NoAgent {
        /// The host.
        host: String,
        /// What became of it.
        what: &'static str,
    },
    /// Nothing can be run in a virtual machine from outside.
    #[error("host {host} is a virtual machine, of which only the TAP device is here")]
    #[diagnostic(help(
        "run the program inside; `xoff lab pcap {host}` shows what the machine sends and receives"
    ))]
    Guest {
        /// The host.
        host: String,
    },
    /// A wire that is not there.
    #[error("lab {lab} has no link {link:?}")]
    #[diagnostic(help("its links are {known}; one end is enough where it has one"))]
    NoLink {
        /// The lab.
        lab: String,
        /// What was asked for.
        link: String,
        /// What there is.
        known: String,
    },
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's words.
        error: io::Error,
    },
    /// Somebody wanted it to end before it was up.
    #[error("lab {name} was told to end while it came up: nothing of it is left")]
    Stopped {
        /// Its name.
        name: String,
    },
    /// It ended before it was up.
    #[error("{said}")]
    NotUp {
        /// What it said.
        said: String,
    },
}

impl NetworkError {
    /// For what was tried.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> NetworkError {
        let what = what.into();
        move |error| NetworkError::Io { what, error }
    }
}
