use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use xoff_lab::{Counters, Device, Lab, Namespace, VethEnd, VethOptions};
use xoff_switch::control::status::Status;
use xoff_wire::units::MacAddr;

use crate::{Config, Exit, Host, LaunchOptions, Switch};

#[derive(Clone, Debug)]
pub struct Plan {
    binary: PathBuf,
    hosts: u8,
    far: u8,
    trunks: u8,
    ipv6: bool,
    options: VethOptions,
}

impl Plan {
    /// Plans a test bed of `hosts` hosts: IPv4 only, MTU 1500, one queue per device.
    #[must_use]
    pub fn new(binary: impl AsRef<Path>, hosts: u8) -> Plan {
        let binary = binary.as_ref().to_owned();
        let options = VethOptions::default();
        Plan { binary, hosts, far: 0, trunks: 1, ipv6: false, options }
    }

    /// Places the last `hosts` hosts behind a second, far switch with ports p1, p2, .. A wire connects the last ports
    /// of both switches.
    #[must_use]
    pub fn far(mut self, hosts: u8) -> Plan {
        self.far = hosts;
        self
    }

    #[must_use]
    pub fn trunks(mut self, trunks: u8) -> Plan {
        self.trunks = trunks;
        self
    }

    /// Adds IPv6. Hosts' captures then include group membership reports.
    #[must_use]
    pub fn ipv6(mut self) -> Plan {
        self.ipv6 = true;
        self
    }

    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Plan {
        self.options.mtu = mtu;
        self
    }

    #[must_use]
    pub fn queues(mut self, queues: u32) -> Plan {
        self.options.queues = queues;
        self
    }

    #[must_use]
    pub fn build(self) -> Bed {
        let mut lab = Lab::new();
        let switch = namespace(&lab, "switch");
        let far = namespace(&lab, "far");
        let (mut devices, mut ports, mut far_ports) = (Vec::new(), Vec::new(), 0);
        let near = self.hosts - self.far;
        for number in 1..=near {
            let (port, host) = self.wire(&mut lab, end(&switch, &format!("p{number}"), 1, number), number);
            devices.push(host);
            ports.push(port);
        }
        for number in 1..=self.far {
            let (_, host) = self.wire(&mut lab, end(&far, &format!("p{number}"), 2, number), near + number);
            devices.push(host);
        }
        let hosts = start(devices);
        for trunk in (1..=self.trunks).filter(|_| self.far > 0) {
            let (here, there) = (near + trunk, self.far + trunk);
            let (a, b) = (format!("p{here}"), format!("p{there}"));
            let ends = (end(&switch, &a, 1, here), end(&far, &b, 2, there));
            let trunk = lab.veth(ends.0, ends.1, &self.options).unwrap_or_else(|error| panic!("{error}"));
            ports.push(trunk.0);
            far_ports = there;
        }
        let baseline = Mutex::new(counters(&lab));
        let binary = self.binary;
        Bed { hosts, ports, namespace: switch, far, far_ports, lab, baseline, binary }
    }

    fn wire(&self, lab: &mut Lab, port: VethEnd<'_>, number: u8) -> (Device, Device) {
        let host = namespace(lab, &format!("h{number}"));
        let mut eth0 = host.end("eth0").mac(Host::mac_of(number)).address([10, 0, 0, number], 24);
        if self.ipv6 {
            eth0 = eth0.address([0xfd00, 0, 0, 0, 0, 0, 0, number.into()], 64);
        }
        lab.veth(port, eth0, &self.options).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn start(devices: Vec<Device>) -> Vec<Host> {
    thread::scope(|scope| {
        let start = |(number, device)| scope.spawn(move || Host::new(number, device));
        let threads: Vec<_> = (1..).zip(devices).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Test bed: namespaces for the switch (with ports p1, p2, ..) and for each host.
pub struct Bed {
    hosts: Vec<Host>,
    ports: Vec<Device>,
    namespace: Namespace,
    far: Namespace,
    far_ports: u8,
    lab: Lab,
    baseline: Mutex<Vec<Counters>>,
    binary: PathBuf,
}

impl Bed {
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number - 1]
    }

    #[must_use]
    pub fn port(&self, number: usize) -> &Device {
        &self.ports[number - 1]
    }

    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    #[must_use]
    pub fn far_namespace(&self) -> &Namespace {
        &self.far
    }

    #[must_use]
    pub fn config(&self, defaults: &str) -> Config {
        Config::new(u8::try_from(self.ports.len()).unwrap(), defaults)
    }

    #[must_use]
    pub fn start(&self, config: &Config) -> Switch {
        self.start_in(&self.namespace, config)
    }

    /// Starts a switch. Drops at its devices during its start do not count as losses.
    fn start_in(&self, namespace: &Namespace, config: &Config) -> Switch {
        let before = counters(&self.lab);
        let switch = Switch::start(&self.binary, namespace, &config.to_string());
        let while_it_started =
            counters(&self.lab).into_iter().zip(before).map(|(now, before)| now.since(before));
        let mut baseline = self.baseline.lock().expect("another thread panicked while it held the lock");
        for ((device, baseline), added) in
            self.lab.devices().iter().zip(baseline.iter_mut()).zip(while_it_started)
        {
            if device.namespace().inode() == namespace.inode() {
                baseline.rx_dropped += added.rx_dropped;
                baseline.tx_dropped += added.tx_dropped;
            }
        }
        switch
    }

    #[must_use]
    pub fn far_config(&self, defaults: &str) -> Config {
        Config::new(self.far_ports, defaults)
    }

    #[must_use]
    pub fn start_far(&self, config: &Config) -> Switch {
        self.start_in(&self.far, config)
    }

    #[must_use]
    pub fn launch(&self, config: &Config) -> Switch {
        Switch::launch(&self.binary, &self.namespace, &config.to_string())
    }

    #[must_use]
    pub fn launch_with(&self, options: LaunchOptions, config: &Config) -> Switch {
        Switch::launch_with(options, &self.binary, &self.namespace, &config.to_string())
    }

    /// Runs a program in the switch's namespace. Calls `meanwhile` every 50 ms with the number of earlier calls.
    pub fn watched_by(&self, mut program: Command, mut meanwhile: impl FnMut(u32)) {
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = self.namespace.spawn(program).unwrap();
        let mut round = 0;
        while program.try_wait().unwrap().is_none() {
            meanwhile(round);
            round += 1;
            thread::sleep(Duration::from_millis(50));
        }
        let Output { status, stdout, stderr } = program.wait_with_output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(status.success(), "{stdout}\n{stderr}");
    }

    /// Stops the switch; returns its last status. Asserts exit status 0, no drop at a device or socket, no lost lossless frame, and a
    /// complete account of frames.
    pub fn finish(&self, switch: Switch) -> Status {
        let final_status = switch.status();
        let Exit { status, stderr, .. } = switch.stop();
        self.assert_no_drops();
        assert!(final_status.verdict.lossless, "{:#?}\n{stderr}", final_status.verdict);
        assert!(status.success(), "the switch ended with {status}:\n{stderr}");
        final_status
    }

    pub fn assert_no_drops(&self) {
        let baseline = self.baseline.lock().expect("another thread panicked while it held the lock").clone();
        let moved: Vec<String> = self
            .lab
            .devices()
            .iter()
            .zip(baseline.iter().zip(counters(&self.lab)))
            .filter(|(_, (before, after))| drops(before) != drops(after))
            .map(|(device, (before, after))| {
                let namespace = device.namespace().name();
                format!("{namespace}/{}: (rx, tx) {:?} -> {:?}", device.name(), drops(before), drops(&after))
            })
            .collect();
        assert!(moved.is_empty(), "devices dropped frames: {moved:#?}");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        Host::end(self.hosts.drain(..));
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

fn end<'a>(switch: &'a Namespace, name: &'a str, side: u8, number: u8) -> VethEnd<'a> {
    switch.end(name).mac(MacAddr([2, 0, 0, 0, side, number]))
}
