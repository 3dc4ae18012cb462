//! IGMP and MLD snooping, as a [`Host`] in the thread of the host path: receives copies of membership messages, sends own
//! queries, and publishes the table of groups to the workers.

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
use crate::snooping::SnoopingFault;

/// Maximum replaced tables that workers have not returned, so that a silent worker does not exhaust memory.
const UNRETURNED_MAX: usize = 64;
/// Minimum interval between log lines of a kind, because senders may cause them.
const LOG_EVERY: Nanos = Nanos::from_secs(10);
const TRY_AGAIN: Nanos = Nanos::from_millis(1);

#[derive(Debug)]
pub struct MulticastSnooper {
    view: Arc<SwitchView>,
    settings: Option<Arc<SwitchSettings>>,
    published: MulticastTable,
    unreturned: Vec<oneshot::Receiver<Arc<MulticastTable>>>,
    due: Nanos,
    is_stale: bool,
    /// Times of the last log lines: of a full table, and of two queriers.
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

    /// Publishes the table if it has changed. Returns false if too many workers are silent.
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
                    "two multicast queriers in a VLAN: {querier} does not give way to the lower address; check its IGMP or MLD settings"
                );
            }
        }
    }
}

/// Sends a query by all ports of the VLAN that are up, or by one; once by a group of ports.
fn send(
    view: &SwitchView,
    settings: &SwitchSettings,
    (now, up): (Nanos, &PortSet),
    (vid, only): (u16, Option<PortId>),
    query: &Query,
    outbox: &mut Outbox,
) {
    let Some(vlan) = settings.vlans.iter().find(|vlan| vlan.vid == vid) else { return };
    let is_first = |port: &PortId| {
        let mut groups = settings.groups.iter().map(|group| &group.members);
        let group = groups.find(|members| members.iter().any(|member| member.port == *port));
        let others = group.into_iter().flatten().map(|member| member.port);
        others.filter(|other| up.contains(*other)).all(|other| other >= *port)
    };
    let members = vlan.tagged.iter().chain(&vlan.untagged).copied();
    for port in members.filter(|port| only.is_none_or(|only| only == *port)) {
        if up.contains(port) && (only.is_some() || is_first(&port)) {
            let tag = vlan.tagged.contains(&port).then(|| Tci::new(Class::ALL[7], false, vid));
            let mut bytes = [0; QUERY_LEN];
            let frame = query.write(view.ports[port.index()].now().mac, tag, &mut bytes);
            outbox.tell(now, port, frame); // without room, the next query follows
        }
    }
}

impl Host for MulticastSnooper {
    fn take(&mut self, punted: &Punted<'_>, _: &mut Outbox) {
        if punted.punt.reason != PuntReason::Membership {
            return;
        }
        let mut faults = Vec::new();
        let mut snooper = self.view.snooping.lock();
        let (at, vid, port) = (punted.punt.at, punted.punt.vid, punted.punt.port);
        self.is_stale |= snooper.receive(at, vid, port, punted.bytes, |fault| faults.push(fault));
        self.due = Nanos::ZERO; // timers may have changed
        drop(snooper);
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
        let up: PortSet =
            view.ports().filter(|(_, port)| port.link.get() == Link::Up).map(|(id, _)| id).collect();
        if snooper.set_up(now, up) {
            self.due = Nanos::ZERO;
        }
        if now >= self.due {
            let _ = snooper.advance(now, |vid, port, query| {
                send(&view, &settings, (now, &up), (vid, port), query, outbox);
            });
            self.is_stale = true; // an expired time may have changed the table
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
