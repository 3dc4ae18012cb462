// Tests for SPECIFICATION.md: own-policy

use xoff_flow_control::cause::Trigger;
use xoff_flow_control::policy::{CustomPolicy, Event, Intent, Margin, Occupancies};
use xoff_flow_control::settings::{Custom, PolicyFactory, PolicyKind, SwitchSettings};
use xoff_testkit::{Promise, Report, Subject, check};
use xoff_wire::units::{Bytes, Class, Nanos, PortId, PortSet};

#[test]
fn policy_check_finds_no_breach_in_built_in_policies() {
    for kind in PolicyKind::ALL {
        let subject = Subject::with(kind, |settings| settings.policy.ofc.alpha = 0.8);
        let report = check(&subject, xoff_explore::fresh());
        assert!(report.is_clean(), "{kind:?}: {report}");
        assert_eq!(report.ran.len(), 12, "{kind:?}: {report}");
    }
}

fn without_headroom(seed: u64) -> Report {
    let subject = Subject::with(PolicyKind::Pfc, |settings| {
        let classes = settings.ports.iter_mut().flat_map(|port| &mut port.classes);
        classes.for_each(|class| class.headroom = Bytes::ZERO);
    });
    check(&subject, seed)
}

#[test]
fn policy_check_reports_losses_without_headroom_and_continues() {
    let report = without_headroom(1);
    assert!(report.breaks(Promise::NoLosslessDrop) && report.breaks(Promise::Delivery), "{report}");
    assert!(!report.breaks(Promise::Ledger) && !report.breaks(Promise::Order), "{report}");
    assert!(report.findings.iter().all(|finding| finding.at > Nanos::ZERO && finding.seed == 1));
    assert_eq!(report.ran.len(), 12);
}

#[test]
fn policy_check_omits_scenarios_that_do_not_suit_policy() {
    let subject = Subject::with(PolicyKind::Ofc, |settings| settings.policy.ofc.alpha = 0.1);
    let report = check(&subject, 1);
    assert!(report.ran.is_empty() && report.left_out.len() == 12, "{report}");
    assert!(report.to_string().contains("alpha"), "{report}");
}

#[test]
fn policy_check_with_equal_seed_repeats_its_findings() {
    let findings = |seed| without_headroom(seed).findings;
    assert_eq!(findings(3), findings(3));
    assert_ne!(findings(3), findings(4));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    NeverXoff,
    NeverXon,
    MarginLies,
    Panics,
}

impl PolicyFactory for Fault {
    fn policy(&self, class: Class, settings: &SwitchSettings) -> Box<dyn CustomPolicy> {
        let senders = settings.senders(class);
        Box::new(Faulty { fault: *self, class, senders, held: PortSet::NONE, observed: 0 })
    }
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    class: Class,
    senders: PortSet,
    held: PortSet,
    observed: u64,
}

impl Faulty {
    fn xoff(&mut self, port: PortId, intents: &mut Vec<Intent>) {
        if self.fault != Fault::NeverXoff && self.senders.contains(port) && !self.held.contains(port) {
            self.held.insert(port);
            intents.push(Intent::Xoff { port, class: self.class, trigger: Trigger::Ingress });
        }
    }
}

impl CustomPolicy for Faulty {
    fn observe(&mut self, _: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>) {
        let class = self.class;
        match event {
            Event::Received { ingress: port } if buffer.at_xoff(port, class) => {
                assert!(self.fault != Fault::Panics, "policy panics at XOFF on purpose");
                self.xoff(port, intents);
            }
            Event::Released { ingress: port }
                if self.fault != Fault::NeverXon
                    && self.held.contains(port)
                    && buffer.below_xon(port, class) =>
            {
                self.held.remove(port);
                intents.push(Intent::Xon { port, class });
            }
            // By its wrong `margin`, the policy asks the switch to skip these events in large batches, although it needs them.
            Event::Enqueued { ingress: port, .. } if self.fault == Fault::MarginLies => {
                self.observed += 1;
                if self.observed.is_multiple_of(50) {
                    self.xoff(port, intents);
                }
            }
            _ => (),
        }
    }

    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>) {
        for port in self.senders.iter() {
            if buffer.ingress(port, self.class).0 > 0 && buffer.at_xoff(port, self.class) {
                self.xoff(port, intents);
            }
        }
    }

    fn margin(&self, event: Event, _: &dyn Occupancies) -> Margin {
        match event {
            Event::Enqueued { .. } if self.fault == Fault::MarginLies => Margin::ALL,
            _ => Margin::NONE,
        }
    }
}

fn report(fault: Fault, seed: u64) -> Report {
    let prepare = move |settings: &mut SwitchSettings| settings.policy.custom = Some(Custom::new(fault));
    check(&Subject::with(PolicyKind::Custom, prepare), seed)
}

#[test]
fn policy_check_finds_no_breach_in_correct_custom_policy() {
    let report = report(Fault::None, 1);
    assert!(report.is_clean() && report.left_out.is_empty(), "{report}");
}

#[test]
fn policy_check_reports_losses_of_policy_without_xoff() {
    let report = report(Fault::NeverXoff, 1);
    assert!(report.breaks(Promise::NoLosslessDrop) && report.breaks(Promise::Delivery), "{report}");
    assert!(!report.breaks(Promise::Ledger) && !report.breaks(Promise::Order), "{report}");
}

#[test]
fn policy_check_reports_endless_pauses_of_policy_without_xon() {
    let report = report(Fault::NeverXon, 1);
    assert!(report.breaks(Promise::PausesEnd), "{report}");
    assert!(!report.breaks(Promise::NoLosslessDrop), "{report}");
}

#[test]
fn policy_check_reports_policy_that_misstates_its_margin() {
    let report = report(Fault::MarginLies, 1);
    let batches = report.findings.iter().find(|finding| finding.promise == Promise::Batches);
    let finding = batches.expect("the wrong margin was not found");
    assert!(finding.scenario.ends_with("polled rarely"), "{report}");
    assert!(finding.at > Nanos::ZERO && finding.seed == 1, "{report}");
}

#[test]
fn policy_check_reports_panicking_policy_and_continues() {
    let report = report(Fault::Panics, 1);
    let text = "policy panics at XOFF on purpose";
    assert!(report.findings.iter().any(|it| it.promise == Promise::NoPanic && it.what == text), "{report}");
    assert!(report.ran.len() > 10, "{report}");
}
