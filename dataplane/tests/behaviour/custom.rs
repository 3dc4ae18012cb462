// Tests for SPECIFICATION.md: own-policy

use xoff_flow_control::cause::Trigger;
use xoff_flow_control::policy::{CustomPanic, CustomPolicy, Event, Intent, Margin, Occupancies};
use xoff_flow_control::settings::{Custom, PolicyFactory, PolicyKind, SwitchSettings};
use xoff_wire::units::{Bytes, Class, Nanos, PortId, PortSet, RateStep};

use crate::bed::plan::{self, LINK};
use crate::bed::{Flow, Star};
use crate::{C0, C3, C4};

#[derive(Clone, Copy, Debug)]
pub struct ScaledPfc {
    pub part: u64,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    AtEveryEvent,
    Panic,
}

impl ScaledPfc {
    pub const HALF: ScaledPfc = ScaledPfc { part: 2, fault: Fault::None };
    const PFC: ScaledPfc = ScaledPfc { part: 1, fault: Fault::None };
    const FAULTY: ScaledPfc = ScaledPfc { part: 1, fault: Fault::AtEveryEvent };
}

impl PolicyFactory for ScaledPfc {
    fn policy(&self, class: Class, settings: &SwitchSettings) -> Box<dyn CustomPolicy> {
        let senders = settings.senders(class);
        Box::new(ScaledPfcClass { class, parameters: *self, senders, paused: PortSet::NONE })
    }

    fn needs_one_worker(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct ScaledPfcClass {
    class: Class,
    parameters: ScaledPfc,
    senders: PortSet,
    paused: PortSet,
}

impl CustomPolicy for ScaledPfcClass {
    fn observe(&mut self, _: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>) {
        let (class, part) = (self.class, self.parameters.part);
        if self.parameters.fault == Fault::AtEveryEvent {
            intents.extend(impossible(class));
            let not_held = self.senders.iter().filter(|&port| !self.paused.contains(port));
            intents.extend(not_held.map(|port| Intent::Xon { port, class }));
        }
        match event {
            Event::Received { .. } if self.parameters.fault == Fault::Panic => {
                panic!("test panic in class {class}")
            }
            Event::Received { ingress: port } => {
                let bytes = buffer.ingress(port, class);
                let reached =
                    buffer.at_xoff(port, class) || bytes >= Bytes(buffer.xoff(port, class).0 / part);
                if reached && self.senders.contains(port) && !self.paused.contains(port) {
                    self.paused.insert(port);
                    intents.push(Intent::Xoff { port, class, trigger: Trigger::Ingress });
                }
            }
            Event::Released { ingress: port }
                if self.paused.contains(port)
                    && buffer.ingress(port, class) < Bytes(buffer.xon(port, class).0.div_ceil(part)) =>
            {
                self.paused.remove(port);
                intents.push(Intent::Xon { port, class });
            }
            _ => (),
        }
    }

    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>) {
        let class = self.class;
        for ingress in self.senders.iter().filter(|&port| buffer.ingress(port, class) > Bytes::ZERO) {
            self.observe(Nanos::ZERO, Event::Received { ingress }, buffer, intents);
        }
    }

    fn margin(&self, event: Event, _: &dyn Occupancies) -> Margin {
        match event {
            Event::Enqueued { .. } | Event::Dequeued { .. } if self.parameters.fault == Fault::None => {
                Margin::ALL
            }
            _ => Margin::NONE,
        }
    }
}

fn impossible(class: Class) -> [Intent; 11] {
    let (port, nowhere, trigger) = (PortId(1), PortId(200), Trigger::Ingress);
    let (higher, step) = (Class::ALL[7], RateStep::FULL);
    [
        Intent::Xoff { port: nowhere, class, trigger },
        Intent::Xoff { port, class: higher, trigger },
        Intent::Xoff { port, class: C0, trigger },
        Intent::Xoff { port, class, trigger: Trigger::Egress(nowhere) },
        Intent::Xoff { port, class, trigger: Trigger::TableFull(PortId(5)) },
        Intent::Xon { port: nowhere, class },
        Intent::Xon { port, class: C0 },
        Intent::PauseFlows { port, count: 1 },
        Intent::ResumeFlows { port: nowhere },
        Intent::Rate { port: nowhere, class, step },
        Intent::Rate { port, class, step },
    ]
}

fn run(custom: ScaledPfc, acting: PolicyKind, shadows: &[PolicyKind]) -> (Star, Vec<Vec<Nanos>>) {
    let mut plan = plan::switch(&[LINK; 5]);
    plan.settings.policies = [acting; 8];
    plan.settings.policy.custom = Some(Custom::new(custom));
    plan.settings.shadows = shadows.to_vec();
    let mut star = Star::new(plan);
    let flows: Vec<Flow> = (1..5).map(|from| star.start(from, 0, star.stream(0, C3, 400))).collect();
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 400));
    let arrivals = flows.iter().map(|&flow| star.arrivals(flow)).collect();
    (star, arrivals)
}

fn pauses(star: &Star, port: u8) -> [u64; 2] {
    let class = star.switch().counters.class(PortId(port), C3);
    [class.xoff_sent.get(), class.held_nanos.get()]
}

fn would_have_paused(star: &Star, shadow: usize, port: u8) -> [u64; 2] {
    let shadow = &star.switch().counters.shadow(shadow)[usize::from(port)][C3.index()];
    [shadow.xoff.get(), shadow.held_nanos.get()]
}

#[test]
fn custom_pfc_policy_equals_builtin_pfc() {
    let (pfc, expected) = run(ScaledPfc::PFC, PolicyKind::Pfc, &[]);
    let (custom, arrivals) = run(ScaledPfc::PFC, PolicyKind::Custom, &[]);
    assert_eq!(arrivals, expected);
    for port in 1..5 {
        assert_eq!(pauses(&custom, port), pauses(&pfc, port));
        assert!(pauses(&custom, port)[0] > 0);
    }
    let (_, other) = run(ScaledPfc::HALF, PolicyKind::Custom, &[]);
    assert_ne!(other, expected, "frames arrived as under another policy, so the comparison shows nothing");
}

#[test]
fn custom_shadow_policy_counts_pauses_but_sends_none() {
    let (_, expected) = run(ScaledPfc::PFC, PolicyKind::Pfc, &[]);
    let (star, arrivals) = run(ScaledPfc::PFC, PolicyKind::Pfc, &[PolicyKind::Custom, PolicyKind::Pfc]);
    assert_eq!(arrivals, expected, "the shadow policy changed when frames arrived");
    for port in 1..5 {
        assert_eq!(would_have_paused(&star, 0, port), would_have_paused(&star, 1, port));
        assert_eq!(would_have_paused(&star, 0, port), pauses(&star, port));
    }
}

#[test]
fn panic_of_custom_policy_is_reported() {
    let panics = ScaledPfc { part: 1, fault: Fault::Panic };
    for (acting, shadows) in [(PolicyKind::Custom, &[][..]), (PolicyKind::Pfc, &[PolicyKind::Custom][..])] {
        let cause = std::panic::catch_unwind(|| drop(run(panics, acting, shadows)))
            .expect_err("the policy's panic was not reported");
        let message = cause.downcast_ref::<CustomPanic>().map(|policy| policy.message.as_str());
        assert_eq!(message, Some("test panic in class 3"));
    }
}

#[test]
fn impossible_intents_of_custom_policy_have_no_effect() {
    let (_, expected) = run(ScaledPfc::PFC, PolicyKind::Pfc, &[]);
    let (acting, arrivals) = run(ScaledPfc::FAULTY, PolicyKind::Custom, &[]);
    let (watching, arrivals_beside_shadow) = run(ScaledPfc::FAULTY, PolicyKind::Pfc, &[PolicyKind::Custom]);
    assert_eq!(
        (&arrivals, &arrivals_beside_shadow),
        (&expected, &expected),
        "impossible intents changed when frames arrived"
    );
    let events = 4 * 400 * 4; // four senders' frames, each received, enqueued, dequeued, released
    let refused = |of: &dyn Fn(u8) -> u64| (0..5).map(of).sum::<u64>();
    let counted = refused(&|port| acting.switch().counters.class(PortId(port), C3).intents_refused.get());
    assert_eq!(counted, events * impossible(C3).len() as u64);
    let shadow = watching.switch().counters.shadow(0);
    let counted = refused(&|port| shadow[usize::from(port)][C3.index()].refused.get());
    assert_eq!(counted, events * impossible(C3).len() as u64);
    for port in 1..5 {
        assert_eq!(would_have_paused(&watching, 0, port), pauses(&watching, port));
        let others = [C0, C4, Class::ALL[7]];
        let sent_xoff = |class| acting.switch().counters.class(PortId(port), class).xoff_sent.get();
        assert_eq!(others.map(sent_xoff), [0; 3]);
    }
}
