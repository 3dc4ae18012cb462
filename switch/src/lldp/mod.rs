//! LLDP (IEEE 802.1AB) and DCBX (IEEE 802.1Qaz) without I/O. Stations are not trusted: stored content is bounded, and strings are escaped.

pub mod announcement;
pub mod dcbx;
pub mod mismatch;
pub mod table;
pub mod timer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use xoff_flow_control::settings::{Dcbx, PortSettings};
use xoff_wire::Header;
use xoff_wire::lldp::{LldpError, Lldpdu};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use announcement::Announcement;
use mismatch::{Mismatch, MismatchKind};
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
    speakers: usize,
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

    /// Locks the LLDP state of all ports. Forwarding threads must not call this.
    pub fn lock(&self) -> MutexGuard<'_, Box<[Port]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn announcement(&self, port: PortId) -> Option<Announcement> {
        self.lock()[port.index()].table.followed()
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

    /// Compares the port's settings with those of its [peer](NeighborTable::peer). While several neighbors announce
    /// DCBX, mismatches stay unchanged; returns true when the second such neighbor appears.
    pub fn compare(&mut self, settings: &PortSettings) -> bool {
        let speakers = if settings.dcbx == Dcbx::Off { 0 } else { self.table.speakers().count() };
        let was = std::mem::replace(&mut self.speakers, speakers);
        if speakers > 1 {
            return was <= 1;
        }
        let peer = self.table.peer();
        let mismatches = peer.map(|peer| mismatch::all(settings, &peer.announced)).unwrap_or_default();
        let was = std::mem::replace(&mut self.mismatches, mismatches);
        for kind in self.mismatches.iter().map(|it| it.kind) {
            let begins = was.iter().all(|it| it.kind != kind);
            self.counts.mismatches[kind.index()] += u64::from(begins);
        }
        false
    }

    #[must_use]
    pub fn not_compared(&self, settings: &PortSettings) -> Option<String> {
        let speakers: Vec<&Neighbor> = self.table.speakers().collect();
        let reason = match (settings.dcbx, &speakers[..]) {
            (Dcbx::Off, _) => "`dcbx` is \"off\"".into(),
            (_, []) if self.table.all().is_empty() => "no neighbor announces itself".into(),
            (_, []) => "no neighbor announces DCBX".into(),
            (_, [only]) if only.announced.dcbx == ["cin"] => {
                "the neighbor speaks only CIN, a DCBX from before IEEE 802.1Qaz".into()
            }
            (_, [_]) => return None,
            (_, all) => {
                let names: Vec<&str> = all.iter().map(|neighbor| neighbor.chassis.as_str()).collect();
                format!("{} neighbors announce DCBX: {}", all.len(), names.join(", "))
            }
        };
        Some(reason)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LineLimit {
    since: Nanos,
    lines: u32,
}

impl LineLimit {
    const MAX: u32 = 20;
    const EVERY: Nanos = Nanos::from_secs(10);

    pub fn is_allowed(&mut self, now: Nanos) -> bool {
        if now.since(self.since) >= Self::EVERY {
            *self = LineLimit { since: now, lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= Self::MAX
    }
}

fn read(frame: &[u8]) -> Result<(MacAddr, Lldpdu<'_>), LldpError> {
    let header = Header::parse(frame).map_err(|_| LldpError::Truncated)?;
    Ok((header.src, Lldpdu::parse(header.payload(frame))?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
