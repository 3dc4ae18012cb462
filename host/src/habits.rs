use xoff_wire::units::{BitRate, Bytes, Nanos};

/// Default maximum part of a delay that streams recover by a burst.
pub const CATCH_UP: Nanos = Nanos::from_millis(2);
/// Default minimum sleep of a host while it has traffic.
pub const NAP: Nanos = Nanos::from_micros(50);
const COMMIT_MIN: Bytes = Bytes(16 * 1024);
const COMMIT_TIME: Nanos = Nanos::from_micros(10);

/// Returns the maximum number of unsent bytes that a host hands to the kernel.
#[must_use]
pub fn commit(line: BitRate) -> Bytes {
    line.bytes_in(COMMIT_TIME).max(COMMIT_MIN)
}
