//! Default timing of hosts.

use xoff_wire::units::{BitRate, Bytes, Nanos};

/// Maximum delay caused by the host itself for which streams catch up.
pub const CATCH_UP: Nanos = Nanos::from_millis(2);
/// Minimum sleep while there is traffic.
pub const NAP: Nanos = Nanos::from_micros(50);
const COMMIT_MIN: Bytes = Bytes(16 * 1024);
const COMMIT_TIME: Nanos = Nanos::from_micros(10);

/// Returns the maximum number of bytes in the kernel that are not yet sent.
#[must_use]
pub fn commit(line: BitRate) -> Bytes {
    line.bytes_in(COMMIT_TIME).max(COMMIT_MIN)
}
