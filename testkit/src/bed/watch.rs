//! What must hold of a switch after every event (the invariants of the behaviours to prove), and of
//! each frame that it sends.
//!
//! Pauses are kept here a second time, from the bytes of the frames alone, so that the switch is not
//! judged by its own code. Only whether a frame is well-formed is asked of `wire`, which has fuzz targets of its own.

use xoff_dataplane::drop_reason::{DropKind, DropReason};
use xoff_dataplane::settings::{
    ClassSettings, FlowControl, Memory, PolicyKind, PortSettings, WatchdogAction,
};
use xoff_dataplane::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, Quanta};
use xoff_dataplane::wire::{self, FlowPause, Header, MacControl};

use super::breaches::{Breaches, OnBreach, Promise};
use super::flow_pauses::{FlowPauses, OfClass};
use super::payload;
use super::rates::Rates;
use super::served::Waits;
use super::switch_node::SwitchNode;

/// What is known of the pauses on one port.
#[derive(Debug)]
pub struct Watch {
    port: PortSettings,
    pub link_is_up: bool,
    /// Since when, and until when, the peer has paused this port, by class.
    paused_since: [Nanos; CLASSES],
    paused_until: [Nanos; CLASSES],
    /// Classes whose flows the peer may pause one by one.
    by_flow: ClassSet,
    flow_pauses: FlowPauses,
    /// What the peer has asked for, where it may ask for rates.
    rates: Option<Rates>,
    /// Until when the peer believes itself paused; `None`: it was told to go on, or never to stop.
    told_until: [Option<Nanos>; CLASSES],
    /// Classes that it was told to stop before the link was lost, or flow by flow.
    told_before: ClassSet,
    /// Classes in which the switch held its peer when it was looked at last, for their occupancy alone.
    held: ClassSet,
    /// Bytes that had come in by then.
    bytes_came: [u64; CLASSES],
    /// Frames of the bed that the switch has seen come in, and that have left.
    pub(super) came: [u64; CLASSES],
    pub(super) went: [u64; CLASSES],
    pub(super) waits: Waits,
}

impl Watch {
    /// `by_flow`: classes whose flows are paused one by one.
    pub fn new(port: &PortSettings, by_flow: ClassSet) -> Watch {
        Watch {
            port: port.clone(),
            link_is_up: true,
            paused_since: [Nanos::ZERO; CLASSES],
            paused_until: [Nanos::ZERO; CLASSES],
            by_flow: if port.ofc_peer { by_flow } else { ClassSet::NONE },
            flow_pauses: FlowPauses::default(),
            rates: rates(port),
            told_until: [None; CLASSES],
            told_before: ClassSet::NONE,
            held: ClassSet::NONE,
            bytes_came: [0; CLASSES],
            came: [0; CLASSES],
            went: [0; CLASSES],
            waits: Waits::of(port),
        }
    }

    /// The switch sees a frame that has come in.
    pub fn received(&mut self, now: Nanos, bytes: &[u8]) {
        if let Some(class) = payload::class_of(bytes) {
            self.came[class.index()] += 1;
        }
        if !self.is_good_control(bytes) {
            return;
        }
        let obeyed = match self.port.flow_control {
            FlowControl::Pfc { obey, .. } => obey,
            FlowControl::Pause8023x => ClassSet::ALL,
            FlowControl::Ignore => ClassSet::NONE,
        };
        if self.rates.as_mut().is_some_and(|rates| rates.received(now, bytes, obeyed)) {
            return;
        }
        let class = bytes.get(39).map(|&class| Class::from_low_bits(class));
        if let Some(class) = class.filter(|class| self.port.ofc_peer && obeyed.contains(*class)) {
            let by_flow = self.by_flow.contains(class);
            let until = &mut self.paused_until[class.index()];
            match self.flow_pauses.received(now, self.port.speed, bytes, by_flow, now < *until) {
                Some(OfClass::Stops(then)) => return *until = then,
                Some(OfClass::Resumes) => return *until = now,
                Some(OfClass::Nothing) => return,
                None => (),
            }
        }
        let is_8023x = self.port.flow_control == FlowControl::Pause8023x;
        for (class, quanta) in pause_times(bytes, is_8023x) {
            if obeyed.contains(class) {
                if now >= self.paused_until[class.index()] {
                    self.paused_since[class.index()] = now;
                }
                self.paused_until[class.index()] = now.after(self.port.speed.time_of_quanta(quanta));
                self.flow_pauses.named(class, quanta);
            }
        }
    }

    /// Whether a frame is MAC control that a switch may obey: with a fault in it, it stops nothing.
    fn is_good_control(&self, bytes: &[u8]) -> bool {
        let header = Header::parse(bytes).ok().filter(MacControl::is_mac_control);
        let control = header.and_then(|header| MacControl::parse(&header, bytes).ok());
        match control {
            Some(MacControl::Pfc(pfc)) => {
                (!self.port.ofc_peer || FlowPause::parse(&pfc, bytes).is_ok())
                    && (!self.port.gfc_peer || wire::Rates::parse(&pfc, bytes).is_ok())
            }
            Some(MacControl::Pause(_)) => true,
            None => false,
        }
    }

    /// The switch gives a frame out: none of a class that its peer has paused, unless the watchdog may
    /// defy that pause by now, and none ahead of the rate that its peer has asked for.
    pub fn transmitted(&mut self, now: Nanos, bytes: &[u8], breaches: &mut Breaches) {
        if let Some(mark) = payload::decode(bytes) {
            self.waits.served(now, mark.class);
            let until = self.paused_until[mark.class.index()];
            let may_send = now >= until || self.may_defy(now, mark.class);
            breaches.expect(may_send, Promise::PausesKept, || {
                format!("{}: class {} sends while paused", self.port.name, mark.class)
            });
            let passes = self.flow_pauses.let_pass(now, mark.class, bytes);
            breaches.expect(passes, Promise::PausesKept, || {
                format!("{}: stream {} sends while paused", self.port.name, mark.stream)
            });
            if let Some(rates) = &mut self.rates {
                breaches.expect(rates.let_pass(now, mark.class), Promise::PausesKept, || {
                    format!("{}: class {} is too fast", self.port.name, mark.class)
                });
                rates.sent(now, mark.class, bytes.len());
            }
        }
    }

    fn may_defy(&self, now: Nanos, class: Class) -> bool {
        let watchdog = self.port.classes[class.index()].watchdog;
        let paused_for = now.since(self.paused_since[class.index()]);
        watchdog.is_some_and(|it| {
            // A storm outlives pauses that follow each other closely.
            it.action == WatchdogAction::Forward && paused_for >= it.detect.min(it.restore)
        })
    }

    /// The last bit of a frame of the switch has left.
    pub fn left(&mut self, now: Nanos, bytes: &[u8], breaches: &mut Breaches) {
        if let Some(class) = payload::class_of(bytes) {
            self.went[class.index()] += 1;
        }
        let is_8023x = self.port.flow_control == FlowControl::Pause8023x;
        for (class, quanta) in pause_times(bytes, is_8023x) {
            let told = &mut self.told_until[class.index()];
            let settings = &self.port.classes[class.index()];
            let goes_on = quanta == Quanta(0); // which may be of one that was lossless before
            breaches.expect(settings.lossless || is_8023x || goes_on, Promise::PausesKept, || {
                format!("{}: pause for lossy {class}", self.port.name)
            });
            if lists_more(bytes) {
                self.told_before.insert(class); // flow by flow: no pause of the class to be kept alive
                continue;
            }
            if !goes_on {
                *told = Some(now.after(self.port.speed.time_of_quanta(quanta)));
                continue;
            }
            let was_told = told.take().is_some() || is_8023x || self.told_before.contains(class);
            self.told_before.remove(class);
            breaches.expect(was_told, Promise::PausesKept, || {
                format!("{}: XON without XOFF for class {class}", self.port.name)
            });
        }
    }

    /// Classes that may be sent now, as far as the peer has a say, whole.
    pub(super) fn may_go(&self, now: Nanos) -> ClassSet {
        if !self.link_is_up || self.rates.is_some() {
            return ClassSet::NONE;
        }
        let goes = |class: &Class| now >= self.paused_until[class.index()] && !self.by_flow.contains(*class);
        Class::ALL.into_iter().filter(goes).collect()
    }

    /// Whether the port asks its peer to pause this class at all.
    fn may_send(&self, class: Class) -> bool {
        let lossless = self.port.classes[class.index()].lossless;
        lossless
            && match self.port.flow_control {
                FlowControl::Pfc { send, .. } => send.contains(class),
                FlowControl::Pause8023x => true,
                FlowControl::Ignore => false,
            }
    }

    /// The policy of a class changes.
    pub fn set_by_flow(&mut self, class: Class, by_flow: bool) {
        self.flow_pauses.clear(class);
        self.held.remove(class);
        self.by_flow.remove(class);
        if by_flow && self.port.ofc_peer {
            self.by_flow.insert(class);
        }
    }

    /// The port has other settings: what it no longer obeys is over.
    pub fn revise(&mut self, now: Nanos, port: &PortSettings) {
        if let (FlowControl::Pfc { obey: before, .. }, FlowControl::Pfc { obey, .. }) =
            (self.port.flow_control, port.flow_control)
        {
            for class in ClassSet(before.0 & !obey.0).iter() {
                self.paused_until[class.index()] = self.paused_until[class.index()].min(now);
            }
        }
        self.held = ClassSet::NONE;
        if self.port.gfc_peer != port.gfc_peer {
            self.rates = rates(port);
        }
        self.port = port.clone();
    }

    pub fn set_link(&mut self, up: bool) {
        self.link_is_up = up;
        self.held = ClassSet::NONE;
        self.flow_pauses = FlowPauses::default();
        self.rates = rates(&self.port);
        self.paused_until = [Nanos::ZERO; CLASSES];
        for class in Class::ALL {
            if self.told_until[class.index()].take().is_some() {
                self.told_before.insert(class);
            }
        }
    }

    fn pauses_are_kept(&self, now: Nanos, held: ClassSet, breaches: &mut Breaches) {
        for class in held.iter().filter(|_| self.link_is_up) {
            let lapsed = self.told_until[class.index()].is_some_and(|until| now > until);
            breaches.expect(!lapsed, Promise::PausesKept, || {
                format!("{}: the pause of class {class} was not refreshed", self.port.name)
            });
        }
    }
}

/// What a port owes a peer that may ask for rates.
fn rates(port: &PortSettings) -> Option<Rates> {
    port.gfc_peer.then(|| Rates::new(port.speed, port.mtu_frame))
}

/// Whether a frame tells a peer to stop or to go on, and nothing about flows or rates.
pub fn is_pause(bytes: &[u8]) -> bool {
    [false, true].iter().any(|&is_8023x| !pause_times(bytes, is_8023x).is_empty()) && !lists_more(bytes)
}

/// Whether a pause frame goes on with a list of flows, or with rates.
fn lists_more(bytes: &[u8]) -> bool {
    bytes.get(34..38).is_some_and(|magic| [b"OFC1", b"GFC1"].iter().any(|it| *it == magic))
}

/// Class by class, what a pause frame says; by offsets, see the wire formats.
fn pause_times(bytes: &[u8], is_8023x: bool) -> Vec<(Class, Quanta)> {
    const PFC: [u8; 4] = [0x88, 0x08, 0x01, 0x01];
    const PAUSE: [u8; 4] = [0x88, 0x08, 0x00, 0x01];
    let right = bytes.len() >= 34 && bytes[..6] == [0x01, 0x80, 0xc2, 0, 0, 1];
    let be16 = |at: usize| Quanta(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    if right && bytes[12..16] == PFC && !is_8023x {
        let enabled = |class: &Class| bytes[17] >> class.get() & 1 == 1;
        Class::ALL.into_iter().filter(enabled).map(|class| (class, be16(18 + 2 * class.index()))).collect()
    } else if right && bytes[12..16] == PAUSE && is_8023x {
        Class::ALL.into_iter().map(|class| (class, be16(16))).collect()
    } else {
        Vec::new()
    }
}

impl SwitchNode {
    /// Notes where the switch has broken a promise.
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
        let enough = self.never_seen() == 0 || self.may_lose;
        breaches.expect(enough, Promise::NoLosslessDrop, || "the store has too few slots".to_owned());
        let fdb = self.large.workers[0].bridge().fdb();
        breaches.expect(fdb.len() <= self.settings.fdb.capacity, Promise::Bounds, || "addresses".to_owned());
    }

    fn every_frame_is_in_one_place(&self, breaches: &mut Breaches) {
        for worker in &self.large.workers {
            let ledger = worker.ledger();
            breaches.expect(ledger.missing() == 0, Promise::Ledger, || format!("{ledger:?}"));
        }
        let (held, in_use) = (self.frames_held(), self.large.store.in_use() as u64);
        breaches.expect(in_use == held, Promise::Ledger, || {
            format!("{in_use} slots are in use for {held} frames")
        });
    }

    fn occupancy_is_bounded(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        let settings = &self.settings.ports[port.index()].classes[class.index()];
        let buffer = self.worker(port).buffer();
        let (held, waits) = (buffer.ingress(port, class), buffer.egress(port, class));
        let counted = self.counters.class(port, class);
        let at = |queue: &str, bytes: Bytes| format!("{port:?} class {class}: {} bytes at {queue}", bytes.0);
        let of_before =
            self.before.iter().map(|settings| &settings.ports[port.index()].classes[class.index()]);
        let all = || of_before.clone().chain([settings]);
        let most = all().map(|settings| self.most_at_ingress(settings)).max().unwrap_or_default();
        let most_waits = all().map(|settings| settings.egress_max).max().unwrap_or_default();
        breaches.expect(held <= most, Promise::Bounds, || at("ingress", held));
        breaches.expect(waits < most_waits, Promise::Bounds, || at("egress", waits));
        let used = Bytes(counted.headroom_watermark.get());
        let keeps_out = all().any(|settings| settings.lossless) || used == Bytes::ZERO;
        breaches.expect(keeps_out, Promise::Bounds, || at("the headroom, which is lossless", used));
    }

    /// L1, L2: held at XOFF and above, not held below XON, and in between as before. One turn takes many frames, so it
    /// may go on in between when it was below XON before what has come in since the last look.
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
            format!("{port:?} class {class} is not held at {bytes:?}")
        });
        breaches.expect(!held || bytes >= settings.xon || !by_ingress_alone, Promise::Thresholds, || {
            format!("{port:?} class {class} is held at {bytes:?}")
        });
        let watch = &mut self.watches[port.index()];
        let in_all = self.counters.class(port, class).rx_bytes.get();
        let came = in_all - std::mem::replace(&mut watch.bytes_came[class.index()], in_all);
        let goes_on = watch.held.contains(class) && !held && by_ingress_alone;
        breaches.expect(!goes_on || bytes < settings.xon + Bytes(came), Promise::Thresholds, || {
            format!("{port:?} class {class} goes on at {bytes:?}")
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

    /// Peers that are as they were declared are not said to be faster or later.
    fn nobody_is_blamed(&self, port: PortId, class: Class, breaches: &mut Breaches) {
        let counters = self.counters.class(port, class);
        let blamed = counters.excess_frames.get() + counters.late_frames.get();
        let innocent = blamed == 0 || self.may_lose || self.may_lapse;
        breaches.expect(innocent, Promise::PausesKept, || {
            format!("{port:?} class {class}: its peer is blamed for {blamed} frames")
        });
    }

    /// After a turn of the loop nothing is left to do now.
    pub(super) fn check_idle(&self, now: Nanos, breaches: &mut Breaches) {
        for port in self.ports().filter(|port| self.watches[port.index()].link_is_up) {
            let starved = self.counters.port(port).control_starved.get() > 0;
            let told = starved || !self.worker(port).held(port).due();
            breaches.expect(told, Promise::PausesKept, || {
                format!("{port:?}: a pause frame did not leave at once")
            });
        }
        let rests = self.next_look(now) > now;
        breaches.expect(rests, Promise::Rest, || "the switch asks to be called again at once".to_owned());
    }

    /// When nothing moves any more, nothing is left behind.
    pub(super) fn check_empty(&self, breaches: &mut Breaches) {
        self.batches_have_changed_nothing(breaches);
        let in_use = self.large.store.in_use();
        breaches.expect(in_use == 0, Promise::NothingStranded, || format!("{in_use} slots are in use"));
        for (port, class) in self.ports().flat_map(|port| Class::ALL.map(|class| (port, class))) {
            let buffer = self.worker(port).buffer();
            let (ingress, egress) = (buffer.ingress(port, class), buffer.egress(port, class));
            breaches.expect((ingress, egress) == (Bytes::ZERO, Bytes::ZERO), Promise::Ledger, || {
                format!("{port:?} class {class}: {ingress:?} at ingress, {egress:?} at egress, and no frame")
            });
            let held = self.worker(port).held(port).classes().contains(class);
            breaches.expect(!held, Promise::PausesEnd, || format!("{port:?} class {class} held"));
        }
    }
}
