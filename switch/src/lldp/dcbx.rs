use xoff_flow_control::settings::{AutoPeer, Dcbx, FlowControl, PortSettings, Service, Trust};
use xoff_wire::dcbx::{Application, Applications, Ets, PfcState, algorithm, selector};
use xoff_wire::lldp::{Id, LEN_MAX, TEXT_MAX, Tlv, Understands, Writer};
use xoff_wire::units::{CLASSES, Class, ClassSet, FCS, MacAddr};

use super::announcement::Announcement;

/// Number of classes that may have PFC at the same time, as announced in the PFC TLV.
const CAPABILITY: u8 = 8;

#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    pub chassis: MacAddr,
    pub mac: MacAddr,
    pub system: &'a str,
    pub device: &'a str,
    pub capabilities: u16,
}

/// Returns the port's LLDP frame; with `ttl` zero, a shutdown LLDPDU. The least important TLVs are left out if the frame would exceed the
/// MTU.
#[must_use]
pub fn frame(speaker: &Speaker<'_>, port: &PortSettings, ttl: u16) -> Vec<u8> {
    let room = LEN_MAX.min(port.mtu_frame as usize);
    let mut frame = Vec::new();
    for detail in [Detail::All, Detail::Others, Detail::None] {
        frame = write(speaker, port, ttl, detail);
        if frame.len() <= room {
            break;
        }
    }
    frame
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    All,
    /// Lists only those DSCPs whose class differs from the upper three bits of the DSCP.
    Others,
    None,
}

fn write(speaker: &Speaker<'_>, port: &PortSettings, ttl: u16, detail: Detail) -> Vec<u8> {
    let mut bytes = [0; LEN_MAX];
    let mut writer = Writer::new(&mut bytes, speaker.mac);
    let mut say = |tlv: Tlv<'_>| _ = writer.push(&tlv);
    say(Tlv::ChassisId(Id { subtype: 4, value: &speaker.chassis.0 }));
    say(Tlv::PortId(Id { subtype: 5, value: short(&port.name) }));
    say(Tlv::Ttl(ttl));
    if ttl == 0 {
        return writer.finish().to_vec();
    }
    if detail != Detail::None {
        say(Tlv::PortDescription(short(speaker.device)));
        say(Tlv::SystemName(short(speaker.system)));
        say(Tlv::SystemDescription(concat!("xoff ", env!("CARGO_PKG_VERSION")).as_bytes()));
    }
    say(Tlv::Capabilities { has: speaker.capabilities, enabled: speaker.capabilities });
    let max_frame = port.mtu_frame + FCS;
    say(Tlv::MaxFrame(u16::try_from(max_frame).unwrap_or(u16::MAX)));
    let understands = understands(port);
    if understands != Understands::default() {
        say(Tlv::Understands(understands));
    }
    if port.dcbx == Dcbx::Off {
        return writer.finish().to_vec();
    }
    let ets = ets(port);
    say(Tlv::Ets(ets));
    say(Tlv::EtsRecommendation(Ets { willing: false, ..ets }));
    say(Tlv::Pfc(pfc(port)));
    let bytes: Vec<[u8; 3]> = applications(port)
        .filter(|it| match detail {
            Detail::All => true,
            Detail::Others => u16::from(it.class.get()) != it.protocol / 8,
            Detail::None => false,
        })
        .map(Application::to_bytes)
        .collect();
    if !bytes.is_empty() {
        say(Tlv::Applications(Applications::new(&bytes)));
    }
    writer.finish().to_vec()
}

fn short(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(TEXT_MAX)]
}

fn understands(port: &PortSettings) -> Understands {
    Understands {
        flow_lists: port.ofc_peer || port.auto_peer.flow_lists,
        rates: port.gfc_peer || port.auto_peer.rates,
    }
}

pub(super) fn pfc(port: &PortSettings) -> PfcState {
    let classes = match port.flow_control {
        FlowControl::Pfc { .. } => port.sends(),
        FlowControl::Pause8023x | FlowControl::Ignore => ClassSet::NONE,
    };
    let willing = port.dcbx == Dcbx::Willing;
    PfcState { willing, needs_macsec: false, capability: CAPABILITY, classes }
}

/// Returns the port's ETS configuration. Each class is a traffic class, whose weight determines its share of the line.
pub(super) fn ets(port: &PortSettings) -> Ets {
    let weights = port.classes.map(|class| match class.service {
        Service::Strict => None,
        Service::Weighted(weight) => Some(weight),
    });
    Ets {
        willing: false,
        credit_based: false,
        classes_max: 0,
        traffic_class: std::array::from_fn(|class| u8::try_from(class).unwrap_or(0)),
        bandwidth: percents(weights.map(|weight| weight.unwrap_or(0))),
        algorithm: weights.map(|weight| if weight.is_some() { algorithm::ETS } else { algorithm::STRICT }),
    }
}

/// Converts weights to integer percents that sum to 100, by the method of largest remainders.
fn percents(weights: [u32; CLASSES]) -> [u8; CLASSES] {
    let all: u64 = weights.iter().copied().map(u64::from).sum();
    if all == 0 {
        return [0; CLASSES];
    }
    let hundredth = |weight: u32| (u64::from(weight) * 100 / all, u64::from(weight) * 100 % all);
    let mut shares = weights.map(|weight| u8::try_from(hundredth(weight).0).unwrap_or(100));
    let given: u8 = shares.iter().sum();
    let mut order: Vec<usize> = (0..CLASSES).collect();
    order.sort_by_key(|&class| std::cmp::Reverse(hundredth(weights[class]).1));
    for &class in order.iter().take(usize::from(100 - given)) {
        shares[class] += 1;
    }
    shares
}

fn applications(port: &PortSettings) -> impl Iterator<Item = Application> + '_ {
    let is_trusted = matches!(port.trust, Trust::Dscp | Trust::Both);
    let of_dscp = |(dscp, class): (u16, &Class)| Application {
        class: *class,
        selector: selector::DSCP,
        protocol: dscp,
    };
    (0..).zip(&port.dscp_to_class).filter(move |_| is_trusted).map(of_dscp)
}

#[must_use]
pub fn follows(port: &PortSettings) -> bool {
    port.dcbx == Dcbx::Willing || port.auto_peer != AutoPeer::default()
}

/// Adapts settings that follow the neighbor. `announced` is `None` unless exactly one neighbor announces DCBX.
pub fn follow(port: &mut PortSettings, announced: Option<&Announcement>) {
    let understands = announced.map(|announced| announced.understands).unwrap_or_default();
    if port.auto_peer.flow_lists {
        port.ofc_peer = understands.flow_lists;
    }
    if port.auto_peer.rates {
        port.gfc_peer = understands.rates;
    }
    let followed = announced
        .and_then(|announced| announced.pfc)
        .filter(|pfc| port.dcbx == Dcbx::Willing && !pfc.willing);
    if let (Some(pfc), FlowControl::Pfc { obey, send }) = (followed, &mut port.flow_control) {
        if obey == send {
            obey.0 &= pfc.classes.0;
        }
        send.0 &= pfc.classes.0; // memory is reserved for these classes
    }
}
