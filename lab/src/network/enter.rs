//! A program in a node of a network that another process holds: with the terminal, the working directory and the environment of who
//! asks, because it takes the place of that process.

use std::fs::File;
use std::io;
use std::process::Command;

use nix::sched::{CloneFlags, setns};

use super::names::Entrance;

/// Moves the calling process to the network of a node; its files stay those that it had.
///
/// # Errors
/// Where the node is gone, or may not be entered.
pub fn enter_network(entrance: &Entrance) -> io::Result<()> {
    Ok(setns(File::open(&entrance.net)?, CloneFlags::CLONE_NEWNET)?)
}

/// Moves the calling process, which has one thread, to the namespaces of a node.
///
/// # Errors
/// Where the node is gone, or may not be entered.
pub fn enter(entrance: &Entrance) -> io::Result<()> {
    let directory = std::env::current_dir();
    let (net, mnt, uts) =
        (File::open(&entrance.net)?, File::open(&entrance.mnt)?, File::open(&entrance.uts)?);
    setns(net, CloneFlags::CLONE_NEWNET)?;
    setns(uts, CloneFlags::CLONE_NEWUTS)?;
    setns(mnt, CloneFlags::CLONE_NEWNS)?;
    // A container may not have it; then the root is where one is.
    let _ = directory.and_then(std::env::set_current_dir);
    Ok(())
}

/// A program that ends with this process, and is killed where that is killed: what follows is its name and its arguments. It may be
/// started where the file of this program is not to be seen.
#[must_use]
pub fn child() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["lab", "child", "--parent", &std::process::id().to_string(), "--"]);
    command
}

/// Exit code where a program could not be started, as shells have it.
#[must_use]
pub fn exit_code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
