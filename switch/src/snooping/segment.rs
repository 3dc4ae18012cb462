//! Members, routers and querier of a VLAN for one IP version. Constants and timers are those of RFC 3376 section 8 and RFC 3810 section 9.
//!
//! Without a querier memberships would expire, so all ports get the frames of all groups. A port whose link came up gets them, too, until
//! its hosts have had time to answer a query.

use std::collections::BTreeMap;

use xoff_dataplane::forward::MulticastPorts;
use xoff_flow_control::settings::UnknownGroups;
use xoff_wire::ip::Address;
use xoff_wire::multicast::{Change, Query, is_flooded};
use xoff_wire::units::{Nanos, PortId, PortSet};

/// Tolerance for delays of hosts' answers, added to the response time of a query.
const GRACE: Nanos = Nanos::from_millis(500);
/// Default holdtime of a PIM hello (RFC 7761 section 4.11).
const HELLO_HOLD: Nanos = Nanos::from_secs(105);
const LAST_MEMBER_RESPONSE: Nanos = Nanos::from_secs(1);
const RETRY: Nanos = Nanos::from_secs(1);
const QUERIES_MAX: usize = 64;
/// Number of queries at which a second querier becomes a fault. A correct one sends fewer before it receives a query
/// of the elected querier.
const RIVAL_QUERIES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    robustness: u8,
    interval: Nanos,
    max_response: Nanos,
}

impl Times {
    pub const DEFAULT: Times =
        Times { robustness: 2, interval: Nanos::from_secs(125), max_response: Nanos::from_secs(10) };

    fn of(query: &Query) -> Times {
        Times {
            robustness: query.robustness.unwrap_or(Times::DEFAULT.robustness),
            interval: query.interval.filter(|it| *it > Nanos::ZERO).unwrap_or(Times::DEFAULT.interval),
            max_response: query.max_response,
        }
    }

    fn membership(self) -> Nanos {
        Nanos(self.interval.0 * u64::from(self.robustness)).after(self.max_response)
    }

    fn querier_present(self) -> Nanos {
        Nanos(self.interval.0 * u64::from(self.robustness)).after(Nanos(self.max_response.0 / 2))
    }

    fn last_member(self, response: Nanos) -> Nanos {
        Nanos(response.0 * u64::from(self.robustness)).after(GRACE)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Querier {
    pub address: Address,
    pub port: PortId,
    until: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupQuery {
    due: Nanos,
    port: PortId,
    group: Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub port: Option<PortId>,
    pub query: Query,
}

pub type Members = BTreeMap<PortId, Nanos>;

#[derive(Clone, Debug)]
pub struct Segment {
    /// Source address of the switch's own queries; `None` if the switch is not configured as querier.
    source: Option<Address>,
    query_due: Nanos,
    startup_left: u8,
    pending: Vec<GroupQuery>,
    other_querier: Option<Querier>,
    /// Second querier in the VLAN: its address, number of queries, and time of the last one.
    rival: Option<(Address, u32, Nanos)>,
    times: Times,
    /// Times by which the hosts at each port should have answered a query; no entry for a port without query.
    answered: Members,
    queried_until: Nanos,
    /// Time until which groups may be missing from the table, because it was full.
    incomplete_until: Nanos,
    routers: Members,
    groups: BTreeMap<Address, Members>,
    advanced_at: Nanos,
}

const fn is_unspecified(address: Address) -> bool {
    address.bits() == 0
}

impl Segment {
    pub fn new() -> Segment {
        Segment {
            source: None,
            query_due: Nanos::NEVER,
            startup_left: 0,
            pending: Vec::new(),
            other_querier: None,
            rival: None,
            times: Times::DEFAULT,
            answered: Members::new(),
            queried_until: Nanos::ZERO,
            incomplete_until: Nanos::ZERO,
            routers: Members::new(),
            groups: BTreeMap::new(),
            advanced_at: Nanos::ZERO,
        }
    }

    pub fn set_source(&mut self, source: Option<Address>, due: Nanos) {
        if source != self.source {
            self.startup_left = Times::DEFAULT.robustness - 1;
            self.query_due = if source.is_some() { due } else { Nanos::NEVER };
            self.source = source;
            self.pending.clear();
        }
    }

    pub fn ask_again(&mut self, now: Nanos, due: Nanos) {
        if self.own_source(now).is_some() {
            self.query_due = self.query_due.min(due);
        }
    }

    pub fn other_querier(&self, now: Nanos) -> Option<&Querier> {
        self.other_querier.as_ref().filter(|querier| now < querier.until)
    }

    /// Returns the source address of the switch's own queries if it is the elected querier, with the lowest address.
    pub fn own_source(&self, now: Nanos) -> Option<Address> {
        let own = self.source?;
        let other = self.other_querier(now).map(|other| other.address);
        let loses = |other: Address| !is_unspecified(other) && (is_unspecified(own) || other < own);
        (!other.is_some_and(loses)).then_some(own)
    }

    pub fn link_up(&mut self, ports: &PortSet) {
        self.answered.retain(|port, _| !ports.contains(*port));
    }

    /// Schedules the query `unsent` again for `ports`, which could not queue it. Until then these ports get the frames of all groups
    /// (general query), or stay members (group query).
    pub fn retry(&mut self, now: Nanos, unsent: &Due, ports: &PortSet) {
        let due = now.after(RETRY);
        let (Some(port), Some(group)) = (unsent.port, unsent.query.group) else {
            self.link_up(ports);
            self.query_due = self.query_due.min(due);
            return;
        };
        if let Some(end) = self.groups.get_mut(&group).and_then(|members| members.get_mut(&port)) {
            *end = due.after(self.times.last_member(LAST_MEMBER_RESPONSE)).max(*end);
            self.pending.push(GroupQuery { due, port, group });
        }
    }

    pub fn is_queried(&self, now: Nanos) -> bool {
        now < self.queried_until
    }

    pub fn is_incomplete(&self, now: Nanos) -> bool {
        now < self.incomplete_until
    }

    pub fn unrestricted(&self, now: Nanos, up: &PortSet) -> PortSet {
        match self.is_queried(now) {
            true => up.iter().filter(|port| self.answered.get(port).is_none_or(|at| now < *at)).collect(),
            false => *up,
        }
    }

    pub fn groups(&self) -> &BTreeMap<Address, Members> {
        &self.groups
    }

    pub fn routers(&self) -> impl Iterator<Item = PortId> {
        self.routers.keys().copied()
    }

    fn general_query(&mut self, now: Nanos, times: Times, up: &PortSet) {
        if !self.is_queried(now) {
            self.answered.clear();
        }
        for port in up.iter() {
            self.answered.entry(port).or_insert(now.after(times.max_response).after(GRACE));
        }
        self.times = times;
        self.queried_until = now.after(times.querier_present());
    }

    /// Handles another querier's query. Returns its address if it has become a lasting second querier in the VLAN.
    pub fn query(&mut self, now: Nanos, port: PortId, query: &Query, up: &PortSet) -> Option<Address> {
        if let Some(group) = query.group {
            if !query.has_sources && !query.suppresses {
                let until = now.after(self.times.last_member(query.max_response));
                let members = self.groups.get_mut(&group).into_iter().flatten();
                members.filter(|(at, _)| **at != port).for_each(|(_, end)| *end = until.min(*end));
            }
            return None;
        }
        let times = Times::of(query);
        // Count the port as a router port even if the query has no source address: the bridge that sent it may be the only path to members.
        self.routers.insert(port, now.after(times.querier_present()));
        let elected = self.other_querier(now).copied();
        let is_second = elected.is_some_and(|elected| {
            elected.address != query.source
                && !is_unspecified(elected.address)
                && (is_unspecified(query.source) || elected.address < query.source)
        });
        let until = now.after(times.querier_present());
        if !is_second {
            self.other_querier = Some(Querier { address: query.source, port, until });
        }
        let is_elected = !is_second && self.own_source(now).is_none();
        if is_elected && self.source.is_some() {
            // Query as soon as the elected querier is silent (RFC 3376, 6.6.2): otherwise memberships would expire
            // first.
            self.query_due = until;
        }
        if is_elected || !self.is_queried(now) {
            self.general_query(now, times, up);
        }
        if is_elected || is_unspecified(query.source) {
            return None;
        }
        let is_same = |(rival, _, last): &(Address, u32, Nanos)| {
            *rival == query.source && now.since(*last) < times.querier_present()
        };
        let count = self.rival.filter(is_same).map_or(0, |(_, count, _)| count).saturating_add(1);
        self.rival = Some((query.source, count, now));
        (count == RIVAL_QUERIES).then_some(query.source)
    }

    pub fn hello(&mut self, now: Nanos, port: PortId) -> bool {
        let until = now.after(HELLO_HOLD);
        let before = self.routers.get(&port).copied();
        self.routers.insert(port, before.unwrap_or_default().max(until));
        before.is_none()
    }

    /// Handles a membership change at a port; `has_room` is false if the table is full. Returns whether members or due queries changed;
    /// `None` if the table had no room for the group.
    pub fn change(
        &mut self,
        now: Nanos,
        port: PortId,
        (group, change): (Address, Change),
        is_fast: bool,
        has_room: bool,
    ) -> Option<bool> {
        match change {
            _ if is_flooded(group) => Some(false),
            Change::Join if !has_room && !self.groups.contains_key(&group) => {
                self.incomplete_until = now.after(self.times.membership());
                None
            }
            Change::Join => {
                let until = now.after(self.times.membership());
                Some(self.groups.entry(group).or_default().insert(port, until).is_none())
            }
            Change::Leave if is_fast => {
                let Some(members) = self.groups.get_mut(&group) else { return Some(false) };
                let was_member = members.remove(&port).is_some();
                if members.is_empty() {
                    self.groups.remove(&group);
                }
                Some(was_member)
            }
            Change::Leave | Change::Block => Some(self.ask_last_members(now, port, group)),
        }
    }

    fn ask_last_members(&mut self, now: Nanos, port: PortId, group: Address) -> bool {
        let is_pending = self.pending.iter().any(|ask| (ask.port, ask.group) == (port, group));
        if self.own_source(now).is_none() || is_pending || self.pending.len() >= QUERIES_MAX {
            return false;
        }
        let Some(end) = self.groups.get_mut(&group).and_then(|members| members.get_mut(&port)) else {
            return false;
        };
        *end = now.after(self.times.last_member(LAST_MEMBER_RESPONSE)).min(*end);
        for number in 0..u64::from(Times::DEFAULT.robustness) {
            let due = now.after(Nanos(LAST_MEMBER_RESPONSE.0 * number));
            self.pending.push(GroupQuery { due, port, group });
        }
        true
    }

    fn bounds(&self) -> impl Iterator<Item = Nanos> {
        [self.queried_until, self.incomplete_until].into_iter().chain(self.answered.values().copied())
    }

    /// Removes expired members and routers, and appends due queries. Returns whether groups' ports may have changed.
    pub fn advance(&mut self, now: Nanos, up: &PortSet, queries: &mut Vec<Due>) -> bool {
        let before = std::mem::replace(&mut self.advanced_at, now);
        let mut is_changed = self.bounds().any(|bound| before < bound && bound <= now);
        for members in self.groups.values_mut().chain([&mut self.routers]) {
            let before = members.len();
            members.retain(|_, until| *until > now);
            is_changed |= members.len() < before;
        }
        self.groups.retain(|_, members| !members.is_empty());
        let Times { robustness, interval, max_response } = Times::DEFAULT;
        let Some(source) = self.own_source(now) else {
            self.pending.clear();
            return is_changed;
        };
        let query = Query {
            source,
            group: None,
            has_sources: false,
            suppresses: false,
            max_response,
            robustness: Some(robustness),
            interval: Some(interval),
        };
        if now >= self.query_due {
            let is_startup = self.startup_left > 0;
            self.startup_left = self.startup_left.saturating_sub(1);
            self.query_due = now.after(if is_startup { Nanos(interval.0 / 4) } else { interval });
            self.general_query(now, Times::DEFAULT, up);
            is_changed = true;
            queries.push(Due { port: None, query });
        }
        for GroupQuery { port, group, .. } in self.pending.extract_if(.., |ask| ask.due <= now) {
            let query = Query { group: Some(group), max_response: LAST_MEMBER_RESPONSE, ..query };
            queries.push(Due { port: Some(port), query });
        }
        is_changed
    }

    pub fn next_deadline(&self, now: Nanos) -> Nanos {
        let ends = self.groups.values().flat_map(Members::values).chain(self.routers.values()).copied();
        let other = self.other_querier(now).filter(|_| self.own_source(now).is_none());
        let query_due = self.source.map(|_| other.map_or(self.query_due, |other| other.until));
        let queries = self.pending.iter().map(|ask| ask.due).chain(query_due);
        let bounds = self.bounds().filter(|bound| *bound > now);
        ends.chain(queries).chain(bounds).min().unwrap_or(Nanos::NEVER)
    }

    /// Returns the ports that get membership reports, and those that get frames of unknown groups. Calls `put` for
    /// each known group.
    pub fn ports(
        &self,
        now: Nanos,
        (routers, up): (PortSet, &PortSet),
        unknown: UnknownGroups,
        mut put: impl FnMut(Address, PortSet),
    ) -> MulticastPorts {
        if !self.is_queried(now) {
            return MulticastPorts::default();
        }
        let routers = routers.or(&self.routers().collect());
        let of_all = routers.or(&self.unrestricted(now, up));
        for (group, members) in &self.groups {
            put(*group, of_all.or(&members.keys().copied().collect()));
        }
        let floods = unknown == UnknownGroups::Flood || self.is_incomplete(now);
        MulticastPorts { reports: Some(routers), unknown: (!floods).then_some(of_all) }
    }
}
