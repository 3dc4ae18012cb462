//! Remarks before an experiment: warnings, other keys that a user's setting changes, and policies that can only act as
//! plain PFC.

use xoff_config::Config;
use xoff_flow_control::settings::{ClassSettings, PolicyKind, PortSettings, SwitchSettings};

use super::{Request, Variant};

#[derive(Default)]
pub(super) struct ByPolicy(Vec<(String, Vec<&'static str>)>);

impl ByPolicy {
    pub(super) fn add(&mut self, line: String, variant: &Variant) {
        match self.0.iter_mut().find(|(other, _)| *other == line) {
            Some((_, names)) if names.contains(&variant.name) => (),
            Some((_, names)) => names.push(variant.name),
            None => self.0.push((line, vec![variant.name])),
        }
    }

    pub(super) fn lines(&self, request: &Request) -> Vec<String> {
        let line = |(line, names): &(String, Vec<&str>)| {
            if names.len() == request.policies.len() {
                line.clone()
            } else {
                format!("{}: {line}", names.join(", "))
            }
        };
        self.0.iter().map(line).collect()
    }
}

pub(super) fn warnings(configs: &[Config]) -> Vec<String> {
    let all = configs.iter().flat_map(|config| &config.warnings);
    all.map(|warning| {
        let help = warning.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
        format!("{}{help}", warning.message)
    })
    .collect()
}

pub(super) fn plain_pfc_reason(configs: &[Config]) -> Option<&'static str> {
    let switches = || configs.iter().map(|config| &config.switch);
    let reasons: Option<Vec<&str>> = switches()
        .flat_map(kinds)
        .filter(|(_, kind)| *kind != PolicyKind::Pfc)
        .map(plain_pfc_reason_of_class)
        .collect();
    reasons?.first().copied()
}

fn kinds(switch: &SwitchSettings) -> impl Iterator<Item = (&SwitchSettings, PolicyKind)> {
    switch.lossless_anywhere().iter().map(move |class| (switch, switch.policies[class.index()]))
}

fn plain_pfc_reason_of_class((switch, kind): (&SwitchSettings, PolicyKind)) -> Option<&'static str> {
    let none = |of: fn(&PortSettings) -> bool| !switch.ports.iter().any(of);
    let lossless = |port: &PortSettings| port.classes.into_iter().filter(|class| class.lossless);
    let is_reached = |class: &ClassSettings| class.egress_xoff < class.egress_max;
    match kind {
        PolicyKind::Ofc if none(|port| port.ofc_peer) => {
            Some("no peer supports OFC's pauses of single flows")
        }
        PolicyKind::Gfc if none(|port| port.gfc_peer) => Some("no peer supports GFC's rate limits"),
        PolicyKind::GPfc if switch.lossless_anywhere().iter().count() < 2 => {
            Some("only one class is lossless, so there is no lower class to pause")
        }
        PolicyKind::CaPfcStopMax | PolicyKind::CaPfcStopCalibrate
            if !switch.ports.iter().flat_map(lossless).any(|class| is_reached(&class)) =>
        {
            Some("egress queues are full before they reach the congestion threshold")
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::Machine;
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::experiment::{Experiment, Request, Variant};

    fn plain_pfc_reason_of(experiment: &str, policy: &str, given: &[&str]) -> Option<&'static str> {
        let (experiment, variant) =
            (Experiment::find(experiment).expect("known"), Variant::find(policy).expect("known"));
        let given = given.iter().map(|given| given.parse().expect("not KEY=VALUE")).collect();
        let request = Request { given, ..Request::new(vec![variant], BitRate::from_mbps(100)) };
        plain_pfc_reason(&experiment.configs(variant, &request, &Machine::default()).expect("valid"))
    }

    #[test] // proves: experiments
    fn policies_that_act_as_plain_pfc_are_recognised() {
        assert_eq!(
            plain_pfc_reason_of("ofc-fig1", "ofc-pfc-middle", &[]),
            Some("no peer supports OFC's pauses of single flows")
        );
        assert_eq!(
            plain_pfc_reason_of("incast", "g-pfc", &[]),
            Some("only one class is lossless, so there is no lower class to pause")
        );
        for (experiment, policy) in [
            ("ofc-fig1", "pfc"),
            ("ofc-fig1", "ofc"),
            ("ofc-fig1", "gfc"),
            ("ofc-fig1", "capfc-stop-max"),
            ("two-classes", "g-pfc"),
            ("incast", "p-pfc"),
            ("incast", "capfc-max-wdrop"),
            ("deadlock", "pfc-watchdog-drop"),
        ] {
            assert_eq!(plain_pfc_reason_of(experiment, policy, &[]), None, "{experiment} under {policy}");
        }
        let full = ["class.3.egress_max=25KB"];
        let reason = Some("egress queues are full before they reach the congestion threshold");
        assert_eq!(
            plain_pfc_reason_of("incast", "capfc-max-wstop", &full),
            reason,
            "a queue of 25 KB is full at its congestion threshold"
        );
        assert_eq!(plain_pfc_reason_of("incast", "capfc-max-wstop", &["class.3.egress_max=26KB"]), None);
    }

    #[test]
    fn remark_names_policies_unless_it_concerns_all_of_them() {
        let policies: Vec<_> = ["pfc", "pfc-wdrop"].map(|name| Variant::find(name).unwrap()).into();
        let mut lines = ByPolicy::default();
        lines.add("a".into(), policies[0]);
        lines.add("b".into(), policies[1]);
        lines.add("a".into(), policies[1]);
        lines.add("b".into(), policies[1]);
        let request = Request::new(policies, BitRate::from_mbps(100));
        assert_eq!(lines.lines(&request), ["a", "pfc-wdrop: b"]);
    }
}
