//! Storm control: what a port may flood, by the kind of destination. A rate each, and above it frames are dropped.
//!
//! A rate may be run ahead of by what it carries in 10 ms, and by one frame at least, so that a burst of a few frames
//! (an ARP request and its neighbours) is never cut.

use xoff_flow_control::settings::{Flooded, PortSettings};
use xoff_wire::units::{BitRate, Bytes, Nanos, TAGS};

use crate::schedule::Shaper;

/// A rate may be run ahead of by what it carries in this time.
const AHEAD: Nanos = Nanos::from_millis(10);

/// What one port may flood.
#[derive(Debug)]
pub(super) struct StormControl {
    limits: [Option<Shaper>; Flooded::ALL.len()],
}

impl StormControl {
    /// As `port` is configured.
    pub(super) fn new(port: &PortSettings) -> StormControl {
        let longest = Bytes::on_line(port.mtu_frame + TAGS);
        let limit = |rate: BitRate| Shaper::new(rate, rate.bytes_in(AHEAD).max(longest));
        StormControl { limits: Flooded::ALL.map(|kind| port.storm_limit.of(kind).map(limit)) }
    }

    /// Whether a frame that takes `size` of the line may be flooded at `now`.
    #[inline]
    pub(super) fn allows(&mut self, now: Nanos, kind: Flooded, size: Bytes) -> bool {
        let Some(limit) = &mut self.limits[kind as usize] else { return true };
        let allowed = limit.credit(now).allows_a_frame();
        if allowed {
            limit.spend(now, size);
        }
        allowed
    }
}
