//! LLDP (IEEE 802.1AB) and DCBX (IEEE 802.1Qaz) as a switch speaks them, without I/O: when a port speaks ([`timer`]), whom it
//! hears ([`table`]) and what was said ([`said`]), and what that means for classes ([`dcbx`]). Time is an argument.
//!
//! [`Neighbors`] is what is known at all ports. The thread of the host path writes it; whoever shows it, or goes by it, reads.
//! Strangers say what stands there: all of it is bounded, and of what is text nothing is kept that a terminal would obey.

pub mod dcbx;
pub mod said;
pub mod table;
pub mod timer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use xoff_dataplane::units::{MacAddr, Nanos, PortId};
use xoff_dataplane::wire::Header;
use xoff_dataplane::wire::lldp::{LldpError, Lldpdu};

use dcbx::{Kind, Mismatch};
use said::Said;
use table::{Heard, Neighbor, Table};
use timer::Timer;

/// What is known of the neighbors at all ports.
#[derive(Debug)]
pub struct Neighbors(Mutex<Box<[Port]>>);

/// What a port speaks and hears.
#[derive(Debug, Default)]
pub struct Port {
    /// When it speaks next.
    pub timer: Timer,
    /// Whom it hears.
    pub table: Table,
    /// What was counted.
    pub counts: Counts,
    /// Where the neighbor's classes are others than the port's.
    pub mismatches: Vec<Mismatch>,
}

/// What a port has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that came in, those that say nothing included.
    pub frames_in: u64,
    /// Frames that were handed out to be sent.
    pub frames_out: u64,
    /// Those of them that could not be: the port had no link, or too much to say.
    pub not_sent: u64,
    /// Frames that say nothing, by why.
    pub malformed: [u64; LldpError::COUNT],
    /// TLVs that were left out of frames that say something, by why.
    pub discarded: [u64; LldpError::COUNT],
    /// Frames of neighbors for which there was no place.
    pub too_many: u64,
    /// Neighbors that fell silent.
    pub aged_out: u64,
    /// Times that a neighbor said that it holds for less long than it had.
    pub shortened: u64,
    /// Times that each [kind](Kind) of mismatch began.
    pub mismatches: [u64; Kind::COUNT],
}

impl Neighbors {
    /// Of so many ports, at which nobody was heard.
    #[must_use]
    pub fn new(ports: usize) -> Neighbors {
        Neighbors(Mutex::new((0..ports).map(|_| Port::default()).collect()))
    }

    /// All ports. Not for a thread that forwards frames.
    pub fn lock(&self) -> MutexGuard<'_, Box<[Port]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the only neighbor at `port` says; `None` where there is none, or several contradict each other.
    #[must_use]
    pub fn said(&self, port: PortId) -> Option<Said> {
        self.lock()[port.index()].table.only().map(|neighbor| neighbor.said.clone())
    }
}

impl Port {
    /// A frame of LLDP came in.
    pub fn receive(&mut self, now: Nanos, frame: &[u8]) -> Heard {
        self.counts.frames_in += 1;
        let (src, list) = match read(frame) {
            Ok(read) => read,
            Err(error) => {
                self.counts.malformed[error.index()] += 1;
                return Heard::Nothing;
            }
        };
        let heard = self.table.hear(now, src, &list, &mut self.counts);
        if matches!(heard, Heard::New) {
            self.timer.neighbor_came(now);
        }
        heard
    }

    /// Neighbors that have fallen silent by `now`.
    pub fn age(&mut self, now: Nanos) -> Vec<Neighbor> {
        let aged = self.table.age(now);
        self.counts.aged_out += aged.len() as u64;
        aged
    }

    /// The mismatches are these from now on; those that begin are counted.
    pub fn compare(&mut self, mismatches: Vec<Mismatch>) {
        let was = std::mem::replace(&mut self.mismatches, mismatches);
        for kind in self.mismatches.iter().map(|it| it.kind) {
            let begins = was.iter().all(|it| it.kind != kind);
            self.counts.mismatches[kind.index()] += u64::from(begins);
        }
    }
}

/// From whom a frame is, and what it says.
fn read(frame: &[u8]) -> Result<(MacAddr, Lldpdu<'_>), LldpError> {
    let header = Header::parse(frame).map_err(|_| LldpError::Truncated)?;
    Ok((header.src, Lldpdu::parse(header.payload(frame))?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
