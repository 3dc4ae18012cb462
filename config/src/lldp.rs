use xoff_flow_control::settings::{AutoPeer, Dcbx, FlowControl, Lldp};
use xoff_wire::units::Class;

use crate::defaults;
use crate::draft::{Draft, flow_control};
use crate::reader::parse::OrOff;
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::written::ranges;

pub(crate) fn speaker(draft: &Draft<'_>, problems: &mut Problems) -> Lldp {
    let keys = &draft.port.keys;
    let Some(key) = keys.lldp.as_ref() else { return defaults::LLDP };
    let (speaker, why) = match key.value {
        OrOff::Is(true) => return Lldp::Switch,
        OrOff::Is(false) => (Lldp::Off, "LLDP is off"),
        OrOff::Off => (Lldp::Kernel, "LLDP is left to the kernel"),
    };
    if speaker == Lldp::Kernel && !draft.is_routed() {
        problems.push(
            Problem::error(format!("`lldp = \"kernel\"` of port {} needs a host interface", draft.name))
                .at(key.span, "no host interface here")
                .help("write routed = true, so that lldpd may run at the port's host interface, or lldp = true or false"),
        );
    }
    let willing = keys.dcbx.as_ref().filter(|key| key.value == Dcbx::Willing).map(|key| ("dcbx", key.span));
    let auto = [("ofc_peer", keys.ofc_peer.as_ref()), ("gfc_peer", keys.gfc_peer.as_ref())];
    let auto = auto.into_iter().filter_map(|(name, key)| Some((name, key?)));
    let auto = auto.filter(|(_, key)| key.value == OrOff::Off).map(|(name, key)| (name, key.span));
    for (name, span) in willing.into_iter().chain(auto) {
        problems.push(
            Problem::error(format!(
                "`{name}` of port {} depends on the neighbor's LLDP, but {why}",
                draft.name
            ))
            .at(span, "this key needs the neighbor's LLDP frames")
            .at(key.span, "the switch receives no LLDP frames")
            .help(format!("write lldp = true, or give `{name}` another value")),
        );
    }
    speaker
}

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
                "port {} uses PFC in those of its lossless classes ({}) in which its neighbor uses PFC, too; memory is reserved \
                 for all its lossless classes, and no others",
                draft.name,
                ranges(&classes)
            ))
            .at(key.span, "the port follows the neighbor's DCBX"),
        );
    }
    value(key, Dcbx::default())
}

pub(crate) fn auto_peer(draft: &Draft<'_>) -> AutoPeer {
    let is_auto =
        |key: Option<&toml_span::Spanned<OrOff<bool>>>| key.is_some_and(|key| key.value == OrOff::Off);
    let keys = &draft.port.keys;
    AutoPeer { flow_lists: is_auto(keys.ofc_peer.as_ref()), rates: is_auto(keys.gfc_peer.as_ref()) }
}
