use netlink_packet_core::{
    NLA_F_NESTED, NLA_HEADER_SIZE, NetlinkBuffer, NetlinkDeserializable as _, NetlinkHeader, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;

pub(crate) const HEADER: usize = 16;

pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER + body.len()).expect("a netlink message must be shorter than 4 GiB");
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
}

pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = NetlinkBuffer<&[u8]>> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(bytes).ok()?;
        let len = usize::try_from(message.length()).ok()?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

pub(crate) fn read(message: &NetlinkBuffer<&[u8]>) -> Option<RouteNetlinkMessage> {
    let mut header = NetlinkHeader::default();
    header.message_type = message.message_type();
    RouteNetlinkMessage::deserialize(&header, message.payload()).ok()
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Attributes {
        let len = u16::try_from(NLA_HEADER_SIZE + value.len())
            .expect("a netlink attribute must be shorter than 64 KiB");
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn u16(self, kind: u16, value: u16) -> Attributes {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn u32(self, kind: u16, value: u32) -> Attributes {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn u64(self, kind: u16, value: u64) -> Attributes {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Attributes {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(crate) fn nested(self, kind: u16, inner: &Attributes) -> Attributes {
        self.bytes(kind | NLA_F_NESTED, &inner.0)
    }

    pub(crate) fn words(self, kind: u16, words: &[u32]) -> Attributes {
        self.bytes(kind, Attributes::plain(words).as_bytes())
    }

    pub(crate) fn plain(words: &[u32]) -> Attributes {
        Attributes(words.iter().copied().flat_map(u32::to_ne_bytes).collect())
    }

    pub(crate) fn read(bytes: &[u8]) -> Attributes {
        Attributes(bytes.to_vec())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|attribute| {
        let (kind, len) = (attribute.kind(), usize::from(attribute.length()));
        (kind, &attribute.into_inner()[NLA_HEADER_SIZE..len])
    })
}

pub(crate) fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

pub(crate) fn word(value: &[u8], index: usize) -> u32 {
    value.get(index * 4..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u32::from_ne_bytes(bytes))
}

pub(crate) fn long(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |&bytes| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn netlink_attributes_are_read_as_written_unless_truncated() {
        let inner = Attributes::default().u16(1, 7).u64(2, 1 << 40);
        let outer = Attributes::default().text(1, "htb").nested(2, &inner).u32(3, 5);
        let bytes = outer.as_bytes();
        assert_eq!(text(find(bytes, 1).unwrap()), "htb");
        let nested = find(bytes, 2).unwrap();
        assert_eq!(
            (find(nested, 1).unwrap(), long(find(nested, 2).unwrap())),
            (&7u16.to_ne_bytes()[..], 1 << 40)
        );
        assert_eq!(word(find(bytes, 3).unwrap(), 0), 5);
        assert_eq!((find(bytes, 4), find(&bytes[..bytes.len() - 1], 3)), (None, None));
        assert!(messages(&[0; 16]).next().is_none() && messages(&[255; 40]).next().is_none());
        assert_eq!((word(&[1, 2, 3], 0), long(&[0; 7]), text(b"plug")), (0, 0, "plug".to_owned()));
    }
}
