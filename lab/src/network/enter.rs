//! Moves this process into the namespaces of a lab's node, so that it can execute a program there.

use std::fs::File;
use std::io;
use std::process::Command;

use nix::sched::{CloneFlags, setns};

use super::names::Entrance;

pub fn enter_network(entrance: &Entrance) -> io::Result<()> {
    Ok(setns(File::open(&entrance.net)?, CloneFlags::CLONE_NEWNET)?)
}

/// Enters all namespaces of a node. The process must have only one thread.
pub fn enter(entrance: &Entrance) -> io::Result<()> {
    let directory = std::env::current_dir();
    let (net, mnt, uts) =
        (File::open(&entrance.net)?, File::open(&entrance.mnt)?, File::open(&entrance.uts)?);
    setns(net, CloneFlags::CLONE_NEWNET)?;
    setns(uts, CloneFlags::CLONE_NEWUTS)?;
    setns(mnt, CloneFlags::CLONE_NEWNS)?;
    // Ignore an error: the container may lack the caller's working directory.
    let _ = directory.and_then(std::env::set_current_dir);
    Ok(())
}

/// Returns a command to which the caller appends a program, which is killed with this process. With `node`, it runs at that node of the lab
/// in `XOFF_LAB`.
#[must_use]
pub fn child(node: Option<&str>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["lab", "child", "--parent", &std::process::id().to_string()]);
    command.args(node.into_iter().flat_map(|node| ["--on", node])).arg("--");
    command
}

#[must_use]
pub fn exit_code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
