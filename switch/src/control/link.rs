//! Follows the links of the ports over netlink: RTM_NEWLINK and RTM_DELLINK as they come, and a dump
//! of everything at start and whenever the kernel says that messages were lost.
//!
//! Beside what the kernel tells, each port's device is looked at every second, and whenever there was
//! something about it: not everything that becomes of an XDP program is told, and a device that has gone and come back
//! between two messages that were lost is another one to the port's sockets.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{Handle, MulticastGroup, new_multicast_connection};
use tokio::time::MissedTickBehavior;
use xoff_dataplane::units::PortId;
use xoff_xdp::Look;

use super::mailbox::Request;
use super::program;
use super::view::{Link, PortView, SwitchView};

const LOOK_EVERY: Duration = Duration::from_secs(1);

type Messages = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>;

/// Keeps [`PortView::link`](super::PortView::link) true and tells the workers of every change.
pub(super) struct Follower {
    view: Arc<SwitchView>,
    handle: Handle,
    messages: Messages,
    connection: futures::future::BoxFuture<'static, ()>,
}

impl Follower {
    /// Subscribes. To be called inside the runtime.
    pub fn open(view: Arc<SwitchView>) -> io::Result<Follower> {
        let (connection, handle, messages) = new_multicast_connection(&[MulticastGroup::Link])?;
        Ok(Follower { view, handle, messages, connection: Box::pin(connection) })
    }

    /// Follows, until dropped or netlink closes its socket.
    pub async fn follow(self) {
        let Follower { view, handle, mut messages, connection } = self;
        let watch = async {
            let mut looks = tokio::time::interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            read_all(&view, &handle).await;
            loop {
                let message = tokio::select! {
                    message = messages.next() => message,
                    _ = looks.tick() => {
                        view.ports().for_each(|(id, port)| look(&view, id, port));
                        continue;
                    }
                };
                let Some((message, _)) = message else { break };
                match message.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) if of_device(&link) => {
                        found(&view, &link);
                    }
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) if of_device(&link) => {
                        observe(&view, link.header.index, Link::Gone);
                    }
                    NetlinkPayload::Overrun(_) => read_all(&view, &handle).await,
                    _ => {}
                }
            }
        };
        tokio::join!(connection, watch);
    }
}

async fn read_all(view: &SwitchView, handle: &Handle) {
    let mut present = Vec::new();
    let mut links = handle.link().get().execute();
    while let Some(link) = links.next().await {
        match link {
            Ok(link) => {
                found(view, &link);
                present.push(link.header.index);
            }
            Err(error) => {
                tracing::warn!("cannot list the links: {error}");
                return;
            }
        }
    }
    for port in view.ports.iter().filter(|port| !present.contains(&port.ifindex)) {
        observe(view, port.ifindex, Link::Gone);
    }
}

/// Whether the message is about the device itself: the kernel's bridge uses the same messages for a device
/// that joins or leaves it.
fn of_device(link: &LinkMessage) -> bool {
    link.header.interface_family == AddressFamily::Unspec
}

fn state(link: &LinkMessage) -> Link {
    let needed = LinkFlags::Up | LinkFlags::LowerUp;
    if link.header.flags.contains(needed) { Link::Up } else { Link::Down }
}

/// A device that is there.
fn found(view: &SwitchView, link: &LinkMessage) {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    });
    let ports = || view.ports().filter(|(_, port)| port.ifindex == link.header.index);
    for (id, port) in ports().filter(|(_, port)| port.link.get() != Link::Gone) {
        if let Some((name, before)) = name.and_then(|name| Some((name, port.device.replace(name)?))) {
            let port = &view.settings.ports[id.index()].name;
            tracing::warn!(%port, device = %name, "the port's device was {before} and has another name now");
        }
    }
    observe(view, link.header.index, state(link));
}

/// What the kernel has said of the device of that index.
fn observe(view: &SwitchView, ifindex: u32, link: Link) {
    for (id, port) in view.ports().filter(|(_, port)| port.ifindex == ifindex) {
        if link == Link::Gone {
            set(view, id, port, link);
        }
        look(view, id, port);
        set(view, id, port, link);
    }
}

/// Looks at the device of a port, unless it is gone.
fn look(view: &SwitchView, id: PortId, port: &PortView) {
    if port.link.get() == Link::Gone {
        return;
    }
    match port.driver.look() {
        Look::Gone => set(view, id, port, Link::Gone),
        Look::There(place) => program::found(view, id, port, place),
        Look::Unknown(_) => {} // the verdict says so
    }
}

fn set(view: &SwitchView, id: PortId, port: &PortView, link: Link) {
    if !port.link.set(link) {
        return;
    }
    let (name, device) = (&view.settings.ports[id.index()].name, port.device.get());
    match link {
        Link::Up => tracing::info!(port = %name, %device, "link up"),
        Link::Down => tracing::warn!(port = %name, %device, "link down"),
        Link::Gone => tracing::error!(
            port = %name,
            %device,
            "the port's device is gone, and the port with it: frames for it are dropped; where the device is back, \
             restart the switch"
        ),
    }
    tell_workers(view, id, link == Link::Up);
}

fn tell_workers(view: &SwitchView, port: PortId, up: bool) {
    for worker in &view.workers {
        // A worker that has ended forwards nothing, over whichever link.
        let _ = worker.mailbox.send(Request::Link { port, up });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;
    use crate::control::mailbox::Inbox;
    use crate::control::{start, tests::view_on};
    use crate::lab::{Lab, VethOptions};

    /// The next message to the worker.
    fn next(inbox: &Inbox) -> (PortId, bool) {
        let mut wake = [PollFd::new(inbox.fd(), PollFlags::POLLIN)];
        loop {
            match inbox.take() {
                Some(Request::Link { port, up }) => return (port, up),
                Some(request) => panic!("{request:?}"),
                None => {
                    assert_eq!(poll(&mut wake, PollTimeout::from(20_000u16)).unwrap(), 1, "no message came");
                    inbox.acknowledge();
                }
            }
        }
    }

    #[test]
    fn workers_are_told_when_a_link_goes_comes_and_vanishes() {
        let mut lab = Lab::new();
        let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
        for port in ["l0", "r0"] {
            lab.veth(switch.end(port), host.end(port), &VethOptions::default()).unwrap();
        }
        let index = |name| {
            let mut devices = lab.devices().iter();
            let device = devices.find(|it| it.name() == name && it.namespace().name() == "switch");
            device.unwrap().index()
        };
        let (view, inbox) = view_on([index("l0"), index("r0")]);
        let (left, right) = (PortId(0), PortId(1));
        let peer =
            lab.devices().iter().find(|it| it.name() == "r0" && it.namespace().name() == "host").unwrap();
        // Down before the control thread looks for the first time: it must see that by itself.
        peer.set_up(false).unwrap();
        let _control = switch.run(|| start(Arc::clone(&view), None, ())).unwrap();
        assert_eq!(next(&inbox), (right, false));
        assert_eq!((view.ports[0].link.get(), view.ports[1].link.get()), (Link::Up, Link::Down));
        peer.set_up(true).unwrap();
        assert_eq!(next(&inbox), (right, true));
        assert_eq!(view.ports[1].link.get(), Link::Up);
        let mut delete = std::process::Command::new("ip");
        assert!(host.output(delete.args(["link", "del", "l0"])).unwrap().status.success());
        assert_eq!(next(&inbox), (left, false));
    }

    #[test]
    fn a_device_with_another_name_is_told_by_that_and_is_still_the_ports() {
        let mut lab = Lab::new();
        let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
        lab.veth(switch.end("l0"), host.end("l0"), &VethOptions::default()).unwrap();
        let index = lab.devices().iter().find(|it| it.namespace().name() == "switch").unwrap().index();
        let (view, inbox) = view_on([index; 2]);
        let _control = switch.run(|| start(Arc::clone(&view), None, ())).unwrap();
        for words in ["link set l0 down", "link set l0 name other", "link set other up"] {
            let output = switch.output(std::process::Command::new("ip").args(words.split(' '))).unwrap();
            assert!(output.status.success(), "ip {words}: {output:?}");
        }
        while !next(&inbox).1 {}
        assert_eq!(view.ports[0].device.get(), "other");
        let status = crate::control::snapshot(&view, &[]);
        assert_eq!((status.ports[0].name.as_str(), status.ports[0].device.as_str()), ("left", "other"));
    }

    #[test]
    fn a_device_that_leaves_a_bridge_of_the_kernel_is_still_there() {
        let mut lab = Lab::new();
        let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
        for port in ["l0", "r0"] {
            lab.veth(switch.end(port), host.end(port), &VethOptions::default()).unwrap();
        }
        let ip = |words: &str| {
            let output = switch.output(std::process::Command::new("ip").args(words.split(' '))).unwrap();
            assert!(output.status.success(), "ip {words}: {output:?}");
        };
        ip("link add br0 type bridge");
        ip("link set l0 master br0");
        let index = |name| {
            let mut devices = lab.devices().iter();
            devices.find(|it| it.name() == name && it.namespace().name() == "switch").unwrap().index()
        };
        let (view, inbox) = view_on([index("l0"), index("r0")]);
        let _control = switch.run(|| start(Arc::clone(&view), None, ())).unwrap();
        ip("link set l0 nomaster");
        ip("link set r0 down"); // said after all that there is to say about l0
        assert_eq!(next(&inbox), (PortId(1), false));
        assert_eq!(view.ports[0].link.get(), Link::Up);
    }
}
