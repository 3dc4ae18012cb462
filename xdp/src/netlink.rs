//! What rtnetlink knows and does about a device: its facts, its counters, up and down, its queueing
//! discipline.

use std::io;

use futures::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Error, Handle, LinkUnspec};
use tokio::runtime::{Builder, Runtime};
use xoff_dataplane::units::MacAddr;

/// The queueing discipline that says busy instead of dropping.
pub(crate) const PFIFO: &str = "pfifo";

/// Where filters of a device hang that are for what it is given to send.
const CLSACT: &str = "clsact";

/// A device as the kernel shows it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) ifindex: i32,
    pub(crate) mac: MacAddr,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) qdisc: String,
}

/// A conversation with the kernel, about one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    runtime: Runtime,
    handle: Handle,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let guard = runtime.enter();
        let (connection, handle, _) = rtnetlink::new_connection()?;
        drop(guard);
        runtime.spawn(connection);
        Ok(Netlink { runtime, handle })
    }

    /// `None`: there is no such device.
    pub(crate) fn link(&self, device: &str) -> io::Result<Option<Link>> {
        let mut links = self.handle.link().get().match_name(device.to_owned()).execute();
        match self.runtime.block_on(links.try_next()) {
            Ok(link) => Ok(link.map(|link| read(&link))),
            Err(Error::NetlinkError(error)) if error.to_io().raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(to_io(error)),
        }
    }

    pub(crate) fn set_up(&self, ifindex: i32, up: bool) -> io::Result<()> {
        let link = LinkUnspec::new_with_index(ifindex.cast_unsigned());
        let link = if up { link.up() } else { link.down() };
        self.runtime.block_on(self.handle.link().set(link.build()).execute()).map_err(to_io)
    }

    /// Puts a pfifo on a device that has no queueing discipline. `major`: of its handle; 0: the kernel's choice.
    pub(crate) fn add_pfifo(&self, ifindex: i32, major: u16) -> io::Result<()> {
        let mut qdisc = root(ifindex);
        qdisc.header.handle.major = major;
        qdisc.attributes.push(TcAttribute::Kind(PFIFO.to_owned()));
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Gives the device a clsact, where filters are. False where it has one.
    pub(crate) fn add_clsact(&self, ifindex: i32) -> io::Result<bool> {
        let mut qdisc = clsact(ifindex);
        qdisc.attributes.push(TcAttribute::Kind(CLSACT.to_owned()));
        match self.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), NLM_F_CREATE | NLM_F_EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Takes the clsact away, with all filters.
    pub(crate) fn remove_clsact(&self, ifindex: i32) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelQueueDiscipline(clsact(ifindex)), 0)
    }

    /// Whether the device has a pfifo with that major number.
    pub(crate) fn has_pfifo(&self, ifindex: i32, major: u16) -> io::Result<bool> {
        let pfifo = TcAttribute::Kind(PFIFO.to_owned());
        let ours = |qdisc: &TcMessage| {
            (qdisc.header.index, qdisc.header.handle.major) == (ifindex, major)
                && qdisc.attributes.contains(&pfifo)
        };
        let qdiscs = self.handle.qdisc().get().index(ifindex).execute();
        let qdiscs: Vec<TcMessage> = self.runtime.block_on(qdiscs.try_collect()).map_err(to_io)?;
        Ok(qdiscs.iter().any(ours))
    }

    /// Takes the queueing discipline away: the device has its default again.
    pub(crate) fn remove_qdisc(&self, ifindex: i32) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelQueueDiscipline(root(ifindex)), 0)
    }

    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut handle = self.handle.clone();
        self.runtime.block_on(async {
            let mut answers = handle.request(request).map_err(to_io)?;
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload
                    && error.code.is_some()
                {
                    return Err(error.to_io());
                }
            }
            Ok(())
        })
    }
}

fn root(ifindex: i32) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex);
    message.header.parent = TcHandle::ROOT;
    message
}

fn clsact(ifindex: i32) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex);
    message.header.parent = TcHandle { major: 0xffff, minor: 0xfff1 };
    message.header.handle = TcHandle { major: 0xffff, minor: 0 };
    message
}

fn to_io(error: Error) -> io::Error {
    match error {
        Error::NetlinkError(error) => error.to_io(),
        error => io::Error::other(error),
    }
}

fn read(message: &LinkMessage) -> Link {
    let mut link = Link {
        ifindex: message.header.index.cast_signed(),
        mac: MacAddr::default(),
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        qdisc: String::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(octets) => {
                link.mac = octets.as_slice().try_into().map(MacAddr).unwrap_or_default();
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Qdisc(name) => link.qdisc.clone_from(name),
            _ => {}
        }
    }
    link
}
