//! Existing namespaces of hosts, kept open because a process may end and its id may be reused.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::process::Command;

use crate::config::{Host, Place};

use super::NetworkError;
use super::names::Entrance;

#[derive(Debug)]
pub(super) struct Found {
    pub(super) net: File,
    /// Namespaces that programs of the host enter, if it is a process or container.
    pub(super) programs: Option<Held>,
}

#[derive(Debug)]
pub(super) struct Held {
    net: File,
    mnt: File,
    uts: File,
}

impl Held {
    fn of(pid: &str) -> io::Result<Held> {
        // Open all files below this directory, so that they belong to the same process.
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
        let found =
            Held::of(pid).and_then(|held| Ok(Found { net: held.net.try_clone()?, programs: Some(held) }));
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
            Ok(Some(Found { net, programs: None }))
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
