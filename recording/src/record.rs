//! Records of calls and answers at the boundary between driver and dataplane.

use xoff_dataplane::forward::MemberState;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::units::{Class, MacAddr, Nanos, PortId, Site};

/// Maximum recorded bytes of a received frame: all headers that a switch reads.
pub(crate) const HEAD_IN: usize = 144;
/// Maximum recorded bytes of a sent frame: all headers that a switch writes.
pub(crate) const HEAD_OUT: usize = 64;
const CONTROL_MAX: usize = 2_048;

/// Frame that enters or leaves the dataplane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing<'a> {
    pub port: PortId,
    pub slot: u32,
    pub len: u32,
    /// First bytes of the frame; all bytes of a MAC control frame.
    pub bytes: &'a [u8],
}

/// Call of a driver to its dataplane, or answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Call: a batch begins at this time.
    At(Nanos),
    /// Call: the worker stalled until this time
    /// ([`Switch::was_away`](xoff_dataplane::switch::Switch::was_away)).
    WasAway(Nanos),
    /// Call: due timers fire.
    Advance,
    /// Call: a frame arrives.
    Receive(Passing<'a>),
    /// Call: all frames that can move are forwarded.
    Forward,
    /// Call: up to this number of frames may be sent at the port.
    Transmit(PortId, u32),
    /// Call: the frame in this slot was sent at the port.
    Release(PortId, u32),
    /// Call: the frame in this slot will never be sent by the port.
    GiveUp(PortId, u32),
    /// Call: the driver fetches the port's next pause frame.
    Announce(PortId),
    /// Call: the port's link is up (true) or down.
    SetLink(PortId, bool),
    SetMac(PortId, MacAddr),
    /// Call: LACP sets whether the port, a group's member, accepts and sends data.
    SetMember(PortId, MemberState),
    /// Call: the switch stops, and sends XON to its peers.
    LetPeersGo,
    /// Call: a frame of this length is to be sent to the port's peer.
    Tell(PortId, u32, &'a [u8]),
    /// Call: the host sends a frame of this length.
    OfHost(Site, PortId, u32, &'a [u8]),

    /// Answer: the frame in this slot was freed.
    Freed(u32),
    /// Answer: the first slot's frame was copied to the second (`None`: no slot was free).
    Copied(u32, Option<u32>),
    /// Answer: a frame of this length was created (true: a control frame); `None`: no slot was free.
    Made(bool, u32, Option<u32>),
    /// Answer: the start of this slot's frame moved by this number of bytes (false: no space).
    Moved(u32, i32, bool),
    /// Answer: the dataplane hands a frame to the driver.
    Sent(Passing<'a>),
    /// Answer: an arriving frame was dropped.
    Refused(PortId, Class, DropReason),
    /// Answer: a frame was dropped, with the time since its arrival.
    Dropped(PortId, Class, DropReason, Nanos),
    /// Answer: a frame of this VLAN was punted; true if the sink accepted it.
    Punted(PortId, u16, PuntReason, bool),
    /// Answer: the call's return value.
    Gave(u32),
}

mod kind {
    pub(crate) const AT: u8 = 1;
    pub(crate) const WAS_AWAY: u8 = 2;
    pub(crate) const ADVANCE: u8 = 3;
    pub(crate) const RECEIVE: u8 = 4;
    pub(crate) const FORWARD: u8 = 5;
    pub(crate) const TRANSMIT: u8 = 6;
    pub(crate) const RELEASE: u8 = 7;
    pub(crate) const GIVE_UP: u8 = 8;
    pub(crate) const ANNOUNCE: u8 = 9;
    pub(crate) const SET_LINK: u8 = 10;
    pub(crate) const SET_MAC: u8 = 11;
    pub(crate) const SET_MEMBER: u8 = 15;
    pub(crate) const LET_PEERS_GO: u8 = 12;
    pub(crate) const TELL: u8 = 13;
    pub(crate) const OF_HOST: u8 = 14;
    /// Lowest kind of an answer. Kinds of calls have lower numbers.
    pub(crate) const FREED: u8 = 32;
    pub(crate) const COPIED: u8 = 33;
    pub(crate) const MADE: u8 = 34;
    pub(crate) const MOVED: u8 = 35;
    pub(crate) const SENT: u8 = 36;
    pub(crate) const REFUSED: u8 = 37;
    pub(crate) const DROPPED: u8 = 38;
    pub(crate) const PUNTED: u8 = 39;
    pub(crate) const GAVE: u8 = 40;
}

const NONE: u32 = u32::MAX;

/// Bytes of a record before the bytes of its frame.
pub const BEFORE_FRAME: usize = 10;

/// Returns port, frame length and direction (true: received) of a record with a frame.
#[must_use]
pub fn frame_of(record: &[u8]) -> Option<(PortId, u32, bool)> {
    match Record::read(record)? {
        Record::Receive(frame) => Some((frame.port, frame.len, true)),
        Record::Sent(frame) => Some((frame.port, frame.len, false)),
        _ => None,
    }
}

#[must_use]
pub fn is_call(record: &[u8]) -> bool {
    record.first().is_some_and(|kind| *kind < kind::FREED)
}

pub(crate) fn kept(head: &[u8], len: u32, most: usize) -> &[u8] {
    let is_control = head.get(12..14) == Some(&[0x88, 0x08]);
    let most = if is_control { CONTROL_MAX } else { most };
    &head[..head.len().min(len as usize).min(most)]
}

impl<'a> Record<'a> {
    pub fn write(&self, into: &mut Vec<u8>) {
        let mut put = |kind: u8, fields: &[&[u8]]| {
            into.push(kind);
            fields.iter().for_each(|field| into.extend_from_slice(field));
        };
        let of = |slot: Option<u32>| slot.unwrap_or(NONE).to_le_bytes();
        match *self {
            Record::At(now) => put(kind::AT, &[&now.0.to_le_bytes()]),
            Record::WasAway(now) => put(kind::WAS_AWAY, &[&now.0.to_le_bytes()]),
            Record::Advance => put(kind::ADVANCE, &[]),
            Record::Receive(Passing { port, slot, len, bytes }) => {
                put(kind::RECEIVE, &[&[port.0], &slot.to_le_bytes(), &len.to_le_bytes(), bytes]);
            }
            Record::Forward => put(kind::FORWARD, &[]),
            Record::Transmit(port, most) => put(kind::TRANSMIT, &[&[port.0], &most.to_le_bytes()]),
            Record::Release(port, slot) => put(kind::RELEASE, &[&[port.0], &slot.to_le_bytes()]),
            Record::GiveUp(port, slot) => put(kind::GIVE_UP, &[&[port.0], &slot.to_le_bytes()]),
            Record::Announce(port) => put(kind::ANNOUNCE, &[&[port.0]]),
            Record::SetLink(port, up) => put(kind::SET_LINK, &[&[port.0, up.into()]]),
            Record::SetMac(port, mac) => put(kind::SET_MAC, &[&[port.0], &mac.0]),
            Record::SetMember(port, state) => put(kind::SET_MEMBER, &[&[port.0, state as u8]]),
            Record::LetPeersGo => put(kind::LET_PEERS_GO, &[]),
            Record::Tell(port, len, bytes) => put(kind::TELL, &[&[port.0], &len.to_le_bytes(), bytes]),
            Record::OfHost(site, port, len, bytes) => {
                let (is_vlan, at) = match site {
                    Site::Port(at) => (0, u16::from(at.0)),
                    Site::Vlan(vid) => (1, vid),
                };
                put(kind::OF_HOST, &[&[is_vlan], &at.to_le_bytes(), &[port.0], &len.to_le_bytes(), bytes]);
            }
            Record::Freed(slot) => put(kind::FREED, &[&slot.to_le_bytes()]),
            Record::Copied(from, to) => put(kind::COPIED, &[&from.to_le_bytes(), &of(to)]),
            Record::Made(is_control, len, slot) => {
                put(kind::MADE, &[&[is_control.into()], &len.to_le_bytes(), &of(slot)]);
            }
            Record::Moved(slot, by, done) => {
                put(kind::MOVED, &[&slot.to_le_bytes(), &by.to_le_bytes(), &[done.into()]]);
            }
            Record::Sent(Passing { port, slot, len, bytes }) => {
                put(kind::SENT, &[&[port.0], &slot.to_le_bytes(), &len.to_le_bytes(), bytes]);
            }
            Record::Refused(port, class, reason) => {
                put(kind::REFUSED, &[&[port.0, class.get(), number(reason.index())]])
            }
            Record::Dropped(port, class, reason, after) => {
                put(kind::DROPPED, &[&[port.0, class.get(), number(reason.index())], &after.0.to_le_bytes()]);
            }
            Record::Punted(port, vid, reason, taken) => {
                put(kind::PUNTED, &[&[port.0], &vid.to_le_bytes(), &[number(reason.index()), taken.into()]]);
            }
            Record::Gave(value) => put(kind::GAVE, &[&value.to_le_bytes()]),
        }
    }

    /// Parses exactly one record; returns `None` if `bytes` are malformed.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (&kind, bytes) = bytes.split_first()?;
        let mut rest = Rest(bytes);
        let record = match kind {
            kind::AT => Record::At(Nanos(rest.long()?)),
            kind::WAS_AWAY => Record::WasAway(Nanos(rest.long()?)),
            kind::ADVANCE => Record::Advance,
            kind::RECEIVE => Record::Receive(rest.passing()?),
            kind::FORWARD => Record::Forward,
            kind::TRANSMIT => Record::Transmit(rest.port()?, rest.word()?),
            kind::RELEASE => Record::Release(rest.port()?, rest.word()?),
            kind::GIVE_UP => Record::GiveUp(rest.port()?, rest.word()?),
            kind::ANNOUNCE => Record::Announce(rest.port()?),
            kind::SET_LINK => Record::SetLink(rest.port()?, rest.flag()?),
            kind::SET_MAC => Record::SetMac(rest.port()?, MacAddr(rest.take()?)),
            kind::SET_MEMBER => {
                let (port, state) = (rest.port()?, u8::from_le_bytes(rest.take()?));
                Record::SetMember(port, *MemberState::ALL.get(usize::from(state))?)
            }
            kind::LET_PEERS_GO => Record::LetPeersGo,
            kind::TELL => Record::Tell(rest.port()?, rest.word()?, rest.all()),
            kind::OF_HOST => {
                let (is_vlan, at) = (rest.flag()?, u16::from_le_bytes(rest.take()?));
                let site = if is_vlan { Site::Vlan(at) } else { Site::Port(PortId(u8::try_from(at).ok()?)) };
                Record::OfHost(site, rest.port()?, rest.word()?, rest.all())
            }
            kind::FREED => Record::Freed(rest.word()?),
            kind::COPIED => Record::Copied(rest.word()?, rest.slot()?),
            kind::MADE => Record::Made(rest.flag()?, rest.word()?, rest.slot()?),
            kind::MOVED => Record::Moved(rest.word()?, i32::from_le_bytes(rest.take()?), rest.flag()?),
            kind::SENT => Record::Sent(rest.passing()?),
            kind::REFUSED => Record::Refused(rest.port()?, rest.class()?, rest.drop_reason()?),
            kind::DROPPED => {
                Record::Dropped(rest.port()?, rest.class()?, rest.drop_reason()?, Nanos(rest.long()?))
            }
            kind::PUNTED => {
                let (port, vid) = (rest.port()?, u16::from_le_bytes(rest.take()?));
                let [reason] = rest.take()?;
                Record::Punted(port, vid, *PuntReason::ALL.get(usize::from(reason))?, rest.flag()?)
            }
            kind::GAVE => Record::Gave(rest.word()?),
            _ => return None,
        };
        rest.0.is_empty().then_some(record)
    }

    #[must_use]
    pub fn describe(&self, names: &[String]) -> String {
        let at =
            |port: PortId| names.get(port.index()).map_or_else(|| format!("port {}", port.0), Clone::clone);
        match *self {
            Record::At(now) => format!("a batch begins at {} ns", now.0),
            Record::WasAway(now) => format!("the worker was stalled until {} ns", now.0),
            Record::Advance => "due timers fire".into(),
            Record::Receive(frame) => format!("{}: {} arrives", at(frame.port), frame.describe()),
            Record::Forward => "the pipeline moves frames".into(),
            Record::Transmit(port, most) => format!("{}: at most {most} frames may be sent", at(port)),
            Record::Release(port, slot) => format!("{}: the frame in slot {slot} was sent", at(port)),
            Record::GiveUp(port, slot) => {
                format!("{}: the frame in slot {slot} will never be sent", at(port))
            }
            Record::Announce(port) => format!("{}: the driver requests a pause frame", at(port)),
            Record::SetLink(port, true) => format!("{}: the link is up", at(port)),
            Record::SetLink(port, false) => format!("{}: the link is down", at(port)),
            Record::SetMac(port, mac) => format!("{}: the device has address {mac}", at(port)),
            Record::SetMember(port, state) => {
                format!("{}: LACP state of the member is {}", at(port), state.name())
            }
            Record::LetPeersGo => "the switch sends XON to all peers".into(),
            Record::Tell(port, len, _) => {
                format!("{}: a frame of {len} bytes is to be sent to the peer", at(port))
            }
            Record::OfHost(_, port, len, _) => format!("{}: the host sends a frame of {len} bytes", at(port)),
            Record::Freed(slot) => format!("the frame in slot {slot} is freed"),
            Record::Copied(from, to) => format!("the frame in slot {from} is copied to {}", slot_name(to)),
            Record::Made(true, len, slot) => {
                format!("a control frame of {len} bytes is created in {}", slot_name(slot))
            }
            Record::Made(false, len, slot) => {
                format!("a frame of {len} bytes is created in {}", slot_name(slot))
            }
            Record::Moved(slot, by, done) => {
                let done = if done { "" } else { " (refused: the slot lacks bytes before the frame)" };
                format!("the start of the frame in slot {slot} moves by {by} bytes{done}")
            }
            Record::Sent(frame) => format!("{}: {} is sent", at(frame.port), frame.describe()),
            Record::Refused(port, class, reason) => {
                format!("{}: an arriving frame of class {class} is dropped ({})", at(port), reason.name())
            }
            Record::Dropped(port, class, reason, after) => {
                format!(
                    "{}: a frame of class {class} is dropped ({}) {} ns after its arrival",
                    at(port),
                    reason.name(),
                    after.0
                )
            }
            Record::Punted(port, _, reason, taken) => {
                let taken = if taken { "accepted" } else { "refused" };
                format!("{}: a frame is punted ({}), and the punt is {taken}", at(port), reason.name())
            }
            Record::Gave(value) => format!("the call returns {value}"),
        }
    }
}

impl Passing<'_> {
    fn describe(&self) -> String {
        let hex: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("the frame of {} bytes in slot {} ({hex})", self.len, self.slot)
    }
}

fn slot_name(slot: Option<u32>) -> String {
    slot.map_or_else(|| "no slot, because none is free".into(), |slot| format!("slot {slot}"))
}

fn number(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn slot(&mut self) -> Option<Option<u32>> {
        self.word().map(|slot| (slot != NONE).then_some(slot))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn port(&mut self) -> Option<PortId> {
        self.take().map(|[port]| PortId(port))
    }

    fn class(&mut self) -> Option<Class> {
        self.take().and_then(|[class]| Class::new(class))
    }

    fn drop_reason(&mut self) -> Option<DropReason> {
        self.take().and_then(|[reason]| DropReason::ALL.get(usize::from(reason)).copied())
    }

    fn passing(&mut self) -> Option<Passing<'a>> {
        Some(Passing { port: self.port()?, slot: self.word()?, len: self.word()?, bytes: self.all() })
    }
}
