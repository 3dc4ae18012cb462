//! Why a fabric cannot be built or run.

use std::io;
use std::path::PathBuf;

use miette::Diagnostic;
use xoff_config::ConfigError;
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
    /// It is to be built on a machine, and there is none.
    #[error("there is no machine here to build this on: it can only be simulated")]
    #[diagnostic(help("simulate it, or bring a ground along"))]
    Groundless,
    /// What it is built on refuses it, or has failed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Refused(#[from] Refused),
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

/// What a machine has against a fabric, in its own words.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error(transparent)]
#[diagnostic(transparent)]
pub struct Refused(Box<dyn Diagnostic + Send + Sync>);

impl Refused {
    /// For this reason.
    #[must_use]
    pub fn new(why: impl Diagnostic + Send + Sync + 'static) -> Refused {
        Refused(Box::new(why))
    }
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
