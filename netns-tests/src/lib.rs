//! Harness of the namespace tests: hosts around the real `xoff` binary. It requires root.
//!
//! [`Bed::finish`] stops the switch and checks that it lost no lossless frame.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // test code, in a crate because several tests share it

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

pub use bed::{Bed, Plan};
pub use config::Config;
pub use host::{Host, dies_with_us};
pub use stall::{note_lab, note_switch, unstalled};
pub use switch::{Exit, LaunchOptions, Switch};
pub use tap::{CapturedFrame, Tap, now};
pub use traffic::{Reports, RunningTraffic, Traffic, stream};

use std::thread;
use std::time::{Duration, Instant};

/// Maximum wait for expected events, far beyond their usual time.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `ready` returns a value; panics with `what` after [`PATIENCE`].
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "timeout after {PATIENCE:?} while waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
