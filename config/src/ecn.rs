use xoff_flow_control::settings::{ClassSettings, EcnSettings};
use xoff_wire::units::{Bytes, Class};

use crate::defaults;
use crate::draft::Draft;
use crate::keys::ClassKeys;
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;

/// Returns the ECN settings of a class. In `ecn_min`, `OrOff::Off` means "off", and `OrOff::Is(OrOff::Off)` means "auto".
pub(crate) fn settings(keys: &ClassKeys, class: &ClassSettings) -> Option<EcnSettings> {
    let OrOff::Is(min) = value(keys.ecn_min.as_ref(), OrOff::Off) else { return None };
    let full = if class.lossless { class.xoff } else { Bytes(class.egress_max.0 / 2) };
    let min = match min {
        OrOff::Is(min) => min,
        OrOff::Off => Bytes(full.0 / 2),
    };
    let max = value(keys.ecn_max.as_ref(), full.max(min));
    Some(EcnSettings {
        min,
        max,
        probability: value(keys.ecn_probability.as_ref(), defaults::ECN_PROBABILITY),
        wred: value(keys.wred.as_ref(), defaults::WRED),
    })
}

pub(crate) fn check(
    draft: &Draft<'_>,
    class: Class,
    settings: &ClassSettings,
    protected: bool,
    problems: &mut Problems,
) {
    let keys = &draft.port.classes[class.index()];
    let whose = format!("class {class} of port {}", draft.name);
    let Some(ecn) = settings.ecn else {
        return without_effect(keys, &whose, problems);
    };
    if let Some(key) = keys.ecn_max.as_ref().filter(|key| key.value < ecn.min) {
        problems.push(
            Problem::error(format!(
                "`ecn_max` of {whose} ({} bytes) is below `ecn_min` ({} bytes)",
                key.value.0, ecn.min.0
            ))
            .at(key.span, "below ecn_min")
            .help("some frames are marked from ecn_min on, and all from ecn_max on: ecn_min <= ecn_max"),
        );
    }
    if let Some(key) = keys.wred.as_ref().filter(|key| key.value && protected) {
        problems.push(
            Problem::warning(format!("`wred` has no effect on {whose}: the class is lossless"))
                .at(key.span, "no effect")
                .help(
                    "frames of a class that is lossless on any port are marked or unchanged, never dropped",
                ),
        );
    }
}

fn without_effect(keys: &ClassKeys, whose: &str, problems: &mut Problems) {
    let given = [
        ("ecn_max", keys.ecn_max.as_ref().map(|key| key.span)),
        ("ecn_probability", keys.ecn_probability.as_ref().map(|key| key.span)),
        ("wred", keys.wred.as_ref().filter(|key| key.value).map(|key| key.span)),
    ];
    for (name, span) in given.into_iter().filter_map(|(name, span)| Some((name, span?))) {
        problems.push(
            Problem::warning(format!("`{name}` has no effect on {whose}, which marks no frames"))
                .at(span, "no effect")
                .help("write ecn_min = \"auto\", or a size"),
        );
    }
}
