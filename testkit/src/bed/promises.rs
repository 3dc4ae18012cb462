use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_flow_control::settings::{ClassSettings, Memory, PolicyKind};
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId};

use super::breaches::{Breaches, OnBreach, Promise};
use super::payload;
use super::switch_node::SwitchNode;

impl SwitchNode {
    pub(super) fn check(&mut self, now: Nanos, breaches: &mut Breaches) {
        self.every_frame_is_in_one_place(breaches);
        for port in self.ports() {
            if !self.may_lapse {
                let held = self.worker(port).held(port).classes();
                self.watches[port.index()].pauses_are_kept(now, held, breaches);
            }
            for class in Class::ALL {
                self.occupancy_is_bounded(port, class, breaches);
                self.nothing_lossless_is_lost(port, class, breaches);
                if breaches.on_breach != OnBreach::Note {
                    self.thresholds_decide(port, class, breaches);
                    self.nobody_is_blamed(port, class, breaches);
                }
                if breaches.on_breach == OnBreach::NoteAll {
                    self.frames_are_counted(port, class, breaches);
                }
            }
            if breaches.on_breach == OnBreach::NoteAll {
                self.nothing_starves(now, port, breaches);
            }
        }
        let enough = self.unreceived_frames() == 0 || self.may_lose;
        breaches.expect(enough, Promise::NoLosslessDrop, || "a received frame found no free slot".to_owned());
        let fdb = self.large.workers[0].bridge().fdb();
        breaches.expect(fdb.len() <= self.settings.fdb.capacity, Promise::Bounds, || {
            "the forwarding database exceeds its capacity".to_owned()
        });
    }

    fn every_frame_is_in_one_place(&self, breaches: &mut Breaches) {
        for worker in &self.large.workers {
            let ledger = worker.ledger();
            breaches.expect(ledger.missing() == 0, Promise::Ledger, || format!("{ledger:?}"));
        }
        let (held, in_use) = (self.frames_held(), self.large.store.in_use() as u64);
        breaches.expect(in_use == held, Promise::Ledger, || {
            format!("{in_use} frame slots are in use, but the switch counts {held} frames")
        });
    }

    fn occupancy_is_bounded(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        let settings = &self.settings.ports[port.index()].classes[class.index()];
        let buffer = self.worker(port).buffer();
        let (held, waits) = (buffer.ingress(port, class), buffer.egress(port, class));
        let counted = self.counters.class(port, class);
        let at = |queue: &str, bytes: Bytes| {
            format!("{port:?} class {class}: {} bytes are {queue}, more than allowed", bytes.0)
        };
        let of_before =
            self.before.iter().map(|settings| &settings.ports[port.index()].classes[class.index()]);
        let all = || of_before.clone().chain([settings]);
        let most = all().map(|settings| self.most_at_ingress(settings)).max().unwrap_or_default();
        let most_waits = all().map(|settings| settings.egress_max).max().unwrap_or_default();
        breaches.expect(held <= most, Promise::Bounds, || at("in the ingress queue", held));
        breaches.expect(waits < most_waits, Promise::Bounds, || at("in the egress queue", waits));
        let used = Bytes(counted.headroom_watermark.get());
        let keeps_out = all().any(|settings| settings.lossless) || used == Bytes::ZERO;
        breaches.expect(keeps_out, Promise::Bounds, || at("in the headroom of a lossy class", used));
    }

    /// Checks that the switch pauses a peer from XOFF on, resumes it below XON, and changes nothing in between.
    ///
    /// A driver's step takes many frames, so the switch may also resume a class whose queue was below XON earlier in the step.
    fn thresholds_decide(&mut self, port: PortId, class: Class, breaches: &mut Breaches) {
        let settings = &self.settings.ports[port.index()].classes[class.index()];
        let counts_bytes = self.settings.memory == Memory::Dedicated && settings.xoff_frames == u32::MAX;
        if self.stopping || !counts_bytes || !self.watches[port.index()].may_send(class) {
            return;
        }
        let bytes = self.worker(port).buffer().ingress(port, class);
        let held = self.worker(port).held(port).classes().contains(class);
        let policy = |class| self.worker(port).policy(class);
        let speaks_for_others = Class::ALL.into_iter().any(|other| policy(other) == PolicyKind::GPfc);
        let by_ingress_alone = policy(class) == PolicyKind::Pfc && !speaks_for_others;
        breaches.expect(held || bytes < settings.xoff, Promise::Thresholds, || {
            format!("{port:?} class {class}: the peer is not paused although {bytes:?} are queued")
        });
        breaches.expect(!held || bytes >= settings.xon || !by_ingress_alone, Promise::Thresholds, || {
            format!("{port:?} class {class}: the peer is paused although only {bytes:?} are queued")
        });
        let watch = &mut self.watches[port.index()];
        let in_all = self.counters.class(port, class).rx_bytes.get();
        let came = in_all - std::mem::replace(&mut watch.bytes_came[class.index()], in_all);
        let goes_on = watch.held.contains(class) && !held && by_ingress_alone;
        breaches.expect(!goes_on || bytes < settings.xon + Bytes(came), Promise::Thresholds, || {
            format!("{port:?} class {class}: the peer was resumed although {bytes:?} are queued")
        });
        watch.held.remove(class);
        if held && by_ingress_alone {
            watch.held.insert(class);
        }
    }

    fn most_at_ingress(&self, class: &ClassSettings) -> Bytes {
        let own = if class.lossless { class.xoff + class.headroom } else { class.ingress_max };
        match self.settings.memory {
            Memory::Dedicated => own,
            Memory::Shared(_) => own + class.ingress_reserve,
        }
    }

    fn nothing_lossless_is_lost(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        let settings = &self.settings.ports[port.index()].classes[class.index()];
        if !settings.lossless || self.may_lose {
            return;
        }
        let drops = &self.counters.class(port, class).drops;
        for reason in DropReason::ALL {
            let spared = reason.kind() != DropKind::Lost || reason == DropReason::LinkDown;
            let kept = spared || drops[reason.index()].get() == 0;
            breaches.expect(kept, Promise::NoLosslessDrop, || {
                format!("{port:?} class {class}: {}", reason.name())
            });
        }
    }

    fn nobody_is_blamed(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        let counters = self.counters.class(port, class);
        let blamed = counters.excess_frames.get() + counters.late_frames.get();
        let innocent = blamed == 0 || self.may_lose || self.may_lapse;
        breaches.expect(innocent, Promise::PausesKept, || {
            format!(
                "{port:?} class {class}: {blamed} frames count as late or excess frames, although the peer obeys"
            )
        });
    }

    pub(super) fn check_idle(&self, now: Nanos, breaches: &mut Breaches) {
        for port in self.ports().filter(|port| self.watches[port.index()].link_is_up) {
            let starved = self.counters.port(port).control_starved.get() > 0;
            let is_announced = starved || !self.worker(port).held(port).due();
            breaches.expect(is_announced, Promise::PausesKept, || {
                format!("{port:?}: a pause frame that is due was not sent at once")
            });
        }
        let rests = self.next_look(now) > now;
        breaches.expect(rests, Promise::Rest, || {
            "the switch left work undone: after a call, it requests another one at the same time".to_owned()
        });
    }

    pub(super) fn check_empty(&self, breaches: &mut Breaches) {
        self.batches_have_changed_nothing(breaches);
        let in_use = self.large.store.in_use();
        breaches.expect(in_use == 0, Promise::NothingStranded, || {
            format!("{in_use} slots are in use at the end")
        });
        for (port, class) in self.ports().flat_map(|port| Class::ALL.map(|class| (port, class))) {
            let buffer = self.worker(port).buffer();
            let (ingress, egress) = (buffer.ingress(port, class), buffer.egress(port, class));
            breaches.expect((ingress, egress) == (Bytes::ZERO, Bytes::ZERO), Promise::Ledger, || {
                format!("{port:?} class {class}: {ingress:?} count at ingress and {egress:?} at egress, but no frame is left")
            });
            let held = self.worker(port).held(port).classes().contains(class);
            breaches.expect(!held, Promise::PausesEnd, || {
                format!("{port:?} class {class}: the peer is paused at the end")
            });
        }
    }

    fn nothing_starves(&mut self, now: Nanos, port: PortId, breaches: &mut Breaches) {
        let starved = self.counters.port(port).control_starved.get();
        breaches.expect(starved == 0, Promise::PausesKept, || {
            format!("{port:?}: a control frame found no free slot {starved} times")
        });
        let is_well = !self.impairments.stalls(now)
            && !self.impairments.completes_late(now)
            && !self.impairments.is_refused(now, port)
            && self.large.has_reported_all();
        let may_go = if is_well { self.watches[port.index()].may_go(now) } else { ClassSet::NONE };
        let buffer = self.worker(port).buffer();
        let waiting = may_go.iter().filter(|class| buffer.egress(port, *class) > Bytes::ZERO).collect();
        let late = self.watches[port.index()].waits.too_long(now, waiting);
        breaches.expect(late.is_empty(), Promise::Served, || {
            format!("{port:?}: classes {late:?} have waited too long to send")
        });
    }

    fn frames_are_counted(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        if !self.large.has_reported_all() || self.unreceived_frames() > 0 {
            return;
        }
        let (watch, counted) = (&self.watches[port.index()], self.counters.class(port, class));
        let observed = (watch.came[class.index()], watch.went[class.index()]);
        let counted = (counted.rx_frames.get(), counted.tx_frames.get());
        breaches.expect(observed == counted, Promise::Ledger, || {
            format!("{port:?} class {class}: frames in and out are {observed:?}, but {counted:?} are counted")
        });
    }

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
