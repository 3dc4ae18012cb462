//! Simulated fabric: events drive dataplanes and hosts. A switch without a free packet slot loses arriving frames, like
//! a live switch with an empty fill ring.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use xoff_config::{Config, Hardware};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_host::habits::{CATCH_UP, NAP, commit};
use xoff_sim::{
    At, Fabric, Forwarding, Habits, Line, Picos, Seed, SlotCounts, SwitchKind, SwitchNode, TrafficHost,
    TrafficSettings, ideal,
};
use xoff_wire::units::{BitRate, Nanos, PortId};

use crate::addresses::device_address;
use crate::error::FabricError;
use crate::plan::{HostId, Plan, PortOf, SwitchId};
use crate::running_fabric::{Clock, FinalReports, HostStart, Proof, RunningFabric, Sender};
use crate::stall::Stall;

/// Time at which hosts begin; not zero, which means "none" in counters.
const BEGIN: Nanos = Nanos::from_micros(1);
/// Rate of lines between simulated programs: the kernel needs about a microsecond to pass a frame over a veth pair.
const WIRE: BitRate = BitRate::from_gbps(10);

#[derive(Debug)]
pub(crate) struct Simulator {
    pub(crate) configs: Vec<Config>,
    pub(crate) seed: u64,
    pub(crate) stall: Option<Stall>,
}

#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    plan: &'a Plan,
    fabric: RefCell<Fabric<SwitchNode, TrafficHost>>,
    settings: Vec<Arc<SwitchSettings>>,
    stall: Stall,
    seed: Seed,
}

impl<'a> Simulation<'a> {
    pub(crate) fn start(plan: &'a Plan, simulator: &Simulator) -> Simulation<'a> {
        let settings: Vec<SwitchSettings> = plan
            .switches()
            .zip(&simulator.configs)
            .map(|(switch, config)| settings(plan, switch, config))
            .collect();
        let kinds = settings.iter().zip(&simulator.configs).map(|(settings, config)| {
            Arc::new(SwitchKind { settings: settings.clone(), slots: slots(config) })
        });
        let mut simulated = xoff_sim::Plan::default();
        for ((switch, kind), config) in plan.switches().zip(kinds).zip(&simulator.configs) {
            let fib = plan.fib(switch, config, &kind.settings).map(Arc::new);
            simulated.add_switch(&kind, Forwarding { fib, ..Forwarding::default() });
        }
        let cable = |at: PortOf| simulator.configs[at.switch.0].cables[at.port.index()];
        let line = |rate: BitRate, cable: Nanos| {
            let rate = match plan.line().hardware() {
                Hardware::Software => WIRE,
                _ => rate,
            };
            Line { rate, delay: Picos::from(cable) }
        };
        for host in plan.hosts().map(|host| plan.host_of(host)) {
            simulated.add_host(number(host.at.switch), host.at.port.0, line(host.line, cable(host.at)));
        }
        for &(a, b) in plan.trunks() {
            let [from, to] = [a, b].map(|at| At::Switch(number(at.switch), at.port.0));
            simulated.link(from, to, line(plan.line().rate(), cable(a).max(cable(b))));
        }
        let switch = |at, settings: SwitchSettings, slots| SwitchNode::new(at, &settings, slots);
        let mut fabric = Fabric::of(&simulated, Seed(simulator.seed), switch, TrafficHost::new);
        fabric.route(&simulated);
        let (stall, seed) = (simulator.stall.unwrap_or_default(), Seed(simulator.seed));
        for switch in plan.switches().filter(|_| stall != Stall::default()) {
            fabric.at_switch(number(switch), |node, net| {
                node.wake_after(stall.wake, net);
                if let Some(stalls) = stall.drawn() {
                    node.stall_at_random(stalls, seed, net);
                }
            });
        }
        let settings = settings.into_iter().map(Arc::new).collect();
        let simulation = Simulation { plan, fabric: RefCell::new(fabric), settings, stall, seed };
        simulation.wait(BEGIN);
        simulation
    }
}

impl Clock for Simulation<'_> {
    fn now(&self) -> Nanos {
        self.fabric.borrow().now().floor()
    }

    fn wait(&self, span: Nanos) {
        let end = Picos::from(self.now().after(span));
        self.fabric.borrow_mut().run_until(end);
    }
}

impl RunningFabric for Simulation<'_> {
    fn switches(&self) -> Vec<(Arc<SwitchSettings>, Arc<Counters>)> {
        let fabric = self.fabric.borrow();
        let counters = fabric.switches().iter().map(|node| Arc::clone(node.counters()));
        self.settings.iter().cloned().zip(counters).collect()
    }

    fn sender(&self, from: HostId) -> Result<Sender<'_>, FabricError> {
        Ok(Box::new(move |frame| {
            self.fabric.borrow_mut().at_host(of_host(from), |at, net| at.emit(frame, net));
            Ok(())
        }))
    }

    fn begin(&mut self, hosts: Vec<HostStart>) {
        let line = self.plan.line();
        for HostStart { host, streams, progress, reaction } in hosts {
            let rate = self.plan.host_of(host).line;
            let settings = TrafficSettings {
                address: host.address(),
                id: host.number(),
                catch_up: line.span(CATCH_UP),
                qcn: reaction,
                streams,
                progress,
                rate,
                habits: match line.hardware() {
                    Hardware::Software => Habits { nap: NAP, wake: self.stall.wake, commit: commit(rate) },
                    _ => Habits::IDEAL,
                },
                stalls: self.stall.drawn().map(|stalls| (stalls, self.seed)),
            };
            self.fabric.get_mut().at_host(of_host(host), |host, net| host.begin(settings, net));
        }
    }

    fn has_failed(&self) -> bool {
        false
    }

    fn stop_hosts(&mut self) {}

    fn end(&mut self, _: Duration) -> Result<FinalReports, FabricError> {
        let fabric = self.fabric.get_mut();
        let proof = |node: &SwitchNode| Proof {
            unseen_lost: node.receive_drops(),
            unproved: Vec::new(),
            is_balanced: node.switch().ledger().missing() == 0,
        };
        Ok(FinalReports {
            hosts: fabric.hosts().iter().map(|host| host.report(fabric.now())).collect(),
            proofs: fabric.switches().iter().map(proof).collect(),
            longest_stall_nanos: fabric
                .switches()
                .iter()
                .map(|node| node.impairment_counts().longest.0)
                .max()
                .unwrap_or(0),
        })
    }
}

fn settings(plan: &Plan, switch: SwitchId, config: &Config) -> SwitchSettings {
    let mut settings = config.switch.clone();
    for at in plan.ports_of(switch) {
        settings.ports[at.port.index()].mac = device_address(at);
    }
    settings.groups.iter_mut().for_each(|group| group.lacp = None);
    settings
}

fn slots(config: &Config) -> SlotCounts {
    let ports: Vec<PortId> = (0..=u8::MAX).map(PortId).take(config.switch.ports.len()).collect();
    let share = config.share(1, &ports, &[]);
    let number = |frames: u64| u32::try_from(frames).unwrap_or(u32::MAX / 2);
    SlotCounts {
        data: number(share.data().frames),
        control: number(share.control.frames),
        rings: ideal::rings(config),
    }
}

fn number(switch: SwitchId) -> u32 {
    u32::try_from(switch.index()).expect("a plan must have fewer than 2^32 switches")
}

fn of_host(host: HostId) -> u32 {
    u32::from(host.number() - 1)
}
