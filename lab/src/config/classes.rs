//! Lossless classes, `trust`, default class, and maps from PCP or DSCP, that a host's agent takes from the switch port
//! at its link.

use std::path::Path;

use xoff_config::defaults;
use xoff_flow_control::settings::{FlowControl, PortSettings, Trust};
use xoff_nic::NicWishes;
use xoff_wire::units::Class;

use super::{AGENT_FILE, End, Host, Network};

impl Network {
    pub(super) fn shared_classes(&self) -> Vec<Vec<(String, String)>> {
        let with_agent = self.hosts.iter().filter(|host| host.nic.is_some());
        let at_agents = with_agent.flat_map(|host| {
            (0..host.interfaces.len()).map(|interface| self.agent_arguments(host, interface))
        });
        let ends = self.links.iter().filter(|link| link.line.is_some()).flat_map(|link| link.ends);
        let at_lines = ends.filter_map(|end| match end {
            End::Port { switch, port } => Some(of_port(&self.switches[switch].config.switch.ports[port])),
            End::Host { .. } => None,
        });
        let at_lines =
            at_lines.map(|keys| keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        at_agents.chain(at_lines).collect()
    }

    /// Returns the arguments of the agent (`xoff nic`) at a host's interface. Settings missing in the lab's file and the agent's file come
    /// from the switch port.
    #[must_use]
    pub fn agent_arguments(&self, host: &Host, interface: usize) -> Vec<(String, String)> {
        let own = host.nic.as_ref().map_or(&[][..], |settings| &settings.0);
        let ends = self.links[host.interfaces[interface].link].ends;
        let port = ends.into_iter().find_map(|end| match end {
            End::Port { switch, port } => Some(&self.switches[switch].config.switch.ports[port]),
            End::Host { .. } => None,
        });
        let file = own.iter().find(|(key, _)| key == AGENT_FILE);
        // Do not read a pipe here: it can be read only once, and the agent needs its content.
        if file.is_some_and(|(_, path)| Path::new(path).exists() && !Path::new(path).is_file()) {
            return own.to_vec();
        }
        // Ignore an unreadable agent file: the agent reports the error.
        let file = file.and_then(|(_, path)| NicWishes::load(path.as_ref()).ok()).unwrap_or_default();
        let is_given = |key: &str| {
            own.iter().any(|(name, _)| name == key)
                || match key {
                    "lossless" => file.lossless.is_some(),
                    "trust" => file.trust.is_some(),
                    "default-class" => file.default_class.is_some(),
                    "pcp-map" => file.pcp_map.is_some(),
                    _ => file.dscp_map.is_some(),
                }
        };
        let of_port = port.into_iter().flat_map(of_port);
        let of_port = of_port.filter(|(key, _)| !is_given(key)).map(|(key, value)| (key.to_owned(), value));
        own.iter().cloned().chain(of_port).collect()
    }
}

fn of_port(port: &PortSettings) -> Vec<(&'static str, String)> {
    let lossless = match port.flow_control {
        FlowControl::Pfc { send, .. } if !send.is_empty() => send,
        _ => defaults::LOSSLESS,
    };
    let classes: Vec<String> = lossless.iter().map(|class| class.to_string()).collect();
    let mut dscp_to_class = port.dscp_to_class;
    if port.trust == Trust::Port {
        dscp_to_class = [port.default_class; 64];
    }
    let arguments = [
        ("lossless", Some(classes.join(",")).filter(|_| lossless != defaults::LOSSLESS)),
        ("trust", (port.trust == Trust::Pcp).then(|| "pcp".to_owned())),
        (
            "default-class",
            (port.default_class != defaults::DEFAULT_CLASS).then(|| port.default_class.to_string()),
        ),
        ("pcp-map", map(&port.pcp_to_class, |pcp| pcp)),
        ("dscp-map", map(&dscp_to_class, |dscp| dscp / 8)),
    ];
    arguments.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn map(classes: &[Class], default: fn(usize) -> usize) -> Option<String> {
    let others = classes.iter().enumerate().filter(|(code, class)| class.index() != default(*code));
    let entries: Vec<String> = others.map(|(code, class)| format!("{code}={class}")).collect();
    (!entries.is_empty()).then(|| entries.join(","))
}
