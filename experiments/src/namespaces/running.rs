use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::FabricError;
use crate::plan::{HostId, Plan, Stack};
use crate::running_fabric::{Clock, FinalReports, HostStart, Proof, RunningFabric, Sender};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_host::HostReport;
use xoff_wire::units::Nanos;

use super::Network;
use super::gaps::Gaps;
use super::routing::Routing;
use xoff_lab::Switches;
use xoff_switch::control::SwitchView;
use xoff_switch::control::status::Status;
use xoff_traffic::emit::Link;
use xoff_traffic::{Host, HostError, HostOptions};
use xoff_xdp::clock;

pub(crate) struct Running<'a> {
    network: &'a Network,
    plan: &'a Plan,
    routing: Routing,
    switches: Switches,
    hosts: Hosts,
}

enum Hosts {
    Waiting,
    Running { threads: Vec<JoinHandle<Result<HostReport, HostError>>>, stop: Arc<AtomicBool>, gaps: Gaps },
    FinalReports { reports: Vec<Result<HostReport, HostError>>, longest_stall_nanos: u64 },
}

impl<'a> Running<'a> {
    pub(super) fn start(network: &'a Network, plan: &'a Plan) -> Result<Running<'a>, FabricError> {
        let switches = Switches::start(&network.switches).map_err(|(_, error)| error)?;
        let routing = Routing::start(plan, &network.kernels, &switches.views())?;
        Ok(Running { network, plan, routing, switches, hosts: Hosts::Waiting })
    }

    fn start_host(
        &self,
        begin: HostStart,
        (start, stop): (&Arc<Barrier>, &Arc<AtomicBool>),
    ) -> JoinHandle<Result<HostReport, HostError>> {
        let HostStart { host, streams, progress, reaction } = begin;
        let (start, stop) = (Arc::clone(start), Arc::clone(stop));
        let mut options = HostOptions::new("eth0");
        options.line = self.plan.host_of(host).line;
        options.id = Some(host.number());
        options.linger = Some(Nanos::NEVER);
        options.announce = false;
        options.end_markers = false;
        options.qcn = reaction;
        self.network.namespace(host).spawn_thread(move || {
            let host = Host::open(options);
            start.wait(); // also after a failure, because all threads wait for each other
            host?.run(&streams, &stop, &progress)
        })
    }
}

fn proof(status: Status) -> Proof {
    Proof {
        unseen_lost: status.verdict.unseen_total(),
        unproved: status.verdict.unproved,
        is_balanced: status.verdict.ledger_balanced == Some(true),
    }
}

fn counted(view: &SwitchView) -> (Arc<SwitchSettings>, Arc<Counters>) {
    (view.settings(), Arc::clone(&view.counters))
}

impl Clock for Running<'_> {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn wait(&self, span: Nanos) {
        thread::sleep(Duration::from_nanos(span.0));
    }
}

impl RunningFabric for Running<'_> {
    fn switches(&self) -> Vec<(Arc<SwitchSettings>, Arc<Counters>)> {
        self.switches.views().iter().map(|view| counted(view)).collect()
    }

    fn sender(&self, from: HostId) -> Result<Sender<'_>, FabricError> {
        let link = self.network.namespace(from).on_keeper(|| Link::open("eth0"))?;
        Ok(Box::new(move |frame| Ok(link.send(frame)?)))
    }

    fn begin(&mut self, hosts: Vec<HostStart>) {
        let stop = Arc::new(AtomicBool::new(false));
        let start = Arc::new(Barrier::new(hosts.len() + 1));
        let threads = hosts.into_iter().map(|host| self.start_host(host, (&start, &stop))).collect();
        start.wait();
        self.hosts = Hosts::Running { threads, stop, gaps: Gaps::of(&self.switches.views()) };
    }

    fn has_failed(&self) -> bool {
        match &self.hosts {
            Hosts::Running { threads, .. } => threads.iter().any(JoinHandle::is_finished),
            Hosts::Waiting | Hosts::FinalReports { .. } => false,
        }
    }

    fn stop_hosts(&mut self) {
        let Hosts::Running { threads, stop, gaps } = std::mem::replace(&mut self.hosts, Hosts::Waiting)
        else {
            return;
        };
        stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<_>| thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        let reports = threads.into_iter().map(join).collect();
        let longest_stall_nanos = gaps.longest_since(&self.switches.views());
        self.hosts = Hosts::FinalReports { reports, longest_stall_nanos };
    }

    fn end(&mut self, patience: Duration) -> Result<FinalReports, FabricError> {
        let Hosts::FinalReports { reports, longest_stall_nanos } =
            std::mem::replace(&mut self.hosts, Hosts::Waiting)
        else {
            panic!("hosts must have stopped before their switches end");
        };
        let reports = reports.into_iter().collect::<Result<Vec<HostReport>, _>>()?;
        self.routing.check(self.plan, &self.switches.views(), patience)?;
        let statuses = self.switches.stop().into_iter().flatten().collect::<Result<Vec<Status>, _>>()?;
        let devices = &self.network.hosts;
        let mut hosts = vec![HostReport::default(); devices.len()];
        for (host, report) in self.plan.hosts_with(Stack::Traffic).zip(reports) {
            hosts[host.index()] = report;
        }
        for host in self.plan.hosts_with(Stack::Kernel) {
            hosts[host.index()].drops.total = devices[host.index()].counters()?.dropped();
        }
        Ok(FinalReports { hosts, proofs: statuses.into_iter().map(proof).collect(), longest_stall_nanos })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: experiments
    fn counters_remain_readable_after_switch_end() {
        let (view, _) = xoff_switch::control::testing::view();
        let (settings, counters) = counted(&view);
        let is_there = Arc::downgrade(&view);
        drop(view);
        assert!(is_there.upgrade().is_none(), "the account must not keep the packet memory allocated");
        assert_eq!(settings.ports.len(), counters.ports());
    }
}
