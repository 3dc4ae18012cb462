use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use xoff_dataplane::forward::MulticastTable;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::Tci;
use xoff_wire::multicast::{QUERY_LEN, Query};
use xoff_wire::units::{Class, Nanos, PortId, PortSet};

use super::mailbox::Request;
use super::multicast::address;
use super::view::{Link, SwitchView};
use crate::host_path::Host;
use crate::host_path::ends::{Outbox, Punted};
use crate::lacp::member::Standing;
use crate::snooping::SnoopingFault;

/// Maximum number of replaced multicast tables that workers have not returned; beyond it no new table is sent.
const UNRETURNED_MAX: usize = 64;
/// Minimum interval between log lines of the same kind, so that hosts cannot fill the log.
const LOG_EVERY: Nanos = Nanos::from_secs(10);
const TRY_AGAIN: Nanos = Nanos::from_millis(1);
/// Maximum delay until changed deadlines of memberships take effect, if a report changes nothing else.
const SETTLE: Nanos = Nanos::from_millis(100);

#[derive(Debug)]
pub struct MulticastSnooper {
    view: Arc<SwitchView>,
    settings: Option<Arc<SwitchSettings>>,
    published: MulticastTable,
    unreturned: Vec<oneshot::Receiver<Arc<MulticastTable>>>,
    due: Nanos,
    is_stale: bool,
    logged: [Option<Nanos>; 2],
}

impl MulticastSnooper {
    #[must_use]
    pub fn new(view: Arc<SwitchView>) -> MulticastSnooper {
        let published = MulticastTable::default();
        let unreturned = Vec::new();
        let (due, is_stale, logged) = (Nanos::NEVER, false, [None; 2]);
        MulticastSnooper { view, settings: None, published, unreturned, due, is_stale, logged }
    }

    /// Publishes the table of groups if it has changed. Returns false, without publishing, while workers hold too
    /// many replaced tables.
    fn publish(&mut self, now: Nanos, settings: &SwitchSettings) -> bool {
        self.unreturned.retain_mut(|table| matches!(table.try_recv(), Err(TryRecvError::Empty)));
        if self.unreturned.len() > UNRETURNED_MAX {
            return false;
        }
        let table = self.view.snooping.lock().table(now, settings);
        if table == self.published {
            return true;
        }
        self.published = table.clone();
        let table = Arc::new(table);
        for worker in &self.view.workers {
            let (done, before) = oneshot::channel();
            if worker.mailbox.send(Request::SetMulticast { table: Arc::clone(&table), done }).is_ok() {
                self.unreturned.push(before);
            }
        }
        true
    }

    fn log(&mut self, now: Nanos, fault: SnoopingFault) {
        let logged = &mut self.logged[usize::from(fault != SnoopingFault::TableFull)];
        if logged.is_some_and(|before| now.since(before) < LOG_EVERY) {
            return;
        }
        *logged = Some(now);
        match fault {
            SnoopingFault::TableFull => tracing::warn!(
                event = "multicast-full",
                "more multicast groups have members than `groups` in [multicast] allows: frames to the other groups are flooded; \
                 raise `groups`"
            ),
            SnoopingFault::TwoQueriers(vid, port, querier) => {
                let (port, querier) = (self.view.name_of(port), address(querier));
                tracing::warn!(
                    event = "multicast-queriers",
                    vid,
                    port,
                    querier,
                    "two multicast queriers in a VLAN: {querier} does not give way to the one with the lower address; check its IGMP \
                     or MLD settings"
                );
            }
        }
    }
}

/// Returns the ports with a link. Of an LACP group, only the distributing ports count, because the partner discards
/// frames from others.
fn usable(view: &SwitchView, settings: &SwitchSettings) -> PortSet {
    let lacp = view.lacp.lock();
    let has_lacp = |id: PortId| {
        let mut groups = settings.groups.iter().filter(|group| group.lacp.is_some());
        groups.any(|group| group.members.iter().any(|member| member.port == id))
    };
    let is_in_use = |id: PortId| lacp[id.index()].standing == Standing::Distributing || !has_lacp(id);
    let up = view.ports().filter(|(_, port)| port.link.get() == Link::Up).map(|(id, _)| id);
    up.filter(|id| is_in_use(*id)).collect()
}

/// Sends a query in a VLAN through the usable ports, or only through `only`. A LAG sends it through one port; its
/// first member stands for the LAG. Returns the ports and LAGs for which `outbox` had no space.
fn send(
    view: &SwitchView,
    settings: &SwitchSettings,
    (now, usable): (Nanos, &[(PortId, PortId)]),
    (vid, only): (u16, Option<PortId>),
    query: &Query,
    outbox: &mut Outbox,
) -> PortSet {
    let (mut done, mut unsent) = (PortSet::NONE, PortSet::NONE);
    let Some(vlan) = settings.vlans.iter().find(|vlan| vlan.vid == vid) else { return unsent };
    for &(port, first) in usable {
        let is_tagged = vlan.tagged.contains(&port);
        let is_member = is_tagged || vlan.untagged.contains(&port);
        if !is_member || only.is_some_and(|only| only != first) || done.contains(first) {
            continue;
        }
        done.insert(first);
        let tag = is_tagged.then(|| Tci::new(Class::ALL[7], false, vid));
        let mut bytes = [0; QUERY_LEN];
        let frame = query.write(view.ports[port.index()].now().mac, tag, &mut bytes);
        if !outbox.tell(now, port, frame) {
            unsent.insert(first);
        }
    }
    unsent
}

impl Host for MulticastSnooper {
    fn take(&mut self, punted: &Punted<'_>, _: &mut Outbox) {
        if punted.punt.reason != PuntReason::Membership {
            return;
        }
        let mut faults = Vec::new();
        let mut snooper = self.view.snooping.lock();
        let (at, vid, port) = (punted.punt.at, punted.punt.vid, punted.punt.port);
        let is_changed = snooper.receive(at, vid, port, punted.bytes, |fault| faults.push(fault));
        drop(snooper);
        self.is_stale |= is_changed;
        self.due = if is_changed { Nanos::ZERO } else { self.due.min(at.after(SETTLE)) };
        faults.into_iter().for_each(|fault| self.log(at, fault));
    }

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos {
        let view = Arc::clone(&self.view);
        let settings = view.settings();
        let mut snooper = view.snooping.lock();
        if self.settings.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &settings)) {
            let mac = view.ports().next().map(|(_, port)| port.now().mac).unwrap_or_default();
            snooper.configure(now, &settings, mac);
            self.settings = Some(Arc::clone(&settings));
            (self.is_stale, self.due) = (true, Nanos::ZERO);
        }
        let usable = usable(&view, &settings);
        if snooper.set_up(now, usable) {
            (self.is_stale, self.due) = (true, Nanos::ZERO);
        }
        if now >= self.due {
            let usable: Vec<_> = usable.iter().map(|port| (port, snooper.first_member(port))).collect();
            self.is_stale |= snooper.advance(now, |vid, port, query| {
                send(&view, &settings, (now, &usable), (vid, port), query, outbox)
            });
            self.due = snooper.next_deadline(now);
        }
        drop(snooper);
        if self.is_stale {
            self.is_stale = !self.publish(now, &settings);
        }
        if self.is_stale { now.after(TRY_AGAIN) } else { self.due }
    }

    fn stop(&mut self, _: Nanos, _: &mut Outbox) {}
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv4Addr;

    use xoff_dataplane::switch::WorkerId;
    use xoff_flow_control::settings::{GroupSettings, Lacp, Member, MulticastSettings, Spread, VlanSettings};

    use super::*;
    use crate::bell::Bell;
    use crate::control::testing::view;
    use crate::handoff::Bells;
    use crate::host_path::ends::{HostFrame, SendCounts, ends};

    #[test] // proves: snooping, lacp
    fn multicast_query_goes_to_distributing_lacp_member_only() {
        let (view, _inbox) = view();
        let (bells, bell) = (Bells::new(1).unwrap(), Arc::new(Bell::new().unwrap()));
        let (mut host, mut workers) =
            ends(&bells, vec![WorkerId(0); 2].into(), 1, &bell, &SendCounts::new(2));
        let mut settings = SwitchSettings::clone(&view.settings());
        let ports = [PortId(0), PortId(1)];
        settings.vlans = vec![VlanSettings { vid: 1, tagged: Vec::new(), untagged: ports.into() }];
        let querier = Some(Ipv4Addr::UNSPECIFIED);
        settings.multicast = MulticastSettings { vlans: vec![1], querier, ..MulticastSettings::default() };
        settings.groups = vec![GroupSettings {
            name: "up".into(),
            members: ports.map(|port| Member { port, weight: 1 }).into(),
            spread: Spread::Flow,
            uplinks: false,
            lacp: Some(Lacp { active: true, short_timeout: true }),
            salt: 0,
        }];
        view.configured.set(settings);
        view.ports.iter().for_each(|port| assert!(port.link.set(Link::Up) || port.link.get() == Link::Up));
        let mut snooper = MulticastSnooper::new(Arc::clone(&view));
        let mut queries = |second| {
            snooper.advance(Nanos::from_secs(second), &mut host.outbox);
            let mut ports = Vec::new();
            while let Some(frame) = workers[0].1.next_frame() {
                let HostFrame::ToPeer(port, _) = frame else { panic!("{frame:?}") };
                ports.push(port);
            }
            ports
        };
        assert_eq!(queries(1), [], "a detached LACP member must not send queries");
        view.lacp.lock()[1].standing = Standing::Distributing;
        assert_eq!(
            [queries(2), queries(3)].concat(),
            [PortId(1); 2],
            "the second port must send one IGMP query and one MLD query"
        );
    }
}
