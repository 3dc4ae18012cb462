//! A fabric, from its plan to its account: built, started, run under a load.

use std::sync::Arc;
use std::time::Duration;

use xoff_config::{Config, Hardware, Machine};
use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::settings::Spread;
use xoff_host::{Progress, settle};
use xoff_wire::units::{Bytes, Nanos};

use crate::account::{self, Account};
use crate::counted::Counted;
use crate::credit;
use crate::error::FabricError;
use crate::line::Line;
use crate::live::Live;
use crate::load::Load;
use crate::looks::{self, Looks};
use crate::namespaces::{self, Network};
use crate::plan::{HostId, Plan, PortOf, Stack, SwitchId};
use crate::probe;
use crate::raw::Recorder;
use crate::settings::Settings;
use crate::simulation::{Simulation, Simulator};
use crate::world::{HostStart, World};

/// Hosts end when nothing has moved for so long.
const CALM: Duration = Duration::from_millis(50);

/// What a fabric is built with beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The lines that plans are to be made with.
    pub line: Line,
    /// What its switches are told on top of the plan, and its hosts with them.
    pub settings: &'a Settings,
    /// What the configurations have to fit into.
    pub machine: &'a Machine,
}

impl Setup<'_> {
    /// A configuration for each switch: what the plan says, with the settings on top; and hosts, switches and wires. Streams of the
    /// hosts have the reaction points of the settings.
    ///
    /// # Errors
    /// Where the machine refuses something or has too little memory, a setting makes no sense, switches of a machine are to route and
    /// there is no FRR, or the simulator has not what it takes.
    ///
    /// # Panics
    /// Where switches of a machine are to route, and a host is its kernel's.
    pub fn build(&self, plan: Plan) -> Result<Fabric, FabricError> {
        let Setup { settings, machine, .. } = *self;
        let is_simulated = plan.line().is_simulated();
        if let Some(why) = plan.needs_a_machine().filter(|_| is_simulated) {
            return Err(FabricError::Unsimulated(why));
        }
        if !is_simulated {
            namespaces::check(&plan)?;
        }
        let config = |switch| plan.config(switch, settings, machine.clone());
        let configs = plan.switches().map(config).collect::<Result<Vec<Config>, _>>()?;
        let built = if is_simulated {
            let configs = configs.clone();
            Built::Simulated(Simulator { configs, seed: settings.seed, stall: settings.stall })
        } else {
            Built::Here(Network::build(&plan, &configs)?)
        };
        Ok(Fabric { plan, configs, built, reaction: settings.reaction, recorder: settings.recorder.clone() })
    }
}

#[derive(Debug)]
enum Built {
    Simulated(Simulator),
    Here(Network),
}

#[derive(Debug)]
pub struct Fabric {
    plan: Plan,
    configs: Vec<Config>,
    built: Built,
    reaction: Option<ReactionSettings>,
    recorder: Option<Recorder>,
}

impl Fabric {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// By how much time a port runs ahead of its line after it was idle, while it sends so many frames of this size. On a line of ideal
    /// hardware frames are never faster than it.
    pub fn credit(&self, at: PortOf, frame: Bytes, frames: u64) -> Nanos {
        if self.plan.line().hardware() == Hardware::Ideal {
            return Nanos::ZERO;
        }
        let switch = &self.config(at.switch).switch;
        credit::credit(&switch.ports[at.port.index()], &switch.pipeline, frame, frames)
    }

    /// Whether all frames of a flow take the same of several equal ways.
    pub fn keeps_flows(&self) -> bool {
        let routers = self.configs.iter().filter_map(|config| config.shell.router.as_ref());
        routers.into_iter().all(|router| router.spread == Spread::Flow)
    }

    fn config(&self, switch: SwitchId) -> &Config {
        &self.configs[switch.index()]
    }

    /// The hosts that are left to the kernel.
    ///
    /// # Panics
    /// Where it is simulated.
    pub(crate) fn kernels(&self) -> &Network {
        match &self.built {
            Built::Here(network) => network,
            Built::Simulated(_) => panic!("what is simulated has no kernel"),
        }
    }

    /// Starts the switches, and where they route, waits until routes are there.
    pub fn start(&self) -> Result<Started<'_>, FabricError> {
        let world: Box<dyn World + '_> = match &self.built {
            Built::Simulated(simulator) => Box::new(Simulation::start(&self.plan, simulator)),
            Built::Here(network) => Box::new(network.start(&self.plan)?),
        };
        Ok(Started { fabric: self, world })
    }

    /// Starts the switches, lets the hosts send, and calls `watch`, which comes back when it has seen
    /// enough. Then the hosts end: as soon as all is sent and has arrived, at the latest after `patience`, which is that for lines of
    /// 100 Mb/s. What it is built of is there as long as the fabric.
    pub fn run<T>(
        &self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        self.start()?.run(load, patience, watch)
    }

    /// The reaction points of a host. Their cycles differ from host to host.
    fn reaction(&self, host: HostId) -> Option<ReactionSettings> {
        self.reaction.map(|of| ReactionSettings { seed: of.seed_of(host.number()), ..of })
    }
}

/// Switches that run, whose hosts have yet to begin; where they are routers, all routes are there.
pub struct Started<'a> {
    fabric: &'a Fabric,
    world: Box<dyn World + 'a>,
}

impl Started<'_> {
    /// A UDP source port with which a stream from one host to another, to the destination port that streams have unless told
    /// otherwise, leaves a switch of routers here. Which way a flow takes there is by a secret of this start, or of the seed, so that
    /// it is tried: a few frames of another class go to the receiver, which is not there yet.
    pub fn source_port(&self, from: HostId, to: HostId, by: PortOf) -> Result<u16, FabricError> {
        probe::Trial { plan: &self.fabric.plan, flow: [from, to], by }
            .source_port(&*self.world, &self.counted())
    }

    /// Lets the hosts send; see [`Fabric::run`].
    pub fn run<T>(
        self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        let switches = self.counted();
        let Started { fabric, mut world } = self;
        let plan = &fabric.plan;
        let progress = progress(plan, load);
        let starts = plan.hosts_with(Stack::Traffic).map(|host| HostStart {
            host,
            streams: load.of(host),
            progress: Arc::clone(&progress[host.index()].0),
            reaction: fabric.reaction(host),
        });
        world.begin(starts.collect());
        let looks = fabric.recorder.is_some().then(Looks::default);
        let live = Live::new((&*world, plan.line()), &switches, progress, looks);
        let seen = watch(&live);
        live.wait_until_calm(CALM, patience);
        let (begin, looks) = live.into_looks();
        world.stop_hosts();
        let held = account::held(&switches);
        let mut ended = world.end(patience)?;
        settle(&mut ended.hosts);
        let account = Account::new(ended, switches, held, world.now());
        if let (Some(recorder), Some(looks)) = (&fabric.recorder, looks) {
            recorder.take(&plan.point, looks::rows(plan, load, &account, begin, looks))?;
        }
        Ok((seen, account))
    }

    fn counted(&self) -> Vec<Counted> {
        let plan = &self.fabric.plan;
        let told = plan.switches().zip(self.world.switches());
        told.map(|(switch, (settings, counters))| Counted::new(plan, switch, settings, counters)).collect()
    }
}

/// What hosts tell while they run, and whether they have anything to send.
fn progress(plan: &Plan, load: &Load) -> Vec<(Arc<Progress>, bool)> {
    let of_host =
        |host| (Arc::new(Progress::of_senders(plan.hosts().map(HostId::number))), !load.of(host).is_empty());
    plan.hosts().map(of_host).collect()
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;

    /// Why it cannot be built.
    fn refused(line: Line, host: fn(&mut Plan, SwitchId)) -> Option<String> {
        let mut plan = Plan::new(line);
        let switch = plan.switch("switch");
        host(&mut plan, switch);
        let (settings, machine) = (Settings::default(), Machine::default());
        let setup = Setup { line, settings: &settings, machine: &machine };
        setup.build(plan).err().map(|error| error.to_string())
    }

    #[test]
    fn only_streams_can_be_simulated() {
        let rate = BitRate::from_mbps(100);
        let of_streams = |plan: &mut Plan, switch| _ = plan.host("host", switch);
        assert_eq!(refused(Line::simulated(rate), of_streams), None);
        let of_kernel = refused(Line::simulated(rate), |plan, switch| _ = plan.kernel_host("host", switch));
        assert!(of_kernel.is_some_and(|why| why.contains("the simulator has no kernel")));
    }
}
