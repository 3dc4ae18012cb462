//! Places for ports that a running switch may be given.
//!
//! Packet memory is cut at the start. So a port that is to come later has a place from the start on, with as much
//! memory as the port that takes most, and without a device until somebody takes it. A place that had a port once
//! keeps its name, since its counters do.

use xoff_dataplane::units::{CLASSES, PORTS_MAX, PortId};

use crate::Config;
use crate::changes::vacated;
use crate::memory::{CONTROL, Chunks, EGRESS};
use crate::reader::problem::Problem;
use crate::shell::{PortShell, Workers};

impl Config {
    /// The same with its spare places behind its ports.
    #[must_use]
    pub fn with_spare_places(&self) -> Config {
        let mut config = self.clone();
        let Some(like) =
            (0..self.shell.ports.len()).max_by_key(|&index| of_port(&self.port_chunks(index, &[])))
        else {
            return config;
        };
        for _ in 0..self.shell.spare_ports {
            let id = u8::try_from(config.shell.ports.len()).map_or(PortId(u8::MAX), PortId);
            let mut place = vacated(&self.switch.ports[like]);
            place.name.clear();
            config.switch.ports.push(place);
            config.shell.ports.push(PortShell::vacated(&self.shell.ports[like]));
            config.headroom.push([None; CLASSES]);
            if let Workers::List(list) = &mut config.shell.workers
                && let Some(worker) = list.iter_mut().min_by_key(|worker| worker.ports.len())
            {
                worker.ports.push(id);
            }
        }
        config
    }

    /// Whether nobody has ever taken that place.
    #[must_use]
    pub fn is_spare(&self, index: usize) -> bool {
        self.shell.ports[index].is_vacant() && self.switch.ports[index].name.is_empty()
    }

    /// What spare places take of the share of a worker that owns `ports`.
    pub(crate) fn spare_chunks(&self, ports: &[PortId], queues: &[Option<u32>]) -> u64 {
        let places = 0..self.shell.ports.len();
        let all = places.clone().filter(|&index| self.is_spare(index)).count() as u64;
        let own = ports.iter().filter(|port| self.is_spare(port.index())).count() as u64;
        let taken = || places.clone().filter(|&index| !self.is_spare(index));
        let most = |of: fn(&Chunks) -> u64| {
            taken().map(|index| of(&self.port_chunks(index, queues))).max().unwrap_or(0)
        };
        // What waits at another worker's ports may be this one's.
        own.saturating_mul(most(of_port)).saturating_add((all - own).saturating_mul(most(|it| it[EGRESS].1)))
    }
}

/// All but those for control frames, which every place has.
fn of_port(chunks: &Chunks) -> u64 {
    chunks.iter().enumerate().filter(|(at, _)| *at != CONTROL).map(|(_, (_, chunks))| *chunks).sum()
}

/// More places than a switch has ports.
pub(crate) fn too_many(ports: usize, spare: u8) -> Option<Problem> {
    let most = PORTS_MAX.saturating_sub(ports);
    (usize::from(spare) > most).then(|| {
        Problem::error(format!(
            "{ports} ports and {spare} spare places, but a switch has at most {PORTS_MAX}"
        ))
        .help(format!("write spare_ports = {most} or less"))
    })
}
