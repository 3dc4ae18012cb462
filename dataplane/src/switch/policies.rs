//! Execution of the actions that policies request. A peer is paused in a class while any policy demands it; XON is sent
//! when the last demand has ended.

use xoff_flow_control::cause::{Cause, Trigger};
use xoff_flow_control::policy::{Capabilities, Event, Intent, Policy, Shadow};
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::units::{CLASSES, Class, PortId};

use super::Switch;

#[derive(Debug)]
pub(super) struct Policies {
    pub(super) kinds: [PolicyKind; CLASSES],
    pub(super) acting: [Policy; CLASSES],
    pub(super) capabilities: Capabilities,
    pub(super) shadows: Box<[Shadow]>,
    pub(super) shadows_count_flows: bool,
    pub(super) intents: Vec<Intent>,
}

impl Policies {
    pub(super) fn new(settings: &SwitchSettings, slots: u32, capabilities: Capabilities) -> Policies {
        let kinds = settings.policies;
        let shadow = |&kind| Shadow::new(kind, settings, slots, &capabilities);
        let shadows: Box<[Shadow]> = settings.shadows.iter().map(shadow).collect();
        Policies {
            kinds,
            acting: Class::ALL.map(|class| Policy::new(kinds[class.index()], class, settings)),
            capabilities,
            shadows_count_flows: shadows.iter().any(Shadow::counts_flows),
            shadows,
            intents: Vec::with_capacity(settings.ports.len() * CLASSES),
        }
    }
}

impl Switch {
    /// Returns the policy of `class`.
    #[must_use]
    pub fn policy(&self, class: Class) -> PolicyKind {
        self.policies.kinds[class.index()]
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, class: Class, event: Event) {
        debug_assert!(self.is_counted(), "all frames must be counted before a policy observes an event");
        let Policies { acting, intents, .. } = &mut self.policies;
        acting[class.index()].observe(self.now, event, &self.buffer, intents);
        if !intents.is_empty() {
            self.carry_out(class, event.port());
        }
        if !self.policies.shadows.is_empty() {
            self.observe_in_shadow(class, event);
        }
    }

    #[cold]
    fn observe_in_shadow(&mut self, class: Class, event: Event) {
        let Switch { policies: Policies { shadows, intents, .. }, buffer, counters, .. } = self;
        for (number, shadow) in shadows.iter_mut().enumerate() {
            shadow.observe(self.now, class, event, buffer, intents, counters.shadow(number));
        }
    }

    #[cold]
    pub(super) fn note_loss(&self, ingress: PortId, class: Class) {
        if !self.workers.owns(ingress) {
            return; // its counters have another writer
        }
        let first = &self.counters.class(ingress, class).first_loss;
        if first.get() == 0 {
            first.set(self.now.0.max(1));
        }
        for (number, shadow) in self.policies.shadows.iter().enumerate() {
            if !shadow.holds(ingress, class) {
                self.counters.shadow(number)[ingress.index()][class.index()].lose(self.now);
            }
        }
    }

    #[cold]
    pub(super) fn carry_out(&mut self, by: Class, at: PortId) {
        if self.policies.kinds[by.index()] == PolicyKind::Custom {
            let refused = self.policies.capabilities.restrict(by, &mut self.policies.intents);
            self.counters.class(at, by).intents_refused.add(refused);
        }
        let mut intents = std::mem::take(&mut self.policies.intents);
        for intent in intents.drain(..) {
            match intent {
                Intent::Xoff { port, class, trigger } => self.hold(port, class, by, trigger),
                Intent::PauseFlows { port, count } => {
                    self.counters.class(port, by).flows.requests.pause(count);
                    self.update_flow_lists(port, by);
                }
                Intent::ResumeFlows { port } => {
                    self.counters.class(port, by).flows.requests.resumes.add(1);
                    self.update_flow_lists(port, by);
                }
                Intent::Rate { port, class, step } => self.request_rate(port, class, step),
                Intent::Xon { port, class } => {
                    let demands = &mut self.ports[port.index()].peer.demands[class.index()];
                    demands.remove(by);
                    if demands.is_empty() {
                        self.release_class(port, class);
                    }
                }
            }
        }
        self.policies.intents = intents;
    }

    fn hold(&mut self, port: PortId, class: Class, by: Class, trigger: Trigger) {
        let at = &mut self.ports[port.index()];
        at.peer.demands[class.index()].insert(by);
        if matches!(trigger, Trigger::TableFull(_)) {
            self.counters.class(port, class).flows.fallbacks.add(1);
        }
        if at.peer.held.xoff(self.now, class) {
            at.peer.response.held(class);
            let counters = self.counters.class(port, class);
            let cause = self.cause(port, class, trigger);
            counters.xoff_causes.count(cause);
            // Write the cause before the start time: a thread that reads the new time then also reads the new cause.
            counters.held_cause.set(cause.pack());
            counters.held_since.set(self.now.0.max(1));
            self.note_announcements(port);
        }
    }

    fn cause(&self, port: PortId, class: Class, trigger: Trigger) -> Cause {
        let trigger = match trigger {
            Trigger::Ingress if self.buffer.lacks_pool(port, class) => Trigger::Pool,
            other => other,
        };
        let (class, culprit) = match trigger {
            Trigger::Pool => self.buffer.fullest().map_or((class, None), |(port, class)| (class, Some(port))),
            Trigger::Egress(egress) | Trigger::TableFull(egress) => (class, Some(egress)),
            Trigger::Ingress | Trigger::Predicted => (class, self.buffer.fullest_behind(port, class)),
            Trigger::Higher(higher) => (higher, self.buffer.fullest_behind(port, higher)),
        };
        let held = |egress: PortId| {
            let counters = self.counters.class(egress, class);
            counters.paused_since.get() != 0 || counters.flows.paused.get() != 0
        };
        Cause { trigger: trigger.index(), class, culprit, relayed: culprit.is_some_and(held) }
    }

    pub(super) fn release_class(&mut self, port: PortId, class: Class) {
        if let Some(held_for) = self.ports[port.index()].peer.held.xon(self.now, class) {
            self.counters.class(port, class).end_hold(held_for);
            self.note_announcements(port);
        }
    }
}
