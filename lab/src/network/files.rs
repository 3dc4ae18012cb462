use std::path::{Path, PathBuf};

pub(super) const DIRECTORY: &str = "/run/xoff/lab";

pub(super) fn socket(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.sock"))
}

pub(super) fn agents(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

#[must_use]
pub fn log_file(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.log"))
}

pub(super) fn agent_socket(network: &str, host: &str, index: usize) -> PathBuf {
    agents(network).join(format!("{host}-{index}"))
}
