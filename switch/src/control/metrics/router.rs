//! The router: what it mirrors, and what goes by its interfaces. Of a switch without one nothing is shown.

use std::sync::atomic::{AtomicU64, Ordering};

use xoff_dataplane::counter::Counter;

use super::super::exposition::{Exposition, Kind, seconds};
use super::super::view::SwitchView;
use crate::router::InterfaceCounts;

type OfInterface = (&'static str, &'static str, fn(&InterfaceCounts) -> &Counter);

const INTERFACE_FAMILIES: [OfInterface; 3] = [
    ("xoff_router_to_host_frames_total", "Frames that were given to the kernel.", |counts| &counts.to_host),
    (
        "xoff_router_refused_frames_total",
        "Frames that the kernel did not take: its interface is down.",
        |counts| &counts.refused,
    ),
    ("xoff_router_from_host_frames_total", "Frames that the kernel has sent.", |counts| &counts.from_host),
];

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    let Some(router) = &view.router else { return };
    for (metric, help, of) in INTERFACE_FAMILIES {
        let mut family = text.family(metric, Kind::Counter, help);
        for interface in &router.interfaces {
            family.sample(&[("interface", &interface.interface.name)], of(&interface.counts).get());
        }
    }
    let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let help = "Prefixes by which workers route, stations of networks included.";
    let mut family = text.family("xoff_router_routes", Kind::Gauge, help);
    for (name, count) in ["ipv4", "ipv6"].into_iter().zip(&router.mirrored.routes) {
        family.sample(&[("family", name)], get(count));
    }
    text.family(
        "xoff_router_tables_total",
        Kind::Counter,
        "Times that workers were given another table of routes.",
    )
    .sample(&[], get(&router.mirrored.tables));
    text.family("xoff_router_table_seconds", Kind::Gauge, "How long it took to give them the last one.")
        .sample(&[], seconds(get(&router.mirrored.took)));
    let help = "Times that messages of the kernel were lost, and all was read again.";
    text.family("xoff_router_resyncs_total", Kind::Counter, help).sample(&[], get(&router.mirrored.resyncs));
}
