//! A recording as a file: pcapng, in which each frame that came in or was sent is a packet, with its record beside it. What is no
//! frame is in blocks of our own:
//!
//! ```text
//! head    version, settings as they were written, what was not written (secrets, addresses), sizes
//! calls   records that are no frames, each with its length before it
//! books   what the switch had counted in the end, in pieces
//! end     why, how many records there are, and a digest of all before
//! ```

use std::io::{self, Write};
use std::time::Duration;

use xoff_config::{Config, ConfigError, Machine, OwnPolicy};
use xoff_dataplane::settings::{HashSeed, SwitchSettings};
use xoff_dataplane::units::{MacAddr, Nanos, PortId};
use xoff_sim::recording::{BEFORE_FRAME, Ending, Record, frame_of};

use crate::capture::pcapng::{Interface, Writer};

/// What stands in the file, and where. Another number is another format.
pub(super) const FORMAT: u32 = 1;

/// Kinds of our own blocks.
pub(super) const HEAD: u8 = 0;
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
    pub(super) digest: u64,
}

impl End {
    fn write(self) -> Vec<u8> {
        let numbers = [self.records, self.digest].into_iter().flat_map(u64::to_le_bytes);
        [END, u8::try_from(self.why.index()).unwrap_or(u8::MAX)].into_iter().chain(numbers).collect()
    }

    /// What [`End::write`] wrote, after its kind.
    pub(super) fn read(bytes: &[u8]) -> Option<End> {
        let (&why, mut rest) = bytes.split_first()?;
        let [records, digest] = [long(&mut rest)?, long(&mut rest)?];
        Some(End { why: *Ending::ALL.get(usize::from(why))?, records, digest })
    }
}

/// Of all that was written, by which a byte that is another one is found (FNV-1a, eight bytes at a time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(pub(super) u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let len = bytes.len() as u64;
        for word in words.iter().map(|word| u64::from_le_bytes(*word)).chain([u64::from_le_bytes(last), len])
        {
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
pub(super) struct FileWriter<W> {
    file: W,
    blocks: Writer,
    now: Nanos,
    /// Records that are no frames, since the last that is one.
    calls: Vec<u8>,
    records: u64,
    digest: Digest,
}

impl<W: Write> FileWriter<W> {
    /// Begins one; `zero` was when the driver's clock was, since 1970.
    pub(super) fn new(file: W, head: &Head, settings: &SwitchSettings, zero: Duration) -> FileWriter<W> {
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
        let (calls, digest) = (Vec::with_capacity(PIECE), Digest::default());
        let mut writer = FileWriter { file, blocks, now: Nanos::ZERO, calls, records: 0, digest };
        writer.own(&head.write());
        writer
    }

    fn own(&mut self, bytes: &[u8]) {
        self.digest.add(bytes);
        self.blocks.own(bytes);
    }

    /// One more.
    pub(super) fn record(&mut self, record: &[u8]) -> io::Result<()> {
        self.records += 1;
        if let Some((port, len, is_in)) = frame_of(record) {
            self.end_calls();
            let (own, bytes) = record.split_at(BEFORE_FRAME);
            self.digest.add(own);
            self.digest.add(bytes);
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
            let calls = std::mem::take(&mut self.calls);
            self.own(&calls);
            self.calls = calls;
            self.calls.clear();
        }
    }

    /// Writes what is there.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.end_calls();
        self.file.write_all(&self.blocks.take())
    }

    /// Ends it, with what the switch has counted where it ended with the recording.
    pub(super) fn end(mut self, why: Ending, books: Option<&str>) -> io::Result<(W, u64)> {
        self.end_calls();
        for piece in books.unwrap_or_default().as_bytes().chunks(PIECE) {
            self.own(&[&[BOOKS], piece].concat());
        }
        let end = End { why, records: self.records, digest: self.digest.0 };
        self.blocks.own(&end.write());
        self.flush()?;
        self.file.flush()?;
        Ok((self.file, self.records))
    }
}
