//! Finds devices by any of their names, and detects virtual devices on top of other devices: MAC control does not reach them.

use std::io;

use xoff_netlink::packet_route::link::{LinkAttribute, LinkInfo, LinkMessage};
use xoff_netlink::{Conversation, alternative_names};

/// Maximum number of virtual devices on top of each other; the kernel has the same limit.
const DEPTH_MAX: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed {
    index: u32,
    name: String,
    alternative_names: Vec<String>,
    kind: String,
    below: Option<u32>,
    is_below_elsewhere: bool,
    master: Option<u32>,
}

impl Listed {
    fn of(link: &LinkMessage) -> Listed {
        let alternative_names = alternative_names(link).into_iter().map(str::to_owned).collect();
        let mut listed = Listed { index: link.header.index, alternative_names, ..Listed::default() };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => listed.name.clone_from(name),
                LinkAttribute::LinkInfo(infos) => {
                    let kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                    listed.kind = kind.unwrap_or_default();
                }
                LinkAttribute::Link(index) => listed.below = Some(*index),
                LinkAttribute::LinkNetNsId(_) => listed.is_below_elsewhere = true,
                LinkAttribute::Controller(index) => listed.master = Some(*index),
                _ => {}
            }
        }
        listed
    }

    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.alternative_names.iter().any(|alternative| alternative == name)
    }
}

/// Reason why an agent cannot obey pauses at a virtual device, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stacked {
    /// The device gets no MAC control.
    Deaf(String),
    /// The device joins several links, each of which gets its own pauses.
    Joined(String),
}

impl Stacked {
    pub(crate) fn at(device: &str) -> Option<Stacked> {
        Stacked::among(&links().ok()?, device)
    }

    fn among(links: &[Listed], device: &str) -> Option<Stacked> {
        let listed = links.iter().find(|link| link.is_named(device))?;
        let kind = listed.kind.as_str();
        let is_deaf = is_deaf(kind)?;
        let below = below(links, listed, DEPTH_MAX);
        let at = match (below.is_empty(), kind) {
            (false, _) if is_deaf => format!("run the agent at {}", below.join(", ")),
            (false, _) => format!("run an agent at each of {}", below.join(", ")),
            (true, "bridge" | "bond" | "team") => format!("run the agent at the member links of {device}"),
            (true, _) if listed.is_below_elsewhere => {
                format!("run the agent at the device below {device}, in its own network namespace")
            }
            (true, _) => format!("run the agent at the device below {device}"),
        };
        Some(if is_deaf {
            let name = &listed.name;
            Stacked::Deaf(format!(
                "{name} ({kind}) gets no MAC control, so no pause can be obeyed there: {at}"
            ))
        } else {
            Stacked::Joined(format!(
                "{} ({kind}) joins several links, but a pause is for one of them: {at}",
                listed.name
            ))
        })
    }
}

fn is_deaf(kind: &str) -> Option<bool> {
    match kind {
        "vlan" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap" | "bridge" => Some(true),
        "bond" | "team" => Some(false),
        _ => None,
    }
}

/// Returns the bottom devices of a stack of virtual devices, if they are in this namespace.
fn below(links: &[Listed], device: &Listed, depth: usize) -> Vec<String> {
    let is_below = |link: &&Listed| match device.kind.as_str() {
        "bridge" | "bond" | "team" => link.master == Some(device.index),
        _ => !device.is_below_elsewhere && device.below == Some(link.index),
    };
    let lower = links.iter().filter(is_below);
    let mut names: Vec<String> = lower
        .flat_map(|link| match (depth, is_deaf(&link.kind)) {
            (1.., Some(_)) => below(links, link, depth - 1),
            _ => vec![link.name.clone()],
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the main name of the device whose main or alternative name is `name`; `name` itself if there is none.
#[must_use]
pub fn own_name(name: &str) -> String {
    let links = links().unwrap_or_default();
    links.into_iter().find(|link| link.is_named(name)).map_or_else(|| name.to_owned(), |link| link.name)
}

fn links() -> io::Result<Vec<Listed>> {
    let mut links = Vec::new();
    Conversation::open()?.links(|link| links.push(Listed::of(&link)))?;
    Ok(links)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use xoff_netlink::packet_route::link::Prop;

    use super::*;

    fn link(index: u32, name: &str, kind: &str) -> Listed {
        Listed { index, name: name.into(), kind: kind.into(), ..Listed::default() }
    }

    #[test] // proves: host-service
    fn stacked_device_is_reported_with_its_lower_devices() {
        let on = |below, listed| Listed { below: Some(below), ..listed };
        let of = |master, listed| Listed { master: Some(master), ..listed };
        let mut elsewhere = on(1, link(9, "mv9", "macvlan"));
        elsewhere.is_below_elsewhere = true;
        let links = [
            link(1, "eth0", ""),
            on(1, link(2, "mv0", "macvlan")),
            link(3, "br0", "bridge"),
            of(3, link(4, "v1", "veth")),
            of(3, link(5, "v0", "veth")),
            link(6, "bond0", "bond"),
            of(6, link(7, "e1", "")),
            on(6, link(8, "bond0.5", "vlan")),
            elsewhere,
            on(1, link(10, "veth0", "veth")),
            link(11, "br1", "bridge"),
        ];
        let deaf = |device: &str, remedy: &str| match Stacked::among(&links, device) {
            Some(Stacked::Deaf(text)) => assert!(text.ends_with(remedy), "{text}"),
            other => panic!("{device}: {other:?}"),
        };
        deaf("mv0", ": run the agent at eth0");
        deaf("br0", ": run the agent at v0, v1");
        deaf("br1", ": run the agent at the member links of br1");
        deaf("bond0.5", ": run the agent at e1");
        deaf("mv9", ": run the agent at the device below mv9, in its own network namespace");
        let Some(Stacked::Joined(text)) = Stacked::among(&links, "bond0") else { panic!("no bond") };
        assert!(text.ends_with(": run an agent at each of e1"), "{text}");
        for fine in ["eth0", "v0", "e1", "veth0", "none"] {
            assert_eq!(Stacked::among(&links, fine), None, "{fine}");
        }
    }

    #[test] // proves: host-service
    fn names_and_lower_devices_of_a_device_are_read_from_kernel() {
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let ip = |words: &str| {
                assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
            };
            ip("link add v0 type veth peer name v1");
            ip("link property add dev v0 altname enp9s0f1np1");
            ip("link add br0 type bridge");
            ip("link set v0 master br0");
            ip("link add link v1 name mv0 type macvlan mode bridge");
            assert_eq!((own_name("enp9s0f1np1"), own_name("v0")), ("v0".into(), "v0".into()));
            for (device, remedy) in [("br0", ": run the agent at v0"), ("mv0", ": run the agent at v1")] {
                let stacked = Stacked::at(device);
                assert!(
                    matches!(&stacked, Some(Stacked::Deaf(text)) if text.ends_with(remedy)),
                    "{device}: {stacked:?}"
                );
            }
            assert_eq!((Stacked::at("enp9s0f1np1"), Stacked::at("v1")), (None, None));
        });
        test.join().unwrap();
    }

    #[test] // proves: host-service
    fn alternative_name_of_device_is_found() {
        let mut message = LinkMessage::default();
        let alternative = Prop::AltIfName("enp9s0f1np1".into());
        message.attributes =
            vec![LinkAttribute::IfName("eth0".into()), LinkAttribute::PropList(vec![alternative])];
        let listed = Listed::of(&message);
        assert!(listed.is_named("eth0") && listed.is_named("enp9s0f1np1") && !listed.is_named("eth1"));
        assert_eq!((own_name("lo"), own_name("no-such-device")), ("lo".into(), "no-such-device".into()));
    }
}
