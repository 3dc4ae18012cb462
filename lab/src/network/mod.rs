//! Network of switches, and of hosts that run any programs (`xoff lab`). The network ends with the process that runs it.

pub mod account;
mod agents;
mod conflicts;
pub mod control;
pub mod enter;
mod files;
pub mod leftovers;
pub mod links;
pub mod names;
mod places;
pub mod purposes;
mod restart;
pub mod running;
mod sinks;
mod speed;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod view;

use std::io;

use xoff_config::ConfigError;

use crate::LabError;
use xoff_switch::run::RunError;

pub use account::Account;
pub use files::log_file;
pub use running::RunningNetwork;
pub use view::{NetworkStatus, NetworkView};

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum NetworkError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("switch {switch}: {error}")]
    Run { switch: String, error: Box<RunError> },
    #[error("a lab called {name} is up already")]
    #[diagnostic(help("end that lab with `xoff lab down --lab {name}`, or give the new one another `name`"))]
    Exists { name: String },
    #[error("{}", match name { Some(name) => format!("no lab called {name} is up"), None => "no lab is up".to_owned() })]
    #[diagnostic(help("start a lab with `xoff lab up FILE`; `xoff lab list` shows the running ones"))]
    None { name: Option<String> },
    #[error("several labs are up: {}", names.join(", "))]
    #[diagnostic(help("select one with --lab NAME, or with XOFF_LAB in the environment"))]
    Several { names: Vec<String> },
    #[error("lab {name} cannot answer: its process {pid} is stopped")]
    #[diagnostic(help(
        "continue the process with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`: the next lab to start removes its leftovers"
    ))]
    HolderStopped { name: String, pid: i32 },
    #[error("lab {name} does not answer: too many commands already wait for its process")]
    #[diagnostic(help(
        "if the lab's process hangs or is stopped, end the process: the next lab to start removes its leftovers"
    ))]
    Full { name: String },
    #[error("lab {name} sent no reply within {seconds} s; the lab may still carry out the request")]
    #[diagnostic(help(
        "if the lab's process hangs, end the process: the next lab to start removes its leftovers"
    ))]
    Late { name: String, seconds: u64 },
    #[error("lab {name} does not answer: {error}")]
    #[diagnostic(help(
        "if the lab's process hangs, end the process: the next lab to start removes its leftovers"
    ))]
    Silent { name: String, error: io::Error },
    #[error("lab {lab} has no node {node:?}")]
    #[diagnostic(help("nodes of this lab: {nodes}"))]
    NoNode { lab: String, node: String, nodes: String },
    #[error("host {host}: {reason}")]
    NoPlace { host: String, reason: String },
    #[error("host {host}: the device {device} exists in its namespace ({place}) already{}", match lab {
        Some(lab) => format!(": it belongs to lab {lab}"),
        None => String::new(),
    })]
    #[diagnostic(help("{help}"))]
    DeviceExists { host: String, place: String, device: String, lab: Option<String>, help: String },
    #[error("hosts {first} and {second} are the same ({place})")]
    #[diagnostic(help("give each host its own namespace; a [[link]] gives a host a second device"))]
    SameNamespace { first: String, second: String, place: String },
    #[error(
        "host {host}: its namespace has a route to {route} already, so frames to {to} would leave by that route"
    )]
    #[diagnostic(help(
        "give the hosts of this segment addresses of another network by the key `{key}`, or remove the route in the namespace"
    ))]
    RouteExists { host: String, route: String, to: String, key: &'static str },
    #[error("the agent of host {host} {what}; its messages are printed above, or in the log")]
    #[diagnostic(help("`nic = false` starts the host without an agent; its kernel then ignores pauses"))]
    NoAgent { host: String, what: &'static str },
    #[error("host {host} is a virtual machine: xoff reaches only its TAP device")]
    #[diagnostic(help(
        "run the program inside the virtual machine; `xoff lab capture {host}` shows its frames"
    ))]
    Guest { host: String },
    #[error("{reason}")]
    #[diagnostic(help("end the lab (`xoff lab down`) and start it again (`xoff lab up`)"))]
    LostNamespace { reason: String },
    #[error("lab {lab} has no link {link:?}")]
    #[diagnostic(help("links of this lab: {links}; for a node with a single link, give the node's name"))]
    NoLink { lab: String, link: String, links: String },
    #[error("{link:?} names several links of lab {lab}")]
    #[diagnostic(help("give one of {links}"))]
    AmbiguousLink { lab: String, link: String, links: String },
    #[error("cannot draw {file}: a drawing is always an SVG file")]
    #[diagnostic(help("write --out lab.svg; `rsvg-convert lab.svg -o lab.png` or a browser converts it"))]
    NotSvg { file: String },
    #[error("{file} exists already")]
    #[diagnostic(help("give the name of a new file, such as `xoff lab init second.toml`"))]
    Written { file: String },
    #[error("cannot {what}: {error}")]
    Io { what: String, error: io::Error },
    #[error("lab {name} was stopped during its start, and removed completely")]
    Stopped { name: String },
    #[error("{output}")]
    NotUp { output: String },
}

impl NetworkError {
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> NetworkError {
        let what = what.into();
        move |error| NetworkError::Io { what, error }
    }
}
