//! Writes and reads captures in pcapng, limited to the block types used here.
//!
//! Format: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html>. All numbers are little-endian, as the first block declares.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::time::Duration;

use xoff_dataplane::tap::{FrameEvent, Sighting};
use xoff_wire::units::{MacAddr, Nanos, PortId};

const SECTION: u32 = 0x0a0d_0d0a;
pub const FIRST_BYTE: u8 = SECTION.to_le_bytes()[0];
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Block type of xoff's own data, from pcapng's range for local use.
const OWN: u32 = 0x8078_6f66;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;

const BLOCK_MAX: usize = 1 << 20;
const BLOCK_MIN: usize = 12;

mod option {
    pub(super) const COMMENT: u16 = 1;
    pub(super) const SECTION_APPLICATION: u16 = 4;
    pub(super) const NAME: u16 = 2;
    pub(super) const DESCRIPTION: u16 = 3;
    pub(super) const MAC: u16 = 6;
    pub(super) const SPEED: u16 = 8;
    pub(super) const RESOLUTION: u16 = 9;
    pub(super) const FLAGS: u16 = 2;
    pub(super) const DROP_COUNT: u16 = 4;
    pub(super) const START: u16 = 2;
    pub(super) const END: u16 = 3;
    pub(super) const RECEIVED: u16 = 4;
    pub(super) const DROPPED: u16 = 5;
    pub(super) const OWN: u16 = 0xf066;
}

/// Port of a switch, described as a pcapng interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub port: PortId,
    pub name: String,
    pub description: String,
    pub mac: MacAddr,
    pub speed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time, port, class and event (received, sent, dropped) of the frame.
    pub sighting: Sighting,
    /// Length of the whole frame in bytes.
    pub len: u32,
    /// Number of frames that the capture missed at this port since its previous packet.
    pub missed_before: u32,
    pub bytes: &'a [u8],
}

#[derive(Debug)]
pub struct Writer {
    blocks: Vec<u8>,
    interfaces: Vec<Interface>,
    zero: Duration,
    begun: Duration,
    comment: String,
}

impl Writer {
    /// Starts a capture of `interfaces` (sorted by port) at Unix time `begun`. Times of frames count from Unix time `zero`.
    #[must_use]
    pub fn new(
        application: &str,
        interfaces: Vec<Interface>,
        snap: u32,
        zero: Duration,
        begun: Duration,
    ) -> Writer {
        let mut writer =
            Writer { blocks: Vec::new(), interfaces: Vec::new(), zero, begun, comment: String::new() };
        writer.block(SECTION, |block| {
            block.u32(BYTE_ORDER);
            block.u16(1);
            block.u16(0);
            block.u64(u64::MAX); // section length: unknown
            block.option(option::SECTION_APPLICATION, application.as_bytes());
            block.end_of_options();
        });
        for interface in &interfaces {
            writer.block(INTERFACE, |block| {
                block.u16(ETHERNET);
                block.u16(0);
                block.u32(snap);
                block.option(option::NAME, interface.name.as_bytes());
                block.option(option::DESCRIPTION, interface.description.as_bytes());
                block.option(option::MAC, &interface.mac.0);
                block.option(option::SPEED, &interface.speed.to_le_bytes());
                block.option(option::RESOLUTION, &[9]); // nanoseconds
                block.end_of_options();
            });
        }
        writer.interfaces = interfaces;
        writer
    }

    /// Appends a frame; ignores a port that is no interface of the capture.
    pub fn frame(&mut self, record: &Packet<'_>) {
        let Some(interface) = self.interfaces.iter().position(|it| it.port == record.sighting.port) else {
            return;
        };
        let at = self.zero + Duration::from_nanos(record.sighting.at.0);
        let mut comment = std::mem::take(&mut self.comment);
        comment.clear();
        describe(record, &mut comment);
        let direction: u32 = match record.sighting.event {
            FrameEvent::Received { .. } => 1,
            FrameEvent::Sent { .. } => 2,
            FrameEvent::Dropped { .. } => 0,
        };
        self.block(PACKET, |block| {
            block.number(interface);
            block.time(at);
            block.number(record.bytes.len());
            block.u32(record.len);
            block.padded(record.bytes);
            block.option(option::FLAGS, &direction.to_le_bytes());
            if record.missed_before > 0 {
                block.option(option::DROP_COUNT, &u64::from(record.missed_before).to_le_bytes());
            }
            block.option(option::COMMENT, comment.as_bytes());
            block.end_of_options();
        });
        self.comment = comment;
    }

    /// Appends xoff's own data, in a block that other programs skip.
    pub fn own(&mut self, bytes: &[u8]) {
        self.block(OWN, |block| {
            block.number(bytes.len());
            block.padded(bytes);
        });
    }

    /// Appends a received or sent frame of `len` bytes, with xoff's own data as an option.
    pub fn passing(&mut self, (port, is_in): (PortId, bool), at: Nanos, len: u32, bytes: &[u8], own: &[u8]) {
        let Some(interface) = self.interfaces.iter().position(|it| it.port == port) else { return };
        let at = self.zero + Duration::from_nanos(at.0);
        let direction: u32 = if is_in { 1 } else { 2 };
        self.block(PACKET, |block| {
            block.number(interface);
            block.time(at);
            block.number(bytes.len());
            block.u32(len);
            block.padded(bytes);
            block.option(option::FLAGS, &direction.to_le_bytes());
            block.option(option::OWN, own);
            block.end_of_options();
        });
    }

    /// Ends the capture at Unix time `now`, with the numbers of captured and missed frames per port.
    pub fn statistics(&mut self, counts: impl Fn(PortId) -> [u64; 2], now: Duration) {
        for (number, interface) in self.interfaces.clone().into_iter().enumerate() {
            let (begun, [received, missed]) = (self.begun, counts(interface.port));
            self.block(STATISTICS, |block| {
                block.number(number);
                block.time(now);
                for (code, time) in [(option::START, begun), (option::END, now)] {
                    let [high, low] = halves(time);
                    block.option(code, &[high.to_le_bytes(), low.to_le_bytes()].concat());
                }
                block.option(option::RECEIVED, &received.to_le_bytes());
                block.option(option::DROPPED, &missed.to_le_bytes());
                block.end_of_options();
            });
        }
    }

    #[must_use]
    pub fn pending(&self) -> usize {
        self.blocks.len()
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.blocks)
    }

    fn block(&mut self, kind: u32, write: impl FnOnce(&mut Block<'_>)) {
        let begin = self.blocks.len();
        let mut block = Block(&mut self.blocks);
        block.u32(kind);
        block.u32(0);
        write(&mut block);
        let len = self.blocks.len() - begin + size_of::<u32>();
        Block(&mut self.blocks).number(len);
        let (end, at) = (self.blocks.len(), begin + size_of::<u32>());
        self.blocks.copy_within(end - size_of::<u32>().., at);
    }
}

fn describe(record: &Packet<'_>, text: &mut String) {
    let sighting = &record.sighting;
    let _ = match sighting.class {
        Some(class) => write!(text, "class={class}"),
        None => write!(text, "control"),
    };
    if let FrameEvent::Sent { after } | FrameEvent::Dropped { after, .. } = sighting.event {
        let _ = write!(text, " delay_ns={}", after.0);
    }
    if let Some(reason) = sighting.event.dropped() {
        let _ = write!(text, " drop={}", reason.name());
    }
}

fn halves(time: Duration) -> [u32; 2] {
    #[allow(clippy::cast_possible_truncation)]
    // pcapng splits a time into two words. 64 bits of nanoseconds last until 2554.
    let (high, low) = ((time.as_nanos() >> 32) as u32, time.as_nanos() as u32);
    [high, low]
}

struct Block<'a>(&'a mut Vec<u8>);

impl Block<'_> {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    #[allow(clippy::cast_possible_truncation)] // numbers of interfaces and lengths of blocks fit
    fn number(&mut self, value: usize) {
        self.u32(value as u32);
    }

    fn time(&mut self, time: Duration) {
        halves(time).into_iter().for_each(|half| self.u32(half));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(size_of::<u32>()), 0); // blocks are aligned
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(u16::MAX.into())];
        self.u16(code);
        self.u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
        self.padded(value);
    }

    fn end_of_options(&mut self) {
        self.u32(0);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub frames: u64,
    /// Number of frames that the capture missed, from its final statistics; `None` until these arrive.
    pub missed: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Splitter {
    bytes: Vec<u8>,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is no pcapng capture: it has a block of {len} bytes")]
pub struct NoBlock {
    len: usize,
}

impl Splitter {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes and returns the bytes of all blocks that are complete.
    pub fn whole(&mut self) -> Result<Vec<u8>, NoBlock> {
        let mut end = 0;
        while let Some(block) = next_block(&self.bytes[end..])? {
            self.tally.count(block);
            end += block.len();
        }
        Ok(self.bytes.drain(..end).collect())
    }

    /// Returns the numbers of frames in all blocks that [`Splitter::whole`] returned.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    Begin,
    /// xoff's own data, from [`Writer::own`].
    Own(&'a [u8]),
    /// xoff's own data and the frame's bytes, from [`Writer::passing`].
    Passing(&'a [u8], &'a [u8]),
    Other,
}

impl<'a> Part<'a> {
    /// Parses a complete block; `None` if malformed.
    #[must_use]
    pub fn of(block: &'a [u8]) -> Option<Part<'a>> {
        let inner = block.get(8..block.len().checked_sub(4)?)?;
        Some(match word_at(block, 0)? {
            SECTION if word_at(inner, 0)? == BYTE_ORDER => Part::Begin,
            OWN => Part::Own(inner.get(4..)?.get(..word_at(inner, 0)? as usize)?),
            PACKET => {
                let kept = word_at(inner, 12)? as usize;
                let (bytes, options) = inner.get(20..)?.split_at_checked(kept.next_multiple_of(4))?;
                Part::Passing(value(options, option::OWN)?, bytes.get(..kept)?)
            }
            _ => Part::Other,
        })
    }
}

/// Reads the next block into `into`; returns false at the end of the stream.
///
/// # Errors
/// Returns `InvalidData` for bytes that are no block, `UnexpectedEof` for an incomplete block.
pub fn read_block(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    into.resize(BLOCK_MIN, 0);
    if from.read(&mut into[..1])? == 0 {
        return Ok(false);
    }
    from.read_exact(&mut into[1..])?;
    let no_block = || io::Error::from(io::ErrorKind::InvalidData);
    let len = word_at(into, 4).map_or(0, |len| len as usize);
    if !(BLOCK_MIN..=BLOCK_MAX).contains(&len) || !len.is_multiple_of(4) {
        return Err(no_block());
    }
    into.resize(len, 0);
    from.read_exact(&mut into[BLOCK_MIN..])?;
    if word_at(into, len - 4) != word_at(into, 4) { Err(no_block()) } else { Ok(true) }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn next_block(bytes: &[u8]) -> Result<Option<&[u8]>, NoBlock> {
    let Some(len) = word_at(bytes, 4) else { return Ok(None) };
    let len = len as usize;
    match len {
        BLOCK_MIN..=BLOCK_MAX if len.is_multiple_of(4) => Ok(bytes.get(..len)),
        _ => Err(NoBlock { len }),
    }
}

impl Tally {
    fn count(&mut self, block: &[u8]) {
        match word_at(block, 0) {
            Some(PACKET) => self.frames += 1,
            Some(STATISTICS) => {
                let options = block.get(20..block.len() - 4).unwrap_or_default();
                let missed = find(options, option::DROPPED).unwrap_or(0);
                self.missed = Some(self.missed.unwrap_or(0).saturating_add(missed));
            }
            _ => (),
        }
    }
}

fn find(options: &[u8], wanted: u16) -> Option<u64> {
    value(options, wanted).and_then(|value| Some(u64::from_le_bytes(*value.first_chunk()?)))
}

fn value(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (head, rest) = options.split_first_chunk::<4>()?;
        let [code, len] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_le_bytes);
        if code == wanted {
            return rest.get(..len.into());
        }
        options = rest.get(usize::from(len).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(pieces: &[&[u8]]) -> Tally {
        let mut splitter = Splitter::default();
        pieces.iter().for_each(|piece| splitter.push(piece));
        assert_eq!(splitter.whole().expect("they are blocks"), pieces.concat());
        splitter.tally().clone()
    }

    #[test]
    fn capture_reader_sums_missed_frames_over_ports() {
        let interface = |port| {
            let (name, description) = (String::new(), String::new());
            Interface { port: PortId(port), name, description, mac: MacAddr([2; 6]), speed: 1 }
        };
        let interfaces = [0, 1].map(interface).into();
        let mut writer = Writer::new("xoff", interfaces, 99, Duration::ZERO, Duration::ZERO);
        writer.statistics(|port| [[4, 3], [9, 2]][port.index()], Duration::ZERO);
        assert_eq!(tally(&[&writer.take()]), Tally { frames: 0, missed: Some(5) });
    }

    #[test]
    fn capture_reader_ignores_truncated_statistics() {
        for len in (12_u32..=24).step_by(4) {
            let mut block = vec![0; len as usize];
            block[..8].copy_from_slice(&[STATISTICS.to_le_bytes(), len.to_le_bytes()].concat());
            assert_eq!(tally(&[&block]).missed, Some(0), "{len}");
        }
    }
}
