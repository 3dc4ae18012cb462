//! Hosts' namespaces that existed before the lab, kept open because the process that identifies one may end, and its id be reused.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::config::{Host, Interface, Place};

use super::NetworkError;
use super::names::Entrance;

#[derive(Debug)]
pub(super) struct Found {
    pub(super) net: File,
    /// Namespaces that programs of the host enter, if the host is a process or container.
    pub(super) programs: Option<Held>,
    /// File that names the namespace; `None` for the namespace of this process.
    pub(super) origin: Option<Origin>,
}

#[derive(Clone, Debug)]
pub(super) struct Origin {
    file: PathBuf,
    inode: u64,
}

impl Origin {
    fn new(file: impl Into<PathBuf>, net: &File) -> io::Result<Origin> {
        Ok(Origin { file: file.into(), inode: net.metadata()?.ino() })
    }

    /// Returns how the namespace was lost; `None` if the file still names it.
    pub(super) fn loss(&self) -> Option<&'static str> {
        match fs::metadata(&self.file).map(|file| file.ino()) {
            Ok(inode) => (inode != self.inode).then_some("was replaced"),
            Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some("is gone"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Held {
    net: File,
    mnt: File,
    uts: File,
}

impl Held {
    fn of(pid: &str) -> io::Result<Held> {
        // Open all namespace files below one open directory, so that they belong to one process even if its id is reused.
        let directory = File::open(format!("/proc/{pid}/ns"))?;
        let open = |name: &str| File::open(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()));
        Ok(Held { net: open("net")?, mnt: open("mnt")?, uts: open("uts")? })
    }

    pub(super) fn entrance(&self) -> Entrance {
        let [net, mnt, uts] = [&self.net, &self.mnt, &self.uts]
            .map(|file| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into());
        Entrance { net, mnt, uts }
    }
}

pub(super) fn find(host: &Host) -> Result<Option<Found>, NetworkError> {
    let no_place = |reason: String| NetworkError::NoPlace { host: host.name.clone(), reason };
    let of_process = |pid: &str, what: &str| -> Result<Option<Found>, NetworkError> {
        let found = Held::of(pid).and_then(|held| {
            let origin = Origin::new(format!("/proc/{pid}/ns/net"), &held.net)?;
            let origin = Some(origin).filter(|_| pid != "self");
            Ok(Found { net: held.net.try_clone()?, programs: Some(held), origin })
        });
        found.map(Some).map_err(|error| no_place(format!("{what} does not exist (/proc/{pid}/ns: {error})")))
    };
    match &host.place {
        Place::Fresh => Ok(None),
        Place::Netns(name) => {
            let path = format!("/run/netns/{name}");
            let net = File::open(&path).map_err(|error| {
                no_place(format!(
                    "namespace {name} does not exist; create it with `ip netns add {name}` ({path}: {error})"
                ))
            })?;
            let origin = Origin::new(&path, &net)
                .map_err(|error| no_place(format!("{path} cannot be read: {error}")))?;
            Ok(Some(Found { net, programs: None, origin: Some(origin) }))
        }
        Place::Pid(pid) => of_process(&pid.to_string(), &format!("process {pid}")),
        Place::Container(name) => {
            let pid = container(name).map_err(no_place)?;
            of_process(&pid.to_string(), &format!("process {pid} of container {name}"))
        }
        Place::Tap(_) => of_process("self", "the namespace of this process"),
    }
}

fn container(name: &str) -> Result<i32, String> {
    let mut errors = Vec::new();
    for program in ["docker", "podman"] {
        let output = Command::new(program).args(["inspect", "--format", "{{.State.Pid}}", name]).output();
        match output {
            Err(error) => errors.push(format!("{program}: {error}")),
            Ok(output) => match String::from_utf8_lossy(&output.stdout).trim().parse() {
                Ok(pid) if pid > 0 => return Ok(pid),
                Ok(_) => errors.push(format!("{program}: the container does not run")),
                Err(_) => {
                    errors.push(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
                }
            },
        }
    }
    Err(format!(
        "container {name} cannot be found ({}); start the container first, or give the `pid` of one of its processes",
        errors.join("; ")
    ))
}

pub(super) fn lab_device(host: &Host, interface: &Interface) -> String {
    match &host.place {
        Place::Tap(tap) => format!("x-{tap:.13}"),
        _ => interface.device.clone(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test] // proves: lab-lifecycle
    fn replaced_or_deleted_namespace_file_is_reported_as_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c1");
        let file = File::create(&path).unwrap();
        let origin = Origin::new(&path, &file).unwrap();
        assert_eq!(origin.loss(), None);
        fs::remove_file(&path).unwrap();
        assert_eq!(origin.loss(), Some("is gone"));
        File::create(&path).unwrap();
        assert_eq!(origin.loss(), Some("was replaced"));
    }
}
