//! DCBX as a switch speaks it: what a port says of its classes, where its neighbor's are others, and which settings follow from
//! what a neighbor says.

use xoff_dataplane::settings::{AutoPeer, Dcbx, FlowControl, PortSettings, Service, Trust};
use xoff_dataplane::units::{CLASSES, Class, ClassSet, FCS, MacAddr};
use xoff_dataplane::wire::dcbx::{Application, Applications, Ets, PfcState, algorithm, selector};
use xoff_dataplane::wire::lldp::{BRIDGE, Id, LEN_MAX, ROUTER, TEXT_MAX, Tlv, Understands, Writer};

use super::said::Said;

/// All classes may be paused at a time.
const CAPABILITY: u8 = 8;

/// Shares of the line are percents that may be rounded either way.
const ROUNDED: u8 = 1;

/// In what two ends of a link may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The classes for which PFC is used.
    Pfc,
    /// How classes share the line.
    Ets,
    /// The class of a DSCP.
    Dscp,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Kind; 3] = [Kind::Pfc, Kind::Ets, Kind::Dscp];
    /// How many there are: the length of tables by [`Kind::index`].
    pub const COUNT: usize = Kind::ALL.len();

    /// Its place in [`Kind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Pfc => "pfc",
            Kind::Ets => "ets",
            Kind::Dscp => "dscp",
        }
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// In what.
    pub kind: Kind,
    /// In words.
    pub detail: String,
}

/// Who speaks.
#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    /// The switch, by an address of its own.
    pub chassis: MacAddr,
    /// The port's own address.
    pub mac: MacAddr,
    /// What the switch is called.
    pub system: &'a str,
    /// The port's device.
    pub device: &'a str,
    /// The switch is a router, too.
    pub routes: bool,
}

/// The frame that a port sends; with `ttl` of zero it takes leave, and says no more. What finds no room in a frame of the port is
/// left out, the least important first.
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

/// How much is said of DSCPs and names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    All,
    /// DSCPs that are not where they mostly are.
    Others,
    None,
}

fn write(speaker: &Speaker<'_>, port: &PortSettings, ttl: u16, detail: Detail) -> Vec<u8> {
    let mut bytes = [0; LEN_MAX];
    let mut writer = Writer::new(&mut bytes, speaker.mac);
    let mut say = |tlv: Tlv<'_>| _ = writer.push(&tlv); // there is room for all of them
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
    let capabilities = if speaker.routes { BRIDGE | ROUTER } else { BRIDGE };
    say(Tlv::Capabilities { has: capabilities, enabled: capabilities });
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
    let said: Vec<[u8; 3]> = applications(port)
        .filter(|it| match detail {
            Detail::All => true,
            Detail::Others => u16::from(it.class.get()) != it.protocol / 8,
            Detail::None => false,
        })
        .map(Application::to_bytes)
        .collect();
    if !said.is_empty() {
        say(Tlv::Applications(Applications::new(&said)));
    }
    writer.finish().to_vec()
}

/// As much of a text as is said.
fn short(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(TEXT_MAX)]
}

/// What is understood of peers at this port, if they are known to say it.
fn understands(port: &PortSettings) -> Understands {
    Understands {
        flow_lists: port.ofc_peer || port.auto_peer.flow_lists,
        rates: port.gfc_peer || port.auto_peer.rates,
    }
}

/// The classes for which the port uses PFC.
fn pfc(port: &PortSettings) -> PfcState {
    let classes = match port.flow_control {
        FlowControl::Pfc { .. } => port.sends(),
        FlowControl::Pause8023x | FlowControl::Ignore => ClassSet::NONE,
    };
    let willing = port.dcbx == Dcbx::Willing;
    PfcState { willing, bypasses_macsec: false, capability: CAPABILITY, classes }
}

/// Each class is a traffic class of its own; those with weights share the line.
fn ets(port: &PortSettings) -> Ets {
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

/// Shares of a hundred, which they are together: what rounding down leaves goes to those that it took most from.
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

/// The class of each DSCP, where the port goes by that.
fn applications(port: &PortSettings) -> impl Iterator<Item = Application> + '_ {
    let is_trusted = matches!(port.trust, Trust::Dscp | Trust::Both);
    let of_dscp = |(dscp, class): (u16, &Class)| Application {
        class: *class,
        selector: selector::DSCP,
        protocol: dscp,
    };
    (0..).zip(&port.dscp_to_class).filter(move |_| is_trusted).map(of_dscp)
}

/// In what a port differs from what its neighbor says; of what it does not say, nothing is known.
#[must_use]
pub fn mismatches(port: &PortSettings, said: &Said) -> Vec<Mismatch> {
    if port.dcbx == Dcbx::Off {
        return Vec::new();
    }
    let details = [pfc_differs(port, said), ets_differs(port, said), dscp_differs(port, said)];
    let named = Kind::ALL.into_iter().zip(details);
    named.filter_map(|(kind, detail)| Some(Mismatch { kind, detail: detail? })).collect()
}

fn pfc_differs(port: &PortSettings, said: &Said) -> Option<String> {
    let (here, there) = (pfc(port).classes, said.pfc?.classes);
    (here != there).then(|| format!("PFC is used for {} here, for {} there", classes(here), classes(there)))
}

fn classes(set: ClassSet) -> String {
    let named: Vec<String> = set.iter().map(|class| class.to_string()).collect();
    match &named[..] {
        [] => "no class".into(),
        [one] => format!("class {one}"),
        _ => format!("classes {}", named.join(", ")),
    }
}

fn ets_differs(port: &PortSettings, said: &Said) -> Option<String> {
    let (here, there) = (ets(port).shares(), said.ets.as_ref()?.shares());
    let differs = |(here, there): (Option<u8>, Option<u8>)| match (here, there) {
        (Some(here), Some(there)) => here.abs_diff(there) > ROUNDED,
        _ => here.is_some() != there.is_some(),
    };
    let (class, shares) = (0..).zip(here.into_iter().zip(there)).find(|(_, shares)| differs(*shares))?;
    let share = |share: Option<u8>| share.map_or("strict".into(), |share| format!("{share} %"));
    Some(format!("class {class} is {} here, {} there", share(shares.0), share(shares.1)))
}

fn dscp_differs(port: &PortSettings, said: &Said) -> Option<String> {
    let theirs = |dscp: u16| {
        let named = |it: &&Application| (it.selector, it.protocol) == (selector::DSCP, dscp);
        said.applications.iter().find(named).map(|it| it.class)
    };
    let mut differing = applications(port)
        .filter_map(|here| Some((here, theirs(here.protocol)?)))
        .filter(|(here, there)| here.class != *there);
    let (here, there) = differing.next()?;
    let more = match differing.count() {
        0 => String::new(),
        more => format!(", and {more} more are others"),
    };
    Some(format!("DSCP {} is class {} here, class {there} there{more}", here.protocol, here.class))
}

/// Whether settings of a port depend on what its neighbor says.
#[must_use]
pub fn follows(port: &PortSettings) -> bool {
    port.dcbx == Dcbx::Willing || port.auto_peer != AutoPeer::default()
}

/// What a neighbor says is made true of the settings of its port, as far as they leave it to that.
pub fn follow(port: &mut PortSettings, said: Option<&Said>) {
    let understands = said.map(|said| said.understands).unwrap_or_default();
    if port.auto_peer.flow_lists {
        port.ofc_peer = understands.flow_lists;
    }
    if port.auto_peer.rates {
        port.gfc_peer = understands.rates;
    }
    let told = said.and_then(|said| said.pfc).filter(|pfc| port.dcbx == Dcbx::Willing && !pfc.willing);
    if let (Some(pfc), FlowControl::Pfc { obey, send }) = (told, &mut port.flow_control) {
        if obey == send {
            obey.0 &= pfc.classes.0;
        }
        send.0 &= pfc.classes.0; // of those for which memory is reserved
    }
}
