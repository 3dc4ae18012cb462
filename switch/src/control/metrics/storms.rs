//! What the watchdog has seen.

use xoff_dataplane::counters::ClassCounters;

use super::super::exposition::{Exposition, Kind, seconds};
use super::super::view::SwitchView;
use super::{of_class, settings};

type OfStorms = (&'static str, Kind, &'static str, fn(&ClassCounters) -> u64);

const STORM_FAMILIES: [OfStorms; 3] = [
    ("xoff_watchdog_storm", Kind::Gauge, "1 while the watchdog sees a pause storm.", |class| {
        u64::from(class.storm_since.get() != 0)
    }),
    ("xoff_watchdog_storms_total", Kind::Counter, "Pause storms that the watchdog has seen.", |class| {
        class.storms.get()
    }),
    (
        "xoff_watchdog_forwarded_frames_total",
        Kind::Counter,
        "Frames sent during pause storms, as of the latest pause frame. Those dropped are in xoff_drops_total.",
        |class| class.storm_forwarded.get(),
    ),
];

/// Only of classes that have a watchdog.
pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    let watched =
        || view.classes().filter(|&(port, class, _)| settings(view, port, class).watchdog.is_some());
    for (metric, kind, help, value) in STORM_FAMILIES {
        let mut family = text.family(metric, kind, help);
        for (port, class, counters) in watched() {
            family.sample(&of_class(view, port, class), value(counters));
        }
    }
    let help = "Time in pause storms, the running one included.";
    let mut family = text.family("xoff_watchdog_storm_seconds_total", Kind::Counter, help);
    for (port, class, _) in watched() {
        let nanos = view.pause_times(port, class).stormed;
        family.sample(&of_class(view, port, class), seconds(nanos));
    }
}
