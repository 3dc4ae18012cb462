//! Mirrors what the kernel of a namespace routes by: it is read once, followed by netlink, and read again where messages
//! were lost or do not say all. Whatever changes, the workers get another table a moment later, all of them the same.
//!
//! Messages say what somebody has asked the kernel for. What it does to routes by itself they mostly do not say: IPv4 routes
//! go with a link or its last address, ways of a route with a next-hop object or a carrier, without a word. So the routes are
//! read again after all of these.
//!
//! Traffic that passes the workers is none that the kernel sees: it would hold their stations for unused. So it is told of those
//! that are used, and asks for those that nobody knows (NTF_USE).

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
use xoff_dataplane::settings::Spread;
use xoff_dataplane::units::{Nanos, Site};
use xoff_netlink::packet_route::link::LinkMessage;
use xoff_netlink::packet_route::neighbour::{NeighbourFlags, NeighbourMessage, NeighbourState};
use xoff_netlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use xoff_netlink::{
    Conversation, Group, NLM_F_CREATE, NLM_F_REPLACE, Notification, Notifications, link_at, neighbour,
};

use super::messages;
use super::tables::{Built, Configured, Kind, Link, RouteKey, Row, Station, Tables};
use xoff_xdp::sleeper::{Sleeper, duplicates};

/// A table is made so long after the first change of what it is made of: more changes come together.
const GATHER: Duration = Duration::from_millis(2);

/// Making tables takes one part in so many of the time, at most.
const SHARE: u32 = 8;

/// So often the kernel is told which stations are used.
const USED_EVERY: Duration = Duration::from_secs(20);

/// So often it is asked for those that nobody knows.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What could not be read is tried again after this.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Room for notifications: some thousands, while a table is made.
const ROOM: usize = 4 << 20;

/// Most requests for neighbours that wait for the mirror.
const REQUESTS_MAX: usize = 1_024;

/// The loopback, which every namespace has.
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

/// Who gets each table.
pub trait Publish: Send {
    /// Another table holds from now on, when this returns.
    fn publish(&mut self, built: Built);

    /// Messages were lost, and all was read again.
    fn resynced(&self);
}

/// Asks a mirror, and ends it.
#[derive(Clone, Debug)]
pub struct Asker {
    wishes: Sender<Wish>,
    event: Arc<EventFd>,
    ends: Arc<AtomicBool>,
}

/// What a mirror is asked for.
#[derive(Debug)]
enum Wish {
    /// Routes: those from a place in the list on.
    Page { from: usize, limit: usize, answer: oneshot::Sender<Page> },
    /// The carrier of an interface of the router is another one. Linux tells that of a device which is none of hardware within a second,
    /// unless somebody asks (since 6.8).
    Carrier(Site),
    /// Lossless frames that came in at an interface wait for the neighbour that leads to this address.
    Resolve(Site, IpAddr),
}

/// Some of the routes.
#[derive(Debug)]
pub struct Page {
    /// They, in the order of all.
    pub rows: Vec<Row>,
    /// How many there are in all.
    pub total: usize,
    /// Stations that packets are sent to by the table that the workers have.
    pub stations: Vec<IpAddr>,
    /// Workers route by them: no other table is due.
    pub is_in_use: bool,
}

impl Asker {
    /// At most `limit` routes, from place `from` on; `None` where the mirror has ended.
    pub async fn page(&self, from: usize, limit: usize) -> Option<Page> {
        let (answer, page) = oneshot::channel();
        self.wishes.send(Wish::Page { from, limit, answer }).ok()?;
        self.wake();
        page.await.ok()
    }

    /// The carrier of an interface is another one: whoever follows the kernel's links is to hear of it now.
    pub fn carrier_changed(&self, site: Site) {
        let _ = self.wishes.send(Wish::Carrier(site)); // or the mirror has ended
        self.wake();
    }

    /// Has the kernel find out the neighbour that leads to `address` from the interface at `site`. Beyond [`REQUESTS_MAX`] it is left
    /// out: the workers ask again.
    pub fn resolve(&self, site: Site, address: IpAddr) {
        if self.wishes.len() < REQUESTS_MAX {
            let _ = self.wishes.send(Wish::Resolve(site, address)); // or the mirror has ended
            self.wake();
        }
    }

    /// The mirror is to end.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether the mirror is to end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        let _ = self.event.write(1); // where it is full, the mirror is woken already
    }
}

/// What is followed, and how.
pub struct Mirror {
    notifications: Notifications,
    kernel: Conversation,
    wishes: Receiver<Wish>,
    event: Arc<EventFd>,
    ends: Arc<AtomicBool>,
    known: Known,
}

/// What has to be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Lacks {
    #[default]
    Nothing,
    Routes,
    Everything,
}

/// What is known, and what of it is not told yet.
struct Known {
    tables: Tables,
    configured: Configured,
    spread: Spread,
    lacks: Lacks,
    /// Everything was read, and nothing was heard since: what is heard next may be older than that.
    is_all_read: bool,
    /// When another table is to be made.
    due: Option<Instant>,
    /// Not before.
    not_before: Instant,
    stations: BTreeSet<(u32, IpAddr)>,
}

impl Mirror {
    /// Subscribes, in the namespace of the calling thread.
    ///
    /// # Errors
    /// Where there is no netlink.
    pub fn open(configured: Configured, spread: Spread) -> io::Result<(Mirror, Asker)> {
        let notifications = Notifications::open(&GROUPS, ROOM)?;
        let kernel = Conversation::open()?;
        let event = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let (send, wishes) = unbounded();
        let ends = Arc::default();
        let asker = Asker { wishes: send, event: Arc::clone(&event), ends: Arc::clone(&ends) };
        let (tables, stations, now) = (Tables::default(), BTreeSet::new(), Instant::now());
        let (lacks, due) = (Lacks::Everything, Some(now));
        let known =
            Known { tables, configured, spread, lacks, is_all_read: false, due, not_before: now, stations };
        Ok((Mirror { notifications, kernel, wishes, event, ends, known }, asker))
    }

    /// Follows, until the asker says that it is over.
    ///
    /// # Errors
    /// Where a socket fails.
    pub fn follow(mut self, mut publish: impl Publish) -> io::Result<()> {
        let events = duplicates([self.event.as_fd(), self.notifications.as_fd()])?;
        let mut sleeper = Sleeper::new(&events);
        let (mut ask, mut used) = (Instant::now() + ASK_EVERY, Instant::now() + USED_EVERY);
        loop {
            // First, so that whatever is asked or told from here on ends the next sleep.
            let _ = self.event.read(); // or nobody has woken this
            if self.ends.load(Ordering::Relaxed) {
                return Ok(());
            }
            let known = &mut self.known;
            self.notifications.read(|notification| {
                if known.hear(notification) == Lacks::Everything {
                    publish.resynced();
                }
            })?;
            while let Ok(wish) = self.wishes.try_recv() {
                match wish {
                    Wish::Page { from, limit, answer } => _ = answer.send(known.page(from, limit)), // or nobody waits
                    Wish::Carrier(site) => known.have_carrier_told(site, &mut self.kernel),
                    Wish::Resolve(site, address) => known.resolve(site, address, &mut self.kernel),
                }
            }
            let now = Instant::now();
            if known.due.is_some_and(|due| now >= due) {
                known.publish(&mut self.kernel, &mut publish);
            }
            if now >= ask {
                ask = now + ASK_EVERY;
                known.tell_used(&mut self.kernel, |station| station.is_none());
            }
            if now >= used {
                used = now + USED_EVERY;
                known.tell_used(&mut self.kernel, |_| true);
            }
            let next = known.due.map_or(ask, |due| due.min(ask)).saturating_duration_since(Instant::now());
            sleeper.sleep(Nanos(u64::try_from(next.as_nanos()).unwrap_or(u64::MAX)))?;
        }
    }
}

impl Known {
    fn page(&self, from: usize, limit: usize) -> Page {
        Page {
            rows: self.tables.rows(&self.configured, from, limit),
            total: self.tables.count(),
            stations: self.stations.iter().map(|&(_, address)| address).collect(),
            is_in_use: self.due.is_none(),
        }
    }

    /// A question about a link has the kernel tell first what it has yet to tell of it. One that is gone is told of anyway.
    fn have_carrier_told(&self, site: Site, kernel: &mut Conversation) {
        for (index, _) in self.configured.iter().filter(|(_, interface)| interface.site == site) {
            let _ = ask_for_link(kernel, *index);
        }
    }

    /// Has the kernel find out the neighbours that lead to an address, as far as they are unknown.
    fn resolve(&self, site: Site, address: IpAddr, kernel: &mut Conversation) {
        for (link, neighbour) in self.tables.neighbours_towards(&self.configured, site, address) {
            if self.tables.station(link, neighbour).is_none() {
                use_neighbour(kernel, link, neighbour);
            }
        }
    }

    /// Something is otherwise.
    fn changed(&mut self) {
        self.due.get_or_insert_with(|| (Instant::now() + GATHER).max(self.not_before));
    }

    fn want(&mut self, lacks: Lacks) {
        self.lacks = self.lacks.max(lacks);
        self.changed();
    }

    /// Answers what has to be read again because of it.
    fn hear(&mut self, notification: Notification) -> Lacks {
        let mut wanted = match notification {
            Notification::Lost => Lacks::Everything,
            Notification::Nexthop => Lacks::Routes,
            Notification::Message(message, flags) => self.hear_of(message, flags & NLM_F_REPLACE != 0),
        };
        // An old message may bring a route back that went without a word, and that of its link says nothing that is not known.
        if std::mem::take(&mut self.is_all_read) {
            wanted = wanted.max(Lacks::Routes);
        }
        if wanted != Lacks::Nothing {
            self.want(wanted);
        }
        wanted
    }

    fn hear_of(&mut self, message: RouteNetlinkMessage, replaces: bool) -> Lacks {
        match message {
            RouteNetlinkMessage::NewLink(link) if of_device(&link) => {
                return self.put_link(link.header.index, messages::link(&link));
            }
            RouteNetlinkMessage::DelLink(link) if of_device(&link) => {
                self.tables.remove_link(link.header.index);
                return Lacks::Routes;
            }
            RouteNetlinkMessage::NewNeighbour(neighbour) => {
                self.put_neighbour(messages::neighbour(&neighbour))
            }
            RouteNetlinkMessage::DelNeighbour(neighbour) => {
                let gone = messages::neighbour(&neighbour).map(|(link, address, _)| (link, address, None));
                self.put_neighbour(gone);
            }
            RouteNetlinkMessage::DelAddress(_) => return Lacks::Routes,
            RouteNetlinkMessage::NewRoute(route) => {
                if let Some((key, kind)) = messages::route(&route) {
                    return self.put_route(key, kind, replaces);
                }
            }
            RouteNetlinkMessage::DelRoute(route) => {
                if let Some((key, kind)) = messages::route(&route) {
                    return self.remove_route(&key, &kind);
                }
            }
            _ => {} // of addresses that are new a route of table local tells
        }
        Lacks::Nothing
    }

    fn put_link(&mut self, index: u32, link: Link) -> Lacks {
        let before = self.tables.link(index).cloned();
        if before.as_ref() == Some(&link) {
            return Lacks::Nothing;
        }
        let was = before.as_ref().filter(|before| before.name != link.name);
        if let (Some(was), Some(interface)) = (was, self.configured.get(&index)) {
            let (was, now, own) = (&was.name, &link.name, &interface.name);
            if now == own {
                tracing::info!(interface = %own, "the host interface {was} is called {own} again");
            } else {
                tracing::warn!(
                    interface = %own,
                    "the host interface {was} is called {now} now, and goes on under that name: `xoff status routes` says {now}, and after \
                     a restart of the switch it is {own} again, so change the `name` of the port or VLAN, or name it back"
                );
            }
        }
        let of = |link: &Link| (link.is_up, link.is_running, link.master);
        let lacks = match before {
            Some(before) if of(&before) == of(&link) => Lacks::Nothing,
            Some(_) | None => Lacks::Routes,
        };
        self.tables.put_link(index, link);
        self.changed();
        lacks
    }

    fn put_neighbour(&mut self, neighbour: Option<(u32, IpAddr, Option<Station>)>) {
        if let Some((link, address, station)) = neighbour
            && self.tables.put_neighbour(link, address, station)
        {
            self.changed();
        }
    }

    /// A route is there; where there was another of that key, and this one is not said to be instead of it, it is not said which counts.
    fn put_route(&mut self, key: RouteKey, kind: Kind, replaces: bool) -> Lacks {
        match self.tables.route(&key) {
            Some(before) if *before == kind => return Lacks::Nothing,
            Some(_) if !replaces => return Lacks::Routes,
            Some(_) | None => self.tables.put_route(key, kind),
        }
        self.changed();
        Lacks::Nothing
    }

    /// A route is gone, or some ways of it.
    fn remove_route(&mut self, key: &RouteKey, kind: &Kind) -> Lacks {
        match self.tables.route(key) {
            None => Lacks::Nothing,
            // Behind it there may be one that was appended.
            Some(before) if before == kind && !self.tables.is_one_of_several(key) => {
                self.tables.remove_route(key);
                self.changed();
                Lacks::Nothing
            }
            Some(_) => Lacks::Routes,
        }
    }

    /// Makes a table of what there is now; where that could not be read whole, the last one stays, and it is tried again.
    fn publish(&mut self, kernel: &mut Conversation, publish: &mut impl Publish) {
        let begin = Instant::now();
        self.due = None;
        let is_whole = self.read(kernel).unwrap_or_else(|error| {
            tracing::warn!("cannot read the routing tables: {error}; tried again");
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
        let took = begin.elapsed(); // to wait for workers costs nothing
        publish.publish(built);
        self.not_before = Instant::now() + took * (SHARE - 1);
        for (link, address) in added {
            if self.tables.station(link, address).is_none() {
                use_neighbour(kernel, link, address);
            }
        }
    }

    /// Reads again what has to be. False where it changed meanwhile.
    fn read(&mut self, kernel: &mut Conversation) -> io::Result<bool> {
        let mut tables = Tables::default();
        let is_whole = match self.lacks {
            Lacks::Nothing => return Ok(true),
            Lacks::Routes => true,
            Lacks::Everything => read_links_and_neighbours(kernel, &mut tables)?,
        };
        // A link is said to go down before its routes go, and a dump does not wait for that. A question about one link does: it is
        // answered when the kernel has done what it was about.
        ask_for_link(kernel, LOOPBACK)?;
        if !is_whole || !read_routes(kernel, &mut tables)? {
            return Ok(false);
        }
        match std::mem::take(&mut self.lacks) {
            Lacks::Everything => (self.tables, self.is_all_read) = (tables, true),
            Lacks::Nothing | Lacks::Routes => self.tables.take_routes(tables),
        }
        Ok(true)
    }

    /// Tells the kernel of the stations that packets are sent to, those that `which` says. Not of those of which it was told that they
    /// stay as they are: it would ask for them from then on.
    fn tell_used(&self, kernel: &mut Conversation, which: impl Fn(Option<&Station>) -> bool) {
        for &(link, address) in &self.stations {
            let is_running = self.tables.link(link).is_some_and(|link| link.is_running);
            let station = self.tables.station(link, address);
            if is_running && which(station) && !station.is_some_and(|station| station.is_permanent) {
                use_neighbour(kernel, link, address);
            }
        }
    }
}

/// Asks for a link; what is answered comes to who follows.
fn ask_for_link(kernel: &mut Conversation, index: u32) -> io::Result<()> {
    kernel.request(RouteNetlinkMessage::GetLink(link_at(index)), 0)
}

/// False where they changed meanwhile.
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

/// False where they changed meanwhile.
fn read_routes(kernel: &mut Conversation, tables: &mut Tables) -> io::Result<bool> {
    kernel.routes(|route| {
        if let Some((key, kind)) = messages::route(&route) {
            tables.add_route(key, kind);
        }
    })
}

/// The kernel is told that a neighbour is used: it asks for its address, or whether that still holds.
fn use_neighbour(kernel: &mut Conversation, link: u32, address: IpAddr) {
    let mut message = neighbour(link, address);
    message.header.state = NeighbourState::None;
    message.header.flags = NeighbourFlags::Use;
    let message = RouteNetlinkMessage::NewNeighbour(message);
    if let Err(error) = kernel.request(message, NLM_F_CREATE | NLM_F_REPLACE) {
        tracing::debug!(%address, "the kernel is not to be told that a station is used: {error}");
    }
}

/// Whether a message is about the device itself: the kernel's bridge uses the same for its ports.
fn of_device(link: &LinkMessage) -> bool {
    link.header.interface_family == AddressFamily::Unspec
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
