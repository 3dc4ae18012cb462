use xoff_flow_control::classify::Classifier;
use xoff_flow_control::settings::{PolicyKind, PortSettings, SwitchSettings};
use xoff_wire::units::{Class, ClassSet};

use crate::document::Document;
use crate::draft::Draft;
use crate::reader::problem::{Problem, Problems};

/// Warns about lossless classes that no frame can have, or whose frames leave with the DSCP or PCP of a lossy class. Warns about
/// policies without effect: those of lossy classes, and those with an `egress_xoff` of at least `egress_max`.
pub(crate) fn check(
    document: &Document,
    drafts: &[Draft<'_>],
    switch: &SwitchSettings,
    problems: &mut Problems,
) {
    let keys = &document.switch;
    let lossless = |class: &Class| drafts.iter().any(|draft| draft.lossless.contains(*class));
    if let Some(key) = keys.policy.as_ref().filter(|key| key.value.contains(&None)) {
        let pauses = |kind: PolicyKind| !matches!(kind, PolicyKind::Pfc | PolicyKind::Custom);
        let is_idle = |class: &Class| key.value[class.index()].is_some_and(pauses) && !lossless(class);
        for class in Class::ALL.into_iter().filter(is_idle) {
            problems.push(
                Problem::warning(format!(
                    "the policy of class {class} has no effect: the class is lossy on all ports"
                ))
                .at(key.span, "policies pause lossless classes only")
                .help(format!("add {class} to `lossless` of ports, or remove the class from `policy`")),
            );
        }
    }
    let carried: ClassSet =
        switch.ports.iter().flat_map(|port| Classifier::new(port).classes().iter()).collect();
    for class in Class::ALL.into_iter().filter(|class| lossless(class) && !carried.contains(*class)) {
        problems.push(
            Problem::warning(format!("no frame can have class {class}, which is lossless")).help(format!(
                "map a DSCP or PCP to {class} by `dscp_map`, `pcp_map` or `default_class`, as `trust` permits, or remove {class} \
                 from `lossless`"
            )),
        );
    }
    for (draft, port) in drafts.iter().zip(&switch.ports) {
        let of_dscp = port.rewrite_dscp.map(|rewritten| {
            ("rewrite_dscp", "DSCP", rewritten, rewritten.map(|dscp| port.dscp_to_class[usize::from(dscp)]))
        });
        let of_pcp = port.rewrite_pcp.map(|rewritten| {
            ("rewrite_pcp", "PCP", rewritten, rewritten.map(|pcp| port.pcp_to_class[usize::from(pcp)]))
        });
        for (key, field, rewritten, next) in of_dscp.into_iter().chain(of_pcp) {
            for class in draft.lossless.iter().filter(|class| !draft.lossless.contains(next[class.index()])) {
                problems.push(
                    Problem::warning(format!(
                        "frames of class {class}, which is lossless, leave port {} with {field} {}, which is class {} by this port's \
                         map, and lossy",
                        draft.name, rewritten[class.index()], next[class.index()]
                    ))
                    .help(format!(
                        "write a {field} of a lossless class in `{key}`, unless the next switch maps this {field} to a lossless class"
                    )),
                );
            }
        }
    }
    for class in Class::ALL.into_iter().filter(lossless) {
        let acting = [switch.policies[class.index()]];
        let kinds =
            acting.iter().chain(&switch.shadows).filter(|kind| kind.has_egress_thresholds(&switch.policy));
        let kinds: Vec<&str> = kinds.map(|kind| kind.name()).collect();
        let Some(kind) = kinds.first() else { continue };
        let full = |port: &PortSettings| {
            let settings = &port.classes[class.index()];
            settings.egress_max <= settings.egress_xoff
        };
        let ports = drafts.iter().zip(&switch.ports).filter(|(_, port)| full(port));
        for (draft, port) in ports {
            let (given, settings) = (&draft.port.classes[class.index()], &port.classes[class.index()]);
            let (most, xoff) = (settings.egress_max.0, settings.egress_xoff.0);
            let problem = Problem::warning(format!(
                "{kind} never finds class {class} of port {} congested: its egress queue is full at {most} bytes, and \
                 congested from {xoff} on (`egress_xoff`)",
                draft.name
            ))
            .help(
                "the policy then acts as plain PFC: write egress_xoff, and egress_xon and egress_warn with it, below egress_max, \
                 or leave egress_max out",
            );
            let of_class = given.egress_max.as_ref().or(given.egress_xoff.as_ref()).map(|key| key.span);
            let chosen =
                keys.policy.as_ref().map(|key| key.span).or(keys.shadow.as_ref().map(|key| key.span));
            problems.push(match of_class.or(chosen) {
                Some(span) => problem.at(span, "the queue is full before it counts as congested"),
                None => problem,
            });
        }
    }
}
