use xoff_flow_control::headroom::Headroom;
use xoff_flow_control::settings::{FlowControl, PolicyKind};
use xoff_wire::units::{CLASSES, ClassSet, Nanos};

use crate::defaults;
use crate::document::{Document, Port};
use crate::hardware::Hardware;
use crate::keys::Pause;
use crate::reader::value;
use crate::sizing::Line;

pub(crate) struct Draft<'a> {
    pub(crate) name: String,
    pub(crate) port: &'a Port,
    pub(crate) line: Line,
    pub(crate) lossless: ClassSet,
    pub(crate) headroom: Headroom,
}

impl<'a> Draft<'a> {
    pub(crate) fn of(port: &'a Port, stall_budget: Nanos, hardware: Hardware) -> Draft<'a> {
        let line = Line::of(&port.keys, stall_budget, hardware);
        Draft {
            name: value(port.identity.name.as_ref(), String::new()),
            port,
            line,
            lossless: value(port.keys.lossless.as_ref(), defaults::LOSSLESS),
            headroom: line.headroom(),
        }
    }
}

impl Draft<'_> {
    pub(crate) fn is_routed(&self) -> bool {
        value(self.port.keys.routed.as_ref(), false)
    }
}

pub(crate) fn flow_control(draft: &Draft<'_>) -> FlowControl {
    let send = draft.lossless;
    match value(draft.port.keys.pause.as_ref(), Pause::Pfc) {
        Pause::Pfc => FlowControl::Pfc { obey: send, send },
        Pause::Asymmetric => FlowControl::Pfc { obey: ClassSet::ALL, send },
        Pause::Whole => FlowControl::Pause8023x,
        Pause::Ignore => FlowControl::Ignore,
    }
}

pub(crate) fn policies(document: &Document) -> [PolicyKind; CLASSES] {
    value(document.switch.policy.as_ref(), Default::default()).map(Option::unwrap_or_default)
}
