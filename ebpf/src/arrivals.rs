//! Frames that the XDP program has seen, by what the dataplane finds a frame's class by.
//!
//! An AF_XDP socket counts what it drops, and does not say of which class that was. The program sees every frame before a socket
//! does: where it has seen none of a class in some time, no socket has dropped any of it in that time.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

/// DSCPs, and none; PCPs, and none.
const HEADS: usize = 65 * PCPS;
const PCPS: usize = 9;
const KINDS: usize = HEADS + 2;

/// Frames that the program has seen, by what a frame's class is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals(Box<[u64; KINDS]>);

/// What a frame's class is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Head {
    /// Its DSCP and its PCP, where it has them.
    Marks {
        /// Of an IP packet, 0 to 63.
        dscp: Option<u8>,
        /// Of a tagged frame, 0 to 7.
        pcp: Option<u8>,
    },
    /// MAC control: a pause frame.
    Control,
    /// The frame is too short, or its head lies in pieces.
    Unreadable,
}

impl Head {
    const fn number(self) -> usize {
        match self {
            Head::Control => HEADS,
            Head::Unreadable => HEADS + 1,
            Head::Marks { dscp, pcp } => {
                let dscp = match dscp {
                    Some(dscp) => (dscp & 63) as usize,
                    None => 64,
                };
                let pcp = match pcp {
                    Some(pcp) => (pcp & 7) as usize,
                    None => 8,
                };
                dscp * PCPS + pcp
            }
        }
    }

    /// All of them, in the order in which they are counted.
    fn all() -> impl Iterator<Item = Head> {
        let dscps = (0..64).map(Some).chain([None]);
        let marks =
            dscps.flat_map(|dscp| (0..8).map(Some).chain([None]).map(move |pcp| Head::Marks { dscp, pcp }));
        marks.chain([Head::Control, Head::Unreadable])
    }
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals(Box::new([0; KINDS]))
    }
}

impl Arrivals {
    /// These, and so many more of one kind.
    #[must_use]
    pub fn with(mut self, head: Head, frames: u64) -> Arrivals {
        self.0[head.number()] += frames;
        self
    }

    /// These and others.
    #[must_use]
    pub fn and(mut self, other: &Arrivals) -> Arrivals {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(frames, more)| *frames += more);
        self
    }

    /// The kinds of which there are more than there were `before`, and how many more.
    pub fn since<'a>(&'a self, before: &'a Arrivals) -> impl Iterator<Item = (Head, u64)> + 'a {
        let more = self.0.iter().zip(before.0.iter()).map(|(now, before)| now.saturating_sub(*before));
        Head::all().zip(more).filter(|(_, frames)| *frames > 0)
    }
}

/// The program's counts of frames that it has seen.
#[derive(Debug)]
pub struct Arrived(pub(crate) MapHandle);

impl Arrived {
    /// All that have come since the program was loaded.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self) -> libbpf_rs::Result<Arrivals> {
        const EIO: i32 = 5;
        let (mut sum, mut read) = (Arrivals::default(), 0);
        let kinds = u32::try_from(KINDS).expect("a few hundred");
        for (kind, frames) in self.0.lookup_batch(kinds, MapFlags::ANY, MapFlags::ANY)? {
            let kind = kind.first_chunk().map_or(0, |&kind| u32::from_ne_bytes(kind));
            let place = usize::try_from(kind).ok().and_then(|kind| sum.0.get_mut(kind));
            if let (Some(place), Some(&frames)) = (place, frames.first_chunk()) {
                *place = u64::from_ne_bytes(frames);
                read += 1;
            }
        }
        // An error ends what is read: what was not read is not zero.
        if read == KINDS { Ok(sum) } else { Err(libbpf_rs::Error::from_raw_os_error(EIO)) }
    }
}
