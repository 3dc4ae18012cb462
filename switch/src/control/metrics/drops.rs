//! Frames that ended in the switch.

use xoff_dataplane::drop_reason::DropReason;

use super::super::exposition::{Exposition, Kind};
use super::super::view::SwitchView;
use super::of_class;

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    let help = "Frames that ended in the switch, by reason. kind: consumed (the switch was the destination), \
                filtered (bridging or configuration gives no way on), lost (no room, no time, no link). A reason appears \
                with its first frame.";
    let mut family = text.family("xoff_drops_total", Kind::Counter, help);
    for (port, class, counters) in view.classes() {
        let [port, class] = of_class(view, port, class);
        for reason in DropReason::ALL {
            let labels = [port, class, ("reason", reason.name()), ("kind", reason.kind().name())];
            let count = counters.drops[reason.index()].get();
            // An alert goes by how it grows, from the first frame on.
            if count > 0 || reason == DropReason::StormLimit {
                family.sample(&labels, count);
            }
        }
    }
    let help = "Frames flooded because no port was known for their destination, by the port where they came in; no loss.";
    let mut family = text.family("xoff_flooded_unknown_frames_total", Kind::Counter, help);
    for (port, class, counters) in view.classes() {
        family.sample(&of_class(view, port, class), counters.flooded_unknown.get());
    }
    let help =
        "Frames of a lossless class that had a way on and were dropped: zero as long as the promise is kept.";
    let mut family = text.family("xoff_lossless_lost_frames_total", Kind::Counter, help);
    for (port, class, _) in view.classes() {
        if view.settings().ports[port.index()].classes[class.index()].lossless {
            family.sample(&of_class(view, port, class), view.books.of(&view.counters, port, class));
        }
    }
}
