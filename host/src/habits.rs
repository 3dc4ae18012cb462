//! Defaults of hosts that are programs.

use xoff_wire::units::{BitRate, Bytes, Nanos};

/// Maximum delay of its own that a host catches up.
pub const CATCH_UP: Nanos = Nanos::from_millis(2);
/// Minimum sleep while there is traffic.
pub const NAP: Nanos = Nanos::from_micros(50);
const COMMIT_MIN: Bytes = Bytes(16 * 1024);
const COMMIT_TIME: Nanos = Nanos::from_micros(10);

/// Returns the bytes that a host on this line hands to the kernel at once.
#[must_use]
pub fn commit(line: BitRate) -> Bytes {
    line.bytes_in(COMMIT_TIME).max(COMMIT_MIN)
}
