use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use xoff_config::{Config, Machine};
use xoff_netlink::link_at;
use xoff_switch::control::status::{PortStatus, Status};
use xoff_switch::control::{Answer, SwitchView, snapshot};
use xoff_switch::machine;
use xoff_switch::run::RunError;

use super::links::Refusal;
use super::running::{source, switch_config};
use super::view::{Restart, RestartedPart, SwitchState};
use super::{NetworkError, RunningNetwork, leftovers};
use crate::Device;
use crate::config::{End, LinkRates, Network, Place};
use crate::device::Counters;
use crate::netlink::netlink;
use crate::switches::SwitchHandle;

const AGAIN: &str = "end the lab and start it again";
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const READINGS: usize = 16;
/// Interval between readings of counters: no multiple of 1 ms, because each reading could then fall into a burst sent every 1 ms.
const BETWEEN_READINGS: Duration = Duration::from_micros(1_700);

impl RunningNetwork {
    /// Restarts a switch, or a host's agents; unless `agent_only`, also ends the host's programs.
    pub fn restart(&mut self, node: &str, agent_only: bool) -> Result<Restart, Refusal> {
        let network = &self.view.network;
        let host = network.hosts.iter().position(|host| host.name == node);
        let switch = network.switches.iter().position(|switch| switch.name == node);
        let restart = match (host, switch) {
            (Some(host), _) => self.restart_host(host, agent_only)?,
            (None, Some(_)) if agent_only => {
                return Err(Refusal::new(format!("{node} is a switch, which has no agent"), "omit --agent"));
            }
            (None, Some(switch)) => self.restart_switch(switch)?,
            (None, None) => {
                let hosts = network.hosts.iter().map(|host| host.name.as_str());
                let nodes: Vec<&str> =
                    hosts.chain(network.switches.iter().map(|switch| switch.name.as_str())).collect();
                return Err(Refusal::new(
                    format!("lab {} has no node {node:?}", network.name),
                    format!("nodes of this lab: {}", nodes.join(", ")),
                ));
            }
        };
        self.view.restarted(restart.clone());
        Ok(restart)
    }

    fn restart_switch(&mut self, switch: usize) -> Result<Restart, Refusal> {
        let node = &self.view.network.switches[switch];
        let name = node.name.clone();
        // Read the lab file again: since the start, a reload may have changed the switch's settings.
        let config = match &self.view.network.file {
            None => node.config.clone(),
            Some(path) => {
                // Size rings and memory for the line rates in the lab file; a later reload sets the current rates.
                let network = &self.view.network;
                let rates = network.rates.at_full_speed(&network.links);
                let running = Network { warnings: Vec::new(), rates, ..network.clone() };
                switch_config(&running, path, &name, here()).map_err(|error| {
                    Refusal::new(format!("{name} was not restarted: {error}"), "correct the lab's file")
                })?
            }
        };
        let mut restart = self.view.restart(&name, RestartedPart::Switch);
        let state = self.view.switches().swap_remove(switch);
        let earlier = match &state {
            SwitchState::Running(view, _) => self.missed(switch, view),
            SwitchState::Ended(_) => BTreeMap::new(),
        };
        let (SwitchState::Running(view, _), Some(ended)) = (state, self.switches.stop_one(switch)) else {
            return Err(Refusal::new(format!("{name} does not run"), AGAIN));
        };
        let status = Box::new(ended.unwrap_or_else(|error| {
            restart.failed.push(format!("{name}: {error}"));
            snapshot(&view, &vec![Answer::Silent; view.workers.len()])
        }));
        drop(view);
        restart.queued = status.ledger.map_or(0, |ledger| ledger.held);
        self.view.set_switch(switch, SwitchState::Ended(status.clone()));
        match self.start_again(switch, &config) {
            Ok(handle) => {
                let (view, reloads) = &handle;
                if let Some(Err(error)) =
                    reloads.as_ref().filter(|_| self.has_slow_link(switch)).map(|reloads| reloads.wait(false))
                {
                    restart.failed.push(format!(
                        "{name} runs with the lab file's line rates, not the changed ones: {error}"
                    ));
                }
                restart.arrived_at = lost(&earlier, &received(&status), &self.missed(switch, view));
                restart.arrived_meanwhile = restart.arrived_at.values().sum();
                restart.switch = Some(status);
                self.view.set_switch(switch, handle.into());
                Ok(restart)
            }
            Err(error) => {
                let message = format!("{name} did not start again: {error}");
                restart.failed.push(message.clone());
                self.view.restarted(restart);
                Err(Refusal::new(message, AGAIN))
            }
        }
    }

    fn has_slow_link(&self, switch: usize) -> bool {
        let network = &self.view.network;
        network.links.iter().enumerate().any(|(number, link)| {
            link.ends.iter().any(|end| matches!(end, End::Port { switch: of, .. } if *of == switch))
                && network.rates.of(number, link) != LinkRates::of(link)
        })
    }

    /// Starts a stopped switch again; retries for up to 2 s, while a reader of its counters keeps the old switch's sockets open.
    fn start_again(&mut self, switch: usize, config: &Config) -> Result<SwitchHandle, RunError> {
        let deadline = Instant::now() + CLOSED_WITHIN;
        loop {
            let source = source(&self.view.network, &self.view.network.switches[switch].name);
            match self.switches.start_one(switch, source, config) {
                Err(_) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
                started => return started,
            }
        }
    }

    /// Returns the frames that each port's device received but the running switch did not, such as those before its start. Frames on their
    /// way to the switch enlarge a reading, so the lowest reading counts.
    fn missed(&self, switch: usize, view: &SwitchView) -> BTreeMap<String, i64> {
        let devices = self.devices_of(switch);
        let mut missed: BTreeMap<String, i64> = BTreeMap::new();
        let Some(namespace) = devices.first().map(|(_, device)| device.namespace()) else { return missed };
        let ports = view.ports().filter_map(|(id, _)| {
            let (name, device) = devices.iter().find(|(name, _)| name == view.name_of(id))?;
            Some((id, name, device.index()))
        });
        let ports: Vec<_> = ports.collect();
        let read = netlink(namespace, "read counters of ports", |kernel| {
            for _ in 0..READINGS {
                for (id, name, device) in &ports {
                    // Read the switch's counter before the device's: a frame that arrives in between then makes the difference too large,
                    // never too small.
                    let received = signed(view.frames_received(*id));
                    let Some(link) = kernel.link(link_at(*device))? else { continue };
                    let reading = signed(Counters::of(&link).rx_packets) - received;
                    let least = missed.entry((*name).clone()).or_insert(reading);
                    *least = reading.min(*least);
                }
                thread::sleep(BETWEEN_READINGS);
            }
            Ok::<_, io::Error>(())
        });
        read.unwrap_or_else(|error| {
            tracing::warn!("{error}; the account may lack frames lost by this restart")
        });
        missed
    }

    fn devices_of(&self, switch: usize) -> Vec<(String, &Device)> {
        let ports = &self.view.network.switches[switch].config.switch.ports;
        let links = self.view.network.links.iter().zip(&self.view.wires);
        let devices = links.flat_map(|(link, wire)| link.ends.iter().zip(wire.ends()));
        let at_switch = devices.filter_map(|(end, device)| match *end {
            End::Port { switch: of, port } if of == switch => Some((ports[port].name.clone(), device)),
            _ => None,
        });
        at_switch.collect()
    }

    fn restart_host(&mut self, host: usize, agent_only: bool) -> Result<Restart, Refusal> {
        let node = &self.view.network.hosts[host];
        let name = node.name.clone();
        if let Some(reason) = self.view.lost_namespace(host) {
            return Err(Refusal::new(reason, AGAIN));
        }
        if agent_only && node.nic.is_none() {
            return Err(Refusal::new(format!("host {name} has no agent"), "omit --agent"));
        }
        if !agent_only && node.place != Place::Fresh {
            return Err(Refusal::new(
                format!(
                    "the programs of host {name} are not the lab's, because the host existed before the lab"
                ),
                "restart only its agent, by --agent",
            ));
        }
        let part = if agent_only { RestartedPart::Agent } else { RestartedPart::Host };
        let mut restart = self.view.restart(&name, part);
        if !agent_only {
            let namespace = self.view.devices[host].first().map(|device| device.namespace().inode());
            restart.programs = leftovers::end_members(&namespace.into_iter().collect(), &self.agents.pids());
        }
        if node.nic.is_some() {
            restart.queue_dropped = self.view.queue_dropped(host);
            let queues = self.view.devices[host].iter().filter_map(|device| device.queue().ok());
            restart.queued = queues.map(|queue| queue.waiting).sum();
            match self.agents.restart(&self.view.network, &self.view.devices, host) {
                Ok(failed) => restart.failed.extend(failed),
                Err(error) => {
                    restart.failed.push(error.to_string());
                    self.view.restarted(restart);
                    return Err(refusal(&error));
                }
            }
        }
        Ok(restart)
    }
}

/// Describes this machine without memory and network devices to check against: the old switch still holds its share.
fn here() -> Machine {
    Machine { memory: None, ..machine::here().without_networks() }
}

/// Returns the frames that each port lost by a restart. The new switch [missed](RunningNetwork::missed) `now` frames; the old one had
/// missed `earlier` of these, and received `received`.
fn lost(
    earlier: &BTreeMap<String, i64>,
    received: &BTreeMap<String, u64>,
    now: &BTreeMap<String, i64>,
) -> BTreeMap<String, u64> {
    let of_port = |(port, now): (&String, &i64)| {
        let before = earlier.get(port).copied().unwrap_or(0);
        let received = signed(received.get(port).copied().unwrap_or(0));
        (port.clone(), u64::try_from(now - before - received).unwrap_or(0))
    };
    now.iter().map(of_port).collect()
}

fn signed(frames: u64) -> i64 {
    i64::try_from(frames).unwrap_or(i64::MAX)
}

fn received(status: &Status) -> BTreeMap<String, u64> {
    let of_port = |port: &PortStatus| {
        let data: u64 = port.classes.iter().map(|class| class.rx_frames).sum();
        data + port.pfc_frames_received + port.pause_frames_received + port.reserved_frames
    };
    status.ports.iter().map(|port| (port.name.clone(), of_port(port))).collect()
}

fn refusal(error: &NetworkError) -> Refusal {
    let help = miette::Diagnostic::help(error).map(|help| help.to_string());
    Refusal { message: error.to_string(), help }
}

#[cfg(test)]
mod tests {
    use xoff_switch::control::testing;
    use xoff_wire::units::Class;

    use super::*;

    #[test] // proves: lab-account
    fn counters_and_status_of_port_agree_on_received_frames() {
        let (view, _inbox) = testing::view();
        let (id, _) = view.ports().next().expect("a port");
        let (counters, before) = (view.counters.port(id), view.frames_received(id));
        Class::ALL.into_iter().for_each(|class| view.counters.class(id, class).rx_frames.add(1_000));
        counters.pfc_frames_received.add(100);
        counters.pause_frames_received.add(10);
        counters.rate_frames_received.add(7); // of the PFC frames
        counters.reserved_frames.add(1);
        let status = snapshot(&view, &vec![Answer::Silent; view.workers.len()]);
        assert_eq!(view.frames_received(id), before + 8_111);
        assert_eq!(view.frames_received(id), received(&status)[view.name_of(id)]);
    }

    #[test] // proves: lab-account
    fn frames_lost_during_restart_of_lab_switch_are_counted() {
        // The new switch missed 130 frames: 10 from before the start of the old switch, and 120 from after it.
        let (earlier, now) = ([("a".to_owned(), 10)].into(), [("a".to_owned(), 130)].into());
        let with = |received: u64| lost(&earlier, &[("a".to_owned(), received)].into(), &now)["a"];
        assert_eq!([with(100), with(119), with(120), with(121)], [20, 1, 0, 0]);
        assert_eq!(lost(&BTreeMap::new(), &BTreeMap::new(), &now)["a"], 130);
    }
}
