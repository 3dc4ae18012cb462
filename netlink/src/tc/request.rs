use std::fmt;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};

use crate::attributes::{Attributes, message};

pub(crate) const TC_HEADER: usize = 20;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

/// Handle of a traffic-control object, which `tc` prints as hexadecimal `major:minor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// Handle that names no object. In a request, it lets the kernel choose a handle.
    pub const NONE: Handle = Handle(0);
    pub const ROOT: Handle = Handle(0xffff_ffff);
    pub const CLSACT: Handle = Handle(0xffff_fff1);
    pub const EGRESS: Handle = Handle(0xffff_fff3);
    pub const INGRESS: Handle = Handle(0xffff_fff2);

    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Handle {
        Handle((major as u32) << 16 | minor as u32)
    }

    /// Returns the major number, which a queueing discipline shares with its classes.
    #[must_use]
    pub const fn major(self) -> u16 {
        let [high, low, ..] = self.0.to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Handle::NONE => f.write_str("none"),
            Handle::ROOT => f.write_str("root"),
            Handle(both) if both & 0xffff == 0 => write!(f, "{:x}:", both >> 16),
            Handle(both) => write!(f, "{:x}:{:x}", both >> 16, both & 0xffff),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Device index in the socket's network namespace.
    pub ifindex: i32,
    pub parent: Handle,
    pub handle: Handle,
}

/// Encoded request, which can be [sent](crate::Conversation::send) any number of times.
#[derive(Clone, Debug)]
pub struct Request {
    what: String,
    bytes: Vec<u8>,
}

impl Request {
    pub(crate) fn new(
        kind: u16,
        flags: u16,
        place: Place,
        info: u32,
        body: Option<(&str, &Attributes)>,
        what: String,
    ) -> Request {
        let mut attributes = Attributes::default();
        if let Some((kind, options)) = body {
            attributes = attributes.text(TCA_KIND, kind);
            if !options.as_bytes().is_empty() {
                attributes = attributes.bytes(TCA_OPTIONS, options.as_bytes());
            }
        }
        Request::raw(kind, flags | NLM_F_REQUEST | NLM_F_ACK, place, info, attributes.as_bytes(), what)
    }

    pub(crate) fn raw(
        kind: u16,
        flags: u16,
        place: Place,
        info: u32,
        attributes: &[u8],
        what: String,
    ) -> Request {
        let head = [0, place.ifindex.cast_unsigned(), place.handle.0, place.parent.0, info];
        let bytes = message(kind, flags, &[&head.map(u32::to_ne_bytes).concat(), attributes].concat());
        Request { what, bytes }
    }

    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

pub(crate) fn description(verb: &str, kind: &str, place: Place) -> String {
    let Place { ifindex, parent, handle } = place;
    let number = if handle == Handle::NONE { String::new() } else { format!(" {handle}") };
    format!("{verb} {kind}{number} below {parent} at device {ifindex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qdisc_handle_is_printed_as_in_tc_output() {
        let handles = [Handle::new(0x786e, 0x13), Handle::new(0xff, 0), Handle::ROOT, Handle::NONE];
        assert_eq!(handles.map(|handle| handle.to_string()), ["786e:13", "ff:", "root", "none"]);
        assert_eq!(Handle::new(0x786e, 0x13).major(), 0x786e);
    }
}
