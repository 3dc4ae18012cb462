use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::files::agent_socket;
use super::{NetworkError, enter};
use crate::config::{AGENT_FILE, Host, Network, Place};
use crate::{Device, Namespace, parallel};
use xoff_nic::serve::NicStatus;
use xoff_switch::client;

const BEGIN_WITHIN: Duration = Duration::from_secs(20);
const END_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOST: i32 = 1;
const FIRST_PORT: usize = 9465;

#[derive(Debug, Default)]
pub(super) struct Agents(Vec<Agent>);

#[derive(Debug)]
struct Agent {
    host: usize,
    index: usize,
    name: String,
    child: Child,
}

impl Agents {
    pub(super) fn start(
        network: &Network,
        devices: &[Vec<Device>],
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Agents, NetworkError> {
        let mut agents = Agents::default();
        let of = |(host, devices): (usize, &Vec<Device>)| {
            let devices = devices.iter().cloned().enumerate();
            devices.map(|(index, device)| (host, index, device)).collect::<Vec<_>>()
        };
        let all = devices.iter().enumerate().flat_map(of);
        let all = all.filter(|(host, ..)| network.hosts[*host].nic.is_some());
        let spawned = parallel::each(all.collect(), |(host, index, device)| {
            Agent::spawn(network, (host, index), &device)
        });
        let mut failed = None;
        for agent in spawned {
            match agent {
                Ok(agent) => agents.0.push(agent),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)?;
        let deadline = Instant::now() + BEGIN_WITHIN;
        for agent in &mut agents.0 {
            agent.wait(network, devices, deadline, is_stopped)?;
        }
        Ok(agents)
    }

    /// Restarts a host's agents; returns messages about crashes. Lost frames are no failure, because an ending agent removes its queues and
    /// their frames.
    pub(super) fn restart(
        &mut self,
        network: &Network,
        devices: &[Vec<Device>],
        host: usize,
    ) -> Result<Vec<String>, NetworkError> {
        let (ended, others) = self.0.drain(..).partition(|agent| agent.host == host);
        self.0 = others;
        let failed = end(ended, true);
        let deadline = Instant::now() + BEGIN_WITHIN;
        for (index, device) in devices[host].iter().enumerate() {
            let mut agent = Agent::spawn(network, (host, index), device)?;
            agent.wait(network, devices, deadline, &mut || false)?;
            self.0.push(agent);
        }
        Ok(failed)
    }

    pub(super) fn pids(&self) -> BTreeSet<i32> {
        self.0.iter().filter_map(|agent| i32::try_from(agent.child.id()).ok()).collect()
    }

    pub(super) fn end(&mut self) -> Vec<String> {
        end(self.0.drain(..).collect(), false)
    }
}

/// Stops agents. Returns messages about crashes, and unless `may_lose`, about lost frames.
fn end(agents: Vec<Agent>, may_lose: bool) -> Vec<String> {
    for agent in &agents {
        signal(&agent.child, Signal::SIGTERM);
    }
    let deadline = Instant::now() + END_WITHIN;
    let mut failed = Vec::new();
    for mut agent in agents {
        let status = loop {
            match agent.child.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
                Ok(None) => {
                    let _ = agent.child.kill();
                    break agent.child.wait().ok();
                }
                ended => break ended.ok().flatten(),
            }
        };
        let host = agent.name;
        match status.and_then(|status| status.code()) {
            Some(0) => {}
            Some(LOST) if may_lose => {}
            Some(LOST) => failed.push(format!(
                "{host}: the agent lost lossless frames or may not have obeyed pauses; see the agent's log"
            )),
            _ => failed.push(format!("{host}: the agent crashed or had to be killed")),
        }
    }
    failed
}

impl Agent {
    fn spawn(
        network: &Network,
        (host, index): (usize, usize),
        device: &Device,
    ) -> Result<Agent, NetworkError> {
        let of = &network.hosts[host];
        let link = &network.links[of.interfaces[index].link];
        let http = serves_at(&network.name, of, index);
        let arguments = network.agent_arguments(of, index);
        let command = command(&http, &arguments, device, link.speed.bits_per_second()).map_err(cannot(of))?;
        let child = device.namespace().spawn(command).map_err(cannot(of))?;
        Ok(Agent { host, index, name: of.name.clone(), child })
    }

    fn wait(
        &mut self,
        network: &Network,
        devices: &[Vec<Device>],
        deadline: Instant,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<(), NetworkError> {
        let (host, device) = (&network.hosts[self.host], &devices[self.host][self.index]);
        while status(&network.name, host, self.index, device.namespace()).is_none() {
            if is_stopped() {
                return Err(NetworkError::Stopped { name: network.name.clone() });
            }
            let ended = self.child.try_wait().map_err(cannot(host))?;
            if ended.is_some() || Instant::now() >= deadline {
                let what = if ended.is_some() { "ended" } else { "did not start in time" };
                return Err(NetworkError::NoAgent { host: host.name.clone(), what });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.end();
    }
}

fn signal(child: &Child, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = kill(Pid::from_raw(pid), signal); // fails if the child has just ended; its id is not reused before `wait`
    }
}

fn cannot(host: &Host) -> impl FnOnce(std::io::Error) -> NetworkError + use<> {
    NetworkError::io(format!("start the agent of host {}", host.name))
}

/// Returns the agent's HTTP address. In a namespace that existed before the lab, where loopback may be missing, it is a socket file.
fn serves_at(network: &str, host: &Host, index: usize) -> String {
    if host.place == Place::Fresh {
        format!("127.0.0.1:{}", FIRST_PORT + index)
    } else {
        format!("unix:{}", agent_socket(network, &host.name, index).display())
    }
}

fn command(
    http: &str,
    arguments: &[(String, String)],
    device: &Device,
    speed: u64,
) -> std::io::Result<Command> {
    let mut command = enter::child(None);
    command.arg(std::env::current_exe()?).arg("nic");
    // Put the agent into its own process group, so that Ctrl-C does not end it: hosts must obey pauses until the network ends.
    command.process_group(0);
    command.arg(format!("--device={}", device.name())).arg(format!("--speed={speed}"));
    command.arg(format!("--http={http}"));
    for (key, value) in arguments {
        match value.as_str() {
            file if key == AGENT_FILE => _ = command.arg(file),
            "true" => _ = command.arg(format!("--{key}")),
            "false" => {}
            value => _ = command.arg(format!("--{key}={value}")),
        }
    }
    if std::env::var_os("RUST_LOG").is_none() {
        command.env("RUST_LOG", "warn");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

pub(super) fn status(network: &str, host: &Host, index: usize, namespace: &Namespace) -> Option<NicStatus> {
    let url = client::url(&serves_at(network, host, index)).ok()?;
    let ask = || {
        let reply = client::get(&url, "/status", ANSWER_WITHIN).map_err(io::Error::other);
        reply?.body_mut().read_json().map_err(io::Error::other)
    };
    namespace.try_run(ask).ok()
}
