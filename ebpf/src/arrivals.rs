//! Counters of received frames by DSCP and PCP. An AF_XDP socket does not count its drops by class; the XDP program
//! receives every frame before. A class whose counter did not grow lost no frame in a socket.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

/// 64 DSCPs or none, times 8 PCPs or none.
const HEADS: usize = 65 * PCPS;
const PCPS: usize = 9;
const KINDS: usize = HEADS + 2;

/// Counters of received frames, by [`Head`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals(Box<[u64; KINDS]>);

/// The header fields that determine a frame's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Head {
    /// DSCP and PCP, where present.
    Marks {
        /// 0 to 63.
        dscp: Option<u8>,
        /// 0 to 7.
        pcp: Option<u8>,
    },
    /// MAC control, such as pause.
    Control,
    /// Too short, or with a fragmented header.
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
    /// Adds frames of one kind.
    #[must_use]
    pub fn with(mut self, head: Head, frames: u64) -> Arrivals {
        self.0[head.number()] += frames;
        self
    }

    /// Adds other counters to these.
    #[must_use]
    pub fn and(mut self, other: &Arrivals) -> Arrivals {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(frames, more)| *frames += more);
        self
    }

    /// Returns the kinds with more frames than `before`.
    pub fn since<'a>(&'a self, before: &'a Arrivals) -> impl Iterator<Item = (Head, u64)> + 'a {
        let more = self.0.iter().zip(before.0.iter()).map(|(now, before)| now.saturating_sub(*before));
        Head::all().zip(more).filter(|(_, frames)| *frames > 0)
    }
}

/// The XDP program's map of received frames.
#[derive(Debug)]
pub struct Arrived(pub(crate) MapHandle);

impl Arrived {
    /// Reads the frames received since the program was loaded.
    ///
    /// # Errors
    /// The kernel's refusal, or missing entries.
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
        // A missing counter is not zero.
        if read == KINDS { Ok(sum) } else { Err(libbpf_rs::Error::from_raw_os_error(EIO)) }
    }
}
