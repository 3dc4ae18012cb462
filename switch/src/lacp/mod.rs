//! LACP (IEEE 802.1AX) of port groups, without I/O.

pub mod aggregator;
pub mod member;

use std::sync::{Mutex, MutexGuard, PoisonError};

use xoff_wire::lacp::{End, LacpError};
use xoff_wire::units::Nanos;

use member::{Member, Standing};

#[derive(Debug)]
pub struct LacpPorts(Mutex<Box<[LacpPort]>>);

#[derive(Clone, Debug, Default)]
pub struct LacpPort {
    pub standing: Standing,
    pub actor: End,
    pub partner: End,
    pub counts: LacpCounts,
    /// Time since which no member of the port's group sends data, although one has a link; `None` if one sends.
    pub idle_since: Option<Nanos>,
    /// Time since which the port, with a link, sends no data although another port of its group does.
    pub out_since: Option<Nanos>,
    /// True while a reload waits until the port has left its group.
    pub leaves: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LacpCounts {
    pub frames_in: u64,
    pub frames_out: u64,
    pub malformed: [u64; LacpError::COUNT],
    pub changes: u64,
}

impl LacpPorts {
    #[must_use]
    pub fn new(ports: usize) -> LacpPorts {
        LacpPorts(Mutex::new(vec![LacpPort::default(); ports].into()))
    }

    /// Locks the LACP state of all ports. Forwarding threads must not call this.
    pub fn lock(&self) -> MutexGuard<'_, Box<[LacpPort]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LacpPort {
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        matches!(self.standing, Standing::Collecting | Standing::Distributing)
    }

    pub fn note(&mut self, member: &Member, is_sent: bool) {
        let standing = std::mem::replace(&mut self.standing, member.standing());
        (self.actor, self.partner) = member.ends();
        self.counts.changes += u64::from(standing != self.standing);
        self.counts.frames_out += u64::from(is_sent);
    }
}
