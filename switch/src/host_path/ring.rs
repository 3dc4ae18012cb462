use std::fmt;

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_wire::units::{Nanos, PortId};

pub const FRAME_MAX: usize = 16 << 10;

const HEAD: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub at: Nanos,
    pub port: PortId,
    /// Index of the punt reason of a frame to the host path, or kind of a frame to a worker.
    pub about: u8,
    /// VLAN of a frame from or to a VLAN's interface (SVI); 0 for the interface of a port.
    pub vid: u16,
}

impl Head {
    fn write(&self, into: &mut [u8; HEAD], len: u32) {
        into[..8].copy_from_slice(&self.at.0.to_ne_bytes());
        into[8..12].copy_from_slice(&len.to_ne_bytes());
        into[12..14].copy_from_slice(&[self.port.0, self.about]);
        into[14..].copy_from_slice(&self.vid.to_ne_bytes());
    }

    fn read(bytes: &[u8; HEAD]) -> (Head, usize) {
        let &[a, b, c, d, e, f, g, h, l0, l1, l2, l3, port, about, v0, v1] = bytes;
        let at = Nanos(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
        let vid = u16::from_ne_bytes([v0, v1]);
        (Head { at, port: PortId(port), about, vid }, u32::from_ne_bytes([l0, l1, l2, l3]) as usize)
    }
}

pub struct RingWriter {
    ring: Producer<u8>,
    scratch: Box<[u8]>,
}

pub struct RingReader {
    ring: Consumer<u8>,
    bytes: Box<[u8]>,
}

impl fmt::Debug for RingWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl fmt::Debug for RingReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

#[must_use]
pub fn ring(room: usize) -> (RingWriter, RingReader) {
    let (mut producer, mut consumer) = RingBuffer::new(room);
    // Touch every page of the ring, so that frames never wait for page faults.
    if let Ok(all) = producer.write_chunk(room) {
        all.commit_all();
    }
    if let Ok(all) = consumer.read_chunk(room) {
        all.commit_all();
    }
    let room_for_one = || vec![0; HEAD + FRAME_MAX].into_boxed_slice();
    (
        RingWriter { ring: producer, scratch: room_for_one() },
        RingReader { ring: consumer, bytes: room_for_one() },
    )
}

impl RingWriter {
    /// Appends a frame that `fill` writes in at most `len` bytes. Returns false if the ring has no space for `len` bytes.
    pub fn put(&mut self, head: Head, len: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if len > FRAME_MAX || self.ring.slots() < HEAD + len {
            return false;
        }
        let Some((place, body)) = self.scratch.split_first_chunk_mut::<HEAD>() else { return false };
        let len = fill(&mut body[..len]).min(len);
        #[allow(clippy::cast_possible_truncation)] // no longer than FRAME_MAX
        head.write(place, len as u32);
        self.ring.push_entire_slice(&self.scratch[..HEAD + len]).is_ok()
    }

    #[must_use]
    pub fn has_room(&self) -> bool {
        self.ring.slots() >= HEAD + FRAME_MAX
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.slots() == self.ring.buffer().capacity()
    }
}

impl RingReader {
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub fn take(&mut self) -> Option<(Head, &[u8])> {
        let mut place = [0; HEAD];
        self.copy(0..HEAD)?;
        place.copy_from_slice(&self.bytes[..HEAD]);
        let (head, len) = Head::read(&place);
        self.copy(HEAD..HEAD + len)?;
        Some((head, &self.bytes[HEAD..HEAD + len]))
    }

    fn copy(&mut self, to: std::ops::Range<usize>) -> Option<()> {
        let chunk = self.ring.read_chunk(to.len()).ok()?;
        let (first, second) = chunk.as_slices();
        let into = self.bytes.get_mut(to)?;
        let (begin, end) = into.split_at_mut(first.len());
        begin.copy_from_slice(first);
        end.copy_from_slice(second);
        chunk.commit_all();
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn put(writer: &mut RingWriter, port: u8, bytes: &[u8]) -> bool {
        let head = Head { at: Nanos(7), port: PortId(port), about: 3, vid: 4 };
        writer.put(head, bytes.len(), |into| {
            into.copy_from_slice(bytes);
            bytes.len()
        })
    }

    #[test]
    fn host_path_ring_keeps_frames_in_order_when_it_wraps_around() {
        let (mut writer, mut reader) = ring(100);
        for round in 0..50u8 {
            assert!(reader.is_empty() && writer.is_empty());
            assert!(put(&mut writer, round, &[round; 20]) && put(&mut writer, 9, &[7, 8, 9]));
            assert!(!reader.is_empty() && !writer.is_empty());
            let head = Head { at: Nanos(7), port: PortId(round), about: 3, vid: 4 };
            assert_eq!(reader.take().unwrap(), (head, &[round; 20][..]));
            assert_eq!(reader.take().unwrap().1, [7, 8, 9]);
            assert_eq!(reader.take(), None);
        }
    }

    #[test]
    fn host_path_ring_refuses_frames_that_do_not_fit() {
        let (mut writer, mut reader) = ring(2 * HEAD + 30);
        assert!(put(&mut writer, 0, &[1; 10]));
        assert!(!put(&mut writer, 1, &[2; 21]));
        assert!(put(&mut writer, 2, &[3; 20]));
        assert_eq!(reader.take().unwrap().0.port, PortId(0));
        assert_eq!(
            reader.take().unwrap(),
            (Head { at: Nanos(7), port: PortId(2), about: 3, vid: 4 }, &[3; 20][..])
        );
        let (mut writer, mut reader) = ring(3 * FRAME_MAX);
        assert!(!put(&mut writer, 0, &vec![0; FRAME_MAX + 1]) && put(&mut writer, 0, &vec![0; FRAME_MAX]));
        assert_eq!(reader.take().unwrap().1.len(), FRAME_MAX);
    }
}
