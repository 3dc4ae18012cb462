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
use crate::namespaces::{self, Network};
use crate::plan::{HostId, Plan, PortOf, Stack, SwitchId};
use crate::probe;
use crate::raw::Recorder;
use crate::running_fabric::{HostStart, RunningFabric};
use crate::samples::{self, Samples};
use crate::settings::Settings;
use crate::simulation::{Simulation, Simulator};

const CALM: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub line: Line,
    pub settings: &'a Settings,
    pub machine: &'a Machine,
}

impl Setup<'_> {
    /// Builds the fabric. Panics if a live plan has both routers and kernel hosts.
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
        let backend = if is_simulated {
            let configs = configs.clone();
            Backend::Simulated(Simulator { configs, seed: settings.seed, stall: settings.stall })
        } else {
            Backend::Namespaces(Network::build(&plan, &configs)?)
        };
        Ok(Fabric {
            plan,
            configs,
            backend,
            reaction: settings.reaction,
            recorder: settings.recorder.clone(),
        })
    }
}

#[derive(Debug)]
enum Backend {
    Simulated(Simulator),
    Namespaces(Network),
}

#[derive(Debug)]
pub struct Fabric {
    plan: Plan,
    configs: Vec<Config>,
    backend: Backend,
    reaction: Option<ReactionSettings>,
    recorder: Option<Recorder>,
}

impl Fabric {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn credit(&self, at: PortOf, frame: Bytes, frames: u64) -> Nanos {
        if self.plan.line().hardware() == Hardware::Ideal {
            return Nanos::ZERO;
        }
        let switch = &self.config(at.switch).switch;
        credit::credit(&switch.ports[at.port.index()], &switch.pipeline, frame, frames)
    }

    pub fn keeps_flows(&self) -> bool {
        let routers = self.configs.iter().filter_map(|config| config.shell.router.as_ref());
        routers.into_iter().all(|router| router.spread == Spread::Flow)
    }

    fn config(&self, switch: SwitchId) -> &Config {
        &self.configs[switch.index()]
    }

    pub(crate) fn kernels(&self) -> &Network {
        match &self.backend {
            Backend::Namespaces(network) => network,
            Backend::Simulated(_) => panic!("kernel hosts must be in a live fabric"),
        }
    }

    pub fn start(&self) -> Result<Started<'_>, FabricError> {
        let running: Box<dyn RunningFabric + '_> = match &self.backend {
            Backend::Simulated(simulator) => Box::new(Simulation::start(&self.plan, simulator)),
            Backend::Namespaces(network) => Box::new(network.start(&self.plan)?),
        };
        Ok(Started { fabric: self, running })
    }

    /// Starts switches and hosts, and calls `watch`. Hosts stop once all data have arrived, or after `patience` (given
    /// for 100 Mb/s, adapted to the line).
    pub fn run<T>(
        &self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        self.start()?.run(load, patience, watch)
    }

    fn reaction(&self, host: HostId) -> Option<ReactionSettings> {
        self.reaction.map(|of| ReactionSettings { seed: of.seed_of(host.number()), ..of })
    }
}

pub struct Started<'a> {
    fabric: &'a Fabric,
    running: Box<dyn RunningFabric + 'a>,
}

impl Started<'_> {
    /// Returns a UDP source port with which a flow leaves its first router by port `by`, found by probe frames.
    pub fn source_port(&self, from: HostId, to: HostId, by: PortOf) -> Result<u16, FabricError> {
        probe::PortProbe { plan: &self.fabric.plan, flow: [from, to], by }
            .source_port(&*self.running, &self.counted())
    }

    pub fn run<T>(
        self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        let switches = self.counted();
        let Started { fabric, mut running } = self;
        let plan = &fabric.plan;
        let progress = progress(plan, load);
        let starts = plan.hosts_with(Stack::Traffic).map(|host| HostStart {
            host,
            streams: load.of(host),
            progress: Arc::clone(&progress[host.index()].0),
            reaction: fabric.reaction(host),
        });
        running.begin(starts.collect());
        let samples = fabric.recorder.is_some().then(Samples::default);
        let live = Live::new((&*running, plan.line()), &switches, progress, samples);
        let observed = watch(&live);
        live.wait_until_calm(CALM, patience);
        let (begin, samples) = live.into_samples();
        running.stop_hosts();
        let held = account::held(&switches);
        let mut ended = running.end(patience)?;
        settle(&mut ended.hosts);
        let account = Account::new(ended, switches, held, running.now());
        if let (Some(recorder), Some(samples)) = (&fabric.recorder, samples) {
            recorder.take(&plan.point, samples::rows(plan, load, &account, begin, samples))?;
        }
        Ok((observed, account))
    }

    fn counted(&self) -> Vec<Counted> {
        let plan = &self.fabric.plan;
        let running = plan.switches().zip(self.running.switches());
        running.map(|(switch, (settings, counters))| Counted::new(plan, switch, settings, counters)).collect()
    }
}

fn progress(plan: &Plan, load: &Load) -> Vec<(Arc<Progress>, bool)> {
    let of_host =
        |host| (Arc::new(Progress::of_senders(plan.hosts().map(HostId::number))), !load.of(host).is_empty());
    plan.hosts().map(of_host).collect()
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;

    fn refused(line: Line, host: fn(&mut Plan, SwitchId)) -> Option<String> {
        let mut plan = Plan::new(line);
        let switch = plan.switch("switch");
        host(&mut plan, switch);
        let (settings, machine) = (Settings::default(), Machine::default());
        let setup = Setup { line, settings: &settings, machine: &machine };
        setup.build(plan).err().map(|error| error.to_string())
    }

    #[test]
    fn experiment_with_kernel_hosts_cannot_be_simulated() {
        let rate = BitRate::from_mbps(100);
        let of_streams = |plan: &mut Plan, switch| _ = plan.host("host", switch);
        assert_eq!(refused(Line::simulated(rate), of_streams), None);
        let of_kernel = refused(Line::simulated(rate), |plan, switch| _ = plan.kernel_host("host", switch));
        assert!(of_kernel.is_some_and(|why| why.contains("the simulator has no kernel")));
    }
}
