//! What is promised of every class that may be sent, and of every frame that a port has seen: judged in chaos, where the bed's own
//! frames are all that there are.

use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::settings::{PortSettings, Service};
use xoff_dataplane::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, TAGS};

use super::breaches::{Breaches, Promise};
use super::payload;
use super::switch_node::SwitchNode;

/// Since when each class of a port waits though it may be sent.
#[derive(Debug)]
pub struct Waits {
    since: [Nanos; CLASSES],
    /// Those that waited when they were looked at last.
    waiting: ClassSet,
    most: Option<Nanos>,
}

impl Waits {
    /// Of classes with one weight each one has its turn in every round. In a round each of the others takes a share of one long frame
    /// and may overdraw it by another; a class that has overdrawn its own waits for one round more. What has begun when it comes, and
    /// pause frames, come on top: two frames.
    pub(super) fn of(port: &PortSettings) -> Waits {
        let frame = Bytes::on_line(port.mtu_frame + TAGS).0;
        let others = CLASSES as u64 - 1;
        let is_fair = port.classes.iter().all(|class| class.service == Service::Weighted(1));
        let most = is_fair.then(|| port.speed.time_of(Bytes((2 * 2 * others + 2) * frame)));
        Waits { since: [Nanos::ZERO; CLASSES], waiting: ClassSet::NONE, most }
    }

    pub(super) fn served(&mut self, now: Nanos, class: Class) {
        self.since[class.index()] = now;
    }

    /// Those of `waiting` that have waited for too long; all others do not wait now.
    fn too_long(&mut self, now: Nanos, waiting: ClassSet) -> ClassSet {
        let begins = ClassSet(waiting.0 & !self.waiting.0);
        begins.iter().for_each(|class| self.served(now, class));
        self.waiting = waiting;
        let is_late =
            |class: &Class| self.most.is_some_and(|most| now.since(self.since[class.index()]) > most);
        waiting.iter().filter(is_late).collect()
    }
}

impl SwitchNode {
    /// A class that has frames at a port and is not paused is served in its turn, whatever happens to others; and there is always a
    /// frame for control.
    pub(super) fn nothing_starves(&mut self, now: Nanos, port: PortId, breaches: &mut Breaches) {
        let starved = self.counters.port(port).control_starved.get();
        breaches.expect(starved == 0, Promise::PausesKept, || {
            format!("{port:?}: {starved} times there was no frame for control")
        });
        let is_well = !self.ailing.stalls(now)
            && !self.ailing.completes_late(now)
            && !self.ailing.is_refused(now, port)
            && self.large.has_heard_all();
        let may_go = if is_well { self.watches[port.index()].may_go(now) } else { ClassSet::NONE };
        let buffer = self.worker(port).buffer();
        let waiting = may_go.iter().filter(|class| buffer.egress(port, *class) > Bytes::ZERO).collect();
        let late = self.watches[port.index()].waits.too_long(now, waiting);
        breaches.expect(late.is_empty(), Promise::Served, || format!("{port:?}: {late:?}"));
    }

    /// A port's counters have each frame that has come in, and each that has left.
    pub(super) fn frames_are_counted(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        if !self.large.has_heard_all() || self.never_seen() > 0 {
            return;
        }
        let (watch, counted) = (&self.watches[port.index()], self.counters.class(port, class));
        let seen = (watch.came[class.index()], watch.went[class.index()]);
        let counted = (counted.rx_frames.get(), counted.tx_frames.get());
        breaches.expect(seen == counted, Promise::Ledger, || {
            format!("{port:?} class {class}: {counted:?} frames are counted of {seen:?} in and out")
        });
    }

    /// Received is sent, queued, or dropped for a reason, class by class.
    pub(super) fn books_balance_by_class(&self, breaches: &mut Breaches) {
        let mut stored = [0; CLASSES];
        for class in self.large.store.frames().filter_map(payload::class_of) {
            stored[class.index()] += 1;
        }
        for class in Class::ALL {
            let sum = |of: &dyn Fn(PortId) -> u64| self.ports().map(of).sum::<u64>();
            let came = sum(&|port| self.counters.class(port, class).rx_frames.get());
            let sent = sum(&|port| self.counters.class(port, class).tx_frames.get());
            let drops = |port| -> u64 {
                DropReason::ALL
                    .iter()
                    .map(|it| self.counters.class(port, class).drops[it.index()].get())
                    .sum()
            };
            let dropped = sum(&drops);
            let stored = stored[class.index()];
            breaches.expect(came == sent + dropped + stored, Promise::Ledger, || {
                format!("class {class}: {came} received, {sent} sent, {dropped} dropped, {stored} stored")
            });
        }
    }
}
