mod segment;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xoff_dataplane::forward::{MulticastPorts, MulticastTable, SnoopedVlan};
use xoff_flow_control::settings::{SwitchSettings, ports_where};
use xoff_wire::Header;
use xoff_wire::ip::Address;
use xoff_wire::multicast::{MembershipError, Message, Query, parse};
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet};

pub use segment::Segment;

/// Interval between the first queries in different VLANs, because a port cannot queue the queries of many VLANs at
/// once.
const STAGGER: Nanos = Nanos::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Ipv4,
    Ipv6,
}

impl Version {
    const ALL: [Version; 2] = [Version::Ipv4, Version::Ipv6];

    #[must_use]
    pub const fn protocol(self) -> &'static str {
        match self {
            Version::Ipv4 => "igmp",
            Version::Ipv6 => "mld",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnoopingCounts {
    pub queries: u64,
    pub reports: u64,
    pub queries_sent: u64,
    pub malformed: [u64; MembershipError::COUNT],
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnoopingFault {
    TableFull,
    /// Second querier in a VLAN, at this port and address. It keeps sending, though the elected querier has the
    /// lower address.
    TwoQueriers(u16, PortId, Address),
}

#[derive(Debug, Default)]
pub struct Snooper {
    segments: BTreeMap<(u16, Version), Segment>,
    pub counts: SnoopingCounts,
    groups_max: usize,
    fast: PortSet,
    first_members: Vec<PortId>,
    up: PortSet,
    is_full: bool,
}

#[derive(Debug, Default)]
pub struct Snooping(Mutex<Snooper>);

impl Snooping {
    /// Locks the snooping state. Forwarding threads must not call this.
    pub fn lock(&self) -> MutexGuard<'_, Snooper> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snooper {
    /// Applies settings. The switch's own MLD queries come from the link-local address made from `mac`.
    pub fn configure(&mut self, now: Nanos, settings: &SwitchSettings, mac: MacAddr) {
        let multicast = &settings.multicast;
        self.groups_max = multicast.groups_max;
        self.fast = ports_where(&settings.ports, |_, port| port.fast_leave);
        self.first_members = (0..=u8::MAX).map(PortId).take(settings.ports.len()).collect();
        for group in &settings.groups {
            let ports = group.members.iter().map(|member| member.port);
            let Some(first) = ports.clone().min() else { continue };
            ports.for_each(|port| self.first_members[port.index()] = first);
        }
        self.segments.retain(|(vid, _), _| multicast.vlans.binary_search(vid).is_ok());
        let all = multicast.vlans.iter().flat_map(|vid| Version::ALL.map(|version| (*vid, version)));
        for (number, key) in (0..).zip(all) {
            let source = multicast.querier.map(|source| match key.1 {
                Version::Ipv4 => Address::V4(source.to_bits()),
                Version::Ipv6 => Address::V6(link_local(mac)),
            });
            let segment = self.segments.entry(key).or_insert_with(Segment::new);
            segment.set_source(source, now.after(Nanos(STAGGER.0 * number)));
        }
    }

    /// Returns the first member of the port's group, which represents the group; a port without group represents
    /// itself.
    #[must_use]
    pub fn first_member(&self, port: PortId) -> PortId {
        self.first_members.get(port.index()).copied().unwrap_or(port)
    }

    fn with_first_members(&self, ports: PortSet) -> PortSet {
        ports.iter().map(|port| self.first_member(port)).collect()
    }

    /// Sets the ports that can send. When a port or group becomes able to send, a query becomes due. Returns whether
    /// any port changed.
    pub fn set_up(&mut self, now: Nanos, up: PortSet) -> bool {
        let up = self.with_first_members(up);
        let before = std::mem::replace(&mut self.up, up);
        let new = up.without(&before);
        for (number, segment) in (0..).zip(self.segments.values_mut()).filter(|_| !new.is_empty()) {
            segment.link_up(&new);
            segment.ask_again(now, now.after(Nanos(STAGGER.0 * number)));
        }
        before != up
    }

    #[must_use]
    pub fn is_restricted(&self, now: Nanos, segment: &Segment) -> bool {
        segment.is_queried(now) && segment.unrestricted(now, &self.up).is_empty()
    }

    pub fn segments(&self) -> impl Iterator<Item = (u16, Version, &Segment)> {
        self.segments.iter().map(|(&(vid, version), segment)| (vid, version, segment))
    }

    #[must_use]
    pub fn groups(&self) -> usize {
        self.segments.values().map(|segment| segment.groups().len()).sum()
    }

    /// Handles a frame received in a snooped VLAN. Returns whether the table of groups may have changed.
    pub fn receive(
        &mut self,
        now: Nanos,
        vid: u16,
        port: PortId,
        frame: &[u8],
        mut fault: impl FnMut(SnoopingFault),
    ) -> bool {
        let Ok(header) = Header::parse(frame) else { return false };
        let version = if header.ether_type.0 == 0x0800 { Version::Ipv4 } else { Version::Ipv6 };
        let (is_fast, port) = (self.fast.contains(port), self.first_member(port));
        let mut groups = self.groups();
        let Some(segment) = self.segments.get_mut(&(vid, version)) else { return false };
        match parse(header.ether_type, header.payload(frame)) {
            Err(error) => {
                self.counts.malformed[error.index()] += 1;
                false
            }
            Ok(Message::Hello) => segment.hello(now, port),
            Ok(Message::Query(query)) => {
                self.counts.queries += 1;
                if let Some(second) = segment.query(now, port, &query, &self.up) {
                    fault(SnoopingFault::TwoQueriers(vid, port, second));
                }
                true
            }
            Ok(Message::Records(records)) => {
                self.counts.reports += 1;
                let mut is_changed = false;
                for record in records {
                    let (has_room, was_complete) = (groups < self.groups_max, !segment.is_incomplete(now));
                    let before = segment.groups().len();
                    let change = (record.group, record.change);
                    if let Some(is_new) = segment.change(now, port, change, is_fast, has_room) {
                        is_changed |= is_new;
                    } else {
                        self.counts.refused += 1;
                        is_changed |= was_complete;
                        if !std::mem::replace(&mut self.is_full, true) {
                            fault(SnoopingFault::TableFull);
                        }
                    }
                    groups = groups + segment.groups().len() - before;
                }
                is_changed
            }
        }
    }

    /// Removes expired entries, and calls `send` with VLAN and port (`None`: all ports) for each due query. `send`
    /// returns the ports that could not queue it. Returns whether the table of groups may have changed.
    pub fn advance(
        &mut self,
        now: Nanos,
        mut send: impl FnMut(u16, Option<PortId>, &Query) -> PortSet,
    ) -> bool {
        let (mut is_changed, mut queries) = (false, Vec::new());
        for (&(vid, _), segment) in &mut self.segments {
            is_changed |= segment.advance(now, &self.up, &mut queries);
            self.counts.queries_sent += queries.len() as u64;
            for due in queries.drain(..) {
                let unsent = send(vid, due.port, &due.query);
                if !unsent.is_empty() {
                    segment.retry(now, &due, &unsent);
                }
            }
        }
        self.is_full &= self.groups() >= self.groups_max;
        is_changed
    }

    #[must_use]
    pub fn next_deadline(&self, now: Nanos) -> Nanos {
        self.segments.values().map(|segment| segment.next_deadline(now)).min().unwrap_or(Nanos::NEVER)
    }

    #[must_use]
    pub fn table(&self, now: Nanos, settings: &SwitchSettings) -> MulticastTable {
        let first_members = |ports: PortSet| self.with_first_members(ports);
        let routers = ports_where(&settings.ports, |_, port| port.multicast_router);
        let mut groups = Vec::new();
        let mut of = |vid, version| {
            let Some(segment) = self.segments.get(&(vid, version)) else { return MulticastPorts::default() };
            let put = |group, ports| groups.push(((vid, group), first_members(ports)));
            let MulticastPorts { reports, unknown } =
                segment.ports(now, (routers, &self.up), settings.multicast.unknown, put);
            MulticastPorts { reports: reports.map(first_members), unknown: unknown.map(first_members) }
        };
        let vlans = settings.multicast.vlans.iter().map(|&vid| SnoopedVlan {
            vid,
            ipv4: of(vid, Version::Ipv4),
            ipv6: of(vid, Version::Ipv6),
        });
        let vlans = vlans.collect();
        MulticastTable::new(vlans, groups)
    }
}

fn link_local(mac: MacAddr) -> u128 {
    let [a, b, c, d, e, f] = mac.0; // RFC 4291 appendix A
    let identifier = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    (0xfe80 << 112) | u128::from(identifier)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
