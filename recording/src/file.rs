//! A recording as a file: pcapng, in which each frame that came in or was sent is a packet, with its record beside it. What is no
//! frame is in blocks of our own:
//!
//! ```text
//! head    version, settings as they were written, what was not written (secrets, addresses), sizes
//! calls   records that are no frames, each with its length before it
//! books   what the switch had counted in the end, in pieces
//! end     why, how many records there are, and a digest of all before
//! ```
//!
//! The digest is of the file, not of the records: what pcapng puts around them, times and padding too, is in it, from the first byte
//! to the one before the digest itself. Behind it are the last four bytes, the length of its block, which stands at the block's beginning,
//! too. So no byte can be another one, and behind the end there is nothing.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use xoff_config::{Config, ConfigError, Machine, OwnPolicy};
use xoff_dataplane::counter::Counter;
use xoff_dataplane::settings::{HashSeed, SwitchSettings};
use xoff_dataplane::units::{MacAddr, Nanos, PortId};

use crate::pcapng::{Interface, Part, Writer};
use crate::{BEFORE_FRAME, Ending, Record, frame_of};

/// What stands in the file, and where. Another number is another format.
pub const FORMAT: u32 = 3;

/// Kind of the first block of a recording.
pub const HEAD: u8 = 0;
/// Kinds of the blocks that follow.
pub(super) const CALLS: u8 = 1;
pub(super) const BOOKS: u8 = 2;
pub(super) const END: u8 = 3;

/// Bytes of records that are no frames, and of books, in a block.
const PIECE: usize = 16 << 10;
/// Bytes that are written at a time.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// What a switch was before its first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The program that recorded it.
    pub version: String,
    /// How many workers it had.
    pub workers: u32,
    /// What its configuration was called.
    pub name: String,
    /// The configuration.
    pub text: String,
    /// What addresses were hashed with.
    pub seed: HashSeed,
    /// Slots of its packet memory.
    pub slots: u32,
    /// Addresses of its ports' devices.
    pub macs: Vec<MacAddr>,
    /// Of all settings, by which it is seen whether they are read as they were.
    pub settings: u64,
}

impl Head {
    /// Of a switch that was told `settings`, from `text`.
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

    /// The settings that its text stands for; `None` where this program reads them otherwise.
    ///
    /// # Errors
    /// This program takes the text for wrong.
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

    /// What [`Head::write`] wrote, after its kind; where the format is another one, that.
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

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) why: Ending,
    pub(super) records: u64,
}

/// Bytes of the end's block that are not in the digest: the digest, and the length of the block, which is at its beginning, too.
const NOT_IN_DIGEST: usize = size_of::<u64>() + size_of::<u32>();

impl End {
    /// With room for the digest, and of so many bytes that no padding is behind it.
    fn write(self) -> Vec<u8> {
        let why = u8::try_from(self.why.index()).unwrap_or(u8::MAX);
        let numbers = [self.records, 0].into_iter().flat_map(u64::to_le_bytes);
        [END, why, 0, 0].into_iter().chain(numbers).collect()
    }

    /// Of the last block, behind others of which there is this digest; `None` where a byte of all of them is another one.
    pub(super) fn read(block: &[u8], mut digest: Digest) -> Option<End> {
        let (before, rest) = block.split_last_chunk::<NOT_IN_DIGEST>()?;
        digest.add(before);
        let is_same = rest.starts_with(&digest.0.to_le_bytes());
        let Part::Own([END, why, _, _, numbers @ ..]) = Part::of(block)? else { return None };
        let (why, records) = (*Ending::ALL.get(usize::from(*why))?, long(&mut &numbers[..])?);
        is_same.then_some(End { why, records })
    }
}

/// By which a byte that is another one is found (FNV-1a, four bytes at a time, of which all blocks are made: it is the same of a file in
/// whatever pieces of whole blocks).
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

/// Writes a recording.
#[derive(Debug)]
pub struct FileWriter<W> {
    file: W,
    blocks: Writer,
    now: Nanos,
    /// Records that are no frames, since the last that is one.
    calls: Vec<u8>,
    records: u64,
    /// How many of these are in the file.
    written: Arc<Counter>,
    /// Of all that is in the file.
    digest: Digest,
}

impl<W: Write> FileWriter<W> {
    /// Begins one; `zero` was when the driver's clock was, since 1970.
    pub fn new(file: W, head: &Head, settings: &SwitchSettings, zero: Duration) -> FileWriter<W> {
        let interface = |(port, at): (PortId, &xoff_dataplane::settings::PortSettings)| Interface {
            port,
            name: at.name.clone(),
            description: format!("port {} of a recorded switch", at.name),
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

    /// Number of records that are in the file, written by the thread that has the writer.
    #[must_use]
    pub fn written(&self) -> Arc<Counter> {
        Arc::clone(&self.written)
    }

    /// One more.
    ///
    /// # Errors
    /// What keeps it from being written.
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

    /// Writes what is there.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end_calls();
        let blocks = self.blocks.take();
        self.digest.add(&blocks);
        self.file.write_all(&blocks)?;
        self.written.set(self.records);
        Ok(())
    }

    /// Ends it, with what the switch has counted where it ended with the recording. Gives what it wrote to, and the number of records.
    ///
    /// # Errors
    /// What keeps it from being written.
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
