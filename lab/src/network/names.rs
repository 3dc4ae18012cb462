use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::config::{Network, variable};

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Entrance {
    pub net: PathBuf,
    pub mnt: PathBuf,
    pub uts: PathBuf,
}

impl Entrance {
    #[must_use]
    pub fn below(directory: &Path) -> Entrance {
        let [net, mnt, uts] = ["net", "mnt", "uts"].map(|file| directory.join(file));
        Entrance { net, mnt, uts }
    }
}

/// Returns an `/etc/hosts` with the lab's hosts, then the machine's own lines.
#[must_use]
pub fn hosts_file(network: &Network, of_machine: &str) -> String {
    let mut text = String::new();
    for host in &network.hosts {
        for interface in &host.interfaces {
            let _ =
                writeln!(text, "{} {name}\n{} {name}", interface.ipv4.0, interface.ipv6.0, name = host.name);
        }
    }
    text + of_machine
}

/// Returns the environment variables for programs. `entrances`: namespace files of all hosts, then of all switches.
#[must_use]
pub fn variables(network: &Network, entrances: &[Entrance]) -> BTreeMap<String, String> {
    let hosts: Vec<&str> = network.hosts.iter().map(|host| host.name.as_str()).collect();
    let switches: Vec<&str> = network.switches.iter().map(|switch| switch.name.as_str()).collect();
    let mut variables = BTreeMap::from([
        ("XOFF_LAB".to_owned(), network.name.clone()),
        ("XOFF_LAB_HOSTS".to_owned(), hosts.join(" ")),
        ("XOFF_LAB_SWITCHES".to_owned(), switches.join(" ")),
    ]);
    let mut say = |node: &str, what: &str, value: String| {
        variables.insert(format!("XOFF_{}_{what}", variable(node)), value);
    };
    for (node, entrance) in hosts.iter().chain(&switches).zip(entrances) {
        say(node, "NETNS", entrance.net.display().to_string());
        say(node, "MNTNS", entrance.mnt.display().to_string());
    }
    for host in &network.hosts {
        if let Some(first) = host.interfaces.first() {
            say(&host.name, "IPV4", first.ipv4.0.to_string());
            say(&host.name, "IPV6", first.ipv6.0.to_string());
            say(&host.name, "MAC", first.mac.to_string());
            say(&host.name, "DEVICE", first.device.clone());
        }
    }
    variables
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::Machine;

    use super::*;

    #[test]
    fn lab_programs_get_variables_and_host_names_of_all_nodes() {
        let text = "name = \"n\"\n[[switch]]\nname = \"s-1\"\nhosts = 2\n";
        let network = Network::from_toml("lab.toml", text, "lab", &Machine::default()).unwrap();
        let entrances = ["/a", "/b", "/c"].map(|at| Entrance::below(Path::new(at)));
        let variables = variables(&network, &entrances);
        let of = |name: &str| variables[name].as_str();
        assert_eq!([of("XOFF_LAB"), of("XOFF_LAB_HOSTS"), of("XOFF_LAB_SWITCHES")], ["n", "h1 h2", "s-1"]);
        assert_eq!(
            [of("XOFF_H2_IPV4"), of("XOFF_H2_IPV6"), of("XOFF_H2_DEVICE")],
            ["10.1.0.2", "fd78:6f66:6600:1::2", "eth0"]
        );
        assert_eq!(
            [of("XOFF_H1_NETNS"), of("XOFF_S_1_MNTNS"), of("XOFF_H1_MAC")],
            ["/a/net", "/c/mnt", "02:00:00:00:00:01"]
        );
        let hosts = hosts_file(&network, "127.0.0.1 localhost\n");
        assert!(hosts.starts_with("10.1.0.1 h1\nfd78:6f66:6600:1::1 h1\n10.1.0.2 h2\n"), "{hosts}");
        assert!(hosts.ends_with("127.0.0.1 localhost\n"), "{hosts}");
    }
}
