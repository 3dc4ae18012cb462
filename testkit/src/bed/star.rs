//! The commonest bed: one switch, and a host at each of its ports.

use std::ops::{Deref, DerefMut};

use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::mac_control::MacControl;
use xoff_wire::units::{Class, MacAddr, Nanos, PortId};

use super::{Bed, NodeId, Obeys, Seen, Stream, SwitchNode, SwitchPlan, end};

/// A switch with a host at each port.
#[derive(Debug)]
pub struct Star {
    bed: Bed,
    switch: NodeId,
    hosts: Vec<NodeId>,
}

/// A stream of a [`Star`]: from a port, to a port, and its number.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The port that it comes in by.
    pub from: usize,
    /// The port that it leaves by.
    pub to: usize,
    /// Its number.
    pub id: u32,
}

impl Star {
    /// Hosts that obey at once.
    pub fn new(plan: SwitchPlan) -> Star {
        Star::with(plan, |_| Obeys::AtOnce)
    }

    /// Hosts that obey as `obeys` says, by port.
    pub fn with(plan: SwitchPlan, obeys: impl Fn(usize) -> Obeys) -> Star {
        let ports = plan.settings.ports.len();
        let mut bed = Bed::new(1);
        let switch = bed.add_switch(plan);
        let port = |port: usize| u8::try_from(port).expect("at most 256 ports");
        let hosts = (0..ports).map(|at| bed.add_host(switch, port(at), obeys(at))).collect();
        Star { bed, switch, hosts }
    }

    /// The switch.
    pub fn switch(&self) -> &SwitchNode {
        self.bed.switch(self.switch)
    }

    /// The host at a port.
    pub fn at(&self, port: usize) -> &super::Host {
        self.bed.host(self.hosts[port])
    }

    /// MTU-sized frames as fast as the line, from now on; change what should differ.
    pub fn stream(&self, to: usize, class: Class, count: u64) -> Stream {
        Stream { class, ..Stream::new(self.mac(to), count, self.bed.now()) }
    }

    /// The address of the host at a port.
    pub fn mac(&self, of: usize) -> MacAddr {
        self.at(of).mac
    }

    /// Starts a stream to the host at `to`.
    pub fn start(&mut self, from: usize, to: usize, stream: Stream) -> Flow {
        let stream = Stream { to: self.mac(to), ..stream };
        Flow { from, to, id: self.bed.send(self.hosts[from], stream) }
    }

    /// Starts a stream to whatever address it has; answers its number.
    pub fn start_to_all(&mut self, from: usize, stream: Stream) -> u32 {
        self.bed.send(self.hosts[from], stream)
    }

    /// What has come of a flow.
    pub fn seen(&self, flow: Flow) -> Seen {
        self.at(flow.to).seen(flow.id)
    }

    /// Frames of a flow that were sent and did not come.
    pub fn lost(&self, flow: Flow) -> u64 {
        self.at(flow.from).sent(flow.id) - self.seen(flow).frames
    }

    /// All frames of a flow have come, once and in order.
    pub fn came_whole(&self, flow: Flow, frames: u64) {
        let seen = self.seen(flow);
        assert_eq!((seen.frames, seen.late_or_twice), (frames, 0), "{flow:?}");
        assert_eq!(self.at(flow.from).sent(flow.id), frames, "{flow:?}");
    }

    /// From here on the host at `port` keeps the rates that it is asked for.
    pub fn keep_rates(&mut self, port: usize) {
        self.bed.keep_rates(self.hosts[port]);
    }

    /// The host at `port` sends a pause frame.
    pub fn pause(&mut self, port: usize, control: MacControl) {
        let bytes = control.encode(self.mac(port));
        self.inject(port, &bytes);
    }

    /// The host at `port` sends these bytes, before anything else.
    pub fn inject(&mut self, port: usize, bytes: &[u8]) {
        self.bed.inject(self.hosts[port], bytes);
    }

    /// Frames from the switch to the host at `port` are lost where `loses` says so.
    pub fn lose(&mut self, port: u8, loses: impl FnMut(&[u8]) -> bool + 'static) {
        let from = end(self.switch, port);
        self.bed.wire_mut(from).lose(loses);
    }

    /// The switch lets go every peer that it holds, as before a stop.
    pub fn release_peers(&mut self) {
        let switch = self.switch;
        self.bed.release_peers(switch);
    }

    /// Gives a class another policy.
    pub fn set_policy(&mut self, class: Class, kind: PolicyKind) {
        let switch = self.switch;
        self.bed.set_policy(switch, class, kind);
    }

    /// Other settings hold from now on.
    pub fn revise(&mut self, settings: SwitchSettings) {
        let switch = self.switch;
        self.bed.revise(switch, settings);
    }

    /// Takes the link of a port down, or up again.
    pub fn set_link(&mut self, port: u8, up: bool) {
        let at = end(self.switch, port);
        self.bed.set_link(at, up);
    }

    /// When frames of a flow came in.
    pub fn arrivals(&self, flow: Flow) -> Vec<Nanos> {
        let of_flow = self.at(flow.to).arrivals.iter().filter(|(_, mark)| mark.stream == flow.id);
        of_flow.map(|&(at, _)| at).collect()
    }

    /// Whether the switch holds the peer of `port`.
    pub fn holds(&self, port: u8, class: Class) -> bool {
        self.switch().worker(PortId(port)).held(PortId(port)).classes().contains(class)
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Nanos) {
        let end = self.bed.now() + span;
        self.bed.run_until(end);
    }
}

impl Deref for Star {
    type Target = Bed;
    fn deref(&self) -> &Bed {
        &self.bed
    }
}

impl DerefMut for Star {
    fn deref_mut(&mut self) -> &mut Bed {
        &mut self.bed
    }
}
