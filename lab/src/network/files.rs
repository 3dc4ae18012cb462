//! Paths of the files of running networks.

use std::path::{Path, PathBuf};

/// Directory of the sockets and logs of all networks.
pub(super) const DIRECTORY: &str = "/run/xoff/lab";

/// Returns the socket by which other commands reach a network.
pub(super) fn socket(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.sock"))
}

/// Returns the directory of the sockets of a network's agents.
pub(super) fn agents(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Returns the log file of a network in the background.
#[must_use]
pub fn log_file(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.log"))
}

/// Returns the status socket of the agent of a host's device, for hosts whose agents use sockets.
pub(super) fn agent_socket(network: &str, host: &str, index: usize) -> PathBuf {
    agents(network).join(format!("{host}-{index}"))
}
