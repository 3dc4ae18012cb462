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

#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum FabricError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    #[error("this fabric cannot be simulated: {0}")]
    #[diagnostic(help("omit --simulated"))]
    Unsimulated(&'static str),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Routing(#[from] RoutingError),
    #[error(transparent)]
    Worker(#[from] ThreadError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("cannot write raw data to {path}: {error}", path = .path.display())]
    #[diagnostic(help("check the file system, or omit --out"))]
    Raw { path: PathBuf, error: io::Error },
}

pub(crate) const PLACES: [&str; 2] = ["/usr/lib/frr", "/usr/libexec/frr"];
pub(crate) const GROUP: &str = "frrvty";
pub(crate) const CONVERGES_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RoutingError {
    #[error("routers of an experiment need FRR, but {missing} is missing in {places}", places = PLACES.join(" or "))]
    #[diagnostic(help("install the package `frr`; its service is not needed"))]
    NoFrr { missing: &'static str },
    #[error("routers of an experiment need FRR, but its group {GROUP} does not exist")]
    #[diagnostic(help("install the package `frr`, which creates the group"))]
    NoGroup,
    #[error("cannot start {daemon} of {switch}: {source}")]
    Start { daemon: &'static str, switch: String, source: io::Error },
    #[error("{daemon} of {switch} ended ({status}): {last_output}")]
    Ended { daemon: &'static str, switch: String, status: ExitStatus, last_output: String },
    #[error("some routing daemons were not ready after {} s: {}", CONVERGES_WITHIN.as_secs(), .silent.join("; "))]
    Silent { silent: Vec<String> },
    #[error("routes disappeared during the run and did not return: {}", .missing.join("; "))]
    Gone { missing: Vec<String> },
    #[error("some routes were missing after {} s: {}", CONVERGES_WITHIN.as_secs(), .missing.join("; "))]
    Missing { missing: Vec<String> },
}

pub(crate) const PROBE_PATIENCE: Nanos = Nanos::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(
        "no frame from {from} to {to} left {switch} for another switch within {} s (time limit for lines of 100 Mb/s)",
        PROBE_PATIENCE.0 / 1_000_000_000
    )]
    Lost { from: String, to: String, switch: String },
    #[error("none of {tried} flows from {from} to {to} leaves {switch} by port {port}")]
    Elsewhere { tried: usize, from: String, to: String, switch: String, port: String },
}
