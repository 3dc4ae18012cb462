//! Why a fabric cannot be built or run.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use miette::Diagnostic;
use xoff_config::ConfigError;
use xoff_lab::LabError;
use xoff_switch::run::{RunError, ThreadError};
use xoff_traffic::HostError;
use xoff_traffic::emit::LinkError;
use xoff_wire::units::Nanos;

/// Why a fabric could not be built or run.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum FabricError {
    /// A switch cannot be as it is told.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    /// There is no such thing in the simulator.
    #[error("this cannot be simulated: {0}")]
    #[diagnostic(help("leave --simulated out"))]
    Unsimulated(&'static str),
    /// Namespaces and wires.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A switch.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A host's device.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Routers without routes.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Routing(#[from] RoutingError),
    /// A thread of a switch ended early.
    #[error(transparent)]
    Worker(#[from] ThreadError),
    /// Nobody knows which way a flow takes.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Raw data find no place.
    #[error("cannot write raw data to {path}: {error}", path = .path.display())]
    #[diagnostic(help("look after the file system, or leave --csv out"))]
    Raw {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Where packages put FRR's programs.
pub(crate) const PLACES: [&str; 2] = ["/usr/lib/frr", "/usr/libexec/frr"];
/// The group that FRR's packages make: who may talk to its programs.
pub(crate) const GROUP: &str = "frrvty";
/// So long all routes of a fabric may take to be there.
pub(crate) const CONVERGES_WITHIN: Duration = Duration::from_secs(60);

/// Why routers do not route.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RoutingError {
    /// FRR is not there.
    #[error("routers of an experiment need FRR, and there is no {missing} in {places}", places = PLACES.join(" or "))]
    #[diagnostic(help("install the package `frr`; its service need not run"))]
    NoFrr {
        /// The program.
        missing: &'static str,
    },
    /// FRR is not whole.
    #[error("routers of an experiment need FRR, whose programs are of the group {GROUP}, and there is none")]
    #[diagnostic(help("install the package `frr`, which makes it"))]
    NoGroup,
    /// A daemon cannot be started.
    #[error("cannot start {daemon} of {switch}: {source}")]
    Start {
        /// It.
        daemon: &'static str,
        /// Of this router.
        switch: String,
        /// The system's words.
        source: io::Error,
    },
    /// A daemon has ended.
    #[error("{daemon} of {switch} has ended ({status}): {last_words}")]
    Ended {
        /// It.
        daemon: &'static str,
        /// Of this router.
        switch: String,
        /// How.
        status: ExitStatus,
        /// What it has said last.
        last_words: String,
    },
    /// Daemons are not ready.
    #[error("after {} s not all routing daemons listen: {}", CONVERGES_WITHIN.as_secs(), .silent.join("; "))]
    Silent {
        /// Those that do not, with what each has said last.
        silent: Vec<String>,
    },
    /// Routes were there and are no more.
    #[error("when the hosts had ended routes were gone, and did not come back: {}", .missing.join("; "))]
    Gone {
        /// What lacks.
        missing: Vec<String>,
    },
    /// Routes are missing.
    #[error("after {} s there are not all routes: {}", CONVERGES_WITHIN.as_secs(), .missing.join("; "))]
    Missing {
        /// What lacks.
        missing: Vec<String>,
    },
}

/// So long a frame that is to show a flow's way may take to the next switch, on lines of 100 Mb/s.
pub(crate) const PROBE_PATIENCE: Nanos = Nanos::from_secs(5);

/// Why nobody knows which way a flow takes.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A frame did not arrive.
    #[error(
        "no frame from {from} to {to} left {switch} for another switch within {} s (at 100 Mb/s)",
        PROBE_PATIENCE.0 / 1_000_000_000
    )]
    Lost {
        /// Who sent it.
        from: String,
        /// Who was to receive it.
        to: String,
        /// The switch.
        switch: String,
    },
    /// All went elsewhere.
    #[error("of {tried} flows from {from} to {to} none leaves {switch} by {port}")]
    Elsewhere {
        /// How many.
        tried: usize,
        /// Who sent them.
        from: String,
        /// Who was to receive them.
        to: String,
        /// The switch.
        switch: String,
        /// Its port.
        port: String,
    },
}
