//! Reactions to pause storms, which [`xoff_flow_control::watchdog`] detects ([`WatchdogAction`]).
//!
//! With [`WatchdogAction::Drop`], frames of the egress queue are dropped ([`DropReason::PausedDiscard`]), so that the
//! storm does not spread to their senders.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::WatchdogAction;
use xoff_flow_control::watchdog::Change;
use xoff_wire::units::{Class, ClassSet, PortId};

use super::Switch;
use crate::frame::FrameStore;

impl Switch {
    /// Returns the classes of `port` that are in a pause storm.
    #[must_use]
    pub fn stormed(&self, port: PortId) -> ClassSet {
        self.ports[port.index()].peer.watchdog.stormed()
    }

    pub(super) fn watch_pauses(&mut self, port: PortId, classes: ClassSet) {
        let at = &mut self.ports[port.index()];
        if (classes.0 & at.peer.watchdog.watched().0) == 0 {
            return;
        }
        at.peer.watchdog.pauses_changed(self.now, classes, at.egress.backlogged, &at.peer.paused);
        for class in at.peer.watchdog.stormed().iter() {
            self.counters.class(port, class).note_storm();
        }
        self.ready.schedule(port, at.peer.watchdog.next_look());
    }

    pub(super) fn look_for_storms<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        for class in self.ports[port.index()].peer.watchdog.due(self.now).iter() {
            let at = &mut self.ports[port.index()];
            let waiting_since = at.egress.queues[class.index()].oldest(&self.nodes);
            match at.peer.watchdog.look(self.now, class, &at.peer.paused, waiting_since) {
                Some(Change::StormBegins) => self.begin_storm(port, class, store),
                Some(Change::StormEnds) => {
                    self.end_storm(port, class);
                    self.pipeline.try_again(self.now);
                }
                None => {}
            }
        }
    }

    fn begin_storm<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        self.counters.class(port, class).begin_storm(self.now);
        let at = &mut self.ports[port.index()];
        match at.peer.watchdog.settings(class).map(|settings| settings.action) {
            Some(WatchdogAction::Drop) => {
                at.egress.closed.insert(class);
                self.occupancy.queue(port, class).given_up.set(1);
                self.drop_queued(port, class, DropReason::PausedDiscard, |_| true, store);
                self.pipeline.try_again(self.now);
            }
            Some(WatchdogAction::Forward) => {
                at.peer.paused.defy(class, true);
                self.ready.egress_active.insert(port);
            }
            Some(WatchdogAction::Alert) | None => {}
        }
    }

    pub(super) fn end_storm(&mut self, port: PortId, class: Class) {
        self.counters.class(port, class).end_storm(self.now);
        let at = &mut self.ports[port.index()];
        at.egress.closed.remove(class);
        self.occupancy.queue(port, class).given_up.set(0);
        at.peer.paused.defy(class, false);
    }

    pub(super) fn forget_storms(&mut self, port: PortId) {
        for class in self.ports[port.index()].peer.watchdog.forget().iter() {
            self.end_storm(port, class);
        }
    }
}
