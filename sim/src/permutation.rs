//! Permutation load, to compare the speed of simulators: each host sends to one other host.

use xoff_wire::units::{Bytes, Class};

use crate::ends::Line;
use crate::fabric::Fabric;
use crate::host::Flow;
use crate::seed::{Purpose, Seed};
use crate::time::{Pace, Picos};

/// Returns each host's receiver in a random permutation, never the host itself.
#[must_use]
pub fn derangement(hosts: u32, seed: Seed) -> Vec<u32> {
    // Sattolo's algorithm yields one cycle of all hosts, so no host sends to itself.
    let mut rng = seed.stream(Purpose::Load);
    let mut to: Vec<u32> = (0..hosts).collect();
    for last in (1..to.len()).rev() {
        to.swap(last, rng.usize(0..last));
    }
    to
}

/// Starts one flow per host, to the receivers of a random permutation. Each begins at a random time within the first
/// frame time. `frame_len` is in bytes without FCS.
pub fn begin(fabric: &mut Fabric, line: Line, class: Class, frame_len: u32, seed: Seed) {
    let hosts = u32::try_from(fabric.hosts().len()).expect("the number of hosts must fit into 32 bits");
    let to = derangement(hosts, seed);
    let frame = Pace::of(line.rate).time_of(Bytes::on_line(frame_len));
    let mut rng = seed.stream(Purpose::Start);
    for (host, to) in (0..hosts).zip(to) {
        let from = Picos(rng.u64(0..frame.0));
        fabric.begin(host, &Flow { to, class, frame_len, frames: u64::MAX, from });
    }
}
