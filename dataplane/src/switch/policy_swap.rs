use xoff_flow_control::policy::Policy;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::units::{Class, PortId, RateStep};

use super::Switch;
use crate::queue::Nested;

/// New policy of a class, with its memory. After the exchange, it holds the old policy.
#[derive(Debug)]
pub struct PolicySwap {
    class: Class,
    kind: PolicyKind,
    policy: Policy,
    queues: Box<[Option<Box<Nested>>]>,
}

impl PolicySwap {
    /// Prepares a policy of `kind` for `class`, and allocates its memory.
    #[must_use]
    pub fn new(kind: PolicyKind, class: Class, settings: &SwitchSettings) -> PolicySwap {
        PolicySwap {
            class,
            kind,
            policy: Policy::new(kind, class, settings),
            queues: settings.ports.iter().map(|_| queue(kind, settings)).collect(),
        }
    }
}

pub(super) fn queue(kind: PolicyKind, settings: &SwitchSettings) -> Option<Box<Nested>> {
    (kind == PolicyKind::Ofc).then(|| Box::new(Nested::new(settings.policy.ofc.flows as usize)))
}

impl Switch {
    pub(super) fn set_policy(&mut self, mut swap: Box<PolicySwap>) -> Box<PolicySwap> {
        self.end_run();
        let PolicySwap { class, kind, ref mut policy, ref mut queues } = *swap;
        let count = self.ports.len();
        let ports = || (0..=u8::MAX).map(PortId).take(count);
        self.policies.kinds[class.index()] = kind;
        std::mem::swap(&mut self.policies.acting[class.index()], policy);
        for (port, queue) in ports().zip(queues) {
            let left = self.end_flows(policy, port, class);
            self.begin_flows(port, class, std::mem::replace(queue, left));
            self.ports[port.index()].peer.demands.iter_mut().for_each(|demands| demands.remove(class));
            self.request_rate(port, class, RateStep::FULL);
        }
        self.policies.acting[class.index()].adopt(&self.buffer, &mut self.policies.intents);
        match self.workers.own().first_from(PortId(0)) {
            Some(own) => self.carry_out(class, own),
            None => self.policies.intents.clear(), // without a port there is nothing to do
        }
        for port in ports() {
            for held in self.ports[port.index()].peer.held.classes().iter() {
                if self.ports[port.index()].peer.demands[held.index()].is_empty() {
                    self.release_class(port, held);
                }
            }
        }
        swap
    }
}
