use toml_span::Spanned;
use xoff_flow_control::settings::{FlowControl, WatchdogSettings};
use xoff_wire::units::{Class, ClassSet, Nanos, Quanta};

use crate::draft::{Draft, flow_control};
use crate::keys::ClassKeys;
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::{defaults, quantity};

pub(crate) fn settings(keys: &ClassKeys) -> Option<WatchdogSettings> {
    let OrOff::Is(action) = value(keys.watchdog.as_ref(), OrOff::Off) else { return None };
    Some(WatchdogSettings {
        action,
        detect: value(keys.watchdog_detect.as_ref(), defaults::WATCHDOG_DETECT),
        restore: value(keys.watchdog_restore.as_ref(), defaults::WATCHDOG_RESTORE),
        share: value(keys.watchdog_share.as_ref(), WatchdogSettings::UNBROKEN),
    })
}

pub(crate) fn check(draft: &Draft<'_>, class: Class, problems: &mut Problems) {
    let keys = &draft.port.classes[class.index()];
    let whose = format!("class {class} of port {}", draft.name);
    let Some(watchdog) = settings(keys) else {
        return keys_alone(keys, &whose, problems);
    };
    let Some(key) = &keys.watchdog else { return };
    if !obeyed(draft).contains(class) {
        problems.push(
            Problem::warning(format!("`watchdog` has no effect on {whose}, whose pauses are not obeyed"))
                .at(key.span, "no effect")
                .help("add the class to `lossless` of the port, or write pause = \"asymmetric\""),
        );
        return;
    }
    let longest_pause = draft.line.speed.time_of_quanta(Quanta(u16::MAX));
    if draft.port.keys.speed.is_some() && watchdog.detect <= longest_pause {
        let place = keys.watchdog_detect.as_ref().map_or(key.span, |key| key.span);
        problems.push(
            Problem::warning(format!(
                "a single pause frame whose XON is lost pauses {whose} for {}, which the watchdog takes for a storm",
                in_millis(longest_pause)
            ))
            .at(place, format!("a pause of {} counts as a storm", quantity::time(watchdog.detect)))
            .help(format!("write watchdog_detect = \"{}\" or more", in_millis(longest_pause))),
        );
    }
}

fn keys_alone(keys: &ClassKeys, whose: &str, problems: &mut Problems) {
    let span = |time: &Option<Spanned<Nanos>>| time.as_ref().map(|key| key.span);
    let keys = [
        ("watchdog_detect", span(&keys.watchdog_detect)),
        ("watchdog_restore", span(&keys.watchdog_restore)),
        ("watchdog_share", keys.watchdog_share.as_ref().map(|key| key.span)),
    ];
    for (name, span) in keys {
        if let Some(span) = span {
            problems.push(
                Problem::warning(format!("`{name}` has no effect on {whose}, which has no watchdog"))
                    .at(span, "no effect")
                    .help("write watchdog = \"drop\", \"forward\" or \"alert\""),
            );
        }
    }
}

fn obeyed(draft: &Draft<'_>) -> ClassSet {
    match flow_control(draft) {
        FlowControl::Pfc { obey, .. } => obey,
        FlowControl::Pause8023x => ClassSet::ALL,
        FlowControl::Ignore => ClassSet::NONE,
    }
}

fn in_millis(time: Nanos) -> String {
    format!("{}ms", time.0 / 1_000_000 + 1)
}
