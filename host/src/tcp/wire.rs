//! TCP header over IPv4, as bytes on the wire.
//!
//! ```text
//!   0         14      34    54           66         (66 + 4 + 8 n)
//!   | Ethernet | IPv4 | TCP | timestamps | blocks   | payload
//! ```
//!
//! The IPv4 identification and the urgent pointer, which receivers ignore, contain the flow's number at its destination
//! host.

use xoff_wire::units::Nanos;

use super::receiver::{Ack, Arrival, Blocks};
use super::sender::Transmission;
use super::settings::TcpSettings;

/// Maximum length in bytes of a TCP header: timestamps and three SACK blocks.
pub const HEADER_MAX: usize = 60;
/// Bytes of a data segment's Ethernet, IPv4 and TCP headers, with timestamps.
pub const AROUND: u32 = 66;
/// Destination port of data segments.
pub const PORT: u16 = 5001;

const FIXED: usize = 20;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;
/// Sequence number of the first data byte, in both directions. The SYN has the number before it.
const DATA_FROM: u32 = 1;
/// Window scale of the receive window (RFC 7323), in bits.
const WINDOW_SHIFT: u32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct TcpHeader {
    pub ports: [u16; 2],
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
    pub window: u16,
    pub number: u32,
    /// Own and echoed timestamp, in microseconds.
    pub timestamps: [u32; 2],
    /// SACK blocks, as sequence numbers.
    pub blocks: Blocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Kind {
    Syn,
    SynAck,
    Data,
    Ack,
}

/// Returns the Internet checksum (RFC 1071) of `bytes` and further 16-bit words with the sum `others`.
#[must_use]
pub fn checksum(bytes: &[u8], others: u32) -> [u8; 2] {
    let words = bytes.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let sum: u32 = words.sum::<u32>() + others;
    let once = (sum & 0xffff) + (sum >> 16);
    let [.., high, low] = ((once & 0xffff) + (once >> 16)).to_be_bytes();
    (!u16::from_be_bytes([high, low])).to_be_bytes()
}

/// Returns the TCP timestamp of a time, in microseconds; it wraps around.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // timestamps wrap around
pub const fn timestamp(now: Nanos) -> u32 {
    (now.0 / 1_000) as u32
}

fn window(settings: &TcpSettings) -> u16 {
    u16::try_from(settings.window.0 >> WINDOW_SHIFT).unwrap_or(u16::MAX).max(1)
}

impl TcpHeader {
    #[must_use]
    pub fn of(
        sent: &Transmission,
        settings: &TcpSettings,
        (number, port): (u32, u16),
        now: Nanos,
    ) -> TcpHeader {
        let (sequence, acknowledged, flags) = match sent.segment {
            None => (DATA_FROM - 1, 0, SYN),
            Some(segment) => {
                let cwr = if sent.is_reduced { CWR } else { 0 };
                (sequence_of(segment, settings.mss), DATA_FROM, ACK | cwr)
            }
        };
        TcpHeader {
            ports: [port, PORT],
            sequence,
            acknowledged,
            flags,
            window: window(settings),
            number,
            timestamps: [timestamp(now), 0],
            blocks: Blocks::default(),
        }
    }

    /// Returns the header of an acknowledgement, or of a SYN-ACK if `ack` is `None`.
    #[must_use]
    pub fn answer(
        ack: Option<&Ack>,
        settings: &TcpSettings,
        (number, port): (u32, u16),
        now: Nanos,
    ) -> TcpHeader {
        let at = |segment| sequence_of(segment, settings.mss);
        let mut blocks = Blocks::default();
        let (sequence, acknowledged, flags, echo) = match ack {
            None => (DATA_FROM - 1, DATA_FROM, SYN | ACK, 0),
            Some(ack) => {
                ack.blocks.as_slice().iter().for_each(|&(from, to)| blocks.push((at(from), at(to))));
                (DATA_FROM, at(ack.next), if ack.is_marked { ACK | ECE } else { ACK }, ack.echo)
            }
        };
        TcpHeader {
            ports: [PORT, port],
            sequence,
            acknowledged,
            flags,
            window: window(settings),
            number,
            timestamps: [timestamp(now), echo],
            blocks,
        }
    }

    #[must_use]
    pub const fn kind(&self) -> Kind {
        match (self.flags & (SYN | ACK), self.ports[1]) {
            (SYN, _) => Kind::Syn,
            (_, PORT) => Kind::Data,
            (ACK, _) => Kind::Ack,
            _ => Kind::SynAck,
        }
    }

    /// Converts the header to a data segment. `expected`, the next segment in order, resolves wrapped sequence numbers.
    #[must_use]
    pub fn arrival(&self, settings: &TcpSettings, expected: u32, is_marked: bool) -> Arrival {
        Arrival {
            segment: segment_at(self.sequence, settings.mss, expected),
            is_marked,
            is_reduced: self.flags & CWR != 0,
            timestamp: self.timestamps[0],
        }
    }

    /// Converts the header to an acknowledgement. `first`, the first unacknowledged segment, resolves wrapped sequence
    /// numbers.
    #[must_use]
    pub fn ack(&self, settings: &TcpSettings, first: u32) -> Ack {
        let at = |sequence| segment_at(sequence, settings.mss, first);
        let mut blocks = Blocks::default();
        self.blocks.as_slice().iter().for_each(|&(from, to)| blocks.push((at(from), at(to))));
        Ack {
            next: at(self.acknowledged),
            blocks,
            is_marked: self.flags & ECE != 0,
            echo: self.timestamps[1],
        }
    }

    #[must_use]
    pub fn header_len(&self) -> usize {
        let blocks = self.blocks.as_slice().len();
        FIXED + 12 + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }

    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // at most 60 bytes
    pub fn encode(&self, addresses: [[u8; 4]; 2], payload: u32) -> ([u8; HEADER_MAX], usize) {
        let mut bytes = [0; HEADER_MAX];
        let len = self.header_len();
        let [source, destination] = self.ports.map(u16::to_be_bytes);
        bytes[..2].copy_from_slice(&source);
        bytes[2..4].copy_from_slice(&destination);
        bytes[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        bytes[12] = (len as u8 / 4) << 4;
        bytes[13] = self.flags;
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        bytes[18..20].copy_from_slice(&self.number.to_be_bytes()[2..]);
        bytes[20..24].copy_from_slice(&[1, 1, 8, 10]);
        bytes[24..28].copy_from_slice(&self.timestamps[0].to_be_bytes());
        bytes[28..32].copy_from_slice(&self.timestamps[1].to_be_bytes());
        let blocks = self.blocks.as_slice();
        if !blocks.is_empty() {
            bytes[32..36].copy_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        }
        for ((from, to), room) in blocks.iter().zip(bytes[36..].as_chunks_mut::<8>().0) {
            room[..4].copy_from_slice(&from.to_be_bytes());
            room[4..].copy_from_slice(&to.to_be_bytes());
        }
        let word = |bytes: [u8; 2]| u32::from(u16::from_be_bytes(bytes));
        let [from, to] = addresses.map(|[a, b, c, d]| word([a, b]) + word([c, d]));
        let sum = checksum(&bytes[..len], from + to + 6 + payload + len as u32);
        bytes[16..18].copy_from_slice(&sum);
        (bytes, len)
    }

    /// Returns the upper half of the flow's number, which the IPv4 identification carries.
    #[must_use]
    pub const fn identification(&self) -> [u8; 2] {
        let [high, low, ..] = self.number.to_be_bytes();
        [high, low]
    }

    /// Parses a header with timestamps, as [`encode`](TcpHeader::encode) writes it.
    #[must_use]
    pub fn parse(bytes: &[u8], identification: [u8; 2]) -> Option<TcpHeader> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().map(u32::from_be_bytes).ok();
        let half = |at: usize| bytes.get(at..at + 2)?.try_into().map(u16::from_be_bytes).ok();
        let len = usize::from(bytes.get(12)? >> 4) * 4;
        if len < FIXED + 12 || bytes.get(20..24)? != [1, 1, 8, 10] {
            return None;
        }
        let mut blocks = Blocks::default();
        for at in (36..len).step_by(8) {
            blocks.push((word(at)?, word(at + 4)?));
        }
        let [high, low] = identification;
        let [a, b] = half(18)?.to_be_bytes();
        Some(TcpHeader {
            ports: [half(0)?, half(2)?],
            sequence: word(4)?,
            acknowledged: word(8)?,
            flags: bytes[13],
            window: half(14)?,
            number: u32::from_be_bytes([high, low, a, b]),
            timestamps: [word(24)?, word(28)?],
            blocks,
        })
    }
}

const fn sequence_of(segment: u32, mss: u32) -> u32 {
    DATA_FROM.wrapping_add(segment.wrapping_mul(mss))
}

/// Returns the segment that begins at a sequence number. Numbers wrap around: of several segments that match, it is the
/// nearest to `near`.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)] // wraps around
fn segment_at(sequence: u32, mss: u32, near: u32) -> u32 {
    let distance = i64::from(sequence.wrapping_sub(sequence_of(near, mss)) as i32);
    let segments = distance.div_euclid(mss.into());
    u32::try_from(i64::from(near) + segments).unwrap_or(0)
}

// Tests for SPECIFICATION.md: tcp
#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: (u32, u16) = (0x1234_5678, 0xc001);

    fn transported(header: &TcpHeader) -> TcpHeader {
        let (bytes, len) = header.encode([[10, 0, 0, 1], [10, 0, 0, 2]], 1_448);
        TcpHeader::parse(&bytes[..len], header.identification()).expect("the header must be valid")
    }

    #[test]
    fn segments_and_acks_are_parsed_correctly_beyond_4_gigabytes() {
        let settings = TcpSettings::default();
        let now = Nanos(5_000_000_000_000);
        for segment in [0, 1, 2_966_000, 90_000_000] {
            let sent = Transmission {
                segment: Some(segment),
                is_again: false,
                is_ecn_capable: true,
                is_reduced: segment == 1,
            };
            let header = TcpHeader::of(&sent, &settings, FLOW, now);
            assert_eq!((transported(&header), header.kind()), (header, Kind::Data));
            for expected in [segment.saturating_sub(9), segment, segment + 9] {
                let arrival = header.arrival(&settings, expected, true);
                let timestamp = timestamp(now);
                let is_reduced = segment == 1;
                assert_eq!(arrival, Arrival { segment, is_marked: true, is_reduced, timestamp });
            }
            let mut blocks = Blocks::default();
            [(segment + 1, segment + 3), (segment + 5, segment + 6), (segment + 8, segment + 9)]
                .iter()
                .for_each(|block| blocks.push(*block));
            let ack = Ack { next: segment, blocks, is_marked: segment == 0, echo: 7 };
            let header = TcpHeader::answer(Some(&ack), &settings, FLOW, now);
            assert_eq!((transported(&header), header.kind(), header.header_len()), (header, Kind::Ack, 60));
            assert_eq!([0, 4].map(|behind| header.ack(&settings, segment.saturating_sub(behind))), [ack; 2]);
        }
    }

    #[test]
    fn tcp_handshake_headers_are_read_as_syn_and_syn_ack() {
        let settings = TcpSettings::default();
        let syn = Transmission { segment: None, is_again: false, is_ecn_capable: false, is_reduced: false };
        let syn = TcpHeader::of(&syn, &settings, FLOW, Nanos(1));
        let answer = TcpHeader::answer(None, &settings, FLOW, Nanos(1));
        assert_eq!(
            [transported(&syn), transported(&answer)].map(|header| header.kind()),
            [Kind::Syn, Kind::SynAck]
        );
    }
}
