use xoff_wire::units::{Class, ClassSet, PortId};

use super::Intent;
use crate::cause::Trigger;
use crate::settings::PortSettings;

/// Filter that removes intents that the switch cannot execute. Only custom policies request such intents.
#[derive(Clone, Debug)]
pub struct Capabilities {
    ports: Box<[Port]>,
}

#[derive(Clone, Copy, Debug)]
struct Port {
    pauses: ClassSet,
    keeps_rates: bool,
}

impl Capabilities {
    /// Creates a worker's filter, which allows pauses only at the worker's own ports.
    pub fn new(ports: &[PortSettings], owns: impl Fn(PortId) -> bool) -> Capabilities {
        let port = |(id, port): (u8, &PortSettings)| Port {
            pauses: if owns(PortId(id)) { port.sends() } else { ClassSet::NONE },
            keeps_rates: port.gfc_peer,
        };
        Capabilities { ports: (0..=u8::MAX).zip(ports).map(port).collect() }
    }

    /// Removes intents that the switch cannot execute for the policy of class `by`; returns their number.
    pub fn restrict(&self, by: Class, intents: &mut Vec<Intent>) -> u64 {
        let wanted = intents.len();
        intents.retain(|intent| self.allows(by, intent));
        (wanted - intents.len()) as u64
    }

    fn allows(&self, by: Class, intent: &Intent) -> bool {
        match *intent {
            Intent::Xoff { port, class, trigger } => {
                self.pausable_port(by, port, class).is_some() && self.is_valid_trigger(trigger)
            }
            Intent::Xon { port, class } => self.pausable_port(by, port, class).is_some(),
            Intent::Rate { port, class, .. } => {
                class == by && self.pausable_port(by, port, class).is_some_and(|port| port.keeps_rates)
            }
            // Refuse pauses of flows: only the built-in OFC can name the flows.
            Intent::PauseFlows { .. } | Intent::ResumeFlows { .. } => false,
        }
    }

    fn pausable_port(&self, by: Class, port: PortId, class: Class) -> Option<&Port> {
        let port = self.ports.get(port.index())?;
        (class.get() <= by.get() && port.pauses.contains(class)).then_some(port)
    }

    fn is_valid_trigger(&self, trigger: Trigger) -> bool {
        match trigger {
            Trigger::Egress(port) | Trigger::TableFull(port) => port.index() < self.ports.len(),
            Trigger::Ingress | Trigger::Predicted | Trigger::Higher(_) | Trigger::Pool => true,
        }
    }
}

// Tests for SPECIFICATION.md: own-policy
#[cfg(test)]
mod tests {
    use xoff_wire::units::RateStep;

    use super::*;
    use crate::settings::FlowControl;
    use crate::testing::port_settings;

    const CLASSES: [Class; 3] = [Class::ALL[0], Class::ALL[3], Class::ALL[4]];

    fn capabilities() -> Capabilities {
        let mut ports = [0, 1, 2].map(port);
        ports[1].flow_control = FlowControl::Ignore;
        Capabilities::new(&ports, |port| port != PortId(2))
    }

    fn port(index: u8) -> PortSettings {
        let mut port = port_settings(index);
        port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet::ALL };
        port.classes[4].lossless = true;
        port
    }

    fn allowed(by: usize, intent: Intent) -> bool {
        let mut intents = vec![intent];
        let refused = capabilities().restrict(Class::ALL[by], &mut intents);
        assert_eq!(intents.len() as u64 + refused, 1);
        refused == 0
    }

    #[test]
    fn custom_policy_may_pause_only_own_and_lower_lossless_classes() {
        let xoff = |port, class| Intent::Xoff { port: PortId(port), class, trigger: Trigger::Ingress };
        let xon = |port, class| Intent::Xon { port: PortId(port), class };
        for port in 0..=4 {
            let expected = if port == 0 { [false, true, true] } else { [false; 3] };
            assert_eq!(
                CLASSES.map(|class| allowed(4, xoff(port, class))),
                expected,
                "port {port}: XOFF must be allowed only at port 0, and there only for lossless classes"
            );
            assert_eq!(
                CLASSES.map(|class| allowed(4, xon(port, class))),
                expected,
                "port {port}: XON must be allowed only at port 0, and there only for lossless classes"
            );
        }
        assert_eq!(
            CLASSES.map(|class| allowed(3, xoff(0, class))),
            [false, true, false],
            "of classes 0 (lossy), 3 and 4, the policy of class 3 may pause only class 3"
        );
    }

    #[test]
    fn xoff_that_blames_a_missing_port_is_removed() {
        let by = |trigger| Intent::Xoff { port: PortId(0), class: CLASSES[1], trigger };
        for (port, is_port) in [(0, true), (2, true), (3, false), (255, false)] {
            assert_eq!(
                allowed(3, by(Trigger::Egress(PortId(port)))),
                is_port,
                "an XOFF with trigger `Egress({port})` must be removed if and only if that port is missing"
            );
            assert_eq!(
                allowed(3, by(Trigger::TableFull(PortId(port)))),
                is_port,
                "an XOFF with trigger `TableFull({port})` must be removed if and only if that port is missing"
            );
        }
        assert!(allowed(3, by(Trigger::Higher(Class::ALL[7]))) && allowed(3, by(Trigger::Predicted)));
    }

    #[test]
    fn custom_policy_may_limit_only_own_class_at_gfc_peers() {
        let rate = |port, class| Intent::Rate { port: PortId(port), class, step: RateStep::FULL };
        assert!(!allowed(3, rate(0, CLASSES[1])), "no rate may be requested from a peer without GFC");
        let capabilities = Capabilities::new(&[PortSettings { gfc_peer: true, ..port(0) }], |_| true);
        let of = |by: usize, class: usize| {
            capabilities.restrict(Class::ALL[by], &mut vec![rate(0, Class::ALL[class])]) == 0
        };
        assert!(of(3, 3) && !of(4, 3) && !of(3, 4));
        let port = PortId(0);
        assert!(
            !allowed(3, Intent::PauseFlows { port, count: 1 }) && !allowed(3, Intent::ResumeFlows { port })
        );
    }
}
