//! Where the files of running networks are.

use std::path::{Path, PathBuf};

/// The sockets and logs of all networks.
pub(super) const DIRECTORY: &str = "/run/xoff/lab";

/// The socket by which other commands find a network.
pub(super) fn socket(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.sock"))
}

/// Where the sockets of a network's agents are.
pub(super) fn agents(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Where what a network in the background says is written.
#[must_use]
pub fn log_file(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.log"))
}

/// Where the agent of a host's device with this index serves its status, if that is a socket.
pub(super) fn agent_socket(network: &str, host: &str, index: usize) -> PathBuf {
    agents(network).join(format!("{host}-{index}"))
}
