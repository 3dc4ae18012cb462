//! Follows the links of the ports by netlink, and checks the devices every second, because the kernel does not report
//! all changes of XDP programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::time::MissedTickBehavior;
use xoff_netlink::packet_route::RouteNetlinkMessage;
use xoff_netlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use xoff_netlink::{
    Conversation, Group, Notification, Notifications, QueueEvent, alternative_names, concerns_device, link_at,
};
use xoff_wire::units::{ETHERNET_HEADER, PortId};
use xoff_xdp::Look;

use super::adoption::{give_up, return_to};
use super::mailbox::Request;
use super::opener::{NotOpened, Opener};
use super::queues::{QueueEvents, reopen};
use super::view::{Link, PortView, SwitchView};
use super::{program, queues};

const LOOK_EVERY: Duration = Duration::from_secs(1);

const DEVICE_MISSING: &str = "device gone; port closed, its frames are dropped: create a device of the configured name to reopen the port";

const ROOM: usize = 1 << 20;

type ReopenResult = (PortId, Result<Option<String>, NotOpened>);

pub(super) struct Follower {
    links: Links,
    notifications: Notifications,
    /// Duplicate of the netlink socket. Tokio accepts this type without `unsafe`.
    readiness: UnixDatagram,
    queue_events: QueueEvents,
}

impl Follower {
    pub fn open(view: Arc<SwitchView>, opener: Option<Opener>) -> io::Result<Follower> {
        let notifications = Notifications::open(&[Group::Link], ROOM)?;
        let readiness = UnixDatagram::from_std(notifications.as_fd().try_clone_to_owned()?.into())?;
        let (links, queue_events) = (Links::new(view, opener)?, QueueEvents::open()?);
        Ok(Follower { links, notifications, readiness, queue_events })
    }

    pub async fn follow(self) {
        let Follower { mut links, mut notifications, readiness, mut queue_events } = self;
        let opener = links.opener.clone();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        links.read_all();
        loop {
            tokio::select! {
                ready = readiness.readable() => {
                    let read = || {
                        notifications.read(|notification| links.notified(notification))?;
                        Err::<(), _>(io::ErrorKind::WouldBlock.into()) // all are read: wait for the next
                    };
                    let result = ready.and_then(|()| readiness.try_io(Interest::READABLE, read));
                    if result.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                        break;
                    }
                }
                _ = looks.tick() => {
                    links.look_at_all();
                    links.follow_queues();
                }
                events = queue_events.next() => events.into_iter().for_each(|event| links.queues_changed(event)),
                () = joined(opener.as_ref()) => links.read_all(),
                Some(opened) = links.opening.next() => {
                    if links.opened(opened) {
                        links.read_all(); // older messages
                    }
                }
            }
        }
    }
}

async fn joined(opener: Option<&Opener>) {
    match opener {
        Some(opener) => opener.has_joined().await,
        None => std::future::pending().await,
    }
}

/// Returns whether a device with a new name no longer has the name `before`, not even as an alternative name.
fn is_renamed(before: &str, link: &LinkMessage) -> bool {
    !alternative_names(link).contains(&before)
}

fn kind_and_name(link: &LinkMessage) -> String {
    let (mut name, mut kind) = (String::new(), String::new());
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name.clone_from(text),
            LinkAttribute::LinkInfo(facts) => {
                kind = facts.iter().find_map(kind_of).unwrap_or_default();
            }
            _ => {}
        }
    }
    [kind, name].join(" ").trim().to_owned()
}

fn kind_of(fact: &LinkInfo) -> Option<String> {
    match fact {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

fn state(link: &LinkMessage) -> Link {
    let needed = LinkFlags::Up | LinkFlags::LowerUp;
    if link.header.flags.contains(needed) { Link::Up } else { Link::Down }
}

struct Links {
    view: Arc<SwitchView>,
    kernel: Conversation,
    opener: Option<Opener>,
    opening: FuturesUnordered<BoxFuture<'static, ReopenResult>>,
    are_opening: BTreeSet<PortId>,
    queues_meanwhile: BTreeMap<PortId, Vec<QueueEvent>>,
    /// Bridge or bond that contains a port's device; key: index of the port's device.
    masters: BTreeMap<u32, String>,
}

impl Links {
    fn new(view: Arc<SwitchView>, opener: Option<Opener>) -> io::Result<Links> {
        let kernel = Conversation::open()?;
        let (opening, are_opening, queues_meanwhile, masters) = Default::default();
        Ok(Links { view, kernel, opener, opening, are_opening, queues_meanwhile, masters })
    }

    fn notified(&mut self, notification: Notification) {
        match notification {
            Notification::Message(RouteNetlinkMessage::NewLink(link), _) if concerns_device(&link) => {
                self.found(&link)
            }
            Notification::Message(RouteNetlinkMessage::DelLink(link), _) if concerns_device(&link) => {
                self.lost(link.header.index);
            }
            Notification::Lost => self.read_all(),
            Notification::Message(..) | Notification::Nexthop => {}
        }
    }

    fn read_all(&mut self) {
        let mut links = Vec::new();
        if let Err(error) = self.kernel.links(|link| links.push(link)) {
            tracing::warn!("cannot list the network links of this machine: {error}");
            return;
        }
        links.iter().for_each(|link| self.found(link));
        let present: Vec<u32> = links.iter().map(|link| link.header.index).collect();
        let port_indexes: Vec<u32> = self.view.ports().map(|(_, port)| port.now().ifindex).collect();
        for port in port_indexes.into_iter().filter(|it| !present.contains(it)) {
            self.lost(port);
        }
    }

    fn found(&mut self, link: &LinkMessage) {
        let name = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
        let alternative_names = alternative_names(link);
        let view = Arc::clone(&self.view);
        for (id, port) in view.ports() {
            let is_missing = port.link.get() == Link::Gone;
            let has_configured_name = |opener: &Opener| {
                let device = opener.device(id);
                name.is_some_and(|name| *name == device) || alternative_names.contains(&device.as_str())
            };
            if port.now().ifindex == link.header.index
                && !is_missing
                && let Some((name, before)) = name.and_then(|name| Some((name, port.device.replace(name)?)))
                && is_renamed(&before, link)
            {
                let port = view.name_of(id);
                let advice = match self.opener.as_ref().is_some_and(|opener| !has_configured_name(opener)) {
                    true => {
                        "; the next start needs the new name: write it into the configuration, and run `xoff reload`"
                    }
                    false => "",
                };
                tracing::warn!(%port, device = %name, "the port's device was renamed; its former name is {before}{advice}");
            }
            if is_missing && self.opener.as_ref().is_some_and(has_configured_name) {
                self.open(id);
            }
        }
        self.check_master(link);
        for (id, port) in self.on(link.header.index) {
            self.look(id, port);
            self.set(id, port, state(link));
            self.check_mtu(id, port, link);
        }
    }

    fn check_master(&mut self, link: &LinkMessage) {
        let index = link.header.index;
        let Some((id, _)) = self.on(index).next() else { return };
        let master = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Controller(master) if *master != 0 => Some(*master),
            _ => None,
        });
        let now = master.map(|master| match self.kernel.link(link_at(master)) {
            Ok(Some(master)) => kind_and_name(&master),
            Ok(None) | Err(_) => format!("the device with index {master}"),
        });
        let before = match &now {
            Some(master) => self.masters.insert(index, master.clone()),
            None => self.masters.remove(&index),
        };
        if before == now {
            return;
        }
        let (name, device) = (self.view.name_of(id), self.view.ports[id.index()].device.get());
        match (now, before) {
            (Some(master), _) => tracing::warn!(
                port = %name,
                %device,
                "the port's device was put into {master}, which gets no frames while the switch takes them; the next start, and a \
                 reopening of the port, refuse such a device: run `ip link set {device} nomaster`"
            ),
            (None, before) => {
                let master = before.unwrap_or_default();
                tracing::info!(port = %name, %device, "the port's device was taken out of {master}");
            }
        }
    }

    fn check_mtu(&self, id: PortId, port: &PortView, link: &LinkMessage) {
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        let Some(mtu) = mtu else { return };
        let (name, device) = (self.view.name_of(id), port.device.get());
        let wanted = self.view.settings().ports[id.index()].mtu_frame - ETHERNET_HEADER;
        let fault = (mtu < wanted).then(|| {
            format!(
                "{device} has an MTU of {mtu}, the port one of {wanted}: the device drops longer frames (`rx_dropped`); run \
                 `ip link set {device} mtu {wanted}`"
            )
        });
        let before = port.short_mtu.replace(fault.clone());
        match fault {
            Some(fault) if before.as_ref() != Some(&fault) => tracing::error!(port = %name, "{fault}"),
            None if before.is_some() => {
                tracing::info!(port = %name, %device, mtu, "the device's MTU suffices again")
            }
            _ => {}
        }
    }

    fn lost(&mut self, ifindex: u32) {
        self.masters.remove(&ifindex);
        self.on(ifindex).for_each(|(id, port)| self.look(id, port));
    }

    fn on(&self, ifindex: u32) -> impl Iterator<Item = (PortId, &PortView)> {
        self.view.ports().filter(move |(_, port)| port.now().ifindex == ifindex)
    }

    fn look_at_all(&mut self) {
        let view = Arc::clone(&self.view);
        for (id, port) in view.ports() {
            match port.link.get() {
                Link::Gone => self.open(id),
                Link::Up | Link::Down => {
                    self.look(id, port);
                    if port.link.get() != Link::Gone {
                        program::check_filter(&view, id, port);
                    }
                }
            }
        }
    }

    fn look(&self, id: PortId, port: &PortView) {
        if port.link.get() == Link::Gone {
            return;
        }
        match port.now().driver.look() {
            Look::Gone => self.set(id, port, Link::Gone),
            Look::There(place) => program::found(&self.view, id, port, place),
            Look::Unknown(_) => {}
        }
    }

    fn set(&self, id: PortId, port: &PortView, link: Link) {
        if !port.link.set(link) {
            return;
        }
        let (name, device) = (self.view.name_of(id), port.device.get());
        match link {
            Link::Up => tracing::info!(port = %name, %device, "link up"),
            Link::Down => tracing::warn!(port = %name, %device, "link down"),
            Link::Gone => tracing::error!(port = %name, %device, "{DEVICE_MISSING}"),
        }
        self.tell_workers(id, link == Link::Up);
        self.view.host_bell.wake();
        if link == Link::Gone {
            port.unfollowed.replace(None); // its last drop counters are lost with it
            port.short_mtu.replace(None);
            port.unfiltered.replace(None);
        }
        if link == Link::Gone
            && let Some(opener) = &self.opener
        {
            give_up(&self.view, opener, id);
        }
    }

    fn tell_workers(&self, port: PortId, up: bool) {
        for worker in &self.view.workers {
            let _ = worker.mailbox.send(Request::Link { port, up });
        }
    }

    fn open(&mut self, id: PortId) {
        let Some(opener) = self.opener.as_ref().filter(|_| !self.are_opening.contains(&id)) else { return };
        let (opened, opener, view) = (opener.open(id), opener.clone(), Arc::clone(&self.view));
        self.opening.push(Box::pin(async move {
            match opened.await.unwrap_or(Err(NotOpened::Panicked)) {
                Ok(port) => (id, Ok(return_to(&view, &opener, id, port).await)),
                Err(why) => (id, Err(why)),
            }
        }));
        self.are_opening.insert(id);
    }

    fn follow_queues(&mut self) {
        let view = Arc::clone(&self.view);
        for (id, port) in view.ports().filter(|(_, port)| port.link.get() != Link::Gone) {
            let driver = port.now().driver;
            let changed = driver.queues_now().filter(|&now| now != driver.queues_at_open());
            if changed.is_some() || port.unfollowed.get().is_some() {
                self.requeue(id, changed.unwrap_or_else(|| driver.queues_at_open()));
            }
        }
    }

    /// Reopens ports whose receive queues may have changed. After a missed event, reopens all: a device may have as
    /// many queues as before, but new ones without the XDP program.
    fn queues_changed(&mut self, event: QueueEvent) {
        let view = Arc::clone(&self.view);
        for (id, port) in view.ports() {
            let now = port.now();
            if port.link.get() == Link::Gone && !self.are_opening.contains(&id) {
                continue;
            }
            if self.are_opening.contains(&id) {
                self.queues_meanwhile.entry(id).or_default().push(event); // the device is not known yet
                continue;
            }
            match event {
                QueueEvent::Changed { ifindex, rx_queues } if now.ifindex == ifindex => {
                    if rx_queues != now.driver.queues_at_open() {
                        self.requeue(id, rx_queues);
                    }
                }
                QueueEvent::Missed => self.requeue(id, now.driver.queues_at_open()),
                QueueEvent::Changed { .. } => {}
            }
        }
    }

    fn requeue(&mut self, id: PortId, queues: u32) {
        let Some(opener) = self.opener.clone().filter(|_| !self.are_opening.contains(&id)) else { return };
        queues::begin(&self.view, id, queues);
        let view = Arc::clone(&self.view);
        self.opening.push(Box::pin(async move { (id, reopen(&view, &opener, id).await) }));
        self.are_opening.insert(id);
    }

    fn opened(&mut self, (id, opened): ReopenResult) -> bool {
        self.are_opening.remove(&id);
        let meanwhile = self.queues_meanwhile.remove(&id).unwrap_or_default();
        let device = self.view.ports[id.index()].now();
        if matches!(opened, Ok(Some(_)))
            && let Some(queues) =
                changed_meanwhile(&meanwhile, device.ifindex, device.driver.queues_at_open())
        {
            self.requeue(id, queues);
        }
        let (name, port) = (self.view.name_of(id), &self.view.ports[id.index()]);
        match opened {
            Ok(None) => false,
            Ok(Some(_)) => true,
            Err(NotOpened::Missing) => {
                port.refused.replace(None);
                if port.link.get() != Link::Gone {
                    queues::refused(&self.view, id, &NotOpened::Missing);
                } else if port.unfollowed.replace(None).is_some() {
                    tracing::error!(port = %name, device = %port.device.get(), "{DEVICE_MISSING}");
                }
                false
            }
            Err(NotOpened::Panicked) => {
                let why = NotOpened::Panicked.to_string();
                if port.refused.replace(Some(why.clone())).as_ref() != Some(&why) {
                    tracing::error!(port = %name, "the port cannot be reopened until the switch is restarted: {why}");
                }
                false
            }
            Err(why) if port.unfollowed.get().is_some() => {
                queues::refused(&self.view, id, &why);
                false
            }
            Err(why) => {
                let why = why.to_string();
                if port.refused.replace(Some(why.clone())).as_ref() != Some(&why) {
                    tracing::error!(port = %name, "the port's device is back, but cannot be opened: {why}; the switch tries \
                        again every second");
                }
                false
            }
        }
    }
}

/// If queues may have changed (`events`) while a port was reopened with `opened_with` queues, returns the number of
/// queues with which to reopen the port again.
fn changed_meanwhile(events: &[QueueEvent], ifindex: u32, opened_with: u32) -> Option<u32> {
    events.iter().find_map(|event| match *event {
        QueueEvent::Changed { ifindex: of, rx_queues } => {
            (of == ifindex && rx_queues != opened_with).then_some(rx_queues)
        }
        QueueEvent::Missed => Some(opened_with),
    })
}

#[cfg(test)]
mod tests;
