//! The load that simulators are compared by: each host sends at line rate to one other, and receives from one.

use xoff_dataplane::units::{Bytes, Class};

use crate::ends::Line;
use crate::fabric::Fabric;
use crate::host::Flow;
use crate::seed::{Purpose, Seed};
use crate::time::{Pace, Picos};

/// A permutation without a fixed point: by host, to whom it sends.
#[must_use]
pub fn derangement(hosts: u32, seed: Seed) -> Vec<u32> {
    // Of one cycle (Sattolo): nobody sends to itself.
    let mut rng = seed.stream(Purpose::Load);
    let mut to: Vec<u32> = (0..hosts).collect();
    for last in (1..to.len()).rev() {
        to.swap(last, rng.usize(0..last));
    }
    to
}

/// Every host begins to send frames of `frame_len` bytes (without FCS) in `class`, each at some time within the first frame's, by
/// the seed: hosts have no common clock.
pub fn begin(fabric: &mut Fabric, line: Line, class: Class, frame_len: u32, seed: Seed) {
    let hosts = u32::try_from(fabric.hosts().len()).expect("hosts are counted in 32 bits");
    let to = derangement(hosts, seed);
    let frame = Pace::of(line.rate).time_of(Bytes::on_line(frame_len));
    let mut rng = seed.stream(Purpose::Start);
    for (host, to) in (0..hosts).zip(to) {
        let from = Picos(rng.u64(0..frame.0));
        fabric.begin(host, &Flow { to, class, frame_len, frames: u64::MAX, from });
    }
}
