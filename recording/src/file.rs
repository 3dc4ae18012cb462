//! File of a recording, in pcapng. A received or sent frame is a packet whose option is its record. Custom blocks
//! contain everything else:
//!
//! ```text
//! head    version, configuration text, settings outside it (hash seed, MAC addresses), sizes
//! calls   records without a frame, each preceded by its length
//! books   final counts of the switch, in pieces
//! end     reason, number of records, digest of all preceding bytes
//! ```
//!
//! Every changed byte is detected: only the length of the end block follows the digest, and the block begins with the
//! same length.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use xoff_config::{Config, ConfigError, Machine, OwnPolicy};
use xoff_flow_control::counter::Counter;
use xoff_flow_control::settings::{HashSeed, SwitchSettings};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use crate::pcapng::{Interface, Part, Writer};
use crate::{BEFORE_FRAME, Ending, Record, frame_of};

pub const FORMAT: u32 = 3;

/// Type of the first custom block of a recording.
pub const HEAD: u8 = 0;
pub(super) const CALLS: u8 = 1;
pub(super) const BOOKS: u8 = 2;
pub(super) const END: u8 = 3;

/// Maximum bytes of a custom block of calls or final counts.
const PIECE: usize = 16 << 10;
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// State of a switch before the first recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub version: String,
    pub workers: u32,
    /// Name of the configuration, for error messages.
    pub name: String,
    pub text: String,
    pub seed: HashSeed,
    pub slots: u32,
    pub macs: Vec<MacAddr>,
    /// Digest of all settings. It differs if another build derives other settings from the text.
    pub settings: u64,
}

impl Head {
    #[must_use]
    pub fn new((name, text): (&str, &str), settings: &SwitchSettings, slots: u32) -> Head {
        Head {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workers: 1,
            name: name.to_owned(),
            text: text.to_owned(),
            seed: settings.fdb.seed,
            slots,
            macs: settings.ports.iter().map(|port| port.mac).collect(),
            settings: digest_of(settings),
        }
    }

    /// Parses the configuration text; `None` if this program derives other settings from it than the recorder did.
    pub fn settings(&self, own: Option<&OwnPolicy>) -> Result<Option<SwitchSettings>, ConfigError> {
        let machine = Machine { own_policy: own.cloned(), ..Machine::default() };
        let mut settings = Config::from_toml(&self.name, &self.text, machine)?.with_spare_places().switch;
        settings.fdb.seed = self.seed;
        for (port, mac) in settings.ports.iter_mut().zip(&self.macs) {
            port.mac = *mac;
        }
        let is_same = settings.ports.len() == self.macs.len() && digest_of(&settings) == self.settings;
        Ok(is_same.then_some(settings))
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = vec![HEAD];
        bytes.extend(FORMAT.to_le_bytes());
        let long = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        for text in [&self.version, &self.name, &self.text] {
            bytes.extend(long(text.len()));
            bytes.extend(text.as_bytes());
        }
        bytes.extend([self.workers, self.slots].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(self.seed.0.into_iter().chain([self.settings]).flat_map(u64::to_le_bytes));
        bytes.extend(long(self.macs.len()));
        bytes.extend(self.macs.iter().flat_map(|mac| mac.0));
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Result<Head, u32>> {
        let mut rest = bytes;
        let format = word(&mut rest)?;
        if format != FORMAT {
            return Some(Err(format));
        }
        let mut text = || {
            let len = word(&mut rest)?;
            String::from_utf8(take(&mut rest, len as usize)?.to_vec()).ok()
        };
        let [version, name, text] = [text()?, text()?, text()?];
        let [workers, slots] = [word(&mut rest)?, word(&mut rest)?];
        let [first, second, settings] = [long(&mut rest)?, long(&mut rest)?, long(&mut rest)?];
        let count = word(&mut rest)?;
        let macs = take(&mut rest, (count as usize).checked_mul(6)?)?;
        let macs = macs.as_chunks::<6>().0.iter().map(|mac| MacAddr(*mac)).collect();
        let seed = HashSeed([first, second]);
        rest.is_empty().then_some(Ok(Head { version, workers, name, text, seed, slots, macs, settings }))
    }
}

fn digest_of(settings: &SwitchSettings) -> u64 {
    let mut digest = Digest::default();
    digest.add(format!("{settings:?}").as_bytes());
    digest.0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) why: Ending,
    pub(super) records: u64,
}

/// Bytes at the end of a file that the digest does not cover: digest and block length.
const NOT_IN_DIGEST: usize = size_of::<u64>() + size_of::<u32>();

impl End {
    fn write(self) -> Vec<u8> {
        let why = u8::try_from(self.why.index()).unwrap_or(u8::MAX);
        let numbers = [self.records, 0].into_iter().flat_map(u64::to_le_bytes);
        [END, why, 0, 0].into_iter().chain(numbers).collect()
    }

    pub(super) fn read(block: &[u8], mut digest: Digest) -> Option<End> {
        let (before, rest) = block.split_last_chunk::<NOT_IN_DIGEST>()?;
        digest.add(before);
        let is_same = rest.starts_with(&digest.0.to_le_bytes());
        let Part::Own([END, why, _, _, numbers @ ..]) = Part::of(block)? else { return None };
        let (why, records) = (*Ending::ALL.get(usize::from(*why))?, long(&mut &numbers[..])?);
        is_same.then_some(End { why, records })
    }
}

/// FNV-1a hash over words of 4 bytes; the length of every block is a multiple of 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(pub(super) u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&last);
        for word in words.iter().chain(last).map(|word| u64::from(u32::from_le_bytes(*word))) {
            self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29);
        }
    }
}

pub(super) fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[derive(Debug)]
pub struct FileWriter<W> {
    file: W,
    blocks: Writer,
    now: Nanos,
    calls: Vec<u8>,
    records: u64,
    written: Arc<Counter>,
    digest: Digest,
}

impl<W: Write> FileWriter<W> {
    /// Begins a recording. `zero` is the Unix time at which the driver's clock was zero.
    pub fn new(file: W, head: &Head, settings: &SwitchSettings, zero: Duration) -> FileWriter<W> {
        let interface = |(port, at): (PortId, &xoff_flow_control::settings::PortSettings)| Interface {
            port,
            name: at.name.clone(),
            description: format!("port {} of the recorded switch", at.name),
            mac: at.mac,
            speed: at.speed.bits_per_second(),
        };
        let interfaces = (0..=u8::MAX).map(PortId).zip(&settings.ports).map(interface).collect();
        let application = format!("xoff {} run --record", head.version);
        let blocks = Writer::new(&application, interfaces, 0, zero, zero);
        let (calls, written, digest) = (Vec::with_capacity(PIECE), Arc::default(), Digest::default());
        let mut writer = FileWriter { file, blocks, now: Nanos::ZERO, calls, records: 0, written, digest };
        writer.blocks.own(&head.write());
        writer
    }

    #[must_use]
    pub fn written(&self) -> Arc<Counter> {
        Arc::clone(&self.written)
    }

    pub fn record(&mut self, record: &[u8]) -> io::Result<()> {
        self.records += 1;
        if let Some((port, len, is_in)) = frame_of(record) {
            self.end_calls();
            let (own, bytes) = record.split_at(BEFORE_FRAME);
            self.blocks.passing((port, is_in), self.now, len, bytes, own);
        } else {
            if let Some(Record::At(now)) = Record::read(record) {
                self.now = now;
            }
            if self.calls.is_empty() {
                self.calls.push(CALLS);
            }
            self.calls.extend(u16::try_from(record.len()).unwrap_or(u16::MAX).to_le_bytes());
            self.calls.extend(record);
            if self.calls.len() >= PIECE {
                self.end_calls();
            }
        }
        if self.blocks.pending() >= WRITTEN_AT_ONCE { self.flush() } else { Ok(()) }
    }

    fn end_calls(&mut self) {
        if !self.calls.is_empty() {
            self.blocks.own(&self.calls);
            self.calls.clear();
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.end_calls();
        let blocks = self.blocks.take();
        self.digest.add(&blocks);
        self.file.write_all(&blocks)?;
        self.written.set(self.records);
        Ok(())
    }

    /// Ends the recording, with final counts if the switch stopped. Returns the file and the number of records.
    pub fn end(mut self, why: Ending, books: Option<&str>) -> io::Result<(W, u64)> {
        self.end_calls();
        for piece in books.unwrap_or_default().as_bytes().chunks(PIECE) {
            self.blocks.own(&[&[BOOKS], piece].concat());
        }
        self.blocks.own(&End { why, records: self.records }.write());
        let mut blocks = self.blocks.take();
        if let Some((before, rest)) = blocks.split_last_chunk_mut::<NOT_IN_DIGEST>() {
            self.digest.add(before);
            rest[..size_of::<u64>()].copy_from_slice(&self.digest.0.to_le_bytes());
        }
        self.file.write_all(&blocks)?;
        self.file.flush()?;
        self.written.set(self.records);
        Ok((self.file, self.records))
    }
}
