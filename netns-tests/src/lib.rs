//! What the namespace tests stand on: a bed of hosts around a switch, with eyes and hands.
//!
//! A [`Bed`] is one namespace for the switch and one for each host, joined by veth pairs. The switch
//! is the real `xoff` binary, a process of its own, told what to do by a configuration file and asked
//! how it is over HTTP. A [`Host`] sends frames byte by byte, sees every frame that reaches it, and
//! runs ordinary programs. [`decode`] asks tshark and scapy what they make of a frame. When a test is
//! over, [`Bed::finish`] stops the switch and holds it to its promise: exit status 0, and no drop
//! counter of any device or socket moved.
//!
//! All of it needs root, and fails without.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // test code, in a crate of its own because several tests share it

mod bed;
mod config;
pub mod decode;
pub mod frames;
mod host;
pub mod nic;
mod stall;
mod switch;
mod tap;
mod traffic;

pub use bed::{Bed, Plan, one_bed_at_a_time};
pub use config::Config;
pub use host::Host;
pub use stall::{note_lab, note_switch, unstalled};
pub use switch::{Exit, Surroundings, Switch};
pub use tap::{Seen, Tap, now};
pub use traffic::{Reports, Talk, Traffic, stream};

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for what must come: much longer than it ever takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `ready` gives something; panics with `what` after [`PATIENCE`].
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
