use xoff_flow_control::settings::{
    FlowControl, PipelineSettings, PortSettings, SwitchSettings, WatchdogAction, WhenFull,
};
use xoff_wire::units::{Class, ClassSet, Nanos};

use crate::document::Document;
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::written;

pub(crate) fn settings(document: &Document) -> PipelineSettings {
    let keys = &document.pipeline;
    PipelineSettings {
        rate: value(keys.rate.as_ref(), OrOff::Off).into_option(),
        delay: value(keys.delay.as_ref(), OrOff::Off).into_option().unwrap_or(Nanos::ZERO),
        ingress: value(keys.ingress.as_ref(), Default::default()),
    }
}

pub(crate) fn check(document: &Document, switch: &SwitchSettings, problems: &mut Problems) {
    let exposed: Vec<String> = switch.ports.iter().filter_map(exposed).collect();
    if let Some(when_full) = document.switch.when_full.as_ref().filter(|key| key.value == WhenFull::Stop)
        && !exposed.is_empty()
    {
        problems.push(
            Problem::note(format!(
                "a peer that pauses a class forever halts every port and class of the switch: {}",
                exposed.join(", ")
            ))
            .at(when_full.span, "the switch halts while a queue is full")
            .help("a watchdog with \"drop\" (loses frames) or \"forward\" (ignores pauses) in these classes would end the halt"),
        );
    }
}

fn exposed(port: &PortSettings) -> Option<String> {
    let obeyed = match port.flow_control {
        FlowControl::Pfc { obey, .. } => obey,
        FlowControl::Pause8023x => ClassSet::ALL,
        FlowControl::Ignore => ClassSet::NONE,
    };
    let ends = |class: &Class| {
        let watchdog = port.classes[class.index()].watchdog;
        watchdog.is_some_and(|it| it.action != WatchdogAction::Alert)
    };
    let classes: Vec<u8> = obeyed.iter().filter(|class| !ends(class)).map(Class::get).collect();
    (!classes.is_empty()).then(|| format!("{} ({})", port.name, written::ranges(&classes)))
}
