//! Notifications about changes in a device's number of queues, from ethtool's netlink group `monitor`.
//!
//! rtnetlink reports only the maximum number (IFLA_NUM_RX_QUEUES). Polling would miss short changes, during which
//! frames are lost.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::attributes::{Attributes, attributes, find, message, text, word};
use crate::conversation::Conversation;
use crate::notifications::Subscription;

/// Message type GENL_ID_CTRL of generic netlink's controller (linux/genetlink.h).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY_GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
/// Command ETHTOOL_MSG_CHANNELS_NTF (linux/ethtool_netlink.h).
const CHANNELS_CHANGED: u8 = 19;
const CHANNELS_HEADER: u16 = 1;
const CHANNELS_RX: u16 = 6;
const CHANNELS_COMBINED: u16 = 9;
const HEADER_INDEX: u16 = 1;
const HEAD: usize = 4;
const ROOM: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    Changed {
        ifindex: u32,
        rx_queues: u32,
    },
    /// Notifications were lost, so the queues of any device may have changed.
    Missed,
}

#[derive(Debug)]
pub struct QueueMonitor {
    subscription: Subscription,
    family: u16,
}

impl QueueMonitor {
    /// Subscribes to the notifications; returns `None` if the kernel lacks ETHTOOL_NETLINK.
    pub fn open() -> io::Result<Option<QueueMonitor>> {
        let Some((family, group)) = family()? else { return Ok(None) };
        let subscription = Subscription::open(NETLINK_GENERIC, [group], ROOM)?;
        Ok(Some(QueueMonitor { subscription, family }))
    }

    pub fn take(&mut self) -> io::Result<Vec<QueueEvent>> {
        let mut events = Vec::new();
        self.subscription.read(|message| match message {
            Some(message) if message.message_type() == self.family => events.extend(event(message.payload())),
            Some(_) => {}
            None => events.push(QueueEvent::Missed),
        })?;
        Ok(events)
    }
}

fn family() -> io::Result<Option<(u16, u32)>> {
    let name = Attributes::default().text(FAMILY_NAME, "ethtool");
    let body = [&[GET_FAMILY, 1, 0, 0], name.as_bytes()].concat();
    let mut found = None;
    Conversation::over(NETLINK_GENERIC, 0)?.converse(
        &mut message(CONTROL, NLM_F_REQUEST | NLM_F_ACK, &body),
        |part| {
            let body = part.payload().get(HEAD..).unwrap_or_default();
            let id = find(body, FAMILY_ID).and_then(|id| id.first_chunk()).map(|&id| u16::from_ne_bytes(id));
            let groups = attributes(find(body, FAMILY_GROUPS).unwrap_or_default());
            let mut groups =
                groups.filter_map(|(_, group)| find(group, GROUP_NAME).zip(find(group, GROUP_ID)));
            let monitor = groups.find(|(name, _)| text(name) == "monitor");
            found = id.zip(monitor.map(|(_, number)| word(number, 0)));
        },
    )?;
    Ok(found) // the kernel refuses if the family does not exist
}

fn event(body: &[u8]) -> Option<QueueEvent> {
    let attributes = body.get(HEAD..).filter(|_| body[0] == CHANNELS_CHANGED)?;
    let number = |attributes, kind| find(attributes, kind).map(|number| word(number, 0));
    let ifindex = number(find(attributes, CHANNELS_HEADER)?, HEADER_INDEX)?;
    let counts = [CHANNELS_RX, CHANNELS_COMBINED].into_iter().filter_map(|kind| number(attributes, kind));
    Some(QueueEvent::Changed { ifindex, rx_queues: counts.sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_queue_events_are_ignored() {
        let header =
            Attributes::default().nested(CHANNELS_HEADER, &Attributes::default().u32(HEADER_INDEX, 7));
        let body = [&[CHANNELS_CHANGED, 1, 0, 0], header.as_bytes()].concat();
        assert_eq!(event(&body), Some(QueueEvent::Changed { ifindex: 7, rx_queues: 0 }));
        (0..body.len()).for_each(|len| assert_eq!(event(&body[..len]), None));
    }
}
