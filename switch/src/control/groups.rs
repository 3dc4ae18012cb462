use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_flow_control::settings::{GroupSettings, Spread};
use xoff_wire::lacp::{End, LacpError};
use xoff_wire::units::{Class, Nanos, PortId};

use super::view::{Link, SwitchView};
use crate::lacp::member::Standing;
use crate::lacp::{LacpCounts, LacpPort};

/// Time for which LACP may keep a group or member from sending before this is a fault.
const IDLE_AFTER: Nanos = Nanos::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupStatus {
    /// Name of the group.
    pub name: String,
    /// Method that chooses the port of each frame: by `flow`, by `frame`, or `adaptive` to queue lengths.
    pub spread: String,
    /// Queue length in bytes below which a port is preferred; `None` unless `spread` is `adaptive`.
    pub low_bytes: Option<u64>,
    /// Queue length in bytes below which a port is used while none is preferred; `None` unless `spread` is `adaptive`.
    pub high_bytes: Option<u64>,
    /// True if the ports are uplinks, between which the switch forwards no frame.
    pub uplinks: bool,
    /// LACP mode: `active` or `passive`; `None` without LACP.
    #[serde(default)]
    pub lacp: Option<String>,
    /// True if for 10 s or more LACP has let no port of the group send data, although one has a link.
    #[serde(default)]
    pub idle: bool,
    /// Ports of the group, in the order of the configuration.
    pub members: Vec<MemberStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberStatus {
    /// Name of the port.
    pub port: String,
    /// Weight of the port in the group.
    pub weight: u16,
    /// State of the port's link.
    pub link: Link,
    /// Frames sent by the port, summed over classes.
    pub tx_frames: u64,
    /// Bytes of frames sent by the port, summed over classes.
    pub tx_bytes: u64,
    /// Bytes queued at the port or committed to its driver, summed over classes.
    pub egress_bytes: u64,
    /// LACP state of the port; `None` without LACP.
    #[serde(default)]
    pub lacp: Option<LacpStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LacpStatus {
    /// State of the port in its group: `down`, `no_partner`, `other_partner` (of another system or group), `individual` (the
    /// partner does not aggregate its port), `waiting`, `attached`, `collecting` or `distributing`. Data are sent only in state
    /// `distributing`.
    pub state: String,
    /// LACP parameters of this end of the link.
    pub actor: LacpEnd,
    /// LACP parameters of the other end, as last received.
    pub partner: LacpEnd,
    /// Well-formed LACP frames received.
    pub frames_received: u64,
    /// LACP frames passed to the port for transmission.
    pub frames_sent: u64,
    /// Malformed LACP frames, by reason.
    pub malformed: BTreeMap<String, u64>,
    /// Number of changes of `state`.
    pub changes: u64,
}

/// LACP parameters of one end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LacpEnd {
    /// MAC address that identifies the LACP system.
    pub system: String,
    /// Priority of the LACP system.
    pub priority: u16,
    /// LACP key: equal at all ports of a group.
    pub key: u16,
    /// LACP number of the port.
    pub port: u16,
    /// LACP state bits that are set: `active`, `short`, `aggregatable`, `in_sync`, `collecting`, `distributing`, `defaulted`, `expired`.
    pub state: Vec<String>,
}

pub(super) fn status(view: &SwitchView) -> Vec<GroupStatus> {
    view.settings().groups.iter().map(|group| of(view, group)).collect()
}

fn of(view: &SwitchView, group: &GroupSettings) -> GroupStatus {
    let (low, high) = match group.spread {
        Spread::Flow | Spread::Frame(_) => (None, None),
        Spread::Adaptive { low, high } => (Some(low.0), Some(high.0)),
    };
    let members = group.members.iter().map(|member| {
        let classes = || Class::ALL.map(|class| view.counters.class(member.port, class)).into_iter();
        MemberStatus {
            port: view.name_of(member.port).to_owned(),
            weight: member.weight,
            link: view.ports[member.port.index()].link.get(),
            tx_frames: classes().map(|class| class.tx_frames.get()).sum(),
            tx_bytes: classes().map(|class| class.tx_bytes.get()).sum(),
            egress_bytes: classes().map(|class| class.egress_bytes.get()).sum(),
            lacp: group.lacp.map(|_| lacp_status(&view.lacp.lock()[member.port.index()])),
        }
    });
    GroupStatus {
        name: group.name.clone(),
        spread: group.spread.name().into(),
        low_bytes: low,
        high_bytes: high,
        uplinks: group.uplinks,
        lacp: group.lacp.map(|lacp| if lacp.active { "active" } else { "passive" }.into()),
        idle: idle_reason(view, group).is_some(),
        members: members.collect(),
    }
}

/// If LACP has let no port of the group send data for [`IDLE_AFTER`] although one has a link, returns the reason.
pub(super) fn idle_reason(view: &SwitchView, group: &GroupSettings) -> Option<String> {
    let lacp = group.lacp?;
    let ports = view.lacp.lock();
    let members = || group.members.iter().map(|member| member.port);
    let since = members().filter_map(|port| ports[port.index()].idle_since).min()?;
    if (view.clock)().since(since) < IDLE_AFTER {
        return None;
    }
    let at = |standing: Standing| {
        let ports = members().filter(|port| ports[port.index()].standing == standing);
        let names: Vec<String> = ports.map(|port| format!("port {}", view.name_of(port))).collect();
        (!names.is_empty()).then(|| format!("{} {}", standing.obstacle(), names.join(", ")))
    };
    let passive =
        (!lacp.active).then(|| "LACP is passive at this end, so the other end must be active".to_owned());
    let reasons: Vec<String> = Standing::ALL.into_iter().filter_map(at).chain(passive).collect();
    Some(reasons.join("; "))
}

/// If LACP has let `port` send no data for [`IDLE_AFTER`], although it has a link and another port of its group sends,
/// returns the reason.
pub(super) fn out_reason(view: &SwitchView, group: &GroupSettings, port: PortId) -> Option<String> {
    group.lacp?;
    let ports = view.lacp.lock();
    let at = &ports[port.index()];
    if (view.clock)().since(at.out_since?) < IDLE_AFTER {
        return None;
    }
    let mut members = group.members.iter().map(|member| member.port);
    let joined = members.find(|port| ports[port.index()].standing == Standing::Distributing)?;
    let (partner, chosen) = (at.partner, ports[joined.index()].partner);
    let (port, joined) = (view.name_of(port), view.name_of(joined));
    let obstacle = match at.standing {
        Standing::OtherPartner if partner.system == at.actor.system => {
            format!("the partner at port {port} is this switch itself")
        }
        Standing::OtherPartner if chosen.is_individual() => {
            format!("the partner does not aggregate port {joined} (individual), so no other port can join")
        }
        standing => format!("{} port {port}", standing.obstacle()),
    };
    let ends = (at.standing != Standing::NoPartner).then(|| {
        let [here, there] =
            [partner, chosen].map(|end| format!("system {} with key {}", end.system.1, end.key));
        format!("; partner at port {port}: {here}, at port {joined}: {there}")
    });
    Some(obstacle + &ends.unwrap_or_default())
}

fn lacp_status(port: &LacpPort) -> LacpStatus {
    let LacpCounts { frames_in, frames_out, malformed, changes } = &port.counts;
    let end = |end: &End| LacpEnd {
        system: end.system.1.to_string(),
        priority: end.system.0,
        key: end.key,
        port: end.port.1,
        state: end.state.names().map(str::to_owned).collect(),
    };
    LacpStatus {
        state: port.standing.name().into(),
        actor: end(&port.actor),
        partner: end(&port.partner),
        frames_received: *frames_in,
        frames_sent: *frames_out,
        malformed: LacpError::ALL.map(|reason| (reason.name().to_owned(), malformed[reason.index()])).into(),
        changes: *changes,
    }
}

pub(super) fn name_at(view: &SwitchView, port: PortId) -> Option<String> {
    let settings = view.settings();
    let group = settings.groups.iter().find(|group| group.members.iter().any(|member| member.port == port));
    group.map(|group| group.name.clone())
}

// Tests for SPECIFICATION.md: lacp
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use xoff_flow_control::settings::{Member, SwitchSettings};
    use xoff_wire::lacp::State;
    use xoff_wire::units::MacAddr;

    use super::*;
    use crate::control::health::Health;
    use crate::control::testing::{group_with_lacp, view};

    #[test]
    fn lacp_group_without_joined_port_is_idle_after_ten_seconds() {
        let mut view = Arc::into_inner(view().0).unwrap();
        view.clock = || Nanos::from_secs(20);
        let mut group = group_with_lacp();
        let reason = |since: Option<Nanos>, standing, group: &GroupSettings| {
            view.lacp.lock()[0] = LacpPort { idle_since: since, standing, ..LacpPort::default() };
            idle_reason(&view, group)
        };
        let since = Nanos::from_secs(10);
        assert_eq!(reason(None, Standing::Distributing, &group), None);
        assert_eq!(reason(Some(since.after(Nanos(1))), Standing::NoPartner, &group), None);
        let text = reason(Some(since), Standing::Attached, &group).unwrap();
        assert_eq!(text, "the partner has not joined its end of the link to a group, at port left");
        let text = reason(Some(since), Standing::NoPartner, &group).unwrap();
        assert_eq!(text, "no LACP partner at port left");

        let mut settings = SwitchSettings::clone(&view.settings());
        settings.groups = vec![group.clone()];
        view.configured.set(settings);
        let health = Health::of(&view, &[]);
        let line = "group up: not ready: LACP lets no port send data: no LACP partner at port left\n";
        assert!(!health.ready && health.text().ends_with(line), "{}", health.text());
        assert!(status(&view)[0].idle);

        group.lacp.as_mut().unwrap().active = false;
        let text = reason(Some(since), Standing::NoPartner, &group).unwrap();
        assert!(text.ends_with("; LACP is passive at this end, so the other end must be active"), "{text}");
        group.lacp = None;
        assert_eq!(reason(Some(since), Standing::NoPartner, &group), None);
    }

    #[test]
    fn reason_for_lacp_member_without_data_names_both_partners() {
        let mut view = Arc::into_inner(view().0).unwrap();
        view.clock = || Nanos::from_secs(20);
        let mut group = group_with_lacp();
        let right = Member { port: PortId(1), ..group.members[0] };
        group.members.push(right);
        let mut settings = SwitchSettings::clone(&view.settings());
        settings.groups = vec![group.clone()];
        view.configured.set(settings);
        let end = |system, key, state| End { system: (1, MacAddr([system; 6])), key, port: (1, 1), state };
        let reason = |since, standing, partner: End, joined: End| {
            let mut ports = view.lacp.lock();
            ports[0] = LacpPort { standing: Standing::Distributing, partner: joined, ..LacpPort::default() };
            ports[1] = LacpPort { standing, partner, out_since: since, ..LacpPort::default() };
            drop(ports);
            out_reason(&view, &group, PortId(1))
        };
        let since = Some(Nanos::from_secs(10));
        let (joined, other) = (end(2, 7, State::AGGREGATION), end(2, 8, State::AGGREGATION));
        let individual = end(2, 7, State::default());
        assert_eq!(reason(None, Standing::Waiting, joined, joined), None);
        assert_eq!(reason(Some(Nanos::from_secs(11)), Standing::OtherPartner, other, joined), None);
        let text = reason(since, Standing::OtherPartner, other, joined).unwrap();
        assert_eq!(
            text,
            "a partner of another system or group, or this switch itself, at port right; partner at port right: system 02:02:02:02:02:02 \
             with key 8, at port left: system 02:02:02:02:02:02 with key 7"
        );
        let text = reason(since, Standing::OtherPartner, joined, individual).unwrap();
        assert!(
            text.starts_with("the partner does not aggregate port left (individual), so no other"),
            "{text}"
        );
        let text = reason(since, Standing::OtherPartner, End::default(), joined).unwrap();
        assert!(text.starts_with("the partner at port right is this switch itself"), "{text}");
        let text = reason(since, Standing::NoPartner, End::default(), joined).unwrap();
        assert_eq!(text, "no LACP partner at port right");
        let text = reason(since, Standing::Individual, individual, joined).unwrap();
        assert!(
            text.starts_with("a partner that does not aggregate its port (individual) at port right"),
            "{text}"
        );
        let health = Health::of(&view, &[]).text();
        let line = "group up: ready: LACP lets port right send no data: a partner that does not aggregate";
        assert!(health.contains(line), "{health}");
    }
}
