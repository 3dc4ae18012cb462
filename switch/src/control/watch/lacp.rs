use std::sync::Arc;

use super::super::groups;
use super::super::judged::LACP_OUT;
use super::super::view::SwitchView;
use super::conditions::{Condition, ConditionKind, End, Location};

pub(super) const IDLE: ConditionKind = ConditionKind {
    event: "lacp-idle",
    is_loss: false,
    began: "the group carries no data, because LACP has joined none of its ports: configure LACP for these ports at the other end, or \
            set `lacp = \"off\"`",
    goes_on: "the group still carries no data: LACP has joined none of its ports",
    over: "the fault is over: the group carries data, or none of its ports has a link",
    counted: "times found",
    end: End::AtOnce,
};
pub(super) const OUT: ConditionKind = ConditionKind {
    event: LACP_OUT,
    is_loss: false,
    began: "the port has a link, but carries no data, because LACP has not joined it to its group; other ports of the group carry data: \
            correct the cable, or the configuration of the other end",
    goes_on: "the port still carries no data: LACP has not joined it to its group",
    over: "the fault is over: LACP has joined the port to its group, or the port has no link, or no port of the group carries data",
    counted: "times found",
    end: End::AtOnce,
};

pub(super) fn all(view: &SwitchView) -> Vec<Condition> {
    let settings = view.settings();
    let with_lacp = settings.groups.iter().filter(|group| group.lacp.is_some());
    let conditions = with_lacp.flat_map(|group| {
        let group = Arc::new(group.clone());
        let place = Location { group: Some(group.name.clone()), ..Location::default() };
        let [lasting, saying] = [Arc::clone(&group), Arc::clone(&group)];
        let idle = Condition::new(&IDLE, place.clone(), |_, _| 0)
            .lasting(move |view| groups::idle_reason(view, &lasting).is_some())
            .saying(move |view| groups::idle_reason(view, &saying));
        let out = group.members.iter().map(|member| {
            let (port, place) = (member.port, Location { port: Some(member.port), ..place.clone() });
            let [lasting, saying] = [Arc::clone(&group), Arc::clone(&group)];
            Condition::new(&OUT, place, |_, _| 0)
                .lasting(move |view| groups::out_reason(view, &lasting, port).is_some())
                .saying(move |view| groups::out_reason(view, &saying, port))
        });
        std::iter::once(idle).chain(out).collect::<Vec<_>>()
    });
    conditions.collect()
}
