//! Counters of received frames by DSCP and PCP, kept by the XDP program.
//!
//! An AF_XDP socket does not count its drops by class. But the XDP program sees every frame first: if it counted no new
//! frame of a class, the socket dropped none of that class.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

const HEADS: usize = 65 * PCPS;
const PCPS: usize = 9;
const KINDS: usize = HEADS + 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals(Box<[u64; KINDS]>);

/// Kind of a received frame: the header fields that determine its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Head {
    Marks {
        /// DSCP of an IP packet, 0 to 63.
        dscp: Option<u8>,
        /// PCP of a tagged frame, 0 to 7.
        pcp: Option<u8>,
    },
    /// MAC control frame, such as a pause frame.
    Control,
    /// Frame whose header the XDP program cannot read: too short, or split over several buffers.
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
    #[must_use]
    pub fn with(mut self, head: Head, frames: u64) -> Arrivals {
        self.0[head.number()] += frames;
        self
    }

    #[must_use]
    pub fn and(mut self, other: &Arrivals) -> Arrivals {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(frames, more)| *frames += more);
        self
    }

    /// Returns each kind of frame that arrived since `before`, with the number of new frames.
    pub fn since<'a>(&'a self, before: &'a Arrivals) -> impl Iterator<Item = (Head, u64)> + 'a {
        let more = self.0.iter().zip(before.0.iter()).map(|(now, before)| now.saturating_sub(*before));
        Head::all().zip(more).filter(|(_, frames)| *frames > 0)
    }
}

/// BPF map in which the XDP program counts received frames.
#[derive(Debug)]
pub struct Arrived(pub(crate) MapHandle);

impl Arrived {
    /// Returns how many frames of each kind were received since the program was loaded.
    ///
    /// # Errors
    /// Returns the kernel's error, or EIO if counters are missing.
    pub fn read(&self) -> libbpf_rs::Result<Arrivals> {
        const EIO: i32 = 5;
        let (mut sum, mut read) = (Arrivals::default(), 0);
        let kinds = u32::try_from(KINDS).expect("the number of kinds of frames must fit in 32 bits");
        for (kind, frames) in self.0.lookup_batch(kinds, MapFlags::ANY, MapFlags::ANY)? {
            let kind = kind.first_chunk().map_or(0, |&kind| u32::from_ne_bytes(kind));
            let place = usize::try_from(kind).ok().and_then(|kind| sum.0.get_mut(kind));
            if let (Some(place), Some(&frames)) = (place, frames.first_chunk()) {
                *place = u64::from_ne_bytes(frames);
                read += 1;
            }
        }
        if read == KINDS { Ok(sum) } else { Err(libbpf_rs::Error::from_raw_os_error(EIO)) }
    }
}
