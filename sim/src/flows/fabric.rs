use std::sync::Arc;

use xoff_flow_control::settings::SwitchSettings;
use xoff_host::tcp::Sender as TcpSender;
use xoff_wire::units::BitRate;

use super::alone::Alone;
use super::host::FlowHost;
use super::intake::SlowReceiver;
use super::load::{Load, NewFlows};
use super::receiving::Receiving;
use super::sending::Sending;
use super::transport::HostSettings;
use super::{FlowPlan, FlowRecord};
use crate::ends::{Line, NodeId};
use crate::fabric::Fabric;
use crate::node::{Node, Place};
use crate::plan::Plan;
use crate::scheduled::{AnySwitch, Scheduled};
use crate::seed::Seed;
use crate::switch_node::{SlotCounts, SwitchNode};
use crate::time::{Pace, Picos};

/// Simulated fabric, with loads and flows. Constructors panic if a port has no link, or two; methods, if a flow does
/// not exist.
pub struct FlowFabric<S = SwitchNode> {
    fabric: Fabric<S, FlowHost>,
    flows: Vec<SenderFlow>,
    loads: Vec<Box<dyn Load + Send>>,
    most: Vec<Option<Pace>>,
    settings: Arc<HostSettings>,
    alone: Alone,
    switches: u32,
    ended: u64,
    last_end: Picos,
    new_flows: Vec<FlowPlan>,
}

#[derive(Clone, Copy, Debug)]
struct SenderFlow {
    host: u32,
    number: u32,
}

/// Memory of an idle flow in bytes, without its timer (16 bytes) and congestion control state.
const FLOW: usize = size_of::<SenderFlow>() + size_of::<Sending>() + size_of::<Receiving>();
const _: () = assert!(FLOW <= 104);

impl FlowFabric {
    /// Builds a plan's fabric, with xoff's dataplane in every switch.
    #[must_use]
    pub fn new(plan: &Plan, seed: Seed, settings: HostSettings) -> FlowFabric {
        let switch = |at, settings: SwitchSettings, slots| SwitchNode::new(at, &settings, slots);
        let mut fabric = FlowFabric::of(plan, seed, settings, switch);
        fabric.fabric.route(plan);
        fabric
    }
}

impl FlowFabric<AnySwitch> {
    /// Builds a plan's fabric. With `scheduled`, it is a scheduled fabric, and its plan must be [`Scheduled::plan`];
    /// with `None`, switches run xoff's dataplane.
    #[must_use]
    pub fn of_any(
        plan: &Plan,
        seed: Seed,
        settings: HostSettings,
        scheduled: Option<Scheduled>,
    ) -> FlowFabric<AnySwitch> {
        let switch = |at, settings: SwitchSettings, slots| AnySwitch::new(at, &settings, slots, scheduled);
        let mut fabric = FlowFabric::of(plan, seed, settings, switch);
        fabric.fabric.route(plan);
        fabric
    }
}

impl<S: Node> FlowFabric<S> {
    /// Builds a plan's fabric, with switches that a function creates.
    #[must_use]
    pub fn of(
        plan: &Plan,
        seed: Seed,
        settings: HostSettings,
        switch: impl FnMut(Place, SwitchSettings, SlotCounts) -> S,
    ) -> FlowFabric<S> {
        let alone = Alone::new(plan, &settings);
        let settings = Arc::new(settings);
        let switches = plan.switches();
        let gateways = plan.gateways();
        let host = |place: Place, lines: &[Line]| {
            let number = place.id().0 - switches;
            FlowHost::new(place, number, (lines, &gateways[number as usize]), &settings)
        };
        FlowFabric {
            fabric: Fabric::of(plan, seed, switch, host),
            flows: Vec::new(),
            loads: Vec::new(),
            most: Vec::new(),
            settings,
            alone,
            switches,
            ended: 0,
            last_end: Picos::ZERO,
            new_flows: Vec::new(),
        }
    }

    /// Adds a flow, with the tag in `plan`; returns the flow's number. Panics if a host does not exist, or sends to
    /// itself.
    pub fn add(&mut self, plan: FlowPlan) -> u32 {
        self.add_at(plan, None)
    }

    fn add_at(&mut self, plan: FlowPlan, most: Option<Pace>) -> u32 {
        let hosts = self.fabric.hosts().len();
        let is_host = |host: u32| (host as usize) < hosts;
        assert!(
            is_host(plan.from) && is_host(plan.to) && plan.from != plan.to,
            "{plan:?} among {hosts} hosts"
        );
        let flow = u32::try_from(self.flows.len()).expect("the number of flows must fit into 32 bits");
        let [at_sender, _] = self.fabric.hosts()[plan.from as usize].flows();
        let at_receiver = self.fabric.at_host(plan.to, |host, _| host.receive_flow(flow, &plan, at_sender));
        self.fabric.at_host(plan.from, |host, net| host.send_flow(flow, &plan, (at_receiver, most), net));
        self.flows.push(SenderFlow { host: plan.from, number: at_sender });
        flow
    }

    /// Makes a host a slow receiver. Panics if the host does not exist, or is a slow receiver already.
    pub fn slow_down(&mut self, host: u32, receiver: SlowReceiver) {
        self.fabric.at_host(host, |at, _| at.slow_down(receiver));
    }

    /// Adds a load; returns its number, which is the tag of its flows. Panics if a host of a flow does not exist, or
    /// sends to itself.
    pub fn add_load(&mut self, load: impl Load + Send + 'static) -> u16 {
        self.add_load_at(load, None)
    }

    /// Adds a load as [`FlowFabric::add_load`] does. Each of its flows sends at most at the rate `most`, headers and
    /// gaps included.
    pub fn add_load_at(&mut self, load: impl Load + Send + 'static, most: Option<BitRate>) -> u16 {
        let tag = u16::try_from(self.loads.len()).expect("the number of loads must fit into 16 bits");
        self.loads.push(Box::new(load));
        self.most.push(most.map(Pace::of));
        self.call_load(tag, |load, new_flows| load.begin(new_flows));
        tag
    }

    /// Yields the loads, ordered by tag.
    pub fn loads(&self) -> impl Iterator<Item = &dyn Load> {
        self.loads.iter().map(|load| load.as_ref() as &dyn Load)
    }

    fn call_load(&mut self, tag: u16, call: impl FnOnce(&mut dyn Load, &mut NewFlows)) {
        let load = &mut self.loads[usize::from(tag)];
        let mut flows = std::mem::take(&mut self.new_flows);
        let first = u32::try_from(self.flows.len()).expect("the number of flows must fit into 32 bits");
        call(load.as_mut(), &mut NewFlows::new(self.fabric.now(), first, &mut flows));
        for plan in flows.drain(..) {
            self.add_at(FlowPlan { tag, ..plan }, self.most[usize::from(tag)]);
        }
        self.new_flows = flows;
    }

    /// Processes all events due by `end`. Loads that react to ends of flows ([`Load::listens`]) may add flows.
    pub fn run_until(&mut self, end: Picos) {
        if self.is_listened_to() {
            while let Some(host) = self.fabric.run_until_report(end) {
                self.note_ends(host);
            }
        } else {
            self.fabric.run_until(end);
            self.note_all_ends();
        }
    }

    /// Runs until all flows have ended, or until `limit`; returns whether all have ended.
    ///
    /// If no load reacts to ends of flows ([`Load::listens`]), the run continues for [`Fabric::lead`], so that also
    /// nodes behind others reach the last flow's end.
    pub fn run_to_end(&mut self, limit: Picos) -> bool {
        let is_listened_to = self.is_listened_to();
        if is_listened_to {
            while self.open() > 0
                && let Some(host) = self.fabric.run_until_report(limit)
            {
                self.note_ends(host);
            }
        } else {
            self.note_all_ends();
            while self.open() > 0 && self.fabric.take_turn(limit) {
                self.note_all_ends();
            }
        }
        if self.open() > 0 {
            self.fabric.run_until(limit);
            return false;
        }
        let lead = if is_listened_to { Picos::ZERO } else { self.fabric.lead() };
        let end = self.last_end.after(lead);
        self.fabric.run_until(end.min(limit));
        end <= limit
    }

    fn is_listened_to(&self) -> bool {
        self.loads.iter().any(|load| load.listens())
    }

    fn note_all_ends(&mut self) {
        while let Some(host) = self.fabric.next_report() {
            self.note_ends(host);
        }
    }

    fn note_ends(&mut self, host: NodeId) {
        let number = host.0 - self.switches;
        let ended = self.fabric.at_host(number, |host, _| std::mem::take(host.ended()));
        for flow in ended {
            self.ended += 1;
            self.last_end = self.last_end.max(
                self.received_by(self.sent(flow))
                    .finish()
                    .expect("an ended flow must have a completion time"),
            );
            let plan = self.plan(flow);
            if self.loads.get(usize::from(plan.tag)).is_some_and(|load| load.listens()) {
                self.call_load(plan.tag, |load, new_flows| load.ended(flow, &plan, new_flows));
            }
        }
    }

    /// Returns how many flows have not ended.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.flows.len() as u64 - self.ended
    }

    /// Returns how many flows were added.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Yields the records of all flows, ordered by number.
    pub fn records(&self) -> impl Iterator<Item = FlowRecord> {
        (0..self.flows.len())
            .map(|flow| self.record(u32::try_from(flow).expect("the number of flows must fit into 32 bits")))
    }

    /// Returns a flow's record so far.
    #[must_use]
    pub fn record(&self, flow: u32) -> FlowRecord {
        let SenderFlow { host, number } = self.flows[flow as usize];
        let sender = &self.fabric.hosts()[host as usize];
        let sent = sender.sent_flow(number);
        let (plan, received) = (sent.plan(host), self.received_by(sent));
        FlowRecord {
            flow,
            from: plan.from,
            to: plan.to,
            class: plan.class,
            tag: plan.tag,
            bytes: plan.bytes,
            start: plan.start,
            finish: received.finish(),
            acknowledged: sender.acknowledged(number),
            ideal: self.alone.time_of(&plan, sender.link_of(sent)),
            frames_sent: sender.frames_sent(number),
            frames_resent: sent.resent,
            timeouts: sent.timeouts,
            marked: received.marked,
            cnps: received.cnps + sender.cnms(number),
            out_of_order: received.out_of_order,
        }
    }

    /// Returns how many different frames of a flow have arrived.
    #[must_use]
    pub fn received(&self, flow: u32) -> u32 {
        self.received_by(self.sent(flow)).received()
    }

    /// Returns how many different bytes of a flow have arrived.
    #[must_use]
    pub fn received_bytes(&self, flow: u32) -> u64 {
        let sent = self.sent(flow);
        let payload_max = self.settings.framing(sent.class).payload_max;
        (u64::from(self.received(flow)) * u64::from(payload_max)).min(sent.bytes)
    }

    /// Returns the TCP sender of a flow while it sends.
    #[must_use]
    pub fn tcp_sender(&self, flow: u32) -> Option<&TcpSender> {
        let SenderFlow { host, number } = self.flows[flow as usize];
        self.fabric.hosts()[host as usize].tcp_sender(number)
    }

    fn sent(&self, flow: u32) -> &Sending {
        let SenderFlow { host, number } = self.flows[flow as usize];
        self.fabric.hosts()[host as usize].sent_flow(number)
    }

    fn plan(&self, flow: u32) -> FlowPlan {
        self.sent(flow).plan(self.flows[flow as usize].host)
    }

    fn received_by(&self, sent: &Sending) -> &Receiving {
        self.fabric.hosts()[sent.to as usize].received_flow(sent.peer)
    }

    /// Returns the rate that congestion control allows a flow, in b/s on the line; `None` if it sets no rate.
    pub fn rate(&mut self, flow: u32) -> Option<f64> {
        let SenderFlow { host, number } = self.flows[flow as usize];
        self.fabric.at_host(host, |host, net| host.rate(number, net.now()))
    }

    /// Returns the calculator of this fabric's paths and ideal completion times.
    #[must_use]
    pub fn alone(&self) -> &Alone {
        &self.alone
    }

    /// Returns the simulated switches, hosts and links.
    #[must_use]
    pub fn fabric(&self) -> &Fabric<S, FlowHost> {
        &self.fabric
    }

    /// Returns the simulated switches, hosts and links, for changes such as faults.
    pub fn fabric_mut(&mut self) -> &mut Fabric<S, FlowHost> {
        &mut self.fabric
    }
}
