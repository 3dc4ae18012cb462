//! Routers of live fabrics: Linux with FRR finds the routes, in a namespace beside each switch.
//!
//! Every switch is an autonomous system (eBGP), so all paths over equally many switches are used (ECMP). IPv6 is off, because it sends
//! unsolicited traffic. FRR's programs end with the namespace's thread.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Group;
use tokio::runtime;

use crate::addresses::{Route, wire_address};
use crate::error::{CONVERGES_WITHIN, FabricError, GROUP, PLACES, RoutingError};
use crate::plan::{Plan, Stack, SwitchId};
use xoff_lab::network::enter;
use xoff_lab::{Device, Lab, LabError, Namespace};
use xoff_switch::control::SwitchView;
use xoff_switch::router::{Page, Row, table};

const DAEMONS: [&str; 2] = ["zebra", "bgpd"];
const OWN: &[&str] = &["/run", "/var/tmp", "/var/lib/frr"];
const STATE: &str = "/run/frr";
const POLL_EVERY: Duration = Duration::from_millis(20);
const LAST_LINES: usize = 3;
const ROUTES_MAX: usize = 10_000;
const AS_BASE: usize = 64_512;

pub(super) fn look_for_frr() -> Result<(), RoutingError> {
    let is_there = |missing| program(missing).map(drop).ok_or(RoutingError::NoFrr { missing });
    DAEMONS.into_iter().try_for_each(is_there)?;
    group().map(drop)
}

fn group() -> Result<u32, RoutingError> {
    let group = Group::from_name(GROUP).ok().flatten();
    group.map(|group| group.gid.as_raw()).ok_or(RoutingError::NoGroup)
}

fn program(name: &str) -> Option<PathBuf> {
    PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists())
}

pub(super) fn kernels(plan: &Plan, lab: &Lab) -> Result<Vec<Namespace>, LabError> {
    let kernel = |switch: SwitchId| {
        let kernel = lab.namespace(&format!("{}-kernel", plan.switch_name(switch)))?;
        let settings = [
            ("ipv4/ip_forward", "1"),
            // Replies may take another path back, and the kernel's reverse path filter would then drop packets.
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
        ];
        settings.into_iter().try_for_each(|(setting, value)| kernel.sysctl(setting, value))?;
        // Without IPv6 forwarding, the switch would warn, although no IPv6 packet arrives. A kernel without IPv6 lacks
        // this setting.
        let _ = kernel.sysctl("ipv6/conf/all/forwarding", "1");
        let files = [("zebra", zebra(plan, switch)), ("bgpd", bgpd(plan, switch))];
        let files = files.map(|(daemon, text)| (Path::new(STATE).join(format!("{daemon}.conf")), text));
        kernel.own_directories(OWN, files.into())?;
        Ok(kernel)
    };
    plan.switches().take_while(|_| plan.is_routed()).map(kernel).collect()
}

/// Returns zebra's configuration. It disables nexthop objects, with which FRR 8.4 does not use a path again after its
/// link was down.
fn zebra(plan: &Plan, switch: SwitchId) -> String {
    let name = plan.switch_name(switch);
    format!("frr defaults datacenter\nhostname {name}\nno zebra nexthop kernel enable\n")
}

fn bgpd(plan: &Plan, switch: SwitchId) -> String {
    let mut text = format!("frr defaults datacenter\nhostname {}\n", plan.switch_name(switch));
    let id = Ipv4Addr::from_bits(
        Ipv4Addr::new(192, 0, 2, 1).to_bits() + u32::try_from(switch.index()).unwrap_or(0),
    );
    let _ = write!(text, "router bgp {}\n bgp router-id {id}\n", AS_BASE + switch.index());
    text += " bgp bestpath as-path multipath-relax\n";
    for (wire, &(a, b)) in plan.trunks().iter().enumerate() {
        for (here, there) in [(a, b), (b, a)].into_iter().filter(|(here, _)| here.switch == switch) {
            let peer = wire_address(wire, here == a);
            let number = AS_BASE + there.switch.index();
            let _ = writeln!(text, " neighbor {peer} remote-as {number}");
            let _ = writeln!(
                text,
                " neighbor {peer} advertisement-interval 0\n neighbor {peer} timers connect 1"
            );
        }
    }
    text + " address-family ipv4 unicast\n  redistribute connected\n  maximum-paths 16\n exit-address-family\nexit\n"
}

#[derive(Debug, Default)]
pub(super) struct Routing(Vec<Daemon>);

#[derive(Debug)]
struct Daemon {
    name: &'static str,
    kernel: Namespace,
    switch: String,
    process: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill(); // fails if the process has ended
        let _ = self.process.wait();
    }
}

impl Routing {
    pub(super) fn start(
        plan: &Plan,
        kernels: &[Namespace],
        views: &[Arc<SwitchView>],
    ) -> Result<Routing, FabricError> {
        let mut routing = Routing::default();
        let end = Instant::now() + CONVERGES_WITHIN;
        for (switch, kernel) in plan.switches().zip(kernels) {
            configure_neighbours(plan, switch, kernel)?;
        }
        for name in DAEMONS {
            for (switch, kernel) in plan.switches().zip(kernels) {
                routing.0.push(Daemon::start(name, kernel, plan.switch_name(switch))?);
            }
            // Wait until zebra is ready: a daemon that does not find it would try again only after 10 s.
            let silent = |daemons: &[Daemon]| {
                let silent = daemons.iter().filter(|daemon| !daemon.listens());
                silent.map(|of| format!("{} of {} ({})", of.name, of.switch, of.last_output())).collect()
            };
            routing
                .wait(end, silent)
                .map_err(|silent| silent.or(|silent| RoutingError::Silent { silent }))?;
        }
        let missing = |_: &[Daemon]| missing_of_all(plan, views, Ready::Workers);
        routing
            .wait(end, missing)
            .map_err(|missing| missing.or(|missing| RoutingError::Missing { missing }))?;
        Ok(routing)
    }

    fn wait(&mut self, end: Instant, missing: impl Fn(&[Daemon]) -> Vec<String>) -> Result<(), WaitError> {
        loop {
            self.0.iter_mut().try_for_each(Daemon::check).map_err(WaitError::Ended)?;
            let missing = missing(&self.0);
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(WaitError::Late(missing));
            }
            thread::sleep(POLL_EVERY);
        }
    }

    pub(super) fn check(
        &mut self,
        plan: &Plan,
        views: &[Arc<SwitchView>],
        patience: Duration,
    ) -> Result<(), RoutingError> {
        let missing = |_: &[Daemon]| missing_of_all(plan, views, Ready::Routes);
        let withdrawn = |missing| RoutingError::Gone { missing };
        self.wait(Instant::now() + patience, missing).map_err(|end| end.or(withdrawn))
    }
}

enum WaitError {
    Ended(RoutingError),
    Late(Vec<String>),
}

impl WaitError {
    fn or(self, late: impl FnOnce(Vec<String>) -> RoutingError) -> RoutingError {
        match self {
            WaitError::Ended(error) => error,
            WaitError::Late(missing) => late(missing),
        }
    }
}

impl Daemon {
    fn start(name: &'static str, kernel: &Namespace, switch: &str) -> Result<Daemon, RoutingError> {
        let program = program(name).ok_or(RoutingError::NoFrr { missing: name })?;
        let state = |ending: &str| format!("{STATE}/{name}.{ending}");
        let failed = |source| RoutingError::Start { daemon: name, switch: switch.to_owned(), source };
        let error_output = kernel.create_file(Path::new(&state("err"))).map_err(failed)?;
        let mut command = enter::child(None);
        // Set the group here: if the daemon itself changed its group, the kernel would clear its parent-death signal.
        // `uid` also drops supplementary groups.
        command.uid(0).gid(group()?).arg(program);
        command.args(["--user", "root", "--group", GROUP, "--vty_port", "0", "--vty_socket", STATE]);
        command.args(["--config_file", &state("conf"), "--pid_file", &state("pid"), "--socket"]);
        command.arg(format!("{STATE}/zserv.api")).args(["--log", &format!("file:{}", state("log"))]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(error_output);
        let process = kernel.spawn(command).map_err(failed)?;
        Ok(Daemon { name, kernel: kernel.clone(), switch: switch.to_owned(), process })
    }

    fn listens(&self) -> bool {
        self.kernel.has_file(Path::new(&format!("{STATE}/{}.vty", self.name)))
    }

    fn check(&mut self) -> Result<(), RoutingError> {
        let Ok(Some(status)) = self.process.try_wait() else { return Ok(()) };
        let last_output = self.last_output();
        Err(RoutingError::Ended { daemon: self.name, switch: self.switch.clone(), status, last_output })
    }

    fn last_output(&self) -> String {
        let text = |ending: &str| {
            let text = self.kernel.read_file(Path::new(&format!("{STATE}/{}.{ending}", self.name)));
            text.unwrap_or_default()
        };
        last_output(["err", "log"].map(text))
    }
}

fn last_output(texts: [String; 2]) -> String {
    let last = |text: &String| {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ")
    };
    let outputs: Vec<String> = texts.iter().map(last).filter(|output| !output.is_empty()).collect();
    if outputs.is_empty() { "no output".into() } else { outputs.join(" | ") }
}

fn configure_neighbours(plan: &Plan, switch: SwitchId, kernel: &Namespace) -> Result<(), LabError> {
    plan.ports_of(switch).try_for_each(|at| {
        let (address, length) = plan.router_address(at);
        Device::find(kernel, plan.port_name(at))?.add_address(address.into(), length)
    })?;
    let mut here = plan.hosts_with(Stack::Traffic).filter(|&host| plan.port_of(host).switch == switch);
    here.try_for_each(|host| {
        let interface = Device::find(kernel, plan.port_name(plan.port_of(host)))?;
        interface.add_neighbour(host.ipv4().into(), host.address())
    })
}

fn page(view: &SwitchView) -> Option<Page> {
    let asker = &view.router.as_ref()?.mirror;
    let runtime = runtime::Builder::new_current_thread().build().ok()?;
    runtime.block_on(asker.page(0, ROUTES_MAX))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Routes,
    Workers,
}

fn missing_of_all(plan: &Plan, views: &[Arc<SwitchView>], ready: Ready) -> Vec<String> {
    let of = |switch: SwitchId| {
        let missing = missing(plan, switch, page(&views[switch.index()]), ready);
        missing.into_iter().map(move |what| format!("{}: {what}", plan.switch_name(switch)))
    };
    plan.switches().take_while(|_| plan.is_routed()).flat_map(of).collect()
}

fn missing(plan: &Plan, switch: SwitchId, page: Option<Page>, ready: Ready) -> Vec<String> {
    let Some(page) = page else { return vec!["the router thread has ended".to_owned()] };
    let lack = |Route { host, network: (network, len), next_hops }: Route| {
        let prefix = format!("{network}/{len}");
        let wanted: BTreeSet<&str> = next_hops.iter().map(|&at| plan.port_name(at)).collect();
        let row = page.rows.iter().find(|row| row.table == table::MAIN && row.prefix == prefix);
        let there = row.map(usable_interfaces).unwrap_or_default();
        let names = |of: &BTreeSet<&str>, other: &BTreeSet<&str>| {
            of.difference(other).copied().collect::<Vec<_>>().join(" and ")
        };
        let (lacks, beyond) = (names(&wanted, &there), names(&there, &wanted));
        if !lacks.is_empty() {
            return Some(format!("{prefix} by {lacks}"));
        }
        if !beyond.is_empty() {
            return Some(format!("{prefix} without {beyond}"));
        }
        let is_resolved = plan.port_of(host).switch != switch || page.stations.contains(&host.ipv4().into());
        (!is_resolved).then(|| format!("the neighbour entry of {}", host.ipv4()))
    };
    let mut missing: Vec<String> = plan.routes(switch).filter_map(lack).collect();
    if missing.is_empty() && ready == Ready::Workers && !page.is_in_use {
        missing.push("the workers do not use the routes yet".to_owned());
    }
    missing
}

fn usable_interfaces(row: &Row) -> BTreeSet<&str> {
    let usable = row.via.iter().filter(|via| {
        let is_resolved = via.gateway.is_none() || via.station.is_some();
        via.is_of_switch && !via.is_dead && is_resolved
    });
    usable.map(|via| via.interface.as_str()).collect()
}

// Tests for SPECIFICATION.md: cascade
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::addresses::tests::leaf_spine;
    use xoff_switch::router::RowVia;

    #[test]
    fn routers_at_trunk_ends_are_bgp_neighbours() {
        let (plan, [leaf_1, _, spine_1, _], _) = leaf_spine();
        let [near, far] = [plan.trunks()[0].0, plan.trunks()[0].1].map(|at| plan.router_address(at));
        assert_eq!(
            [near, far].map(|(address, len)| format!("{address}/{len}")),
            ["172.16.0.0/31", "172.16.0.1/31"]
        );
        assert!(bgpd(&plan, leaf_1).contains(" neighbor 172.16.0.1 remote-as 64514\n"));
        assert!(bgpd(&plan, spine_1).contains(" neighbor 172.16.0.0 remote-as 64512\n"));
    }

    #[test]
    fn route_with_unresolved_neighbour_counts_as_not_installed() {
        let (plan, [leaf_1, ..], _) = leaf_spine();
        let via = |interface: &str, gateway: Option<&str>| RowVia {
            interface: interface.into(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
            station: gateway.map(|_| "02:00:01:00:02:00".into()),
            weight: 1,
            is_of_switch: true,
            is_dead: false,
        };
        let row = |prefix: &str, via: Vec<RowVia>| Row {
            table: table::MAIN,
            prefix: prefix.into(),
            metric: 20,
            kind: "unicast".into(),
            via,
        };
        let complete = || {
            let next_hops = [("to-spine-1", "172.16.0.1"), ("to-spine-2", "172.16.0.3")];
            let next_hops = next_hops.map(|(interface, gateway)| via(interface, Some(gateway)));
            let rows =
                vec![row("10.0.1.0/24", vec![via("near", None)]), row("10.0.2.0/24", next_hops.into())];
            Page { total: rows.len(), rows, stations: vec!["10.0.1.2".parse().unwrap()], is_in_use: true }
        };
        let missing = |page: Page| missing(&plan, leaf_1, Some(page), Ready::Workers);
        let without = |change: fn(&mut Page)| {
            let mut page = complete();
            change(&mut page);
            missing(page)
        };
        assert_eq!(missing(complete()), [""; 0]);
        assert_eq!(without(|page| page.is_in_use = false), ["the workers do not use the routes yet"]);
        assert_eq!(without(|page| page.stations.clear()), ["the neighbour entry of 10.0.1.2"]);
        let extra_path = without(|page| {
            let other = page.rows[1].via[1].clone();
            page.rows[0].via.push(other);
        });
        assert_eq!(extra_path, ["10.0.1.0/24 without to-spine-2"]);
        let by_one = ["10.0.2.0/24 by to-spine-2"];
        assert_eq!(without(|page| page.rows[1].via[1].station = None), by_one);
        assert_eq!(without(|page| page.rows[1].via[1].is_dead = true), by_one);
        assert_eq!(without(|page| page.rows[1].via[1].is_of_switch = false), by_one);
        assert_eq!(without(|page| page.rows[1].via.truncate(1)), by_one);
        assert_eq!(without(|page| page.rows.truncate(1)), ["10.0.2.0/24 by to-spine-1 and to-spine-2"]);
        assert_eq!(without(|page| page.rows[0].table = table::LOCAL), ["10.0.1.0/24 by near"]);
        assert_eq!(super::missing(&plan, leaf_1, None, Ready::Routes), ["the router thread has ended"]);
    }

    #[test]
    fn wait_for_routes_ends_at_timeout() {
        let polls = Cell::new(0);
        let restored_at_poll = |number: u32, end: Instant| {
            polls.set(0);
            let missing = |_: &[Daemon]| {
                polls.set(polls.get() + 1);
                vec!["10.0.1.0/24 by near".to_owned(); usize::from(polls.get() < number)]
            };
            let end = Routing::default().wait(end, missing);
            end.map_err(|end| end.or(|missing| RoutingError::Gone { missing }).to_string())
        };
        assert_eq!(restored_at_poll(3, Instant::now() + CONVERGES_WITHIN), Ok(()));
        assert_eq!(polls.get(), 3);
        let error = restored_at_poll(2, Instant::now()).unwrap_err();
        assert_eq!(error, "routes disappeared during the run and did not return: 10.0.1.0/24 by near");
    }

    #[test]
    fn error_of_routing_daemon_shows_its_last_output() {
        let words = |err: &str, log: &str| last_output([err.to_owned(), log.to_owned()]);
        assert_eq!(words("", "\n"), "no output");
        assert_eq!(words("no such option\n", ""), "no such option");
        assert_eq!(words("a\n", "1\n2\n3\n4\n"), "a | 2 | 3 | 4");
    }
}
