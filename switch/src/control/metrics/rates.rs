//! Rates that peers ask each other to keep (GFC).

use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::ClassCounters;

use super::super::exposition::{Exposition, Kind};
use super::super::view::SwitchView;
use super::of_class;

/// Name, help and where the rate is read, in bits a second; metrics are in bytes.
pub type OfRate = (&'static str, &'static str, fn(&ClassCounters) -> &Counter);

/// The rate that a peer has asked for.
pub const OBEYED: OfRate = (
    "xoff_rate_obeyed_bytes_per_second",
    "Rate that the port keeps for its peer (GFC); zero: no limit.",
    |class| &class.rate_obeyed,
);

const RATES: [OfRate; 3] = [
    (
        "xoff_rate_asked_bytes_per_second",
        "Rate that the peer is asked to keep (GFC); zero: no limit.",
        |class| &class.rate_asked.now,
    ),
    (
        "xoff_rate_asked_min_bytes_per_second",
        "Lowest rate that the peer was ever asked to keep (GFC); zero: there was none.",
        |class| &class.rate_asked.lowest,
    ),
    OBEYED,
];

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    for (metric, help, rate) in RATES {
        let mut family = text.family(metric, Kind::Gauge, help);
        for (port, class, counters) in view.classes() {
            family.sample(&of_class(view, port, class), bytes(rate(counters)));
        }
    }
}

/// Bytes a second of a counter of bits a second.
pub fn bytes(bits: &Counter) -> f64 {
    bits.get() as f64 / 8.0
}
