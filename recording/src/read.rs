use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use xoff_config::{ConfigError, OwnPolicy};

use crate::file::{BOOKS, CALLS, Digest, END, End, FORMAT, HEAD, Head, take};
use crate::pcapng::{FIRST_BYTE, Part, read_block};
use crate::{Broken, Ending, Outcome, Replay};

#[derive(Debug, thiserror::Error)]
pub enum NotReplayed {
    #[error("cannot read {}: {error}", path.display())]
    Unread { path: PathBuf, error: io::Error },
    #[error("the file is not a recording: give a file that `xoff run --record FILE` wrote")]
    Foreign,
    #[error("the file is empty: give a recording, which `xoff run --record FILE` writes")]
    Empty,
    #[error(
        "the recording is cut off after {records} records: its switch was killed, or the copy of the file is incomplete"
    )]
    Cut { records: u64 },
    #[error(
        "the recording is damaged after {records} readable records: some bytes have changed since it was written"
    )]
    Damaged { records: u64 },
    #[error(
        "the file has data after the end of the recording: give the unchanged file, with one recording only"
    )]
    Followed,
    #[error(
        "the recording was made by xoff {theirs}, and this is {}: replay it with the version that recorded it",
        env!("CARGO_PKG_VERSION")
    )]
    Version { theirs: String },
    #[error(
        "the recording has format {theirs}, but this version of xoff reads format {FORMAT}: replay it with the version that recorded it"
    )]
    Format { theirs: u32 },
    #[error("the recorded switch had {0} workers; only a switch with one worker can be replayed")]
    Workers(u32),
    #[error("this program rejects the recorded configuration: {0}")]
    Config(#[source] Box<ConfigError>),
    #[error(
        "this build of xoff reads the recorded configuration differently: replay it with the build that recorded it"
    )]
    Settings,
    #[error(transparent)]
    Broken(#[from] Broken),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    pub outcome: Outcome,
    /// First difference of the final counts: the recorded and the replayed line.
    pub books: Option<(String, String)>,
    pub ended: Ending,
    pub has_books: bool,
}

impl Replayed {
    #[must_use]
    pub fn is_identical(&self) -> bool {
        matches!(self.outcome, Outcome::Identical { .. }) && self.books.is_none()
    }
}

pub fn replay(path: &Path, own: Option<&OwnPolicy>) -> Result<Replayed, NotReplayed> {
    let unread = |error| NotReplayed::Unread { path: path.to_owned(), error };
    if !std::fs::metadata(path).map_err(unread)?.is_file() {
        return Err(unread(io::Error::other(
            "the path is a pipe or directory; a recording is read twice, so give a regular file",
        )));
    }
    let open = || File::open(path).map(|file| BufReader::with_capacity(1 << 20, file)).map_err(unread);
    replay_of(open()?, open()?, own, path)
}

/// Replays a recording from two readers of the same bytes. The first serves to check the whole file beforehand.
pub fn replay_of(
    first: impl Read,
    second: impl Read,
    own: Option<&OwnPolicy>,
    path: &Path,
) -> Result<Replayed, NotReplayed> {
    let (head, mut reader) = Reader::begin(first, path)?;
    can_be_of(&head)?;
    while reader.next().transpose()?.is_some() {}
    let settings = head.settings(own).map_err(|error| NotReplayed::Config(Box::new(error)))?;
    let settings = settings.ok_or(NotReplayed::Settings)?;
    let is_cut = reader.ended == Some(Ending::Overrun);
    let (_, mut reader) = Reader::begin(second, path)?;
    let mut replay = Replay::new(&settings, head.slots);
    let outcome = replay.run(reader.by_ref(), is_cut)?;
    let is_through = matches!(outcome, Outcome::Identical { .. });
    while reader.next().transpose()?.is_some() {}
    let (ended, has_books) = (reader.ended.unwrap_or(Ending::Stopped), !reader.books.is_empty());
    let books = String::from_utf8_lossy(&reader.books);
    let books = (is_through && has_books).then(|| replay.differing_books(&books)).flatten();
    Ok(Replayed { outcome, books, ended, has_books })
}

fn can_be_of(head: &Head) -> Result<(), NotReplayed> {
    match head {
        Head { version, .. } if version != env!("CARGO_PKG_VERSION") => {
            Err(NotReplayed::Version { theirs: version.clone() })
        }
        Head { workers: 1, .. } => Ok(()),
        Head { workers, .. } => Err(NotReplayed::Workers(*workers)),
    }
}

struct Reader<'a, R> {
    from: R,
    path: &'a Path,
    block: Vec<u8>,
    calls: Vec<u8>,
    taken: usize,
    records: u64,
    digest: Digest,
    books: Vec<u8>,
    ended: Option<Ending>,
}

impl<'a, R: Read> Reader<'a, R> {
    fn begin(from: R, path: &'a Path) -> Result<(Head, Reader<'a, R>), NotReplayed> {
        let (block, calls, books) = (Vec::new(), Vec::new(), Vec::new());
        let digest = Digest::default();
        let mut reader =
            Reader { from, path, block, calls, taken: 0, records: 0, digest, books, ended: None };
        let foreign = |error| match error {
            NotReplayed::Damaged { .. } => NotReplayed::Foreign,
            error => error,
        };
        let is_there = reader.read().map_err(|error| match error {
            NotReplayed::Cut { .. } if reader.block.first() != Some(&FIRST_BYTE) => NotReplayed::Foreign,
            error => foreign(error),
        })?;
        if !is_there {
            return Err(NotReplayed::Empty);
        }
        if Part::of(&reader.block) != Some(Part::Begin) {
            return Err(NotReplayed::Foreign);
        }
        loop {
            reader.read_whole().map_err(foreign)?;
            match Part::of(&reader.block) {
                Some(Part::Other) => (), // a port
                Some(Part::Own([HEAD, head @ ..])) => {
                    let read = Head::read(head).ok_or(NotReplayed::Foreign)?;
                    let head = read.map_err(|theirs| NotReplayed::Format { theirs })?;
                    return Ok((head, reader));
                }
                _ => return Err(NotReplayed::Foreign),
            }
        }
    }

    fn read_whole(&mut self) -> Result<(), NotReplayed> {
        let records = self.records;
        if self.read()? { Ok(()) } else { Err(NotReplayed::Cut { records }) }
    }

    fn read(&mut self) -> Result<bool, NotReplayed> {
        let records = self.records;
        self.digest.add(&self.block); // the previous block
        match read_block(&mut self.from, &mut self.block) {
            Ok(is_there) => Ok(is_there),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(NotReplayed::Cut { records }),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(NotReplayed::Damaged { records }),
            Err(error) => Err(NotReplayed::Unread { path: self.path.to_owned(), error }),
        }
    }

    fn end(&mut self) -> Result<End, NotReplayed> {
        let end = End::read(&self.block, self.digest).filter(|end| end.records == self.records);
        let end = end.ok_or(NotReplayed::Damaged { records: self.records })?;
        match self.read() {
            Ok(false) => Ok(end),
            Err(error @ NotReplayed::Unread { .. }) => Err(error),
            Ok(true) | Err(_) => Err(NotReplayed::Followed),
        }
    }

    fn step(&mut self) -> Result<Option<Vec<u8>>, NotReplayed> {
        loop {
            let damaged = NotReplayed::Damaged { records: self.records };
            let mut rest = &self.calls[self.taken..];
            if !rest.is_empty() {
                let len = take(&mut rest, 2).and_then(|len| len.try_into().ok()).map(u16::from_le_bytes);
                let record = len.and_then(|len| take(&mut rest, len.into())).ok_or(damaged)?.to_vec();
                self.taken = self.calls.len() - rest.len();
                self.records += 1;
                return Ok(Some(record));
            }
            if self.ended.is_some() {
                return Ok(None);
            }
            self.read_whole()?;
            match Part::of(&self.block) {
                Some(Part::Passing(own, bytes)) => {
                    self.records += 1;
                    return Ok(Some([own, bytes].concat()));
                }
                Some(Part::Own([CALLS, calls @ ..])) => {
                    self.calls.clear();
                    self.calls.extend_from_slice(calls);
                    self.taken = 0;
                }
                Some(Part::Own([BOOKS, books @ ..])) => self.books.extend_from_slice(books),
                Some(Part::Own([END, ..])) => self.ended = Some(self.end()?.why),
                Some(Part::Other) => (),
                _ => return Err(damaged),
            }
        }
    }
}

impl<R: Read> Iterator for Reader<'_, R> {
    type Item = Result<Vec<u8>, NotReplayed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
