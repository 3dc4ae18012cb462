//! Mirror of the kernel's routing tables in a network namespace, by netlink. After a change, all workers get the same new table.
//!
//! The kernel removes some entries without a message: IPv4 routes of a link that is lost or loses its last address, and next
//! hops of a lost next-hop object or carrier. After such events the mirror reads all routes again.
//!
//! The kernel does not see transit traffic. Therefore the mirror reports used and unknown neighbours to it (NTF_USE).

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::oneshot;
use xoff_flow_control::settings::Spread;
use xoff_netlink::packet_route::RouteNetlinkMessage;
use xoff_netlink::packet_route::neighbour::{NeighbourMessage, NeighbourState};
use xoff_netlink::{
    Conversation, Group, NLM_F_CREATE, NLM_F_REPLACE, Notification, Notifications, concerns_device, link_at,
    neighbour,
};
use xoff_wire::units::{Nanos, Site};

use super::messages;
use super::tables::{Built, Configured, KernelLink, Nexthops, RouteKey, RouteKind, Row, Station, Tables};
use xoff_xdp::sleeper::{Sleeper, duplicates};

const GATHER: Duration = Duration::from_millis(2);

/// Building tables takes at most 1/`SHARE` of the time.
const SHARE: u32 = 8;

const USED_EVERY: Duration = Duration::from_secs(20);

const ASK_EVERY: Duration = Duration::from_secs(1);

const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Size of the notification socket's buffer in bytes.
const ROOM: usize = 4 << 20;

const REQUESTS_MAX: usize = 1_024;

const LOOPBACK: u32 = 1;

const GROUPS: [Group; 7] = [
    Group::Link,
    Group::Neigh,
    Group::Ipv4Ifaddr,
    Group::Ipv6Ifaddr,
    Group::Ipv4Route,
    Group::Ipv6Route,
    Group::Nexthop,
];

pub trait Publish: Send {
    fn publish(&mut self, built: Built);

    fn resynced(&self);
}

#[derive(Clone, Debug)]
pub struct MirrorHandle {
    requests: Sender<MirrorRequest>,
    event: Arc<EventFd>,
    ends: Arc<AtomicBool>,
}

#[derive(Debug)]
enum MirrorRequest {
    Page {
        from: usize,
        limit: usize,
        answer: oneshot::Sender<Page>,
    },
    /// Reads the link of an interface: otherwise Linux 6.8 and newer report the carrier of a software device late.
    Carrier(Site),
    Resolve(Site, IpAddr),
}

#[derive(Debug)]
pub struct Page {
    pub rows: Vec<Row>,
    pub total: usize,
    pub stations: Vec<IpAddr>,
    pub is_in_use: bool,
}

impl MirrorHandle {
    pub async fn page(&self, from: usize, limit: usize) -> Option<Page> {
        let (answer, page) = oneshot::channel();
        self.requests.send(MirrorRequest::Page { from, limit, answer }).ok()?;
        self.wake();
        page.await.ok()
    }

    pub fn carrier_changed(&self, site: Site) {
        let _ = self.requests.send(MirrorRequest::Carrier(site)); // fails if the mirror has ended
        self.wake();
    }

    /// Makes the kernel resolve the neighbour towards `address`. Drops requests beyond [`REQUESTS_MAX`] queued ones: workers
    /// repeat them.
    pub fn resolve(&self, site: Site, address: IpAddr) {
        if self.requests.len() < REQUESTS_MAX {
            let _ = self.requests.send(MirrorRequest::Resolve(site, address)); // fails if the mirror has ended
            self.wake();
        }
    }

    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
        self.wake();
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        let _ = self.event.write(1); // fails if full
    }
}

pub struct Mirror {
    notifications: Notifications,
    kernel: Conversation,
    requests: Receiver<MirrorRequest>,
    event: Arc<EventFd>,
    ends: Arc<AtomicBool>,
    state: MirrorState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ReadScope {
    #[default]
    Nothing,
    Routes,
    Everything,
}

struct MirrorState {
    tables: Tables,
    configured: Configured,
    spread: Spread,
    to_read: ReadScope,
    /// True after all kernel tables were read, until the next notification arrives.
    is_all_read: bool,
    due: Option<Instant>,
    not_before: Instant,
    stations: BTreeSet<(u32, IpAddr)>,
}

impl Mirror {
    pub fn open(configured: Configured, spread: Spread) -> io::Result<(Mirror, MirrorHandle)> {
        let notifications = Notifications::open(&GROUPS, ROOM)?;
        let kernel = Conversation::open()?;
        let event = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let (send, requests) = unbounded();
        let ends = Arc::default();
        let handle = MirrorHandle { requests: send, event: Arc::clone(&event), ends: Arc::clone(&ends) };
        let (tables, stations, now) = (Tables::default(), BTreeSet::new(), Instant::now());
        let (to_read, due) = (ReadScope::Everything, Some(now));
        let state = MirrorState {
            tables,
            configured,
            spread,
            to_read,
            is_all_read: false,
            due,
            not_before: now,
            stations,
        };
        Ok((Mirror { notifications, kernel, requests, event, ends, state }, handle))
    }

    pub fn follow(mut self, mut publish: impl Publish) -> io::Result<()> {
        let events = duplicates([self.event.as_fd(), self.notifications.as_fd()])?;
        let mut sleeper = Sleeper::new(&events);
        let (mut ask, mut used) = (Instant::now() + ASK_EVERY, Instant::now() + USED_EVERY);
        loop {
            // Reset the event first, so that an event during this loop ends the next sleep.
            let _ = self.event.read(); // fails if nobody has woken the mirror
            if self.ends.load(Ordering::Relaxed) {
                return Ok(());
            }
            let state = &mut self.state;
            self.notifications.read(|notification| {
                if state.apply(notification) == ReadScope::Everything {
                    publish.resynced();
                }
            })?;
            while let Ok(request) = self.requests.try_recv() {
                match request {
                    MirrorRequest::Page { from, limit, answer } => _ = answer.send(state.page(from, limit)),
                    MirrorRequest::Carrier(site) => state.refresh_carrier(site, &mut self.kernel),
                    MirrorRequest::Resolve(site, address) => state.resolve(site, address, &mut self.kernel),
                }
            }
            let now = Instant::now();
            if state.due.is_some_and(|due| now >= due) {
                state.publish(&mut self.kernel, &mut publish);
            }
            if now >= ask {
                ask = now + ASK_EVERY;
                state.refresh_used(&mut self.kernel, |station| station.is_none());
            }
            if now >= used {
                used = now + USED_EVERY;
                state.refresh_used(&mut self.kernel, |_| true);
            }
            let next = state.due.map_or(ask, |due| due.min(ask)).saturating_duration_since(Instant::now());
            sleeper.sleep(Nanos(u64::try_from(next.as_nanos()).unwrap_or(u64::MAX)))?;
        }
    }
}

impl MirrorState {
    fn page(&self, from: usize, limit: usize) -> Page {
        Page {
            rows: self.tables.rows(&self.configured, from, limit),
            total: self.tables.count(),
            stations: self.stations.iter().map(|&(_, address)| address).collect(),
            is_in_use: self.due.is_none(),
        }
    }

    fn refresh_carrier(&self, site: Site, kernel: &mut Conversation) {
        for (index, _) in self.configured.iter().filter(|(_, interface)| interface.site == site) {
            let _ = ask_for_link(kernel, *index);
        }
    }

    fn resolve(&self, site: Site, address: IpAddr, kernel: &mut Conversation) {
        for (link, neighbour) in self.tables.neighbours_towards(&self.configured, site, address) {
            if self.tables.station(link, neighbour).is_none() {
                use_neighbour(kernel, link, neighbour);
            }
        }
    }

    fn changed(&mut self) {
        self.due.get_or_insert_with(|| (Instant::now() + GATHER).max(self.not_before));
    }

    fn want(&mut self, to_read: ReadScope) {
        self.to_read = self.to_read.max(to_read);
        self.changed();
    }

    fn apply(&mut self, notification: Notification) -> ReadScope {
        let mut wanted = match notification {
            Notification::Lost => ReadScope::Everything,
            Notification::Nexthop => ReadScope::Routes,
            Notification::Message(message, flags) => self.hear_of(message, flags & NLM_F_REPLACE != 0),
        };
        // Read the routes again: the first notification after a reading may be older than it, and so restore a route
        // that the kernel had removed silently.
        if std::mem::take(&mut self.is_all_read) {
            wanted = wanted.max(ReadScope::Routes);
        }
        if wanted != ReadScope::Nothing {
            self.want(wanted);
        }
        wanted
    }

    fn hear_of(&mut self, message: RouteNetlinkMessage, replaces: bool) -> ReadScope {
        match message {
            RouteNetlinkMessage::NewLink(link) if concerns_device(&link) => {
                return self.put_link(link.header.index, messages::link(&link));
            }
            RouteNetlinkMessage::DelLink(link) if concerns_device(&link) => {
                self.tables.remove_link(link.header.index);
                return ReadScope::Routes;
            }
            RouteNetlinkMessage::NewNeighbour(neighbour) => {
                self.put_neighbour(messages::neighbour(&neighbour))
            }
            RouteNetlinkMessage::DelNeighbour(neighbour) => {
                let removed = messages::neighbour(&neighbour).map(|(link, address, _)| (link, address, None));
                self.put_neighbour(removed);
            }
            RouteNetlinkMessage::DelAddress(_) => return ReadScope::Routes,
            RouteNetlinkMessage::NewRoute(route) => {
                if let Some((key, kind)) = messages::route(&route, &self.tables.nexthops) {
                    return self.put_route(key, kind, replaces);
                }
            }
            RouteNetlinkMessage::DelRoute(route) => {
                if let Some((key, kind)) = messages::route(&route, &self.tables.nexthops) {
                    return self.remove_route(&key, &kind);
                }
            }
            _ => {} // a new address also appears as a route of table local
        }
        ReadScope::Nothing
    }

    fn put_link(&mut self, index: u32, link: KernelLink) -> ReadScope {
        let before = self.tables.link(index).cloned();
        if before.as_ref() == Some(&link) {
            return ReadScope::Nothing;
        }
        let was = before.as_ref().filter(|before| before.name != link.name);
        if let (Some(was), Some(interface)) = (was, self.configured.get(&index)) {
            let (was, now, own) = (&was.name, &link.name, &interface.name);
            if now == own {
                tracing::info!(interface = %own, "the host interface {was} was renamed back to {own}");
            } else {
                tracing::warn!(
                    interface = %own,
                    "the host interface {was} was renamed to {now}, and works under that name: `xoff status routes` shows {now}. After a \
                     restart of the switch its name is {own} again, so change the `name` of the port or VLAN, or rename it back"
                );
            }
        }
        let of = |link: &KernelLink| (link.is_up, link.is_running, link.master);
        let to_read = match before {
            Some(before) if of(&before) == of(&link) => ReadScope::Nothing,
            Some(_) | None => ReadScope::Routes,
        };
        self.tables.put_link(index, link);
        self.changed();
        to_read
    }

    fn put_neighbour(&mut self, neighbour: Option<(u32, IpAddr, Option<Station>)>) {
        if let Some((link, address, station)) = neighbour
            && self.tables.put_neighbour(link, address, station)
        {
            self.changed();
        }
    }

    fn put_route(&mut self, key: RouteKey, kind: RouteKind, replaces: bool) -> ReadScope {
        if matches!(&kind, RouteKind::Unicast(ways) if ways.is_empty()) {
            return ReadScope::Routes; // its next-hop object is unknown
        }
        match self.tables.route(&key) {
            Some(before) if *before == kind => return ReadScope::Nothing,
            Some(_) if !replaces => return ReadScope::Routes,
            Some(_) | None => self.tables.put_route(key, kind),
        }
        self.changed();
        ReadScope::Nothing
    }

    fn remove_route(&mut self, key: &RouteKey, kind: &RouteKind) -> ReadScope {
        match self.tables.route(key) {
            None => ReadScope::Nothing,
            // Remove the route only if no other route has the same key: otherwise the other applies now, and must be
            // read.
            Some(before) if before == kind && !self.tables.is_one_of_several(key) => {
                self.tables.remove_route(key);
                self.changed();
                ReadScope::Nothing
            }
            Some(_) => ReadScope::Routes,
        }
    }

    fn publish(&mut self, kernel: &mut Conversation, publish: &mut impl Publish) {
        let begin = Instant::now();
        self.due = None;
        let is_whole = self.read(kernel).unwrap_or_else(|error| {
            tracing::warn!("cannot read the kernel's routing tables: {error}; the switch tries again");
            false
        });
        if !is_whole {
            self.not_before = Instant::now() + begin.elapsed() * (SHARE - 1);
            self.due = Some(self.not_before.max(begin + TRY_AGAIN));
            return;
        }
        let built = self.tables.fib(&self.configured, self.spread);
        let added: Vec<(u32, IpAddr)> = built.stations.difference(&self.stations).copied().collect();
        self.stations.clone_from(&built.stations);
        let took = begin.elapsed(); // before the wait for the workers
        publish.publish(built);
        self.not_before = Instant::now() + took * (SHARE - 1);
        for (link, address) in added {
            if self.tables.station(link, address).is_none() {
                use_neighbour(kernel, link, address);
            }
        }
    }

    fn read(&mut self, kernel: &mut Conversation) -> io::Result<bool> {
        let mut tables = Tables::default();
        let is_whole = match self.to_read {
            ReadScope::Nothing => return Ok(true),
            ReadScope::Routes => true,
            ReadScope::Everything => read_links_and_neighbours(kernel, &mut tables)?,
        };
        // Query any link before the dump. The kernel reports a link as down before it removes the link's routes.
        // It answers the query, unlike a dump, only after the removal.
        ask_for_link(kernel, LOOPBACK)?;
        if !is_whole || !read_routes(kernel, &mut tables)? {
            return Ok(false);
        }
        match std::mem::take(&mut self.to_read) {
            ReadScope::Everything => (self.tables, self.is_all_read) = (tables, true),
            ReadScope::Nothing | ReadScope::Routes => self.tables.take_routes(tables),
        }
        Ok(true)
    }

    /// Reports the neighbours selected by `which` to the kernel as used, except fixed ones.
    fn refresh_used(&self, kernel: &mut Conversation, which: impl Fn(Option<&Station>) -> bool) {
        for &(link, address) in &self.stations {
            let is_running = self.tables.link(link).is_some_and(|link| link.is_running);
            let station = self.tables.station(link, address);
            if is_running && which(station) && !station.is_some_and(|station| station.is_fixed) {
                use_neighbour(kernel, link, address);
            }
        }
    }
}

fn ask_for_link(kernel: &mut Conversation, index: u32) -> io::Result<()> {
    kernel.request(RouteNetlinkMessage::GetLink(link_at(index)), 0)
}

fn read_links_and_neighbours(kernel: &mut Conversation, tables: &mut Tables) -> io::Result<bool> {
    let links = kernel.links(|link| tables.put_link(link.header.index, messages::link(&link)))?;
    let neighbours = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    let neighbours = kernel.dump(neighbours, |message| {
        if let RouteNetlinkMessage::NewNeighbour(neighbour) = message
            && let Some((link, address, station)) = messages::neighbour(&neighbour)
        {
            tables.put_neighbour(link, address, station);
        }
    })?;
    Ok(links && neighbours)
}

/// Reads all next-hop objects and routes. Returns false if they changed during the reading.
fn read_routes(kernel: &mut Conversation, tables: &mut Tables) -> io::Result<bool> {
    let mut nexthops = Nexthops::new();
    let is_whole = kernel.nexthops(|object| _ = nexthops.insert(object.id, object))?;
    let routes = kernel.routes(|route| {
        if let Some((key, kind)) = messages::route(&route, &nexthops) {
            tables.add_route(key, kind);
        }
    })?;
    tables.nexthops = nexthops;
    Ok(is_whole && routes)
}

fn use_neighbour(kernel: &mut Conversation, link: u32, address: IpAddr) {
    if let Err(error) = try_use_neighbour(kernel, link, address) {
        tracing::debug!(%address, "cannot report a neighbour as used to the kernel: {error}");
    }
}

fn try_use_neighbour(kernel: &mut Conversation, link: u32, address: IpAddr) -> io::Result<()> {
    let mut message = neighbour(link, address);
    // Query the entry first: it may have become permanent since the last notification.
    let entry = match kernel.get(RouteNetlinkMessage::GetNeighbour(message.clone()))? {
        Some(RouteNetlinkMessage::NewNeighbour(entry)) => Some(entry),
        _ => None,
    };
    let Some(flags) = messages::use_flags(entry.as_ref()) else { return Ok(()) };
    (message.header.state, message.header.flags) = (NeighbourState::None, flags);
    kernel.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
