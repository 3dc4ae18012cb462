use std::ops::{Deref, DerefMut};

use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::mac_control::MacControl;
use xoff_wire::units::{Class, MacAddr, Nanos, PortId};

use super::{Bed, NodeId, Obeys, Received, Stream, SwitchNode, SwitchPlan, end};

/// One switch with a host at each port.
#[derive(Debug)]
pub struct Star {
    bed: Bed,
    switch: NodeId,
    hosts: Vec<NodeId>,
}

/// Stream from one host of a [`Star`] to another.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Flow {
    pub from: usize,
    pub to: usize,
    pub id: u32,
}

impl Star {
    /// Creates a star of hosts that obey pauses at once.
    pub fn new(plan: SwitchPlan) -> Star {
        Star::with(plan, |_| Obeys::AtOnce)
    }

    /// Creates a star. `obeys` returns the obedience of the host at each port.
    pub fn with(plan: SwitchPlan, obeys: impl Fn(usize) -> Obeys) -> Star {
        let ports = plan.settings.ports.len();
        let mut bed = Bed::new(1);
        let switch = bed.add_switch(plan);
        let port = |port: usize| u8::try_from(port).expect("more than 256 ports");
        let hosts = (0..ports).map(|at| bed.add_host(switch, port(at), obeys(at))).collect();
        Star { bed, switch, hosts }
    }

    /// Returns the switch.
    pub fn switch(&self) -> &SwitchNode {
        self.bed.switch(self.switch)
    }

    /// Returns a port's host.
    pub fn at(&self, port: usize) -> &super::Host {
        self.bed.host(self.hosts[port])
    }

    /// Returns a stream of `count` MTU-sized frames at line rate that starts now, to the host at port `to`.
    pub fn stream(&self, to: usize, class: Class, count: u64) -> Stream {
        Stream { class, ..Stream::new(self.mac(to), count, self.bed.now()) }
    }

    /// Returns the MAC address of a port's host.
    pub fn mac(&self, of: usize) -> MacAddr {
        self.at(of).mac
    }

    /// Starts a stream between two hosts.
    pub fn start(&mut self, from: usize, to: usize, stream: Stream) -> Flow {
        let stream = Stream { to: self.mac(to), ..stream };
        Flow { from, to, id: self.bed.send(self.hosts[from], stream) }
    }

    /// Starts a stream to the destination in `stream` (perhaps multicast), and returns the stream's number.
    pub fn start_to_all(&mut self, from: usize, stream: Stream) -> u32 {
        self.bed.send(self.hosts[from], stream)
    }

    /// Returns a flow's received frames.
    pub fn received(&self, flow: Flow) -> Received {
        self.at(flow.to).received(flow.id)
    }

    /// Returns how many frames of a flow were sent but not received.
    pub fn lost(&self, flow: Flow) -> u64 {
        self.at(flow.from).sent(flow.id) - self.received(flow).frames
    }

    /// Asserts that `frames` frames of a flow were sent, and arrived exactly once, in order.
    pub fn assert_whole(&self, flow: Flow, frames: u64) {
        let received = self.received(flow);
        assert_eq!((received.frames, received.late_or_twice), (frames, 0), "{flow:?}");
        assert_eq!(self.at(flow.from).sent(flow.id), frames, "{flow:?}");
    }

    /// Makes a host obey requested rate limits (GFC).
    pub fn keep_rates(&mut self, port: usize) {
        self.bed.keep_rates(self.hosts[port]);
    }

    /// Sends a pause frame from a host.
    pub fn pause(&mut self, port: usize, control: MacControl) {
        let bytes = control.encode(self.mac(port));
        self.inject(port, &bytes);
    }

    /// Makes a host send the frame `bytes` before its queued frames.
    pub fn inject(&mut self, port: usize, bytes: &[u8]) {
        self.bed.inject(self.hosts[port], bytes);
    }

    /// Drops all frames to a host for which `loses` returns true.
    pub fn lose(&mut self, port: u8, loses: impl FnMut(&[u8]) -> bool + 'static) {
        let from = end(self.switch, port);
        self.bed.wire_mut(from).lose(loses);
    }

    /// Makes the switch send XON to all peers that it pauses.
    pub fn release_peers(&mut self) {
        let switch = self.switch;
        self.bed.release_peers(switch);
    }

    /// Replaces a class's policy.
    pub fn set_policy(&mut self, class: Class, kind: PolicyKind) {
        let switch = self.switch;
        self.bed.set_policy(switch, class, kind);
    }

    /// Replaces the switch's settings.
    pub fn revise(&mut self, settings: SwitchSettings) {
        let switch = self.switch;
        self.bed.revise(switch, settings);
    }

    /// Takes a port's link down or up.
    pub fn set_link(&mut self, port: u8, up: bool) {
        let at = end(self.switch, port);
        self.bed.set_link(at, up);
    }

    /// Returns the arrival times of a flow's frames.
    pub fn arrivals(&self, flow: Flow) -> Vec<Nanos> {
        let of_flow = self.at(flow.to).arrivals.iter().filter(|(_, mark)| mark.stream == flow.id);
        of_flow.map(|&(at, _)| at).collect()
    }

    /// Returns whether the switch pauses a class of the host at a port.
    pub fn holds(&self, port: u8, class: Class) -> bool {
        self.switch().worker(PortId(port)).held(PortId(port)).classes().contains(class)
    }

    /// Runs the test bed for the time `span`.
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
