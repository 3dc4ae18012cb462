//! Plan of a fabric: hosts, switches, wires and routes.
//!
//! Switches have static forwarding entries for all hosts, so they flood no frames, and cycles of wires are harmless.

use std::net::Ipv4Addr;

use toml_span::value::{Table, ValueInner};
use toml_span::{Span, Value};
use xoff_config::reader::rearrange::{copied, entry, table};
use xoff_config::reader::{self, Problems};
use xoff_config::{Config, ConfigError, Hardware, Machine, Problem};
use xoff_host::payload::ip_address;
use xoff_wire::units::{BitRate, Class, MacAddr, Nanos, PortId};

use crate::line::Line;
use crate::set;
use crate::settings::Settings;

pub const LOSSLESS: Class = Class::ALL[3];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchId(pub(crate) usize);

impl SwitchId {
    pub const fn index(self) -> usize {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub(crate) usize);

impl HostId {
    pub const fn index(self) -> usize {
        self.0
    }

    pub fn address(self) -> MacAddr {
        let [high, low] = self.number().to_be_bytes();
        MacAddr([0x02, 0, 0, high, low, OF_HOST])
    }

    pub fn ipv4(self) -> Ipv4Addr {
        ip_address(self.address())
    }

    pub fn number(self) -> u16 {
        u16::try_from(self.0 + 1).expect("a plan must have at most 65,535 hosts")
    }
}

const OF_HOST: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortOf {
    pub switch: SwitchId,
    pub port: PortId,
}

#[derive(Clone, Debug)]
struct PlannedPort {
    name: String,
    leads_to_switch: bool,
    speed: BitRate,
}

#[derive(Clone, Debug)]
struct PlannedSwitch {
    name: String,
    ports: Vec<PlannedPort>,
    role: Role,
    groups: Vec<(String, Vec<PortId>, &'static str)>,
    settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Compared,
    Nic,
}

#[derive(Clone, Debug)]
pub struct PlannedHost {
    pub name: String,
    pub at: PortOf,
    pub line: BitRate,
    pub stack: Stack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Program `xoff traffic`, which obeys pauses.
    Traffic,
    /// Sockets of the kernel, which ignores pauses.
    Kernel,
}

#[derive(Clone, Debug)]
pub struct Plan {
    line: Line,
    pub(crate) point: String,
    switches: Vec<PlannedSwitch>,
    hosts: Vec<PlannedHost>,
    trunks: Vec<(PortOf, PortOf)>,
    routes: Vec<(HostId, PortOf)>,
    is_routed: bool,
    settings: Settings,
}

/// Line time of the bytes at the XOFF threshold; those at XON keep the line busy while a sender waits for a CPU core.
const XOFF: Nanos = Nanos::from_millis(4);
const XON: Nanos = Nanos::from_millis(2);
const STALL_BUDGET: &str = "25ms";
const TRUNK: &str = "trunk";
const OWN: &str = "# Set by the experiment.\n";

impl Plan {
    pub fn new(line: impl Into<Line>) -> Plan {
        let line = line.into();
        let mut settings = Settings::default();
        settings
            .set("switch.http", false)
            .set("switch.log", "warn")
            .set("fdb.capacity", 64)
            .set("class.3.xoff", line.rate().bytes_in(line.span(XOFF)))
            .set("class.3.xon", line.rate().bytes_in(line.span(XON)))
            .set("defaults.flood_unknown", false)
            .set("defaults.flood_group", false)
            .set("defaults.lldp", false);
        if line.hardware() == Hardware::Software {
            settings.set("switch.stall_budget", STALL_BUDGET).set("defaults.peer_response", "software");
        }
        Plan {
            line,
            point: String::new(),
            switches: Vec::new(),
            hosts: Vec::new(),
            trunks: Vec::new(),
            routes: Vec::new(),
            is_routed: false,
            settings,
        }
    }

    pub const fn line(&self) -> Line {
        self.line
    }

    /// Sets the plan's label in raw data: its point in a sweep, such as `senders=8`.
    pub fn at_point(self, point: impl Into<String>) -> Plan {
        Plan { point: point.into(), ..self }
    }

    pub fn routed(mut self) -> Plan {
        self.settings.set("defaults.routed", true).set("router.netns", "kernel");
        Plan { is_routed: true, ..self }
    }

    pub const fn is_routed(&self) -> bool {
        self.is_routed
    }

    pub fn has_trunks(&self) -> bool {
        let compared = |at: PortOf| self.switches[at.switch.0].role == Role::Compared;
        self.trunks.iter().any(|&(a, b)| compared(a) && compared(b))
    }

    pub fn needs_a_machine(&self) -> Option<&'static str> {
        let has_kernels = self.hosts_with(Stack::Kernel).next().is_some();
        has_kernels.then_some("its hosts use TCP of a kernel, and the simulator has no kernel")
    }

    pub fn settings_of(&mut self, switch: SwitchId) -> &mut Settings {
        &mut self.switches[switch.0].settings
    }

    pub fn switch(&mut self, name: &str) -> SwitchId {
        self.add_switch(name, Role::Compared)
    }

    /// Adds a switch that acts as a kernel host's NIC: it obeys pauses for the kernel.
    pub fn nic(&mut self, name: &str) -> SwitchId {
        self.add_switch(name, Role::Nic)
    }

    fn add_switch(&mut self, name: &str, role: Role) -> SwitchId {
        let settings = Settings::default();
        self.switches.push(PlannedSwitch {
            name: name.to_owned(),
            ports: Vec::new(),
            role,
            groups: Vec::new(),
            settings,
        });
        SwitchId(self.switches.len() - 1)
    }

    pub fn host(&mut self, name: &str, switch: SwitchId) -> HostId {
        self.host_with(name, switch, self.line.rate())
    }

    pub fn host_with(&mut self, name: &str, switch: SwitchId, line: BitRate) -> HostId {
        self.add_host(name, switch, line, Stack::Traffic)
    }

    pub fn kernel_host(&mut self, name: &str, switch: SwitchId) -> HostId {
        self.add_host(name, switch, self.line.rate(), Stack::Kernel)
    }

    fn add_host(&mut self, name: &str, switch: SwitchId, line: BitRate, stack: Stack) -> HostId {
        let host = HostId(self.hosts.len());
        let at = self.add_port(switch, name, false, line);
        self.hosts.push(PlannedHost { name: name.to_owned(), at, line, stack });
        host
    }

    pub fn trunk(&mut self, a: SwitchId, b: SwitchId) -> (PortOf, PortOf) {
        let name = |to: SwitchId| format!("to-{}", self.switches[to.0].name);
        let (to_b, to_a) = (name(b), name(a));
        let [leads_to_a, leads_to_b] = [a, b].map(|to| self.switches[to.0].role == Role::Compared);
        let rate = self.line.rate();
        let ends = (self.add_port(a, &to_b, leads_to_b, rate), self.add_port(b, &to_a, leads_to_a, rate));
        self.trunks.push(ends);
        ends
    }

    pub fn trunks(&self) -> &[(PortOf, PortOf)] {
        &self.trunks
    }

    pub fn trunks_of(&self, switch: SwitchId) -> impl Iterator<Item = (PortOf, PortOf)> {
        let ends = self.trunks.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        ends.filter(move |(here, _)| here.switch == switch)
    }

    pub fn group(&mut self, name: &str, ports: &[PortOf], spread: &'static str) {
        let Some(first) = ports.first() else { return };
        let members = ports.iter().map(|at| at.port).collect();
        self.switches[first.switch.0].groups.push((name.to_owned(), members, spread));
    }

    /// Routes frames to `host` by this port, not by the shortest path.
    pub fn route(&mut self, host: HostId, by: PortOf) {
        self.routes.push((host, by));
    }

    pub fn port_of(&self, host: HostId) -> PortOf {
        self.hosts[host.0].at
    }

    pub fn ports_of(&self, switch: SwitchId) -> impl Iterator<Item = PortOf> + use<> {
        let count = self.switches[switch.0].ports.len();
        (0..=u8::MAX).map(PortId).take(count).map(move |port| PortOf { switch, port })
    }

    pub fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(SwitchId)
    }

    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(HostId)
    }

    pub fn host_of(&self, host: HostId) -> &PlannedHost {
        &self.hosts[host.0]
    }

    pub fn hosts_with(&self, stack: Stack) -> impl Iterator<Item = HostId> {
        self.hosts().filter(move |host| self.hosts[host.0].stack == stack)
    }

    pub fn switch_name(&self, switch: SwitchId) -> &str {
        &self.switches[switch.0].name
    }

    pub fn port_name(&self, at: PortOf) -> &str {
        &self.switches[at.switch.0].ports[at.port.index()].name
    }

    fn add_port(&mut self, switch: SwitchId, name: &str, leads_to_switch: bool, speed: BitRate) -> PortOf {
        let ports = &mut self.switches[switch.0].ports;
        let port = PortId(u8::try_from(ports.len()).expect("a switch must have at most 256 ports"));
        ports.push(PlannedPort { name: name.to_owned(), leads_to_switch, speed });
        PortOf { switch, port }
    }

    pub fn config(
        &self,
        switch: SwitchId,
        variant: &Settings,
        machine: Machine,
    ) -> Result<Config, ConfigError> {
        let planned = &self.switches[switch.0];
        let under = variant.policy.map_or(String::new(), |policy| format!(" under {policy}"));
        let name = format!("configuration of {}{under}", planned.name);
        let own_policy = variant.own_policy.clone().or(machine.own_policy);
        let machine = Machine { own_policy, ..machine };
        let over = if planned.role == Role::Compared { &variant.over[..] } else { &[] };
        let (config, remarks) = reader::read(&name, &set::written(OWN, over), |over, problems| {
            let document = self.document(switch, variant, &over, problems);
            Config::of_document(&document, self.line.hardware(), &machine, problems)
        })?;
        Ok(Config { warnings: remarks.warnings, notes: remarks.notes, ..config })
    }

    fn document<'de>(
        &self,
        switch: SwitchId,
        variant: &Settings,
        over: &Value<'de>,
        problems: &mut Problems,
    ) -> Value<'de> {
        let planned = &self.switches[switch.0];
        let span = Span::new(0, OWN.len());
        let mut settings = self.settings.clone();
        settings.set("switch.name", planned.name.as_str());
        if planned.role == Role::Compared {
            settings.extend(variant);
        }
        settings.extend(&planned.settings);
        let text = |text: &str| ValueInner::String(text.to_owned().into());
        let list = |entries| Value::with_span(ValueInner::Array(entries), span);
        let of = |keys| Value::with_span(ValueInner::Table(keys), span);
        let names = |ports: &mut dyn Iterator<Item = &PlannedPort>| {
            list(ports.map(|port| Value::with_span(text(&port.name), span)).collect())
        };
        let mut root = settings.document(span);
        // Many switches share the machine's cores, so each has one worker.
        let worker = of(Table::from([entry("ports", names(&mut planned.ports.iter()).take(), span)]));
        set::put(&mut root, &["switch", "workers"], list(vec![worker])).expect("`switch` is a table");
        let given = set::checked_values(over, |path| path.iter().map(String::as_str).collect(), problems);
        // First set values copied from another class, then the class's own, which take precedence.
        for is_own in [false, true] {
            for (path, value) in &given {
                let path = path.join(".");
                for place in variant.reach(&path).into_iter().filter(|place| (*place == path) == is_own) {
                    let at: Vec<_> = place.split('.').collect();
                    if let Err(why) = set::put(&mut root, &at, copied(value)) {
                        problems
                            .push(Problem::error(format!("`{place}`: {why}")).at(value.span, "not there"));
                    }
                }
            }
        }
        let mut top = table(root.take()).unwrap_or_default();
        let of_trunks = top.remove(TRUNK);
        let port = |port: &PlannedPort| {
            let trunk = of_trunks.as_ref().filter(|_| port.leads_to_switch);
            let mut keys = trunk.and_then(|keys| table(copied(keys).take())).unwrap_or_default();
            let speed = port.speed.bits_per_second().to_string();
            let identity = [("name", &port.name), ("device", &port.name), ("speed", &speed)];
            keys.extend(identity.map(|(key, value)| entry(key, text(value), span)));
            of(keys)
        };
        let group = |(name, ports, spread): &(String, Vec<PortId>, &str)| {
            let mut members = ports.iter().map(|port| &planned.ports[port.index()]);
            let ports = names(&mut members).take();
            of(Table::from([
                entry("name", text(name), span),
                entry("ports", ports, span),
                entry("spread", text(spread), span),
            ]))
        };
        let station = |host: HostId| {
            let port = self.next_port(switch, host);
            let group = planned.groups.iter().find(|(_, ports, _)| ports.contains(&port));
            let by = match group {
                Some((name, ..)) => entry("group", text(name), span),
                None => entry("port", text(&planned.ports[port.index()].name), span),
            };
            of(Table::from([entry("mac", text(&host.address().to_string()), span), by]))
        };
        let stations = self.hosts().filter(|_| !self.is_routed).map(station).collect();
        top.extend([entry("port", list(planned.ports.iter().map(port).collect()).take(), span)]);
        if !planned.groups.is_empty() {
            top.extend([entry("group", list(planned.groups.iter().map(group).collect()).take(), span)]);
        }
        let mut root = of(top);
        set::put(&mut root, &["fdb", "static"], list(stations)).expect("`fdb` is a table");
        root
    }

    fn next_port(&self, switch: SwitchId, host: HostId) -> PortId {
        let route = self.routes.iter().find(|(to, by)| *to == host && by.switch == switch);
        let by = route.map(|&(_, by)| by).or_else(|| self.next_hops(switch, host).first().copied());
        let Some(by) = by else {
            panic!("no path leads from {} to {}", self.switch_name(switch), self.hosts[host.0].name)
        };
        by.port
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ring() -> (Plan, [SwitchId; 3], [HostId; 3]) {
        let mut plan = Plan::new(BitRate::from_mbps(100));
        let switches = ["a", "b", "c"].map(|name| plan.switch(name));
        let hosts = [0, 1, 2].map(|n| plan.host(&format!("host-{n}"), switches[n]));
        (plan, switches, hosts)
    }

    #[test]
    fn planned_route_overrides_shortest_path() {
        let (mut plan, [a, b, c], [_, _, at_c]) = ring();
        let (a_b, _) = plan.trunk(a, b);
        let (b_c, _) = plan.trunk(b, c);
        let (_, a_c) = plan.trunk(c, a);
        assert_eq!(plan.next_port(a, at_c), a_c.port);
        assert_eq!(plan.next_port(b, at_c), b_c.port);
        assert_eq!(plan.next_port(c, at_c), plan.port_of(at_c).port);
        plan.route(at_c, a_b);
        assert_eq!(plan.next_port(a, at_c), a_b.port);
    }

    #[test]
    fn planned_switch_configurations_are_valid() {
        let (mut plan, [a, b, c], [at_a, ..]) = ring();
        let (a_b, _) = plan.trunk(a, b);
        plan.trunk(b, c);
        let mut variant = Settings::default();
        variant.set("switch.accounting", "until-forwarded").set("switch.when_full", "stop");
        for switch in plan.switches() {
            plan.config(switch, &variant, Machine::default()).unwrap();
        }
        let config = plan.config(a, &variant, Machine::default()).unwrap();
        let xoff = |at: PortOf| config.switch.ports[at.port.index()].classes[3].xoff.0;
        assert_eq!((xoff(a_b), xoff(plan.port_of(at_a))), (50_000, 50_000));
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }

    #[test] // proves: experiment-parity
    fn simulated_switch_has_same_configuration_as_live_one() {
        let rate = BitRate::from_mbps(200);
        let configurations = |line: Line| {
            let mut plan = Plan::new(line);
            let switches = ["a", "b"].map(|name| plan.switch(name));
            switches.iter().for_each(|&switch| _ = plan.host(&format!("at-{}", switch.0), switch));
            plan.trunk(switches[0], switches[1]);
            let config = |&switch| plan.config(switch, &Settings::default(), Machine::default()).unwrap();
            format!("{:?}", switches.iter().map(config).collect::<Vec<_>>())
        };
        let live = configurations(Line::from(rate));
        assert_eq!(live, configurations(Line::simulated_machine(rate)));
        assert_ne!(live, configurations(Line::simulated(rate)));
    }

    #[test]
    fn planned_routers_have_no_bridged_port() {
        let (mut plan, [a, b, c], _) = ring();
        plan.trunk(a, b);
        plan.trunk(b, c);
        let plan = plan.routed();
        for switch in plan.switches() {
            let config = plan.config(switch, &Settings::default(), Machine::default()).unwrap();
            assert!(config.switch.ports.iter().all(|port| port.routed), "{config:?}");
            assert!(config.warnings.is_empty(), "{:?}", config.warnings);
            assert!(config.switch.fdb.statics.is_empty());
        }
    }

    #[test] // proves: experiments
    fn user_settings_change_every_switch_but_no_host_nic() {
        let mut plan = Plan::new(BitRate::from_mbps(100));
        let (switch, nic) = (plan.switch("switch"), plan.nic("nic"));
        plan.trunk(switch, nic);
        [switch, nic].iter().for_each(|&of| _ = plan.settings_of(of).set("class.3.xoff", 60_000));
        let mut variant = Settings::default();
        variant.set("class.3.xoff", 70_000).over.push("class.3.xoff=80KB".parse().unwrap());
        let xoff = |of| {
            let config = plan.config(of, &variant, Machine::default()).unwrap();
            config.switch.ports[0].classes[3].xoff.0
        };
        assert_eq!((xoff(switch), xoff(nic)), (80_000, 60_000));
        assert!(!plan.has_trunks(), "user settings must not change a NIC");
    }

    #[test]
    fn policy_settings_apply_to_switches_but_not_hosts() {
        let mut plan = Plan::new(BitRate::from_mbps(100));
        let (switch, nic) = (plan.switch("switch"), plan.nic("nic"));
        plan.kernel_host("host", nic);
        plan.trunk(switch, nic);
        plan.settings_of(nic).set("class.3.xon", 1_518);
        let mut variant = Settings::default();
        variant.set("class.3.xoff", 70_000).set("class.3.xon", 60_000);
        variant.set("switch.policy", "ofc").set("trunk.ofc_peer", true);
        let thresholds = |of| {
            let config = plan.config(of, &variant, Machine::default()).unwrap();
            assert!(
                config.switch.ports.iter().all(|port| !port.ofc_peer),
                "a host's NIC must not get settings of the policy"
            );
            let class = &config.switch.ports[0].classes[3];
            (class.xoff.0, class.xon.0)
        };
        assert_eq!((thresholds(switch), thresholds(nic)), ((70_000, 60_000), (50_000, 1518)));
    }
}
