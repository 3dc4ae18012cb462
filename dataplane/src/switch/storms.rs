//! What the watchdog's findings do to the switch; [`crate::watchdog`] says how it finds them.
//!
//! * [`WatchdogAction::Drop`]: the egress queue is emptied and closed, every frame dropped as
//!   [`DropReason::PausedDiscard`]. Each is counted out where it came in, so the peers behind are let
//!   go: the storm ends here and is not passed on. The class sends nothing, paused or not.
//! * [`WatchdogAction::Forward`]: the pause is defied; the class is scheduled as if there were none.
//! * [`WatchdogAction::Alert`]: the storm is counted.

use super::Switch;
use crate::drop_reason::DropReason;
use crate::frame::FrameStore;
use crate::settings::WatchdogAction;
use crate::units::{Class, ClassSet, Nanos, PortId};
use crate::watchdog::Change;

impl Switch {
    /// The classes of `port` that are in a storm.
    #[must_use]
    pub fn stormed(&self, port: PortId) -> ClassSet {
        self.ports[port.index()].watchdog.stormed()
    }

    /// `classes` of `port` have been paused, or have resumed.
    pub(super) fn watch_pauses(&mut self, port: PortId, classes: ClassSet) {
        let at = &mut self.ports[port.index()];
        if (classes.0 & at.watchdog.watched().0) == 0 {
            return;
        }
        at.watchdog.pauses_changed(classes, &at.obeyed);
        for class in at.watchdog.stormed().iter() {
            self.counters.class(port, class).note_storm();
        }
        self.next_timer = self.next_timer.min(at.watchdog.next_look());
        self.timed.insert(port);
    }

    pub(super) fn look_for_storms<S: FrameStore>(&mut self, now: Nanos, port: PortId, store: &mut S) {
        for class in self.ports[port.index()].watchdog.due(now).iter() {
            let at = &mut self.ports[port.index()];
            let waiting_since = at.queues[class.index()].oldest(&self.nodes);
            match at.watchdog.look(now, class, &at.obeyed, waiting_since) {
                Some(Change::StormBegins) => self.begin_storm(now, port, class, store),
                Some(Change::StormEnds) => self.end_storm(now, port, class),
                None => {}
            }
        }
    }

    fn begin_storm<S: FrameStore>(&mut self, now: Nanos, port: PortId, class: Class, store: &mut S) {
        self.counters.class(port, class).begin_storm(now);
        let at = &mut self.ports[port.index()];
        let Some(settings) = at.watchdog.settings(class) else { return };
        match settings.action {
            WatchdogAction::Drop => {
                at.closed.insert(class);
                self.drop_queued(now, port, class, DropReason::PausedDiscard, store);
            }
            WatchdogAction::Forward => {
                at.obeyed.defy(class, true);
                self.egress_active.insert(port);
            }
            WatchdogAction::Alert => {}
        }
    }

    fn end_storm(&mut self, now: Nanos, port: PortId, class: Class) {
        self.counters.class(port, class).end_storm(now);
        let at = &mut self.ports[port.index()];
        at.closed.remove(class);
        at.obeyed.defy(class, false);
    }

    /// The link of `port` came or went: it has another peer now, or none.
    pub(super) fn forget_storms(&mut self, now: Nanos, port: PortId) {
        for class in self.ports[port.index()].watchdog.forget().iter() {
            self.end_storm(now, port, class);
        }
    }
}
