//! Switches and hosts of the test bed, as nodes of the simulator. At each event, a node does all possible work and fills idle lines.

use xoff_sim::{Net, Node, Packet, Picos, Place};
use xoff_wire::units::{Nanos, PortId, PortSet};

use super::breaches::{Breaches, OnBreach, Promise};
use super::host::Host;
use super::switch_node::SwitchNode;

#[derive(Debug)]
pub struct Placed<N> {
    pub(super) node: N,
    pub(super) breaches: Breaches,
    place: Place,
    free: PortSet,
    orphans: PortSet,
    wakes: Nanos,
}

impl<N> Placed<N> {
    pub(super) fn new(node: N, place: Place, ports: usize, breaches: Breaches) -> Placed<N> {
        let free = (0..=u8::MAX).map(PortId).take(ports).collect();
        Placed { node, breaches, place, free, orphans: PortSet::NONE, wakes: Nanos::NEVER }
    }

    pub(super) fn wake(&self, when: Nanos, net: &mut Net) {
        net.wake(self.place, Picos::from(when));
    }

    fn woken(&mut self, now: Nanos) {
        if self.wakes <= now {
            self.wakes = Nanos::NEVER;
        }
    }

    fn wake_by(&mut self, next: Nanos, net: &mut Net) {
        if next < self.wakes {
            self.wakes = next;
            self.wake(next, net);
        }
    }

    fn start(&mut self, port: PortId, bytes: Option<Vec<u8>>, net: &mut Net) {
        if let Some(bytes) = bytes {
            let packet = net.pool.add_whole(&bytes);
            self.free.remove(port);
            net.start(self.place, port, packet);
        }
    }
}

fn take(packet: Packet, net: &mut Net) -> Vec<u8> {
    let bytes = net.pool.head(packet).to_vec();
    net.pool.free(packet);
    bytes
}

impl Placed<SwitchNode> {
    pub(super) fn restart(&mut self, node: SwitchNode, net: &mut Net) {
        self.orphans = node.ports().filter(|port| !self.free.contains(*port)).collect();
        self.node = node;
        self.wakes = Nanos::NEVER;
        self.wake(Nanos::ZERO, net);
    }

    fn settle(&mut self, net: &mut Net) {
        let now = self.note_time(net);
        let is_looking = self.node.looks_at(now);
        if is_looking {
            self.node.look(now, &mut self.breaches);
        }
        for port in self.node.ports().filter(|port| self.free.contains(*port)).collect::<Vec<_>>() {
            self.start(port, self.node.next_frame(self.breaches.now, port), net);
        }
        self.node.check(now, &mut self.breaches);
        if is_looking {
            self.node.check_idle(now, &mut self.breaches);
        }
        self.wake_by(self.node.next_look(now), net);
    }

    pub(super) fn check(&mut self, net: &Net) {
        let now = self.note_time(net);
        self.node.check(now, &mut self.breaches);
        self.node.books_balance_by_class(&mut self.breaches);
    }

    fn note_time(&mut self, net: &Net) -> Nanos {
        self.breaches.now = net.now().floor();
        self.breaches.now
    }
}

impl Node for Placed<SwitchNode> {
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        let bytes = take(packet, net);
        self.node.arrived(port, &bytes);
        self.settle(net);
    }

    fn left(&mut self, port: PortId, net: &mut Net) {
        let now = self.note_time(net);
        self.free.insert(port);
        if self.orphans.contains(port) {
            self.orphans.remove(port);
        } else {
            self.node.left(now, port, &mut self.breaches);
        }
        self.settle(net);
    }

    fn due(&mut self, net: &mut Net) {
        self.woken(net.now().floor());
        self.settle(net);
    }

    fn linked(&mut self, port: PortId, is_up: bool, net: &mut Net) {
        let now = self.note_time(net);
        self.node.set_link(now, port, is_up);
        self.wake(now, net);
    }

    fn holds(&self) -> u64 {
        0 // the node itself has the bytes of its frames
    }
}

impl Placed<Host> {
    pub(super) fn settle(&mut self, net: &mut Net) {
        let now = net.now().floor();
        if self.free.contains(LINE) {
            let bytes = self.node.next_frame(now);
            self.start(LINE, bytes, net);
        }
        self.wake_by(self.node.next_wake(now), net);
    }
}

const LINE: PortId = PortId(0);

impl Node for Placed<Host> {
    fn arrived(&mut self, _: PortId, packet: Packet, net: &mut Net) {
        let bytes = take(packet, net);
        if let Some(later) = self.node.arrived(net.now().floor(), &bytes) {
            self.wake(later, net);
        }
        if self.breaches.on_breach == OnBreach::NoteAll
            && let Some((mark, last)) = self.node.disorder
        {
            self.breaches.now = net.now().floor();
            let promise = if mark.sequence == last { Promise::Once } else { Promise::Order };
            let what =
                || format!("frame {} of stream {} arrived after frame {last}", mark.sequence, mark.stream);
            self.breaches.expect(false, promise, what);
        }
        self.settle(net);
    }

    fn left(&mut self, port: PortId, net: &mut Net) {
        self.free.insert(port);
        self.settle(net);
    }

    fn due(&mut self, net: &mut Net) {
        let now = net.now().floor();
        self.woken(now);
        self.node.heed_due(now);
        self.settle(net);
    }

    fn linked(&mut self, _: PortId, is_up: bool, net: &mut Net) {
        self.node.set_link(is_up);
        self.wake(net.now().floor(), net);
    }

    fn holds(&self) -> u64 {
        0
    }
}
