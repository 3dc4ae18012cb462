//! The driver's clock: CLOCK_MONOTONIC, in nanoseconds, the same for every process of a machine. And clocks of other switches: a
//! simulated one has the simulator's.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use nix::time::{ClockId, clock_gettime};
use xoff_dataplane::units::Nanos;

/// The time now.
#[must_use]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Nanos(part(time.tv_sec()) * 1_000_000_000 + part(time.tv_nsec()))
}

/// Tells the time of a switch.
#[derive(Clone)]
pub struct Clock(Arc<Tell>);

type Tell = dyn Fn() -> Nanos + Send + Sync;

impl Clock {
    /// One that is asked so.
    #[must_use]
    pub fn new(tell: impl Fn() -> Nanos + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(tell))
    }
}

impl Deref for Clock {
    type Target = Tell;

    fn deref(&self) -> &Tell {
        &*self.0
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
