//! LLDP (IEEE 802.1AB) and DCBX (IEEE 802.1Qaz) without I/O. The host path's thread writes [`Neighbors`]. Content from untrusted stations
//! is bounded, and its texts are escaped.

pub mod announcement;
pub mod dcbx;
pub mod table;
pub mod timer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use xoff_wire::Header;
use xoff_wire::lldp::{LldpError, Lldpdu};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use announcement::Announcement;
use dcbx::{Mismatch, MismatchKind};
use table::{Neighbor, NeighborChange, NeighborTable};
use timer::Timer;

#[derive(Debug)]
pub struct Neighbors(Mutex<Box<[Port]>>);

#[derive(Debug, Default)]
pub struct Port {
    pub timer: Timer,
    pub table: NeighborTable,
    pub counts: LldpCounts,
    pub mismatches: Vec<Mismatch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LldpCounts {
    pub frames_in: u64,
    pub frames_out: u64,
    pub not_sent: u64,
    pub malformed: [u64; LldpError::COUNT],
    pub discarded: [u64; LldpError::COUNT],
    pub too_many: u64,
    pub aged_out: u64,
    pub shortened: u64,
    pub mismatches: [u64; MismatchKind::COUNT],
}

impl Neighbors {
    #[must_use]
    pub fn new(ports: usize) -> Neighbors {
        Neighbors(Mutex::new((0..ports).map(|_| Port::default()).collect()))
    }

    /// Locks the state of all ports. Forwarding threads must not call this.
    pub fn lock(&self) -> MutexGuard<'_, Box<[Port]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn announcement(&self, port: PortId) -> Option<Announcement> {
        self.lock()[port.index()].table.only().map(|neighbor| neighbor.announced.clone())
    }
}

impl Port {
    pub fn receive(&mut self, now: Nanos, frame: &[u8]) -> NeighborChange {
        self.counts.frames_in += 1;
        let (src, list) = match read(frame) {
            Ok(read) => read,
            Err(error) => {
                self.counts.malformed[error.index()] += 1;
                return NeighborChange::Nothing;
            }
        };
        let change = self.table.update(now, src, &list, &mut self.counts);
        if matches!(change, NeighborChange::New) {
            self.timer.neighbor_came(now);
        }
        change
    }

    pub fn age(&mut self, now: Nanos) -> Vec<Neighbor> {
        let aged = self.table.age(now);
        self.counts.aged_out += aged.len() as u64;
        aged
    }

    pub fn compare(&mut self, mismatches: Vec<Mismatch>) {
        let was = std::mem::replace(&mut self.mismatches, mismatches);
        for kind in self.mismatches.iter().map(|it| it.kind) {
            let begins = was.iter().all(|it| it.kind != kind);
            self.counts.mismatches[kind.index()] += u64::from(begins);
        }
    }
}

fn read(frame: &[u8]) -> Result<(MacAddr, Lldpdu<'_>), LldpError> {
    let header = Header::parse(frame).map_err(|_| LldpError::Truncated)?;
    Ok((header.src, Lldpdu::parse(header.payload(frame))?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
