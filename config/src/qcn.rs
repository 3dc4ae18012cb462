use toml_span::Spanned;
use xoff_flow_control::settings::{Accounting, PortSettings, QcnSettings};
use xoff_wire::units::{Bytes, Class, ClassSet};

use crate::document::Document;
use crate::keys::QcnKeys;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;

pub(crate) fn classes(document: &Document) -> ClassSet {
    let of = |key: &Option<Spanned<ClassSet>>| value(key.as_ref(), ClassSet::NONE).0;
    ClassSet(of(&document.qcn.ingress) | of(&document.qcn.egress))
}

pub(crate) fn settings(document: &Document, ports: &[PortSettings], problems: &mut Problems) -> QcnSettings {
    let keys = &document.qcn;
    let paper = QcnSettings::PAPER;
    let settings = QcnSettings {
        ingress: value(keys.ingress.as_ref(), paper.ingress),
        egress: value(keys.egress.as_ref(), paper.egress),
        set_point: value(keys.set_point.as_ref(), paper.set_point),
        weight: value(keys.weight.as_ref(), paper.weight),
        sample_every: value(keys.sample_every.as_ref(), paper.sample_every),
        jitter_percent: value(keys.jitter.as_ref(), paper.jitter_percent),
        frames_per_cnm: value(keys.frames_per_cnm.as_ref(), paper.frames_per_cnm),
        culprit: value(keys.culprit.as_ref(), paper.culprit),
        flows_max: value(keys.flows.as_ref(), paper.flows_max),
        seed: value(keys.seed.as_ref(), paper.seed),
    };
    nothing("set_point", keys.set_point.as_ref(), problems);
    nothing("sample_every", keys.sample_every.as_ref(), problems);
    in_one_place(keys, problems);
    check_accounting(document, problems);
    paused_before(keys, &settings, ports, problems);
    settings
}

fn nothing(key: &str, given: Option<&Spanned<Bytes>>, problems: &mut Problems) {
    if let Some(given) = given.filter(|given| given.value == Bytes::ZERO) {
        problems.push(Problem::error(format!("`{key}` is 0 bytes")).at(given.span, "at least one byte"));
    }
}

fn in_one_place(keys: &QcnKeys, problems: &mut Problems) {
    let (Some(ingress), Some(egress)) = (&keys.ingress, &keys.egress) else { return };
    if let Some(class) = ClassSet(ingress.value.0 & egress.value.0).highest() {
        problems.push(
            Problem::error(format!("class {class} has congestion points at ingress and at egress"))
                .at(egress.span, "here too")
                .at(ingress.span, "named here")
                .help("list each class in only one of `ingress` and `egress`"),
        );
    }
}

fn check_accounting(document: &Document, problems: &mut Problems) {
    let accounting = value(document.switch.accounting.as_ref(), Accounting::default());
    let Some(ingress) = document.qcn.ingress.as_ref().filter(|key| !key.value.is_empty()) else { return };
    if accounting == Accounting::UntilForwarded {
        problems.push(
            Problem::error("congestion points at ingress need `accounting = \"until-transmitted\"`")
                .at(ingress.span, "ingress counts a frame only until it is in an egress queue")
                .help("write `egress` instead, or leave `accounting` out"),
        );
    }
}

fn paused_before(keys: &QcnKeys, settings: &QcnSettings, ports: &[PortSettings], problems: &mut Problems) {
    let at = |class: Class| {
        let of_class = ports.iter().map(|port| &port.classes[class.index()]);
        of_class.filter(|class| class.lossless).map(|class| class.xoff).min().map(|xoff| (class, xoff))
    };
    let given = keys.set_point.as_ref().map(|key| key.span);
    let Some(span) = given.or(keys.ingress.as_ref().map(|key| key.span)) else { return };
    let low = settings.ingress.iter().filter_map(at).find(|(_, xoff)| settings.set_point >= *xoff);
    if let Some((class, xoff)) = low {
        let (set_point, xoff) = (settings.set_point.0, xoff.0);
        problems.push(
            Problem::warning(format!(
                "the set point ({set_point} bytes) is not below XOFF of class {class} ({xoff} bytes)"
            ))
            .at(span, "the class pauses its peer before the switch sends notifications")
            .help("lower `set_point`, or raise `xoff` of the class"),
        );
    }
}
