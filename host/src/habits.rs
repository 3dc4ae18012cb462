//! How hosts that are programs run, unless they are told otherwise: how long they sleep, how much they hand over at a time, and how
//! much of their own delays they make up for.

use xoff_dataplane::units::{BitRate, Bytes, Nanos};

/// How much of its own delays a host makes up for.
pub const CATCH_UP: Nanos = Nanos::from_millis(2);
/// How long it sleeps at least while there is traffic.
pub const NAP: Nanos = Nanos::from_micros(50);
/// At least so much is handed to the kernel at a time, whatever the line.
const COMMIT_MIN: Bytes = Bytes(16 * 1024);
/// And at least what the line sends in this time.
const COMMIT_TIME: Nanos = Nanos::from_micros(10);

/// What a host on a line of this rate hands to the kernel at a time.
#[must_use]
pub fn commit(line: BitRate) -> Bytes {
    line.bytes_in(COMMIT_TIME).max(COMMIT_MIN)
}
