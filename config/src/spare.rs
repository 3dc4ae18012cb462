//! Indices for ports that a running switch may add.
//!
//! A spare index has the memory of the largest port, but no device.

use xoff_flow_control::settings::{Memory, SharedMemory};
use xoff_wire::units::{Bytes, CLASSES, PORTS_MAX, PortId};

use crate::Config;
use crate::changes::vacated;
use crate::memory::Held;
use crate::reader::problem::Problem;
use crate::shell::{PortShell, Workers};

impl Config {
    #[must_use]
    pub fn with_spare_places(&self) -> Config {
        let mut config = self.clone();
        let Some(like) = self.largest_port() else { return config };
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

    /// Returns true if no port has had this index yet.
    #[must_use]
    pub fn is_spare(&self, index: usize) -> bool {
        self.shell.ports[index].is_vacant() && self.switch.ports[index].name.is_empty()
    }

    /// Returns the size of the shared pool if it is the default: a reload keeps this size.
    pub(crate) fn default_pool(&self) -> Option<Bytes> {
        match self.switch.memory {
            Memory::Shared(SharedMemory { pool, .. }) if self.shell.pool.is_none() => Some(pool),
            Memory::Shared(_) | Memory::Dedicated => None,
        }
    }

    pub(crate) fn largest_port(&self) -> Option<usize> {
        let taken = (0..self.shell.ports.len()).filter(|&index| !self.is_spare(index));
        let size = |index: &usize| {
            let Held { frames, cells } = self.port_share(*index, &[]).data();
            (cells, frames, self.shell.ports[*index].stall_chunks)
        };
        taken.max_by_key(size)
    }

    /// Returns the buffer memory for the spare ports among `ports`, and for the lossy queues of all spare ports: each worker needs all
    /// these queues.
    pub(crate) fn spare_share(&self, ports: &[PortId], queues: &[Option<u32>]) -> Held {
        let taken = || (0..self.shell.ports.len()).filter(|&index| !self.is_spare(index));
        let own = ports.iter().filter(|port| self.is_spare(port.index())).count() as u64;
        let most = taken().map(|index| self.port_share(index, queues).data());
        let most = most.fold(Held::NONE, Held::max);
        let all = (0..self.shell.ports.len()).filter(|&index| self.is_spare(index)).count() as u64;
        let lossy = self.lossy_everywhere(all).minus(self.lossy_everywhere(0));
        most.times(own).plus(lossy)
    }
}

pub(crate) fn too_many(ports: usize, spare: u8) -> Option<Problem> {
    let most = PORTS_MAX.saturating_sub(ports);
    (usize::from(spare) > most).then(|| {
        Problem::error(format!(
            "{ports} ports and {spare} spare ports exceed the maximum of {PORTS_MAX} ports"
        ))
        .help(format!("write spare_ports = {most} or less"))
    })
}
