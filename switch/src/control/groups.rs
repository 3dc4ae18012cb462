//! Ports that lead to the same place, as `/status` has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_dataplane::settings::{GroupSettings, Spread};
use xoff_dataplane::units::{Class, PortId};

use super::view::{Link, SwitchView};

/// A group of ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// `flow`, `frame` or `adaptive`: who goes where.
    pub spread: String,
    /// Adaptive: members with less than this waiting are first; `None` else.
    pub low_bytes: Option<u64>,
    /// Adaptive: then those with less than this; `None` else.
    pub high_bytes: Option<u64>,
    /// Frames that came in by a member go out by no member of another group of uplinks.
    pub uplinks: bool,
    /// Its ports, in the order of the configuration.
    pub members: Vec<MemberStatus>,
}

/// A port of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberStatus {
    /// Its name.
    pub port: String,
    /// Its share.
    pub weight: u16,
    /// Whether frames can take it.
    pub link: Link,
    /// Frames that left by it, of all classes.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Bytes of all classes that wait or are committed there, now.
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

/// The name of the group that `port` is a member of.
pub(super) fn name_at(view: &SwitchView, port: PortId) -> Option<String> {
    let settings = view.settings();
    let group = settings.groups.iter().find(|group| group.members.iter().any(|member| member.port == port));
    group.map(|group| group.name.clone())
}
