use xoff_flow_control::classify::Classifier;
use xoff_flow_control::settings::{Dcbx, PortSettings, Trust};
use xoff_wire::dcbx::{Application, Ets, algorithm, selector};
use xoff_wire::units::{Class, ClassSet};

use super::announcement::Announcement;
use super::dcbx;

/// Maximum difference between two ETS shares, in percent, that may come from rounding.
const ROUNDED: u8 = 1;
/// EtherTypes that do not determine the class of a frame: IPv4, IPv6.
const NOT_BY_ETHER_TYPE: [u16; 2] = [0x0800, 0x86dd];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// PFC is used for a class at only one end of the link.
    Pfc,
    /// A DSCP has different classes at port and neighbor, of which at least one is lossless.
    Dscp,
    /// An application has different classes at port and neighbor, of which at least one is lossless.
    Application,
    /// Shares of the line differ; no frames are lost.
    Ets,
    /// A DSCP or an application has different classes at port and neighbor, but both are lossy.
    Lossy,
}

xoff_wire::named! { MismatchKind {
    Pfc: "pfc",
    Dscp: "dscp",
    Application: "application",
    Ets: "ets",
    Lossy: "lossy",
} }

impl MismatchKind {
    #[must_use]
    pub const fn can_lose(self) -> bool {
        matches!(self, MismatchKind::Pfc | MismatchKind::Dscp | MismatchKind::Application)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub kind: MismatchKind,
    pub detail: String,
}

#[must_use]
pub fn all(port: &PortSettings, announced: &Announcement) -> Vec<Mismatch> {
    if port.dcbx == Dcbx::Off {
        return Vec::new();
    }
    let classes: Vec<Mismatch> = applications_differ(port, announced).collect();
    let of = |kind| {
        let mut details = classes.iter().filter(|it| it.kind == kind).map(|it| &it.detail);
        let first = details.next()?.clone();
        Some(match details.count() {
            0 => first,
            more => format!("{first}; {more} more differ"),
        })
    };
    let detail = |kind| match kind {
        MismatchKind::Pfc => pfc_differs(port, announced),
        MismatchKind::Ets => ets_differs(port, announced),
        MismatchKind::Dscp | MismatchKind::Application | MismatchKind::Lossy => of(kind),
    };
    MismatchKind::ALL.into_iter().filter_map(|kind| Some(Mismatch { kind, detail: detail(kind)? })).collect()
}

fn pfc_differs(port: &PortSettings, announced: &Announcement) -> Option<String> {
    let (here, there) = (dcbx::pfc(port).classes, announced.pfc?.classes);
    (here != there)
        .then(|| format!("PFC is used for {} here, for {} at the neighbor", classes(here), classes(there)))
}

fn classes(set: ClassSet) -> String {
    let named: Vec<String> = set.iter().map(|class| class.to_string()).collect();
    match &named[..] {
        [] => "no class".into(),
        [one] => format!("class {one}"),
        _ => format!("classes {}", named.join(", ")),
    }
}

/// Transmission selection algorithm, and share in percent, of a class.
type Selection = (u8, Option<u8>);

fn ets_differs(port: &PortSettings, announced: &Announcement) -> Option<String> {
    let (ours, theirs) = (dcbx::ets(port), announced.ets.as_ref()?);
    let each = |ets: &Ets| ets.algorithms().into_iter().zip(ets.shares());
    let differs = |here: Selection, there: Selection| match (here.1, there.1) {
        _ if there.0 == algorithm::VENDOR_SPECIFIC => false,
        (Some(here), Some(there)) => here.abs_diff(there) > ROUNDED,
        _ => here.0 != there.0,
    };
    let mut pairs = (0..).zip(each(&ours).zip(each(theirs)));
    let (class, (here, there)) = pairs.find(|(_, (here, there))| differs(*here, *there))?;
    let text = |(algorithm, share): Selection| {
        share.map_or_else(|| algorithm_name(algorithm), |share| format!("{share} %"))
    };
    Some(format!("class {class} is {} here, {} at the neighbor", text(here), text(there)))
}

#[must_use]
pub fn algorithm_name(algorithm: u8) -> String {
    match algorithm {
        algorithm::STRICT => "strict".into(),
        algorithm::CREDIT_BASED => "credit-based".into(),
        algorithm::ETS => "ets".into(),
        algorithm::VENDOR_SPECIFIC => "vendor specific".into(),
        other => format!("algorithm {other}"),
    }
}

#[must_use]
pub fn application_name(application: Application) -> String {
    let Application { selector, protocol, .. } = application;
    match selector {
        selector::ETHER_TYPE if protocol == 0 => "the default application".to_owned(), // IEEE 802.1Q table D-9
        selector::ETHER_TYPE => format!("EtherType 0x{protocol:04x}"),
        selector::TCP_PORT => format!("TCP port {protocol}"),
        selector::UDP_PORT => format!("UDP port {protocol}"),
        selector::PORT => format!("TCP and UDP port {protocol}"),
        selector::DSCP => format!("DSCP {protocol}"),
        other => format!("selector {other} value {protocol}"),
    }
}

fn applications_differ<'a>(
    port: &'a PortSettings,
    announced: &'a Announcement,
) -> impl Iterator<Item = Mismatch> + 'a {
    let classifier = Classifier::new(port);
    let theirs = announced.pfc.map_or(ClassSet::NONE, |pfc| pfc.classes);
    let lossless = ClassSet(dcbx::pfc(port).classes.0 | theirs.0);
    let differing = announced.applications.iter().filter_map(move |&application| {
        let there = application.class;
        let here = class_here(port, &classifier, application)?;
        let is_agreed = match here {
            Some(here) => here == there,
            None => has_agreed_dscp(port, announced, there),
        };
        (!is_agreed).then_some((application, here))
    });
    differing.map(move |(application, here)| {
        let there = application.class;
        let is_lossless = [Some(there), here].into_iter().flatten().any(|class| lossless.contains(class));
        let kind = match application.selector {
            _ if !is_lossless => MismatchKind::Lossy,
            selector::DSCP => MismatchKind::Dscp,
            _ => MismatchKind::Application,
        };
        let here = here.map_or_else(|| "classified by DSCP".to_owned(), |class| format!("class {class}"));
        let name = application_name(application);
        Mismatch { kind, detail: format!("{name} is {here} here, class {there} at the neighbor") }
    })
}

/// Returns the class that this port gives to frames of the application. `None` means unknown; `Some(None)` means that
/// the DSCP of each frame decides.
fn class_here(
    port: &PortSettings,
    classifier: &Classifier,
    application: Application,
) -> Option<Option<Class>> {
    let Application { class, selector, protocol } = application;
    let by_dscp = matches!(port.trust, Trust::Dscp | Trust::Both);
    // Without a trusted DSCP this port classifies by PCP, which the neighbor sets to the announced class.
    let tagged = || Some(classifier.class_of(None, Some(class.get())));
    match selector {
        selector::DSCP => {
            let class = port.dscp_to_class.get(usize::from(protocol)).filter(|_| by_dscp);
            class.map(|class| Some(*class))
        }
        selector::ETHER_TYPE if NOT_BY_ETHER_TYPE.contains(&protocol) => None,
        selector::ETHER_TYPE => Some(tagged()),
        selector::TCP_PORT | selector::UDP_PORT | selector::PORT if by_dscp => Some(None),
        selector::TCP_PORT | selector::UDP_PORT | selector::PORT => Some(tagged()),
        _ => None,
    }
}

fn has_agreed_dscp(port: &PortSettings, announced: &Announcement, class: Class) -> bool {
    let dscps = announced.applications.iter().filter(|it| it.selector == selector::DSCP && it.class == class);
    dscps.into_iter().any(|it| port.dscp_to_class.get(usize::from(it.protocol)) == Some(&class))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
