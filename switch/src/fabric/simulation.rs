//! A fabric in the simulator: the dataplanes and hosts of a plan, driven by events instead of threads, and what can be seen of them.
//!
//! Switches count where running switches do, and their views are the same, so that whoever reads a status, looks at a queue or
//! accounts for frames does not know the difference. Ports have no devices; what a switch has no slot for is what a fill ring
//! without chunks is to a live one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use xoff_config::{Config, Hardware};
use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{BitRate, Nanos, PortId};
use xoff_ebpf::{EbpfError, Place};
use xoff_hosts::{HostReport, Progress, Stream};
use xoff_sim::{
    At, Fabric, Forwarding, Habits, Line, Picos, Seed, SlotCounts, Stalls, SwitchKind, SwitchNode,
    TrafficHost, TrafficSettings, ideal,
};
use xoff_xdp::{DeviceDrops, Look, PortDriver, Unread, XdpStatistics};

use super::addresses::device_address;
use super::plan::{HostId, Plan, PortOf, SwitchId};
use super::{FabricError, Model};
use crate::bell::Bell;
use crate::clock::Clock;
use crate::control::current::Current;
use crate::control::loss_books::LossBooks;
use crate::control::mailbox::Mailbox;
use crate::control::policy_cells::PolicyCells;
use crate::control::status::Status;
use crate::control::{Answer, GoingOn, PortDevice, PortView, SwitchView, WorkerView, snapshot};
use crate::lldp::Neighbors;
use crate::run::RunError;
use crate::traffic::{CATCH_UP, habits};

/// When hosts begin: no time is zero that counters know as none.
const BEGIN: Nanos = Nanos::from_micros(1);
/// What a wire between programs carries: it has no rate, and a frame is there when a kernel has passed it on, in a microsecond or so.
const WIRE: BitRate = BitRate::from_gbps(10);

/// A fabric, and its time.
#[derive(Debug)]
pub(super) struct Simulation {
    fabric: Fabric<SwitchNode, TrafficHost>,
    views: Vec<Arc<SwitchView>>,
    /// By switch, frames that it had no slot for.
    never_seen: Vec<Arc<Counter>>,
    clock: Arc<AtomicU64>,
    stalls: Option<(Stalls, Seed)>,
}

impl Simulation {
    /// As planned, at the moment at which its hosts are to begin.
    pub(super) fn start(plan: &Plan, model: &Model) -> Result<Simulation, FabricError> {
        let clock = Arc::new(AtomicU64::new(0));
        let settings: Vec<SwitchSettings> = plan
            .switches()
            .zip(&model.switches)
            .map(|(switch, config)| settings(plan, switch, config))
            .collect();
        let kinds = settings.iter().zip(&model.switches).map(|(settings, config)| {
            Arc::new(SwitchKind { settings: settings.clone(), slots: slots(config) })
        });
        let mut simulated = xoff_sim::Plan::default();
        for ((switch, kind), config) in plan.switches().zip(kinds).zip(&model.switches) {
            let fib = plan.fib(switch, config, &kind.settings).map(Arc::new);
            simulated.add_switch(&kind, Forwarding { fib, ..Forwarding::default() });
        }
        let cable = |at: PortOf| model.switches[at.switch.0].cables[at.port.index()];
        let line = |rate: BitRate, cable: Nanos| {
            let rate = match plan.line().hardware() {
                Hardware::Software => WIRE,
                _ => rate,
            };
            Line { rate, delay: Picos::from(cable) }
        };
        for host in &plan.hosts {
            simulated.add_host(number(host.at.switch), host.at.port.0, line(host.line, cable(host.at)));
        }
        for &(a, b) in &plan.trunks {
            let [from, to] = [a, b].map(|at| At::Switch(number(at.switch), at.port.0));
            simulated.link(from, to, line(plan.line().rate(), cable(a).max(cable(b))));
        }
        let switch = |at, settings: SwitchSettings, slots| SwitchNode::new(at, &settings, slots);
        let mut fabric = Fabric::of(&simulated, Seed(model.seed), switch, TrafficHost::new);
        fabric.route(&simulated);
        if let Some(stalls) = &model.stalls {
            for switch in plan.switches() {
                let (stalls, seed) = (stalls.clone(), Seed(model.seed));
                fabric.at_switch(number(switch), |node, net| node.stall_at_random(stalls, seed, net));
            }
        }
        let never_seen: Vec<Arc<Counter>> = settings.iter().map(|_| Arc::default()).collect();
        let seen = fabric.switches().iter().zip(settings).zip(&model.switches).zip(&never_seen);
        let views = seen.map(|(((node, settings), config), never_seen)| {
            view(node, settings, config, never_seen, &clock).map(Arc::new)
        });
        let views = views.collect::<io::Result<_>>().map_err(RunError::from)?;
        let stalls = model.stalls.clone().map(|stalls| (stalls, Seed(model.seed)));
        let mut simulation = Simulation { fabric, views, never_seen, clock, stalls };
        simulation.advance(BEGIN);
        Ok(simulation)
    }

    /// What can be seen of its switches.
    pub(super) fn views(&self) -> Vec<Arc<SwitchView>> {
        self.views.clone()
    }

    /// A host begins with these streams.
    pub(super) fn begin(
        &mut self,
        plan: &Plan,
        host: HostId,
        streams: Vec<Stream>,
        progress: Arc<Progress>,
        reaction: Option<ReactionSettings>,
    ) {
        let settings = TrafficSettings {
            address: host.address(),
            id: host.number(),
            catch_up: plan.line().span(CATCH_UP),
            qcn: reaction,
            streams,
            progress,
            rate: plan.hosts[host.0].line,
            habits: match plan.line().hardware() {
                Hardware::Software => habits(plan.hosts[host.0].line),
                _ => Habits::IDEAL,
            },
            stalls: self.stalls.clone(),
        };
        let number = u32::from(host.number() - 1);
        self.fabric.at_host(number, |host, net| host.begin(settings, net));
    }

    /// A host that has yet to begin sends a frame.
    pub(super) fn send(&mut self, host: HostId, frame: &[u8]) {
        self.fabric.at_host(u32::from(host.number() - 1), |at, net| at.emit(frame, net));
    }

    /// What time it is.
    pub(super) fn now(&self) -> Nanos {
        self.fabric.now().floor()
    }

    /// Lets happen what is due within `span`.
    pub(super) fn advance(&mut self, span: Nanos) {
        self.fabric.run_until(Picos::from(self.now().after(span)));
        self.clock.store(self.now().0, Relaxed);
        for (node, counted) in self.fabric.switches().iter().zip(&self.never_seen) {
            counted.set(node.never_seen());
        }
    }

    /// The longest that a switch was kept from running, ns.
    pub(super) fn longest_stall_nanos(&self) -> u64 {
        self.fabric.switches().iter().map(|node| node.ailments().longest.0).max().unwrap_or(0)
    }

    /// What its hosts say in the end.
    pub(super) fn reports(&self) -> Vec<HostReport> {
        self.fabric.hosts().iter().map(|host| host.report(self.fabric.now())).collect()
    }

    /// What its switches say in the end.
    pub(super) fn statuses(&self) -> Vec<Status> {
        let nodes = self.views.iter().zip(self.fabric.switches());
        nodes.map(|(view, node)| snapshot(view, &[Answer::Given(node.switch().ledger())])).collect()
    }
}

/// What a switch is told, with what a start adds to it.
fn settings(plan: &Plan, switch: SwitchId, config: &Config) -> SwitchSettings {
    let mut settings = config.switch.clone();
    for at in plan.ports_of(switch) {
        settings.ports[at.port.index()].mac = device_address(at);
    }
    settings
}

/// As many as a live switch's only worker has.
fn slots(config: &Config) -> SlotCounts {
    let ports: Vec<PortId> = (0..=u8::MAX).map(PortId).take(config.switch.ports.len()).collect();
    let chunks = config.worker_chunks(&ports, &[]);
    let (control, data): (Vec<_>, Vec<_>) = chunks.iter().partition(|(what, _)| *what == "control frames");
    let sum = |of: Vec<(&str, u64)>| {
        u32::try_from(of.iter().map(|(_, chunks)| chunks).sum::<u64>()).unwrap_or(u32::MAX / 2)
    };
    SlotCounts { data: sum(data), control: sum(control), rings: ideal::rings(config) }
}

fn number(switch: SwitchId) -> u32 {
    u32::try_from(switch.0).expect("a plan has few switches")
}

fn view(
    node: &SwitchNode,
    settings: SwitchSettings,
    config: &Config,
    never_seen: &Arc<Counter>,
    clock: &Arc<AtomicU64>,
) -> io::Result<SwitchView> {
    let (mailbox, _) = Mailbox::new()?;
    let clock = Arc::clone(clock);
    let ports = settings.ports.iter().enumerate().map(|(index, port)| {
        let device = SimulatedPort { never_seen: (index == 0).then(|| Arc::clone(never_seen)) };
        let (ifindex, native, zero_copy, queues) = (0, true, true, 1);
        let device =
            PortDevice { ifindex, mac: port.mac, native, zero_copy, queues, driver: Arc::new(device) };
        PortView::new(&port.name, 0, device).named(&port.name)
    });
    Ok(SwitchView {
        name: config.shell.name.clone(),
        policies: PolicyCells::new(settings.policies),
        counters: Arc::clone(node.counters()),
        ports: ports.collect(),
        workers: vec![WorkerView { core: None, slots: 0, facts: Arc::default(), mailbox }],
        stall_budget: config.shell.stall_budget,
        clock: Clock::new(move || Nanos(clock.load(Relaxed))),
        started_at: Nanos::ZERO,
        started: SystemTime::UNIX_EPOCH,
        router: None,
        books: LossBooks::new(settings.ports.len()),
        going_on: GoingOn::default(),
        neighbors: Neighbors::new(settings.ports.len()),
        host_bell: Arc::new(Bell::new()?),
        configured: Current::new(settings),
    })
}

/// A port without a device. Its switch's frames without a slot are those of the first port.
#[derive(Debug)]
struct SimulatedPort {
    never_seen: Option<Arc<Counter>>,
}

impl PortDriver for SimulatedPort {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        let rx_dropped = self.never_seen.as_ref().map_or(0, |frames| frames.get());
        Ok(XdpStatistics { rx_dropped, ..XdpStatistics::default() })
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}
