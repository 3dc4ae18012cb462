//! The pipeline, and for which queues it was halted.

use xoff_dataplane::settings::WhenFull;

use super::super::exposition::{Exposition, Kind, seconds};
use super::super::pipeline;
use super::super::view::SwitchView;
use super::of_class;

/// Halts only of a switch that halts.
pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    let of = pipeline::status(&view.settings());
    let rate = of.rate_frames_per_second.map_or("none".to_owned(), |rate| rate.to_string());
    let labels = [
        ("rate", rate.as_str()),
        ("delay_ns", &of.delay_nanos.to_string()),
        ("ingress", &of.ingress),
        ("when_full", &of.when_full),
    ];
    let help =
        "What the pipeline is: frames a second, delay, order at ingress, what a full queue does; always 1.";
    text.family("xoff_pipeline_info", Kind::Gauge, help).sample(&labels, 1);
    let halting = || view.classes().filter(|_| view.settings().when_full == WhenFull::Stop);
    let help = "1 while the pipeline is halted, for every port and class, because this egress queue is full.";
    let mut family = text.family("xoff_pipeline_halted", Kind::Gauge, help);
    for (port, class, counters) in halting() {
        family.sample(&of_class(view, port, class), u8::from(counters.halted_since.get() != 0));
    }
    let help = "Times that the pipeline was halted because this egress queue was full.";
    let mut family = text.family("xoff_pipeline_halts_total", Kind::Counter, help);
    for (port, class, counters) in halting() {
        family.sample(&of_class(view, port, class), counters.halts.get());
    }
    let help =
        "Time that the pipeline was halted because this egress queue was full, a halt that lasts included.";
    let mut family = text.family("xoff_pipeline_halted_seconds_total", Kind::Counter, help);
    for (port, class, _) in halting() {
        family.sample(&of_class(view, port, class), seconds(view.pause_times(port, class).halted));
    }
}
