use xoff_flow_control::counter::{FineHistogram, Histogram};
use xoff_wire::units::PortId;

use super::super::exposition::{Exposition, Kind};
use super::super::series::Table;
use super::super::status::{ClassStatus, WorkerStatus};
use super::super::view::{SwitchView, WorkerFacts};
use super::{RECEIVED, SENT, of_class};

type OfWorker = (&'static str, &'static str, fn(&WorkerFacts) -> &FineHistogram);

const OF_WORKERS: [OfWorker; 3] = [
    ("xoff_worker_loop_gap_seconds", "gaps", |worker| &worker.gaps),
    ("xoff_pfc_send_reaction_seconds", "send_reaction", |worker| &worker.pause_reaction),
    ("xoff_pfc_obey_reaction_seconds", "obey_reaction", |worker| &worker.obey_reaction),
];

pub(super) fn write(
    text: &mut Exposition,
    view: &SwitchView,
    classes: &Table<ClassStatus>,
    workers: &Table<WorkerStatus>,
    only: Option<PortId>,
) {
    let mut family =
        text.family("xoff_queueing_delay_seconds", Kind::Histogram, &classes.help("queueing_delay"));
    let classes_of_port = || view.classes().filter(|(port, ..)| only.is_none_or(|only| only == *port));
    for (port, class, counters) in
        classes_of_port().filter(|(_, _, counters)| has_samples(&counters.queueing_delay))
    {
        family.histogram(&of_class(view, port, class), &counters.queueing_delay);
    }
    let help = &classes.help("pause_sent.durations");
    let mut family = text.family("xoff_pfc_pause_duration_seconds", Kind::Histogram, help);
    for (port, class, counters) in classes_of_port() {
        let [port, class] = of_class(view, port, class);
        let directions = [(SENT, &counters.held_durations), (RECEIVED, &counters.paused_durations)];
        for (direction, durations) in directions.into_iter().filter(|(_, durations)| has_samples(durations)) {
            family.histogram(&[port, class, direction], durations);
        }
    }
    for (metric, field, histogram) in OF_WORKERS {
        let mut family = text.family(metric, Kind::Histogram, &workers.help(field));
        for (number, worker) in view.workers.iter().enumerate() {
            family.histogram(&[("worker", &number.to_string())], histogram(&worker.facts));
        }
    }
}

fn has_samples(histogram: &Histogram) -> bool {
    histogram.count() > 0
}
