//! Follows the links of the ports over netlink: RTM_NEWLINK and RTM_DELLINK as they come, and a dump
//! of everything at start and whenever the kernel says that messages were lost.

use std::io;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkFlags, LinkMessage};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{Handle, MulticastGroup, new_multicast_connection};
use xoff_dataplane::units::PortId;

use super::mailbox::Request;
use super::view::{Link, SwitchView};

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

    /// Follows until dropped.
    pub async fn follow(self) {
        let Follower { view, handle, mut messages, connection } = self;
        let watch = async {
            read_all(&view, &handle).await;
            while let Some((message, _)) = messages.next().await {
                match message.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                        observe(&view, link.header.index, state(&link));
                    }
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                        observe(&view, link.header.index, Link::Gone);
                    }
                    NetlinkPayload::Overrun(_) => read_all(&view, &handle).await,
                    _ => {}
                }
            }
        };
        tokio::join!(connection, watch);
        tracing::error!("netlink closed its socket: link changes are not followed any more");
        std::future::pending().await
    }
}

async fn read_all(view: &SwitchView, handle: &Handle) {
    let mut present = Vec::new();
    let mut links = handle.link().get().execute();
    while let Some(link) = links.next().await {
        match link {
            Ok(link) => {
                observe(view, link.header.index, state(&link));
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

fn state(link: &LinkMessage) -> Link {
    let needed = LinkFlags::Up | LinkFlags::LowerUp;
    if link.header.flags.contains(needed) { Link::Up } else { Link::Down }
}

fn observe(view: &SwitchView, ifindex: u32, link: Link) {
    for (id, port) in view.ports().filter(|(_, port)| port.ifindex == ifindex) {
        if port.link.replace(link) == link {
            continue;
        }
        let (name, device) = (&view.settings.ports[id.index()].name, &port.device);
        match link {
            Link::Up => tracing::info!(port = %name, %device, "link up"),
            Link::Down => tracing::warn!(port = %name, %device, "link down"),
            Link::Gone => {
                tracing::error!(port = %name, %device, "the device is gone; make it anew and restart")
            }
        }
        tell_workers(view, id, link == Link::Up);
    }
}

fn tell_workers(view: &SwitchView, port: PortId, up: bool) {
    for worker in &view.workers {
        // A worker that has ended forwards nothing, over whichever link.
        let _ = worker.mailbox.send(Request::Link { port, up });
    }
}
