use toml_span::Span;
use xoff_flow_control::settings::{
    Accounting, FlowControl, OfcSettings, PolicyKind, QueueKind, SwitchSettings,
};
use xoff_wire::units::Class;

use crate::document::Document;
use crate::draft::Draft;
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;

pub(crate) fn settings(document: &Document) -> OfcSettings {
    let (keys, default) = (&document.ofc, OfcSettings::default());
    OfcSettings {
        alpha: value(keys.alpha.as_ref(), default.alpha),
        flows: value(keys.flows.as_ref(), default.flows),
        congested_flows: value(keys.congested_flows.as_ref(), default.congested_flows),
        paused_flows: value(keys.paused_flows.as_ref(), default.paused_flows),
    }
}

pub(crate) fn check(
    document: &Document,
    drafts: &[Draft<'_>],
    switch: &SwitchSettings,
    problems: &mut Problems,
) {
    for (draft, port) in drafts.iter().zip(&switch.ports) {
        let peer = draft.port.keys.ofc_peer.as_ref();
        if let Some(peer) = peer.filter(|key| key.value != OrOff::Is(false) && !speaks_pfc(port.flow_control))
        {
            problems.push(
                Problem::error(format!("`ofc_peer` of port {} needs PFC", draft.name))
                    .at(peer.span, "OFC sends its lists of flows in PFC frames")
                    .help("write pause = \"pfc\" or \"asymmetric\", or leave `ofc_peer` out"),
            );
        }
    }
    let Some(chosen) = document.switch.policy.as_ref().map(|policy| policy.span) else { return };
    let classes = Class::ALL.into_iter().filter(|class| switch.policies[class.index()] == PolicyKind::Ofc);
    let classes: Vec<Class> = classes.collect();
    let has_peer = switch.ports.iter().any(|port| port.ofc_peer || port.auto_peer.flow_lists);
    let lossless = switch.lossless_anywhere();
    if !has_peer && classes.iter().any(|&class| lossless.contains(class)) {
        problems.push(
            Problem::note("no port has `ofc_peer`: flow lists go to no peer, so OFC acts as PFC")
                .at(chosen, "OFC sends flow lists only at ports with `ofc_peer`")
                .help("write ofc_peer = true at each port to a switch with OFC"),
        );
    }
    if !classes.is_empty() && switch.accounting == Accounting::UntilForwarded {
        problems.push(
            Problem::error("`policy = \"ofc\"` needs `accounting = \"until-transmitted\"`")
                .at(chosen, "OFC counts a frame at ingress until it is sent")
                .help("leave `accounting` out"),
        );
    }
    for class in classes {
        check_class(class, document, drafts, switch, chosen, problems);
    }
}

fn check_class(
    class: Class,
    document: &Document,
    drafts: &[Draft<'_>],
    switch: &SwitchSettings,
    chosen: Span,
    problems: &mut Problems,
) {
    let alpha = switch.policy.ofc.alpha;
    for (draft, port) in drafts.iter().zip(&switch.ports) {
        let settings = &port.classes[class.index()];
        let whose = format!("class {class} of port {}", draft.name);
        if settings.queue == QueueKind::Voq {
            problems.push(
                Problem::error(format!("`policy = \"ofc\"` needs `queue = \"fifo\"` in {whose}"))
                    .at(chosen, "OFC nests queues in the class queue")
                    .help("leave `queue` out"),
            );
        }
        if settings.lossless && settings.xon.0 as f64 >= alpha * settings.xoff.0 as f64 {
            let at = document.ofc.alpha.as_ref().map_or(chosen, |alpha| alpha.span);
            problems.push(
                Problem::error(format!("`alpha` x `xoff` of {whose} is not above its `xon`"))
                    .at(at, format!("{alpha} x {} bytes", settings.xoff.0))
                    .help(format!("`xon` is {} bytes", settings.xon.0)),
            );
        }
    }
}

const fn speaks_pfc(flow_control: FlowControl) -> bool {
    matches!(flow_control, FlowControl::Pfc { .. })
}
