use xoff_wire::units::{CLASSES, Class, Nanos, PortId};

use super::super::view::SwitchView;

pub(super) const WINDOW: Nanos = Nanos::from_secs(5);
/// Minimum percentage of [`WINDOW`] for which a peer at fault pauses a class.
pub(super) const PERCENT_MIN: u64 = 95;

#[derive(Clone, Debug, Default)]
pub(super) struct PausedShares {
    window: Option<(Nanos, [u64; CLASSES])>,
}

impl PausedShares {
    pub fn look(&mut self, view: &SwitchView, id: PortId, now: Nanos) {
        if self.window.is_some_and(|(since, _)| now.since(since) < WINDOW) {
            return;
        }
        let paused = Class::ALL.map(|class| view.pause_times(id, class).received);
        let Some((since, before)) = self.window.replace((now, paused)) else { return };
        for (at, percent) in view.ports[id.index()].paused_percent.iter().enumerate() {
            percent.set(paused[at].saturating_sub(before[at]) * 100 / now.since(since).0.max(1));
        }
    }
}
