//! Programs in a node of another process's network. They replace the client's process and keep its terminal, directory and environment.

use std::fs::File;
use std::io;
use std::process::Command;

use nix::sched::{CloneFlags, setns};

use super::names::Entrance;

/// Enters a node's network namespace.
///
/// # Errors
/// Fails if the node is gone or may not be entered.
pub fn enter_network(entrance: &Entrance) -> io::Result<()> {
    Ok(setns(File::open(&entrance.net)?, CloneFlags::CLONE_NEWNET)?)
}

/// Enters a node's namespaces; the process must have one thread.
///
/// # Errors
/// Fails if the node is gone or may not be entered.
pub fn enter(entrance: &Entrance) -> io::Result<()> {
    let directory = std::env::current_dir();
    let (net, mnt, uts) =
        (File::open(&entrance.net)?, File::open(&entrance.mnt)?, File::open(&entrance.uts)?);
    setns(net, CloneFlags::CLONE_NEWNET)?;
    setns(uts, CloneFlags::CLONE_NEWUTS)?;
    setns(mnt, CloneFlags::CLONE_NEWNS)?;
    // A container may lack the directory.
    let _ = directory.and_then(std::env::set_current_dir);
    Ok(())
}

/// Returns the beginning of a command: the caller adds a program and its arguments. The program ends with this process.
/// It also starts in a mount namespace that lacks this executable.
#[must_use]
pub fn child() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["lab", "child", "--parent", &std::process::id().to_string(), "--"]);
    command
}

/// Returns a shell's exit code for a failed start.
#[must_use]
pub fn exit_code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
