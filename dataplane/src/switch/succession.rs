//! How a policy is replaced while frames are inside.
//!
//! All that the new one needs is made beforehand, where memory may be allocated, and what the old one leaves
//! is taken back there: a worker only exchanges them.

use xoff_flow_control::policy::Policy;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::units::{Class, PortId, RateStep};

use super::Switch;
use crate::queue::Nested;

/// A policy that is to take over a class; afterwards, what the one before has left.
#[derive(Debug)]
pub struct Successor {
    class: Class,
    kind: PolicyKind,
    policy: Policy,
    /// By port, a queue for flows, where the policy nests them; afterwards, the one that is of no use any more.
    queues: Box<[Option<Box<Nested>>]>,
}

impl Successor {
    /// A policy of `kind` for `class`, in a switch that was made with these settings.
    #[must_use]
    pub fn new(kind: PolicyKind, class: Class, settings: &SwitchSettings) -> Successor {
        Successor {
            class,
            kind,
            policy: Policy::new(kind, class, settings),
            queues: settings.ports.iter().map(|_| queue(kind, settings)).collect(),
        }
    }
}

/// A queue for the flows of a policy, if it pauses any.
pub(super) fn queue(kind: PolicyKind, settings: &SwitchSettings) -> Option<Box<Nested>> {
    (kind == PolicyKind::Ofc).then(|| Box::new(Nested::new(settings.policy.ofc.flows as usize)))
}

impl Switch {
    /// See [`super::Batch::set_policy`].
    pub(super) fn set_policy(&mut self, mut successor: Box<Successor>) -> Box<Successor> {
        self.end_run();
        let Successor { class, kind, ref mut policy, ref mut queues } = *successor;
        let count = self.ports.len();
        let ports = || (0..=u8::MAX).map(PortId).take(count);
        self.policies.kinds[class.index()] = kind;
        std::mem::swap(&mut self.policies.acting[class.index()], policy);
        for (port, queue) in ports().zip(queues) {
            let left = self.end_flows(policy, port, class);
            self.begin_flows(port, class, std::mem::replace(queue, left));
            self.ports[port.index()].peer.demands.iter_mut().for_each(|demands| demands.remove(class));
            self.ask_rate(port, class, RateStep::FULL);
        }
        self.policies.acting[class.index()].adopt(&self.buffer, &mut self.policies.intents);
        match self.workers.own().first_from(PortId(0)) {
            Some(own) => self.carry_out(class, own),
            None => self.policies.intents.clear(), // without a port there is nothing to do
        }
        for port in ports() {
            for held in self.ports[port.index()].peer.held.classes().iter() {
                if self.ports[port.index()].peer.demands[held.index()].is_empty() {
                    self.let_go(port, held);
                }
            }
        }
        successor
    }
}
