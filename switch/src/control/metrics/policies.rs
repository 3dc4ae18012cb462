//! Which policy decides, why it held whom, and what the shadows would have done.

use xoff_dataplane::cause::{Causes, Trigger};
use xoff_dataplane::counters::{ClassCounters, ShadowCounters};
use xoff_dataplane::settings::PolicyKind;
use xoff_dataplane::units::{Class, PortId};

use super::super::exposition::{Exposition, Kind, seconds};
use super::super::view::SwitchView;
use super::rates::bytes;
use super::{DIGITS, name, of_class, settings};

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    write_causes(text, view);
    write_shadows(text, view);
}

fn write_causes(text: &mut Exposition, view: &SwitchView) {
    let mut family =
        text.family("xoff_class_policy", Kind::Gauge, "Flow-control policy of a class; always 1.");
    for class in Class::ALL {
        family.sample(&[("class", DIGITS[class.index()]), ("policy", view.policies.get(class).name())], 1);
    }
    if view.settings().policy.custom.is_some() {
        let help = "What the policy that the program brings along wanted where frames came, waited or left, and cannot be \
                    done.";
        let mut family = text.family("xoff_policy_intents_refused_total", Kind::Counter, help);
        for (port, class, counters) in view.classes() {
            family.sample(&of_class(view, port, class), counters.intents_refused.get());
        }
    }
    let help = "Times that the peer began to be held, by what triggered it and whether the culprit egress \
                queue was held by its own peer.";
    let mut family = text.family("xoff_pfc_xoff_causes_total", Kind::Counter, help);
    for (port, class, counters) in lossless(view) {
        let [port, class] = of_class(view, port, class);
        let Causes { own, relayed } = &counters.xoff_causes;
        for (trigger, (own, relayed)) in Trigger::NAMES.into_iter().zip(own.iter().zip(relayed)) {
            family.sample(&[port, class, ("trigger", trigger), ("relayed", "false")], own.get());
            family.sample(&[port, class, ("trigger", trigger), ("relayed", "true")], relayed.get());
        }
    }
    let help = "Bytes in an egress queue that came in through a port whose peer is held now.";
    let mut family = text.family("xoff_pfc_culprit_bytes", Kind::Gauge, help);
    for (port, class, _) in lossless(view).filter(|(_, _, counters)| counters.held_since.get() != 0) {
        let labels = of_class(view, port, class);
        for (egress, _) in view.ports() {
            let bytes = view.counters.between(port, egress, class).get();
            if bytes > 0 {
                family.sample(&[labels[0], labels[1], ("culprit", name(view, egress))], bytes);
            }
        }
    }
}

type OfShadow = (&'static str, Kind, &'static str, fn(&ShadowCounters) -> f64);

const SHADOW_FAMILIES: [OfShadow; 3] = [
    (
        "xoff_shadow_xoff_total",
        Kind::Counter,
        "Times that a shadow policy would have told the peer to stop.",
        |shadow| shadow.xoff.get() as f64,
    ),
    (
        "xoff_shadow_pause_seconds_total",
        Kind::Counter,
        "Time in pauses that a shadow policy would have asked for, finished ones.",
        |shadow| seconds(shadow.held_nanos.get()),
    ),
    (
        "xoff_shadow_lost_total",
        Kind::Counter,
        "Frames lost for want of room while a shadow policy had not asked for a pause.",
        |shadow| shadow.lost.get() as f64,
    ),
];

/// Of shadows that are not built in.
const CUSTOM_FAMILIES: [OfShadow; 1] = [(
    "xoff_shadow_intents_refused_total",
    Kind::Counter,
    "What a shadow policy that the program brings along wanted, and could not have been done.",
    |shadow| shadow.refused.get() as f64,
)];

/// Of shadows that pause single flows.
const FLOW_FAMILIES: [OfShadow; 4] = [
    (
        "xoff_shadow_ofc_pauses_total",
        Kind::Counter,
        "Times that a shadow policy would have added flows to those that the peer is asked to pause.",
        |shadow| shadow.flows.pauses.get() as f64,
    ),
    (
        "xoff_shadow_ofc_flow_pauses_total",
        Kind::Counter,
        "Flows that a shadow policy would have asked the peer to pause, each time.",
        |shadow| shadow.flows.flows.get() as f64,
    ),
    (
        "xoff_shadow_ofc_resumes_total",
        Kind::Counter,
        "Times that a shadow policy would have asked the peer to resume all flows.",
        |shadow| shadow.flows.resumes.get() as f64,
    ),
    (
        "xoff_shadow_ofc_flows_asked",
        Kind::Gauge,
        "Flows that a shadow policy would ask the peer to pause now.",
        |shadow| shadow.flows.now.get() as f64,
    ),
];

/// Of shadows that ask for rates.
const RATE_FAMILIES: [OfShadow; 3] = [
    (
        "xoff_shadow_rate_changes_total",
        Kind::Counter,
        "Times that a shadow policy would have asked the peer for another rate.",
        |shadow| shadow.rate.changes.get() as f64,
    ),
    (
        "xoff_shadow_rate_asked_bytes_per_second",
        Kind::Gauge,
        "Rate that a shadow policy would ask the peer to keep now; zero: no limit.",
        |shadow| bytes(&shadow.rate.now),
    ),
    (
        "xoff_shadow_rate_asked_min_bytes_per_second",
        Kind::Gauge,
        "Lowest rate that a shadow policy would ever have asked for; zero: there was none.",
        |shadow| bytes(&shadow.rate.lowest),
    ),
];

fn write_shadows(text: &mut Exposition, view: &SwitchView) {
    write_shadow_families(text, view, &SHADOW_FAMILIES, |_| true);
    write_shadow_families(text, view, &FLOW_FAMILIES, |kind| kind == PolicyKind::Ofc);
    write_shadow_families(text, view, &RATE_FAMILIES, |kind| {
        matches!(kind, PolicyKind::Gfc | PolicyKind::Custom)
    });
    if view.settings().policy.custom.is_some() {
        write_shadow_families(text, view, &CUSTOM_FAMILIES, |kind| kind == PolicyKind::Custom);
    }
}

fn write_shadow_families(
    text: &mut Exposition,
    view: &SwitchView,
    families: &[OfShadow],
    has_them: fn(PolicyKind) -> bool,
) {
    for &(metric, kind, help, value) in families {
        let mut family = text.family(metric, kind, help);
        let settings = view.settings();
        for (port, class, _) in lossless(view) {
            let labels = of_class(view, port, class);
            let shadows = settings.shadows.iter().enumerate();
            for (number, policy) in shadows.filter(|(_, policy)| has_them(**policy)) {
                let shadow = &view.counters.shadow(number)[port.index()][class.index()];
                family.sample(&[labels[0], labels[1], ("policy", policy.name())], value(shadow));
            }
        }
    }
}

fn lossless(view: &SwitchView) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
    view.classes().filter(|&(port, class, _)| settings(view, port, class).lossless)
}
