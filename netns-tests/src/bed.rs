//! Hosts around a switch.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use xoff::control::status::Status;
use xoff::lab::{Counters, Device, Lab, Namespace, VethOptions};
use xoff_dataplane::units::MacAddr;

use crate::{Config, Exit, Host, Switch};

/// How a bed is to be built.
#[derive(Clone, Debug)]
pub struct Plan {
    binary: PathBuf,
    hosts: u8,
    ipv6: bool,
    options: VethOptions,
}

impl Plan {
    /// For the binary at `binary`: that many hosts, IPv4 only, an MTU of 1500, one queue.
    #[must_use]
    pub fn new(binary: impl AsRef<Path>, hosts: u8) -> Plan {
        let binary = binary.as_ref().to_owned();
        Plan { binary, hosts, ipv6: false, options: VethOptions::default() }
    }

    /// Hosts speak IPv6 too. Their group memberships are frames that the tap sees.
    #[must_use]
    pub fn ipv6(mut self) -> Plan {
        self.ipv6 = true;
        self
    }

    /// Another MTU on all wires.
    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Plan {
        self.options.mtu = mtu;
        self
    }

    /// More queues on all devices.
    #[must_use]
    pub fn queues(mut self, queues: u32) -> Plan {
        self.options.queues = queues;
        self
    }

    /// Makes the namespaces and the wires; no switch yet.
    #[must_use]
    pub fn build(self) -> Bed {
        let alone = one_bed_at_a_time(&self.binary);
        let mut lab = Lab::new();
        let switch = namespace(&lab, "switch");
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        for number in 1..=self.hosts {
            let (port, host) = self.wire(&mut lab, &switch, number);
            hosts.push(Host::new(number, host));
            ports.push(port);
        }
        let baseline = counters(&lab);
        Bed { hosts, ports, namespace: switch, lab, baseline, binary: self.binary, _alone: alone }
    }

    fn wire(&self, lab: &mut Lab, switch: &Namespace, number: u8) -> (Device, Device) {
        let host = namespace(lab, &format!("h{number}"));
        let name = format!("p{number}");
        let port = switch.end(&name).mac(MacAddr([2, 0, 0, 0, 1, number]));
        let mut eth0 = host.end("eth0").mac(Host::mac_of(number)).address([10, 0, 0, number], 24);
        if self.ipv6 {
            eth0 = eth0.address([0xfd00, 0, 0, 0, 0, 0, 0, number.into()], 64);
        }
        lab.veth(port, eth0, &self.options).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// One namespace for the switch, with ports p1, p2, ..., and one for each host.
pub struct Bed {
    hosts: Vec<Host>,
    ports: Vec<Device>,
    namespace: Namespace,
    lab: Lab,
    baseline: Vec<Counters>,
    binary: PathBuf,
    _alone: Flock<File>,
}

impl Bed {
    /// Host `number`, from 1.
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number - 1]
    }

    /// The switch's side of the wire to host `number`.
    #[must_use]
    pub fn port(&self, number: usize) -> &Device {
        &self.ports[number - 1]
    }

    /// The switch's namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A configuration for all its ports with these `[defaults]`; see [`Config`].
    #[must_use]
    pub fn config(&self, defaults: &str) -> Config {
        Config::new(u8::try_from(self.ports.len()).unwrap(), defaults)
    }

    /// Starts the switch with this configuration; see [`Switch::start`].
    #[must_use]
    pub fn start(&self, config: &Config) -> Switch {
        Switch::start(&self.binary, &self.namespace, &config.to_string())
    }

    /// Starts it without waiting; see [`Switch::launch`].
    #[must_use]
    pub fn launch(&self, config: &Config) -> Switch {
        Switch::launch(&self.binary, &self.namespace, &config.to_string())
    }

    /// Stops the switch and holds it to its promise: nothing was lost in any device or socket, no
    /// lossless class lost anything, every frame is accounted for, and it ends with exit status 0.
    /// Returns what it said of itself before.
    pub fn finish(&self, switch: Switch) -> Status {
        let said = switch.status();
        let Exit { status, stderr, .. } = switch.stop();
        self.assert_no_drops();
        assert!(said.verdict.lossless, "{:#?}\n{stderr}", said.verdict);
        assert!(status.success(), "the switch ended with {status}:\n{stderr}");
        said
    }

    /// No drop counter of any veth end has moved since the bed was built.
    pub fn assert_no_drops(&self) {
        let moved: Vec<String> = self
            .lab
            .devices()
            .iter()
            .zip(self.baseline.iter().zip(counters(&self.lab)))
            .filter(|(_, (before, after))| drops(before) != drops(after))
            .map(|(device, (before, after))| {
                let place = device.namespace().name();
                format!("{place}/{}: (rx, tx) {:?} -> {:?}", device.name(), drops(before), drops(&after))
            })
            .collect();
        assert!(moved.is_empty(), "frames lost in devices: {moved:#?}");
    }
}

fn drops(counters: &Counters) -> (u64, u64) {
    (counters.rx_dropped, counters.tx_dropped)
}

fn counters(lab: &Lab) -> Vec<Counters> {
    let read = |device: &Device| device.counters().unwrap_or_else(|error| panic!("{error}"));
    lab.devices().iter().map(read).collect()
}

fn namespace(lab: &Lab, name: &str) -> Namespace {
    lab.namespace(name).unwrap_or_else(|error| panic!("{error}"))
}

/// Beds carry paced traffic and would measure each other: whoever runs the tests, threads or
/// processes, there is one bed at a time.
fn one_bed_at_a_time(binary: &Path) -> Flock<File> {
    let file = File::create(binary.with_extension("lock")).unwrap();
    Flock::lock(file, FlockArg::LockExclusive).unwrap_or_else(|(_, error)| panic!("{error}"))
}
