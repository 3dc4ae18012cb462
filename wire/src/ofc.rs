//! OFC extension of PFC: a list of flows of one class, to pause or resume.
//!
//! The format is xoff's own, because the OFC paper (section III-A) defines none. The list is in the padding of a PFC
//! frame.
//!
//! By offset in the frame:
//!
//! * 34-37: magic "OFC1"
//! * 38: operation; 1 pauses these flows, 2 resumes them
//! * 39: class, 0..=7
//! * 40-41: flow count, at least 1
//! * 42..: the flows. Each has family (4, 6 or 0), protocol, ports and addresses, source before destination. Family 0 has MAC
//!   addresses, and the EtherType as source port
//!
//! A peer without this extension reads a pause of flows as a pause of the whole class. A resume enables no class in the
//! PFC frame, because other flows may stay paused.

use super::flow::FlowKey;
use super::header::Header;
use super::mac_control::{LEN, MacControl, MacControlError, Pfc};
use crate::units::{Class, ClassSet, MacAddr, Quanta};

/// Maximum length in bytes, without FCS, of a frame with a flow list, so that every station can receive it.
pub const LEN_MAX: usize = 1514;

mod field {
    use std::ops::Range;

    pub const MAGIC: Range<usize> = 34..38;
    pub const OPERATION: usize = 38;
    pub const CLASS: usize = 39;
    pub const COUNT: Range<usize> = 40..42;
    pub const FLOWS: usize = 42;
    /// Length in bytes of a flow's family, protocol and ports.
    pub const FLOW_HEAD: usize = 6;
}

const MAGIC: [u8; 4] = *b"OFC1";

/// Operation on the listed flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Operation {
    /// Pauses the flows for this nonzero time.
    Pause(Quanta),
    Resume,
}

/// Well-formed flow list in a PFC frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct FlowPause<'a> {
    pub operation: Operation,
    pub class: Class,
    flows: &'a [u8],
}

impl<'a> FlowPause<'a> {
    /// Parses the flow list of `frame`, whose PFC fields are `pfc`; `None` if it carries no list.
    ///
    /// # Errors
    /// Fails if the list is malformed. The frame must then pause nothing.
    pub fn parse(pfc: &Pfc, frame: &'a [u8]) -> Result<Option<FlowPause<'a>>, MacControlError> {
        if frame.get(field::MAGIC) != Some(&MAGIC) {
            return Ok(None);
        }
        FlowPause::read(pfc, frame).map(Some).ok_or(MacControlError::FlowList)
    }

    /// Parses the flow list of a MAC control frame; `None` if it carries none.
    ///
    /// # Errors
    /// Fails if the frame must pause nothing.
    pub fn of_frame(header: &Header, frame: &'a [u8]) -> Result<Option<FlowPause<'a>>, MacControlError> {
        match MacControl::parse(header, frame)? {
            MacControl::Pfc(pfc) => FlowPause::parse(&pfc, frame),
            MacControl::Pause(_) => Ok(None),
        }
    }

    /// Returns the flows in order.
    pub fn flows(&self) -> impl Iterator<Item = FlowKey> + use<'a> {
        let mut rest = self.flows;
        std::iter::from_fn(move || {
            let (flow, len) = decode(rest)?;
            rest = &rest[len..];
            Some(flow)
        })
    }

    fn read(pfc: &Pfc, frame: &'a [u8]) -> Option<FlowPause<'a>> {
        let class = Class::new(*frame.get(field::CLASS)?)?;
        let named: ClassSet = [class].into_iter().collect();
        let time = pfc.times[class.index()];
        let operation = match *frame.get(field::OPERATION)? {
            1 if pfc.classes == named && time != Quanta(0) => Operation::Pause(time),
            2 if pfc.classes.is_empty() => Operation::Resume,
            _ => return None,
        };
        let &[high, low] = frame.get(field::COUNT)? else { return None };
        let list = &frame[field::FLOWS..];
        let mut len = 0;
        for _ in 0..u16::from_be_bytes([high, low]) {
            len += decode(&list[len..])?.1;
        }
        (len > 0).then_some(FlowPause { operation, class, flows: &list[..len] })
    }
}

/// Writer of a PFC frame with a flow list.
#[derive(Debug)]
pub struct FlowPauseWriter<'a> {
    bytes: &'a mut [u8],
    len: usize,
    count: u16,
}

impl<'a> FlowPauseWriter<'a> {
    /// Starts a frame in `bytes`, whose length (at least [`LEN`]) limits the frame.
    pub fn new(bytes: &'a mut [u8], src: MacAddr, operation: Operation, class: Class) -> FlowPauseWriter<'a> {
        let (pfc, code) = match operation {
            Operation::Pause(time) => (Pfc::default().with(class, time), 1),
            Operation::Resume => (Pfc::default(), 2),
        };
        bytes[..LEN].copy_from_slice(&MacControl::Pfc(pfc).encode(src));
        bytes[field::MAGIC].copy_from_slice(&MAGIC);
        bytes[field::OPERATION] = code;
        bytes[field::CLASS] = class.get();
        FlowPauseWriter { bytes, len: field::FLOWS, count: 0 }
    }

    /// Adds a flow. Returns false, and changes nothing, if the frame has no space.
    pub fn push(&mut self, flow: &FlowKey) -> bool {
        let Some(room) = self.bytes.get_mut(self.len..self.len + encoded_len(flow)) else { return false };
        encode(flow, room);
        self.len += room.len();
        self.count += 1;
        self.bytes[field::COUNT].copy_from_slice(&self.count.to_be_bytes());
        true
    }

    /// Returns the number of flows.
    #[must_use]
    pub const fn flows(&self) -> u16 {
        self.count
    }

    /// Returns the frame, without FCS.
    #[must_use]
    pub fn finish(self) -> &'a [u8] {
        let len = self.len.max(LEN);
        &self.bytes[..len]
    }
}

fn encoded_len(flow: &FlowKey) -> usize {
    let addresses = match flow {
        FlowKey::V4 { .. } => 8,
        FlowKey::V6 { .. } => 32,
        FlowKey::L2 { .. } => 12,
    };
    field::FLOW_HEAD + addresses
}

fn encode(flow: &FlowKey, bytes: &mut [u8]) {
    let (head, addresses) = bytes.split_at_mut(field::FLOW_HEAD);
    let (to_src, to_dst) = addresses.split_at_mut(addresses.len() / 2);
    let (family, protocol, [source, destination]) = match flow {
        FlowKey::V4 { protocol, ports, src, dst } => {
            to_src.copy_from_slice(src);
            to_dst.copy_from_slice(dst);
            (4, *protocol, *ports)
        }
        FlowKey::V6 { protocol, ports, src, dst } => {
            to_src.copy_from_slice(src);
            to_dst.copy_from_slice(dst);
            (6, *protocol, *ports)
        }
        FlowKey::L2 { src, dst, ether_type } => {
            to_src.copy_from_slice(&src.0);
            to_dst.copy_from_slice(&dst.0);
            (0, 0, [*ether_type, 0])
        }
    };
    let ([s0, s1], [d0, d1]) = (source.to_be_bytes(), destination.to_be_bytes());
    head.copy_from_slice(&[family, protocol, s0, s1, d0, d1]);
}

fn decode(bytes: &[u8]) -> Option<(FlowKey, usize)> {
    let (&[family, protocol, s0, s1, d0, d1], addresses) = bytes.split_first_chunk()?;
    let ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
    let flow = match family {
        4 => {
            let (src, dst) = pair(addresses)?;
            FlowKey::V4 { protocol, ports, src, dst }
        }
        6 => {
            let (src, dst) = pair(addresses)?;
            FlowKey::V6 { protocol, ports, src, dst }
        }
        0 => {
            let (src, dst) = pair(addresses)?;
            FlowKey::L2 { src: MacAddr(src), dst: MacAddr(dst), ether_type: ports[0] }
        }
        _ => return None,
    };
    Some((flow, encoded_len(&flow)))
}

fn pair<const N: usize>(bytes: &[u8]) -> Option<([u8; N], [u8; N])> {
    let (src, rest) = bytes.split_first_chunk()?;
    Some((*src, *rest.first_chunk()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_flow;
    use xoff_explore::explore;

    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const C3: Class = Class::ALL[3];

    fn v4(port: u16) -> FlowKey {
        FlowKey::V4 { protocol: 17, ports: [port, 4791], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] }
    }

    fn frame(operation: Operation, class: Class, flows: &[FlowKey]) -> Vec<u8> {
        let mut bytes = [0xee; LEN_MAX];
        let mut writer = FlowPauseWriter::new(&mut bytes, SRC, operation, class);
        flows.iter().for_each(|flow| assert!(writer.push(flow)));
        writer.finish().to_vec()
    }

    fn parse(bytes: &[u8]) -> Result<Option<FlowPause<'_>>, MacControlError> {
        FlowPause::of_frame(&Header::parse(bytes).unwrap(), bytes)
    }

    #[test] // proves: ofc-flows
    fn flow_pause_bytes_match_documentation() {
        let bytes = frame(Operation::Pause(Quanta(0x1234)), C3, &[v4(0xc001)]);
        let plain = MacControl::Pfc(Pfc::default().with(C3, Quanta(0x1234))).encode(SRC);
        assert_eq!(bytes[..34], plain[..34], "before its padding, the frame must equal a plain PFC frame");
        let expected = [
            0x4f, 0x46, 0x43, 0x31, // OFC1
            1, 3, 0, 1, // pause, class, count
            4, 17, 0xc0, 0x01, 0x12, 0xb7, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        assert_eq!(bytes[34..56], expected);
        assert_eq!(bytes[56..], [0; 4], "padding");
    }

    #[test]
    fn flow_entry_length_depends_on_address_family() {
        let v6 = FlowKey::V6 { protocol: 6, ports: [1, 2], src: [3; 16], dst: [4; 16] };
        let l2 = FlowKey::L2 { src: MacAddr([5; 6]), dst: MacAddr([6; 6]), ether_type: 0x88b5 };
        let bytes = frame(Operation::Pause(Quanta(1)), C3, &[v6, l2]);
        assert_eq!(bytes[42..48], [6, 6, 0, 1, 0, 2]);
        assert_eq!((&bytes[48..64], &bytes[64..80]), (&[3; 16][..], &[4; 16][..]));
        assert_eq!(bytes[80..86], [0, 0, 0x88, 0xb5, 0, 0]);
        assert_eq!((&bytes[86..92], &bytes[92..]), (&[5; 6][..], &[6; 6][..]));
    }

    #[test] // proves: ofc-flows
    fn peer_without_ofc_reads_flow_pause_as_class_pause() {
        let plain = |bytes: &[u8]| MacControl::parse(&Header::parse(bytes).unwrap(), bytes).unwrap();
        let pause = frame(Operation::Pause(Quanta(99)), C3, &[v4(1)]);
        assert_eq!(plain(&pause), MacControl::Pfc(Pfc::default().with(C3, Quanta(99))));
        let resume = frame(Operation::Resume, C3, &[v4(1)]);
        assert_eq!(plain(&resume), MacControl::Pfc(Pfc::default()));
    }

    #[test]
    fn plain_pfc_frame_has_no_flow_list() {
        let mut plain = MacControl::Pfc(Pfc::default().with(C3, Quanta(9))).encode(SRC);
        assert_eq!(parse(&plain), Ok(None));
        plain[34..].fill(0xff);
        assert_eq!(parse(&plain), Ok(None));
        assert_eq!(parse(&MacControl::Pause(Quanta(9)).encode(SRC)), Ok(None));
    }

    #[test] // proves: ofc-flows
    fn flow_count_that_exceeds_the_frame_is_refused() {
        let bytes = frame(Operation::Pause(Quanta(9)), C3, &[v4(1), v4(2)]);
        assert_eq!(bytes.len(), 70);
        assert_eq!(parse(&bytes).unwrap().unwrap().flows().count(), 2);
        assert_eq!(parse(&bytes[..69]), Err(MacControlError::FlowList));
        let mut more = bytes.clone();
        more[41] = 3;
        assert_eq!(parse(&more), Err(MacControlError::FlowList));
        assert_eq!(
            parse(&bytes[..38]),
            Err(MacControlError::FlowList),
            "a flow list that ends after its magic number must be refused"
        );
    }

    #[test]
    fn flow_list_that_contradicts_its_pfc_frame_is_refused() {
        let good = frame(Operation::Pause(Quanta(9)), C3, &[v4(1)]);
        let refused = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(
                parse(&bytes),
                Err(MacControlError::FlowList),
                "a frame with byte {at} = {value} must be refused"
            );
        };
        refused(17, 0); // the class is not enabled
        refused(17, 0b1_1000); // one more class is enabled
        refused(25, 0); // a pause with time zero
        refused(38, 0); // unknown operations
        refused(38, 3);
        refused(38, 2); // a resume that enables the class
        refused(39, 4); // another class than the enabled one
        refused(39, 8);
        refused(41, 0); // no flows
        refused(42, 5); // an unknown family
    }

    #[test]
    fn flow_list_writer_refuses_flow_that_does_not_fit() {
        let mut bytes = [0; 42 + 2 * 14 + 13];
        let mut writer = FlowPauseWriter::new(&mut bytes, SRC, Operation::Resume, C3);
        assert_eq!([1, 2, 3].map(|port| writer.push(&v4(port))), [true, true, false]);
        assert_eq!(writer.flows(), 2);
        assert_eq!(writer.finish().len(), 70);
    }

    explore! {
        #[test]
        fn encoded_flow_list_is_parsed_unchanged(
            pause: bool, quanta in 1..=u16::MAX, class in 0..8usize,
            flows in prop::collection::vec(any_flow(), 1..38)
        ) {
            let operation = if pause { Operation::Pause(Quanta(quanta)) } else { Operation::Resume };
            let bytes = frame(operation, Class::ALL[class], &flows);
            let read = parse(&bytes).unwrap().unwrap();
            prop_assert_eq!((read.operation, read.class), (operation, Class::ALL[class]));
            prop_assert_eq!(read.flows().collect::<Vec<_>>(), flows);
        }

        #[test]
        fn empty_flow_list_is_never_accepted(contents in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = frame(Operation::Pause(Quanta(9)), C3, &[v4(1)])[..38].to_vec();
            bytes.extend(&contents);
            if let Ok(Some(read)) = parse(&bytes) {
                prop_assert!(read.flows().count() > 0);
            }
        }
    }
}
