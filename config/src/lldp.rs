//! What a port says by LLDP, and what it does with what its neighbor says.

use xoff_dataplane::settings::{AutoPeer, Dcbx, FlowControl};
use xoff_dataplane::units::Class;

use crate::defaults;
use crate::draft::{Draft, flow_control, value};
use crate::parse::OrOff;
use crate::problem::{Problem, Problems};
use crate::written::ranges;

/// Whether a port speaks and hears at all. What is to be learned from neighbors is not learned where it does not.
pub(crate) fn is_on(draft: &Draft<'_>, problems: &mut Problems) -> bool {
    let keys = &draft.port.keys;
    let Some(off) = keys.lldp.as_ref().filter(|key| !key.value) else {
        return value(keys.lldp.as_ref(), defaults::LLDP);
    };
    let willing = keys.dcbx.as_ref().filter(|key| key.value == Dcbx::Willing).map(|key| ("dcbx", key.span));
    let auto = [("ofc_peer", keys.ofc_peer.as_ref()), ("gfc_peer", keys.gfc_peer.as_ref())];
    let auto = auto.into_iter().filter_map(|(name, key)| Some((name, key?)));
    let auto = auto.filter(|(_, key)| key.value == OrOff::Off).map(|(name, key)| (name, key.span));
    for (name, span) in willing.into_iter().chain(auto) {
        problems.push(
            Problem::error(format!(
                "`{name}` of port {} goes by what its neighbor says, and LLDP is off",
                draft.name
            ))
            .at(span, "nothing is heard")
            .at(off.span, "off here")
            .help(format!("leave `lldp` out, or give `{name}` another value")),
        );
    }
    false
}

/// What is done with what the neighbor says of classes.
pub(crate) fn dcbx(draft: &Draft<'_>, problems: &mut Problems) -> Dcbx {
    let key = draft.port.keys.dcbx.as_ref();
    let is_pfc = matches!(flow_control(draft), FlowControl::Pfc { .. });
    if let Some(key) = key.filter(|key| key.value == Dcbx::Willing && !is_pfc) {
        problems.push(
            Problem::error(format!("`dcbx = \"willing\"` of port {} needs PFC", draft.name))
                .at(key.span, "no PFC here")
                .help("write pause = \"pfc\" or \"asymmetric\", or leave `dcbx` out"),
        );
    }
    if let Some(key) = key.filter(|key| key.value == Dcbx::Willing && is_pfc) {
        let classes: Vec<u8> = draft.lossless.iter().map(Class::get).collect();
        problems.push(
            Problem::note(format!(
                "port {} uses PFC as its neighbor does, in those of classes {} for which that does: memory is reserved for these, and for no \
                 others",
                draft.name,
                ranges(&classes)
            ))
            .at(key.span, "what it says is followed"),
        );
    }
    value(key, Dcbx::default())
}

/// What of a peer is known by what it says.
pub(crate) fn auto_peer(draft: &Draft<'_>) -> AutoPeer {
    let is_auto =
        |key: Option<&toml_span::Spanned<OrOff<bool>>>| key.is_some_and(|key| key.value == OrOff::Off);
    let keys = &draft.port.keys;
    AutoPeer { flow_lists: is_auto(keys.ofc_peer.as_ref()), rates: is_auto(keys.gfc_peer.as_ref()) }
}
