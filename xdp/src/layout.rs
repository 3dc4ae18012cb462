//! Division of a packet memory into chunks, and their addresses in the rings.
//!
//! Chunks have at least 2,048 bytes, but most frames are far shorter. Without zero copy, receive chunks may overlap:
//! the kernel writes only the last [`SMALL`] bytes of a chunk, and chunks begin [`SMALL`] bytes apart. A longer frame
//! takes several chunks (XDP multi-buffer).
//!
//! ```text
//!   whole chunks   |256|  frame            ||256|  frame            |
//!   small chunks   |          free | frame |
//!                         |          free | frame |
//!                                |          free | frame |
//! ```
//!
//! The XDP program removes a packet's metadata, which the kernel would write into the preceding small chunk. In a
//! memory of small chunks (registered as unaligned), the upper 16 bits of an address are an offset.

use rustix::net::xdp::XdpUmemRegFlags;

/// Bytes that the kernel reserves in front of a packet (XDP_PACKET_HEADROOM).
pub(crate) const HEADROOM: u32 = 256;

/// Maximum bytes of a frame in a small receive chunk. In each chunk, newer kernels require space for 128 bytes and a
/// `struct skb_shared_info`, together 448 bytes in the default configuration.
pub const SMALL: u32 = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveChunks {
    /// Chunks as large as transmit chunks. Zero copy requires them.
    #[default]
    Whole,
    /// Whole chunks, with the [time of receipt](crate::Store::take_stamp) in front of each frame.
    Stamped,
    /// Overlapping chunks, each with 512 bytes of a frame. They exclude zero copy, because the kernel must copy frames.
    Small,
}

const OFFSET_SHIFT: u32 = 48;

/// Division of a packet memory: receive chunks, numbered from 0, then transmit chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    bits: u32,
    stride_bits: u32,
    receive_offset: u32,
    receive: u32,
    transmit: u32,
    transmit_at: u64,
}

impl Layout {
    pub(crate) fn new(chunk_bytes: u32, size: ReceiveChunks, [receive, transmit]: [u32; 2]) -> Layout {
        let (stride, receive_offset) = match size {
            ReceiveChunks::Whole | ReceiveChunks::Stamped => (chunk_bytes, HEADROOM),
            ReceiveChunks::Small => (SMALL, chunk_bytes - SMALL),
        };
        assert!(
            chunk_bytes.is_power_of_two() && HEADROOM + SMALL <= chunk_bytes,
            "the chunk size must be a power of two that holds the headroom and a small chunk"
        );
        let received = u64::from(receive) * u64::from(stride) + u64::from(chunk_bytes - stride);
        Layout {
            bits: chunk_bytes.trailing_zeros(),
            stride_bits: stride.trailing_zeros(),
            receive_offset,
            receive,
            transmit,
            transmit_at: received.next_multiple_of(chunk_bytes.into()),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.transmit_at + (u64::from(self.transmit) << self.bits)
    }

    pub(crate) fn count(&self) -> u32 {
        self.receive + self.transmit
    }

    pub(crate) fn chunk_bytes(&self) -> u32 {
        1 << self.bits
    }

    #[inline]
    pub(crate) fn transmit_room(&self) -> u32 {
        self.chunk_bytes() - HEADROOM
    }

    #[inline]
    pub(crate) fn receive_offset(&self) -> u32 {
        self.receive_offset
    }

    /// Returns the bytes that the kernel keeps free in front of a packet, besides its own 256.
    pub(crate) fn kernel_headroom(&self) -> u32 {
        self.receive_offset - HEADROOM
    }

    pub(crate) fn flags(&self) -> XdpUmemRegFlags {
        if self.stride_bits != self.bits {
            XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG
        } else {
            XdpUmemRegFlags::empty()
        }
    }

    #[inline]
    pub(crate) fn address(&self, chunk: u32) -> u64 {
        match chunk.checked_sub(self.receive) {
            None => u64::from(chunk) << self.stride_bits,
            Some(transmit) => self.transmit_at + (u64::from(transmit) << self.bits),
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // there are fewer than 2^32 chunks, and an offset is less than 2^17
    pub(crate) fn received(&self, address: u64) -> (u32, u32) {
        let (base, upper) = (address & ((1 << OFFSET_SHIFT) - 1), address >> OFFSET_SHIFT);
        let lower = base & ((1 << self.stride_bits) - 1);
        ((base >> self.stride_bits) as u32, (upper + lower) as u32)
    }

    #[inline]
    pub(crate) fn transmitted(&self, address: u64) -> u32 {
        let number = address.checked_sub(self.transmit_at).map(|from_first| from_first >> self.bits);
        number
            .and_then(|number| u32::try_from(number).ok())
            .map_or(u32::MAX, |number| self.receive.saturating_add(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL_ONES: Layout =
        Layout { bits: 11, stride_bits: 9, receive_offset: 1536, receive: 5, transmit: 2, transmit_at: 4096 };

    #[test]
    fn whole_receive_chunks_are_adjacent() {
        let layout = Layout::new(2048, ReceiveChunks::Whole, [3, 2]);
        assert_eq!([0, 2, 3, 4].map(|chunk| layout.address(chunk)), [0, 4096, 6144, 8192]);
        assert_eq!((layout.bytes(), layout.transmit_room(), layout.receive_offset()), (10_240, 1792, 256));
        assert_eq!((layout.kernel_headroom(), layout.flags()), (0, XdpUmemRegFlags::empty()));
        assert_eq!(layout.received(4096 + 256), (2, 256));
        assert_eq!(layout.transmitted(6144 + 252), 3);
        assert_eq!(
            layout.transmitted(6143),
            u32::MAX,
            "the address of a receive chunk must not name a transmit chunk"
        );
    }

    #[test] // proves: memory
    fn written_parts_of_small_chunks_are_adjacent() {
        let layout = Layout::new(2048, ReceiveChunks::Small, [5, 2]);
        assert_eq!(layout, SMALL_ONES, "transmit chunks must begin at 5 * 512 + 1536 = 4096 bytes");
        let written = (0..5).map(|chunk| layout.address(chunk) + u64::from(layout.receive_offset()));
        assert!(
            written.eq([1536, 2048, 2560, 3072, 3584]),
            "the parts that the kernel writes must be adjacent"
        );
        assert_eq!(layout.transmit_room(), 1792);
        assert_eq!(layout.kernel_headroom() + HEADROOM, 1536);
        assert_eq!(layout.bytes(), 8192);
        let six = Layout::new(2048, ReceiveChunks::Small, [6, 2]);
        assert_eq!(six.address(6), 6144, "transmit chunks must not overlap receive chunks");
    }

    #[test]
    fn small_receive_chunks_work_beside_4096_byte_chunks() {
        let layout = Layout::new(4096, ReceiveChunks::Small, [3, 1]);
        assert_eq!(layout.transmit_room(), 3840);
        assert_eq!((layout.receive_offset(), layout.kernel_headroom()), (3584, 3328));
        assert_eq!((layout.address(2), layout.address(3), layout.bytes()), (1024, 8192, 12_288));
    }

    #[test]
    fn chunk_offset_is_in_upper_16_bits_of_unaligned_address() {
        assert_eq!(SMALL_ONES.received(3 * 512 + (1536 << 48)), (3, 1536));
        assert_eq!(SMALL_ONES.received(3 * 512), (3, 0));
        assert_eq!(SMALL_ONES.transmitted(4096 + 2048 + 256), 6);
    }
}
