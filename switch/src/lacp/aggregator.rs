use xoff_flow_control::settings::{GroupSettings, Lacp};
use xoff_wire::lacp::{End, State};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::member::{Member, Standing};

/// LACP priority of systems and ports, the default of IEEE 802.1AX.
const PRIORITY: u16 = 0x8000;

#[derive(Clone, Debug)]
pub struct Aggregator {
    name: String,
    members: Vec<(PortId, Member)>,
}

impl Aggregator {
    #[must_use]
    pub fn new(
        system: MacAddr,
        group: &GroupSettings,
        lacp: Lacp,
        mut kept: impl FnMut(PortId) -> Option<Member>,
    ) -> Aggregator {
        let number = |port: PortId| u16::from(port.0) + 1;
        let first = group.members.iter().map(|member| member.port).min().unwrap_or_default();
        let members = group.members.iter().map(|settings| {
            let actor = End {
                system: (PRIORITY, system),
                key: number(first),
                port: (PRIORITY, number(settings.port)),
                state: State::default(),
            };
            let mut member = kept(settings.port).unwrap_or_else(|| Member::new(actor));
            member.configure(actor.key, lacp);
            (settings.port, member)
        });
        Aggregator { name: group.name.clone(), members: members.collect() }
    }

    pub fn into_members(self) -> impl Iterator<Item = (PortId, Member)> {
        self.members.into_iter()
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn members(&mut self) -> impl Iterator<Item = (PortId, &mut Member)> {
        self.members.iter_mut().map(|(port, member)| (*port, member))
    }

    pub fn member(&mut self, port: PortId) -> Option<&mut Member> {
        self.members.iter_mut().find(|(id, _)| *id == port).map(|(_, member)| member)
    }

    /// Runs the LACP machines of all members. Selects only members with the same partner: that of a selected
    /// member, else that of the first member with a partner.
    pub fn advance(&mut self, now: Nanos) {
        self.members.iter_mut().for_each(|(_, member)| member.advance(now));
        let of = |member: &Member| member.candidate().map(link_group);
        let all = || self.members.iter().map(|(_, member)| member);
        let Some(chosen) = all().filter(|it| it.is_selected()).chain(all()).find_map(of) else { return };
        for (_, member) in &mut self.members {
            if member.is_detached() && of(member) == Some(chosen) {
                member.select();
            }
            member.advance(now);
        }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        let has = |standing| self.members.iter().any(|(_, member)| member.standing() == standing);
        let has_link = self.members.iter().any(|(_, member)| member.standing() != Standing::Down);
        has_link && !has(Standing::Distributing)
    }

    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        self.members.iter().map(|(_, member)| member.next_deadline()).min().unwrap_or(Nanos::NEVER)
    }
}

/// Identity of a link's partner: system, key, and the port number if the partner does not aggregate the port.
type LinkGroup = ((u16, MacAddr), u16, Option<(u16, u16)>);

fn link_group(partner: &End) -> LinkGroup {
    (partner.system, partner.key, partner.is_individual().then_some(partner.port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
