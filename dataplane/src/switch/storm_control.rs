//! Storm control: rate limits of a port's floods by kind of destination.
//!
//! A burst may have the bytes of 10 ms at the limited rate, but at least one longest frame.

use xoff_flow_control::settings::{Flooded, PortSettings};
use xoff_wire::units::{BitRate, Bytes, Nanos, TAGS};

use crate::schedule::Shaper;

const AHEAD: Nanos = Nanos::from_millis(10);

#[derive(Debug)]
pub(super) struct StormControl {
    limits: [Option<Shaper>; Flooded::ALL.len()],
}

impl StormControl {
    pub(super) fn new(port: &PortSettings) -> StormControl {
        let longest = Bytes::on_line(port.mtu_frame + TAGS);
        let limit = |rate: BitRate| Shaper::new(rate, rate.bytes_in(AHEAD).max(longest));
        StormControl { limits: Flooded::ALL.map(|kind| port.storm_limit.of(kind).map(limit)) }
    }

    #[inline]
    pub(super) fn allows(&mut self, now: Nanos, kind: Flooded, size: Bytes) -> bool {
        let Some(limit) = &mut self.limits[kind.index()] else { return true };
        let allowed = limit.credit(now).allows_a_frame();
        if allowed {
            limit.spend(now, size);
        }
        allowed
    }
}
