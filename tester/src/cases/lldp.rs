//! Group `lldp`: does the device announce its PFC settings by DCBX (IEEE 802.1Qaz), and correctly?

use xoff_wire::lldp::{Lldpdu, Tlv};
use xoff_wire::units::{ClassSet, Nanos};
use xoff_wire::{Header, lldp};

use super::streams::FROM;
use super::{Case, Run};
use crate::bench::{Bench, Void};
use crate::judgement::Judgement;

const fn case(id: &'static str, title: &'static str, run: Run) -> Case {
    Case { id, title, source: "IEEE 802.1Q annex D.2.10, 38", ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case("lldp.present", "Does the device announce its PFC settings?", present),
    case("lldp.classes", "Does the device announce its lossless classes?", classes),
];

/// Maximum wait for an LLDP frame: the interval (30 s, 802.1AB 9.2.5.7) plus a reserve.
const INTERVAL: Nanos = Nanos::from_secs(32);

/// PFC classes of an LLDP frame; `None` if it has no PFC TLV.
type Announced = Option<ClassSet>;

fn announced(bench: &mut Bench) -> Result<Option<Announced>, Void> {
    if !bench.setup.device.dcbx {
        return Err(Void::NotPossible(
            "the setup file does not say that the device speaks DCBX; set `dcbx`".into(),
        ));
    }
    bench.run_until(INTERVAL, |bench| find(bench).is_some())?;
    Ok(find(bench))
}

fn find(bench: &Bench) -> Option<Announced> {
    bench.others(FROM).iter().rev().find_map(|frame| {
        let header = Header::parse(&frame.bytes).ok()?;
        if !lldp::is_lldp(&header) {
            return None;
        }
        let unit = Lldpdu::parse(frame.bytes.get(14..)?).ok()?;
        let pfc = |tlv| if let Ok(Tlv::Pfc(pfc)) = tlv { Some(pfc.classes) } else { None };
        Some(unit.tlvs().find_map(pfc))
    })
}

fn present(bench: &mut Bench) -> Result<Judgement, Void> {
    let announced = announced(bench)?;
    let mut judgement = Judgement::new();
    judgement.require_in_time(announced.is_some(), || {
        format!("the device sent no LLDP frame for {} s", INTERVAL.0 / 1_000_000_000)
    });
    judgement.require(announced != Some(None), || "the LLDP frame has no PFC TLV".to_owned());
    Ok(judgement)
}

fn classes(bench: &mut Bench) -> Result<Judgement, Void> {
    let Some(Some(classes)) = announced(bench)? else {
        return Err(Void::NotPossible("the device announces no PFC classes; see case lldp.present".into()));
    };
    let mut judgement = Judgement::new();
    let lossless = bench.setup.device.lossless;
    judgement.require(classes == lossless, || {
        format!("the device announces the PFC classes {classes:?}, but the setup file has {lossless:?}")
    });
    judgement.note(format!("announced PFC classes: {classes:?}"));
    Ok(judgement)
}
