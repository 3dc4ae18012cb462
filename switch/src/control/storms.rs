use xoff_flow_control::counters::ClassCounters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::WatchdogSettings;
use xoff_wire::units::{Class, Nanos, PortId};

use super::status::{StormStatus, WatchdogStatus};
use super::view::SwitchView;

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
