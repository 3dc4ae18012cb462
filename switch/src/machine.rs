mod cgroup;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::sysinfo::sysinfo;
use procfs::{Current as _, Meminfo};
use xoff_config::{AvailableMemory, Device, Machine, Uses};
use xoff_flow_control::settings::HashSeed;
use xoff_wire::units::Bytes;
use xoff_xdp::Interface;

#[must_use]
pub fn here() -> Machine {
    Machine {
        memory: available_memory(),
        cores: cores(),
        cpu_quota: cgroup::cpu_quota(),
        device,
        is_netns,
        own_policy: None,
        has_small_chunks: xoff_xdp::has_small_chunks,
        running: None,
    }
}

pub(crate) fn device(name: &str) -> Device {
    let interface = match Interface::find(name) {
        Ok(Some(interface)) => interface,
        Ok(None) => return Device::Missing,
        Err(_) => return Device::Unknown,
    };
    let Interface { index, queues, mtu, loopback, ethernet, master, kind, upper, default_route, addresses } =
        interface;
    let uses = Uses { loopback, no_ethernet: !ethernet, master, kind, upper, default_route, addresses };
    Device::Has { index, queues, mtu, uses }
}

/// Returns whether `path` lies on the kernel's file system of namespaces. Entering a namespace of another kind
/// fails later.
fn is_netns(path: &Path) -> bool {
    let file_system = |path: &Path| fs::metadata(path).map(|file| file.dev());
    match (file_system(path), file_system(Path::new("/proc/thread-self/ns/net"))) {
        (Ok(its), Ok(ours)) => its == ours,
        (Err(_), _) => false,
        (Ok(_), Err(_)) => true, // unknown without /proc
    }
}

#[must_use]
pub fn secret() -> HashSeed {
    let state = RandomState::new();
    HashSeed([0u8, 1].map(|half| state.hash_one(half)))
}

/// Returns the memory of the machine, or of this process's cgroups if their limit is lower.
#[must_use]
pub fn memory() -> Option<Bytes> {
    let machine = sysinfo().ok().map(|info| Bytes(info.ram_total()));
    machine.into_iter().chain(cgroup::limit()).min()
}

fn available_memory() -> Option<AvailableMemory> {
    let machine = Meminfo::current().ok().and_then(|info| info.mem_available);
    let machine = machine.map(|bytes| AvailableMemory::from(Bytes(bytes)));
    machine.into_iter().chain(cgroup::available()).min_by_key(|memory| memory.bytes)
}

fn cores() -> Vec<u16> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.into_iter().filter_map(|core| u16::try_from(core.id).ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test] // proves: workers
    fn cores_of_machine_are_those_that_this_thread_may_use() {
        let all = here().cores;
        let last = *all.last().unwrap();
        let pinned = std::thread::spawn(move || {
            assert!(core_affinity::set_for_current(core_affinity::CoreId { id: last.into() }));
            here().cores
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        let available = available_memory().unwrap().bytes;
        assert!(available > Bytes(1 << 20) && available <= memory().unwrap());
    }

    #[test] // proves: check
    fn network_namespace_is_distinguished_from_other_files() {
        let is_netns = here().is_netns;
        for (path, is_one) in
            [("/proc/self/ns/net", true), ("/proc/self/status", false), ("/no/such/file", false)]
        {
            assert_eq!(is_netns(Path::new(path)), is_one, "{path}");
        }
    }

    #[test] // proves: bridging
    fn hash_seed_differs_at_each_call() {
        let secrets = [secret(), secret()];
        assert_ne!(secrets[0], secrets[1]);
        assert!(!secrets.contains(&HashSeed::PUBLIC));
        assert_eq!(format!("{:?}", secrets[0]), "HashSeed(..)");
    }
}
