//! CLOCK_MONOTONIC, which all processes of a machine share.

use nix::time::{ClockId, clock_gettime};
use xoff_wire::units::Nanos;

#[must_use]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is missing");
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Nanos(part(time.tv_sec()) * 1_000_000_000 + part(time.tv_nsec()))
}
