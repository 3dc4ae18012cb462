use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_flow_control::settings::{GroupSettings, Spread};
use xoff_wire::units::{Class, PortId};

use super::view::{Link, SwitchView};

/// Group of ports that lead to the same destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupStatus {
    /// Name of the group.
    pub name: String,
    /// Method that chooses the port of a frame: `flow`, `frame` or `adaptive`.
    pub spread: String,
    /// Queue length below which an adaptive group prefers a port; `None` for other groups.
    pub low_bytes: Option<u64>,
    /// Queue length below which an adaptive group uses a port if no port is below `low_bytes`; `None` for other groups.
    pub high_bytes: Option<u64>,
    /// True if the ports are uplinks: a frame from one of them leaves by no port of a group of uplinks.
    pub uplinks: bool,
    /// Ports of the group, in the order of the configuration.
    pub members: Vec<MemberStatus>,
}

/// Port of a group.
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
        }
    });
    GroupStatus {
        name: group.name.clone(),
        spread: group.spread.name().into(),
        low_bytes: low,
        high_bytes: high,
        uplinks: group.uplinks,
        members: members.collect(),
    }
}

pub(super) fn name_at(view: &SwitchView, port: PortId) -> Option<String> {
    let settings = view.settings();
    let group = settings.groups.iter().find(|group| group.members.iter().any(|member| member.port == port));
    group.map(|group| group.name.clone())
}
