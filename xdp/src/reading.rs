//! The device of a port, asked by its index: its drop counters, and which XDP program it runs.
//!
//! By netlink, in the network namespace where the port was opened: a device is read under whatever name it has
//! meanwhile, where nothing is mounted, and whichever thread asks. The kernel answers such a question before it
//! returns from taking it, so that a plain blocking socket does.

use std::io;
use std::sync::{Mutex, PoisonError};

use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage, LinkXdp, Stats64};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames that a device lost by its own account, since the port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDrops {
    /// Dropped on receive, or missed for want of buffers.
    pub rx_dropped: u64,
    /// Received with errors.
    pub rx_errors: u64,
    /// Dropped on transmit.
    pub tx_dropped: u64,
    /// Transmit errors.
    pub tx_errors: u64,
}

impl DeviceDrops {
    /// These, but of what came in as it was `before`.
    #[must_use]
    pub const fn but_received(self, before: DeviceDrops) -> DeviceDrops {
        DeviceDrops { rx_dropped: before.rx_dropped, rx_errors: before.rx_errors, ..self }
    }

    /// All of them, by name.
    #[must_use]
    pub const fn losses(&self) -> [(&'static str, u64); 4] {
        [
            ("rx_dropped", self.rx_dropped),
            ("rx_errors", self.rx_errors),
            ("tx_dropped", self.tx_dropped),
            ("tx_errors", self.tx_errors),
        ]
    }

    /// All of them added up.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().iter().map(|(_, frames)| frames).sum()
    }

    /// These and those of another device that the port had.
    #[must_use]
    pub fn and(self, other: DeviceDrops) -> DeviceDrops {
        DeviceDrops {
            rx_dropped: self.rx_dropped + other.rx_dropped,
            rx_errors: self.rx_errors + other.rx_errors,
            tx_dropped: self.tx_dropped + other.tx_dropped,
            tx_errors: self.tx_errors + other.tx_errors,
        }
    }

    /// What was added since `start`; `None` where a counter is behind it.
    pub(crate) fn since(self, start: DeviceDrops) -> Option<DeviceDrops> {
        Some(DeviceDrops {
            rx_dropped: self.rx_dropped.checked_sub(start.rx_dropped)?,
            rx_errors: self.rx_errors.checked_sub(start.rx_errors)?,
            tx_dropped: self.tx_dropped.checked_sub(start.tx_dropped)?,
            tx_errors: self.tx_errors.checked_sub(start.tx_errors)?,
        })
    }
}

/// What one look at a device finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Since the device was made.
    pub(crate) drops: DeviceDrops,
    /// Id of the XDP program that it runs; 0: none.
    pub(crate) program: u32,
}

/// Asks about one device.
#[derive(Debug)]
pub(crate) struct Reader {
    ifindex: u32,
    questions: Mutex<Questions>,
}

#[derive(Debug)]
struct Questions {
    socket: Socket,
    asked: u32,
}

impl Reader {
    /// For the device of that index in the network namespace of the calling thread.
    pub(crate) fn open(ifindex: u32) -> io::Result<Reader> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Reader { ifindex, questions: Mutex::new(Questions { socket, asked: 0 }) })
    }

    /// What the kernel says now.
    pub(crate) fn read(&self) -> io::Result<Reading> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.ask(self.ifindex).and_then(|link| reading(&link))
    }
}

impl Questions {
    fn ask(&mut self, ifindex: u32) -> io::Result<LinkMessage> {
        let mut link = LinkMessage::default();
        link.header.index = ifindex;
        let mut question = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
        self.asked = self.asked.wrapping_add(1);
        question.header.flags = NLM_F_REQUEST;
        question.header.sequence_number = self.asked;
        question.finalize();
        let mut bytes = vec![0; question.buffer_len()];
        question.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).map_err(io::Error::other)?;
            if answer.header.sequence_number != self.asked {
                continue; // of a question that was given up
            }
            return match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(link),
                NetlinkPayload::Error(error) => Err(error.to_io()),
                other => {
                    Err(io::Error::other(format!("netlink answers a question for a link with {other:?}")))
                }
            };
        }
    }
}

fn reading(link: &LinkMessage) -> io::Result<Reading> {
    let stats = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Stats64(stats) => Some(drops(stats)),
        _ => None,
    });
    let program = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(facts) => Some(program(facts)),
        _ => None,
    });
    let missing = || io::Error::other("the kernel says nothing of the counters of the device");
    Ok(Reading { drops: stats.ok_or_else(missing)?, program: program.unwrap_or(0) })
}

fn drops(stats: &Stats64) -> DeviceDrops {
    DeviceDrops {
        rx_dropped: stats.rx_dropped + stats.rx_missed_errors,
        rx_errors: stats.rx_errors,
        tx_dropped: stats.tx_dropped,
        tx_errors: stats.tx_errors,
    }
}

/// Id of the XDP program that a device runs; 0: none. One that has several (one in the driver, one in the hardware) names
/// each by its place.
pub(crate) fn program(facts: &[LinkXdp]) -> u32 {
    let id = |fact: &LinkXdp| match fact {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
            Some(*id)
        }
        _ => None,
    };
    facts.iter().filter_map(id).find(|&id| id != 0).unwrap_or(0)
}
