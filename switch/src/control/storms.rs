//! What the watchdog has seen, for people: the status of each class, and a line in the log when a
//! storm begins and when it ends.
//!
//! Workers count and never log. This looks at their counters ten times a second, and only where some
//! class has a watchdog; storms that come and go between two looks are told of together.

use std::time::Duration;

use xoff_dataplane::counters::ClassCounters;
use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::settings::WatchdogSettings;
use xoff_dataplane::units::{Class, Nanos, PortId};

use super::status::{StormStatus, WatchdogStatus};
use super::view::SwitchView;

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn status(
    view: &SwitchView,
    port: PortId,
    class: Class,
    settings: WatchdogSettings,
) -> WatchdogStatus {
    let counters = view.counters.class(port, class);
    let storms = counters.storms.get();
    WatchdogStatus {
        action: settings.action.name().into(),
        storm: counters.storm_since.get() != 0,
        storms,
        nanos: view.pause_times(port, class).stormed,
        dropped: discarded(counters),
        forwarded: counters.storm_forwarded.get(),
        last: (storms > 0).then(|| last(counters, (view.clock)())),
    }
}

fn last(counters: &ClassCounters, now: Nanos) -> StormStatus {
    let storm = &counters.last_storm;
    let ago = now.since(Nanos(storm.began.get())).0;
    let lasts = counters.storm_since.get() != 0;
    StormStatus {
        began_nanos_ago: ago,
        nanos: if lasts { ago } else { storm.nanos.get() },
        dropped: discarded(counters).saturating_sub(storm.dropped_before.get()),
        forwarded: counters.storm_forwarded.get().saturating_sub(storm.forwarded_before.get()),
    }
}

fn discarded(counters: &ClassCounters) -> u64 {
    counters.drops[DropReason::PausedDiscard.index()].get()
}

/// Tells the log of storms, for good.
pub(super) async fn tell(view: &SwitchView) {
    let mut watched = watched(view);
    if watched.is_empty() {
        return std::future::pending().await;
    }
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        for it in &mut watched {
            it.look(view);
        }
    }
}

/// A class with a watchdog, and what the log has been told of it.
#[derive(Debug)]
struct Watched {
    port: PortId,
    class: Class,
    settings: WatchdogSettings,
    told: u64,
    told_end: bool,
}

fn watched(view: &SwitchView) -> Vec<Watched> {
    let watchdog = |(port, class): (PortId, Class)| {
        let settings = view.settings.ports[port.index()].classes[class.index()].watchdog?;
        Some(Watched { port, class, settings, told: 0, told_end: true })
    };
    view.classes().map(|(port, class, _)| (port, class)).filter_map(watchdog).collect()
}

impl Watched {
    fn look(&mut self, view: &SwitchView) {
        let counters = view.counters.class(self.port, self.class);
        let (storms, lasts) = (counters.storms.get(), counters.storm_since.get() != 0);
        let (port, class) = (&view.settings.ports[self.port.index()].name, self.class.get());
        if storms > self.told {
            let action = self.settings.action.name();
            let paused_ms = self.settings.detect.0 / 1_000_000;
            tracing::warn!(%port, class, storms, paused_ms, action, "pause storm: the peer keeps the class stopped");
            (self.told, self.told_end) = (storms, false);
        }
        if !self.told_end && !lasts {
            let StormStatus { nanos, dropped, forwarded, .. } = last(counters, (view.clock)());
            let lasted_ms = nanos / 1_000_000;
            tracing::warn!(%port, class, storms, lasted_ms, dropped, forwarded, "the pause storm is over");
            self.told_end = true;
        }
    }
}
