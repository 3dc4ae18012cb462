//! Checks a port as its peer sees it, by a model of pauses that reads only the bytes of frames, independently of the switch.

use xoff_flow_control::settings::{FlowControl, PortSettings, Service, WatchdogAction, WatchdogSettings};
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos, Quanta, TAGS};
use xoff_wire::{FlowPause, Header, MacControl};

use super::breaches::{Breaches, Promise};
use super::flow_pauses::{FlowPauses, OfClass};
use super::payload;
use super::rates::Rates;

#[derive(Debug)]
pub struct Watch {
    port: PortSettings,
    pub link_is_up: bool,
    paused_since: [Nanos; CLASSES],
    paused_until: [Nanos; CLASSES],
    by_flow: ClassSet,
    flow_pauses: FlowPauses,
    rates: Option<Rates>,
    xoff_until: [Option<Nanos>; CLASSES],
    /// Classes that may get an XON without XOFF: only their flows were paused, or the link was lost after the XOFF.
    flow_paused: ClassSet,
    pub(super) held: ClassSet,
    pub(super) bytes_came: [u64; CLASSES],
    pub(super) came: [u64; CLASSES],
    pub(super) went: [u64; CLASSES],
    pub(super) waits: Waits,
}

impl Watch {
    pub fn new(port: &PortSettings, by_flow: ClassSet) -> Watch {
        Watch {
            port: port.clone(),
            link_is_up: true,
            paused_since: [Nanos::ZERO; CLASSES],
            paused_until: [Nanos::ZERO; CLASSES],
            by_flow: if port.ofc_peer { by_flow } else { ClassSet::NONE },
            flow_pauses: FlowPauses::default(),
            rates: rates(port),
            xoff_until: [None; CLASSES],
            flow_paused: ClassSet::NONE,
            held: ClassSet::NONE,
            bytes_came: [0; CLASSES],
            came: [0; CLASSES],
            went: [0; CLASSES],
            waits: Waits::of(port),
        }
    }

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
            match self.flow_pauses.received(now, self.port.speed, bytes, by_flow, *until) {
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

    fn is_good_control(&self, bytes: &[u8]) -> bool {
        let header = Header::parse(bytes).ok().filter(MacControl::is_mac_control);
        let control = header.and_then(|header| MacControl::parse(&header, bytes).ok());
        match control {
            Some(MacControl::Pfc(pfc)) => {
                (!self.port.ofc_peer || FlowPause::parse(&pfc, bytes).is_ok())
                    && (!self.port.gfc_peer || xoff_wire::Rates::parse(&pfc, bytes).is_ok())
            }
            Some(MacControl::Pause(_)) => true,
            None => false,
        }
    }

    /// Checks that an outgoing frame obeys the peer's rate, and its pauses unless the watchdog may ignore them.
    pub fn transmitted(&mut self, now: Nanos, bytes: &[u8], breaches: &mut Breaches) {
        if let Some(mark) = payload::decode(bytes) {
            self.waits.served(now, mark.class);
            let until = self.paused_until[mark.class.index()];
            let may_send = now >= until || self.may_defy(now, mark.class);
            breaches.expect(may_send, Promise::PausesKept, || {
                format!(
                    "{}: a frame of class {} was sent while the class was paused",
                    self.port.name, mark.class
                )
            });
            let passes = self.flow_pauses.let_pass(now, mark.class, bytes);
            breaches.expect(passes, Promise::PausesKept, || {
                format!(
                    "{}: a frame of stream {} was sent while its flow was paused",
                    self.port.name, mark.stream
                )
            });
            if let Some(rates) = &mut self.rates {
                breaches.expect(rates.let_pass(now, mark.class), Promise::PausesKept, || {
                    format!(
                        "{}: class {} exceeded the rate that the peer requested",
                        self.port.name, mark.class
                    )
                });
                rates.sent(now, mark.class, bytes.len());
            }
        }
    }

    fn may_defy(&self, now: Nanos, class: Class) -> bool {
        let watchdog = self.port.classes[class.index()].watchdog;
        let paused_for = now.since(self.paused_since[class.index()]);
        watchdog.is_some_and(|it| {
            // Take the shorter time: a pause that begins within `restore` after a pause storm continues the storm, even if it is shorter
            // than `detect`.
            let is_long = paused_for >= it.detect.min(it.restore);
            it.action == WatchdogAction::Forward && (is_long || it.share < WatchdogSettings::UNBROKEN)
        })
    }

    pub fn left(&mut self, now: Nanos, bytes: &[u8], breaches: &mut Breaches) {
        if let Some(class) = payload::class_of(bytes) {
            self.went[class.index()] += 1;
        }
        let is_8023x = self.port.flow_control == FlowControl::Pause8023x;
        for (class, quanta) in pause_times(bytes, is_8023x) {
            let xoff_until = &mut self.xoff_until[class.index()];
            let settings = &self.port.classes[class.index()];
            let is_xon = quanta == Quanta(0); // an XON may be for a class that was lossless before
            breaches.expect(settings.lossless || is_8023x || is_xon, Promise::PausesKept, || {
                format!("{}: a pause was sent for lossy class {class}", self.port.name)
            });
            if lists_more(bytes) {
                self.flow_paused.insert(class); // only flows are paused, so the class has no pause to refresh
                continue;
            }
            if !is_xon {
                *xoff_until = Some(now.after(self.port.speed.time_of_quanta(quanta)));
                continue;
            }
            let had_xoff = xoff_until.take().is_some() || is_8023x || self.flow_paused.contains(class);
            self.flow_paused.remove(class);
            breaches.expect(had_xoff, Promise::PausesKept, || {
                format!("{}: an XON was sent without XOFF for class {class}", self.port.name)
            });
        }
    }

    pub(super) fn may_go(&self, now: Nanos) -> ClassSet {
        if !self.link_is_up || self.rates.is_some() {
            return ClassSet::NONE;
        }
        let goes = |class: &Class| now >= self.paused_until[class.index()] && !self.by_flow.contains(*class);
        Class::ALL.into_iter().filter(goes).collect()
    }

    pub(super) fn may_send(&self, class: Class) -> bool {
        let lossless = self.port.classes[class.index()].lossless;
        lossless
            && match self.port.flow_control {
                FlowControl::Pfc { send, .. } => send.contains(class),
                FlowControl::Pause8023x => true,
                FlowControl::Ignore => false,
            }
    }

    pub fn set_by_flow(&mut self, class: Class, by_flow: bool) {
        self.flow_pauses.clear(class);
        self.held.remove(class);
        self.by_flow.remove(class);
        if by_flow && self.port.ofc_peer {
            self.by_flow.insert(class);
        }
    }

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
            if self.xoff_until[class.index()].take().is_some() {
                self.flow_paused.insert(class);
            }
        }
    }

    pub(super) fn pauses_are_kept(&self, now: Nanos, held: ClassSet, breaches: &mut Breaches) {
        for class in held.iter().filter(|_| self.link_is_up) {
            let lapsed = self.xoff_until[class.index()].is_some_and(|until| now > until);
            breaches.expect(!lapsed, Promise::PausesKept, || {
                format!("{}: the pause of class {class} expired without a refresh", self.port.name)
            });
        }
    }
}

fn rates(port: &PortSettings) -> Option<Rates> {
    port.gfc_peer.then(|| Rates::new(port.speed, port.mtu_frame))
}

/// Returns whether a frame pauses or resumes whole classes, without flow lists or rates.
pub fn is_pause(bytes: &[u8]) -> bool {
    [false, true].iter().any(|&is_8023x| !pause_times(bytes, is_8023x).is_empty()) && !lists_more(bytes)
}

fn lists_more(bytes: &[u8]) -> bool {
    bytes.get(34..38).is_some_and(|magic| [b"OFC1", b"GFC1"].iter().any(|it| *it == magic))
}

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

/// Times since which each class of a port has been waiting to send a frame.
#[derive(Debug)]
pub struct Waits {
    since: [Nanos; CLASSES],
    waiting: ClassSet,
    most: Option<Nanos>,
}

impl Waits {
    /// Creates the record of a port's waits. A maximum wait is known only if all weights are 1.
    ///
    /// In a round, each other class may send two frames of maximum length, the second one on credit. The waiting class may have to skip a
    /// round for its own credit. Two more frames may precede: one already begun, and a pause frame.
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

    pub(super) fn too_long(&mut self, now: Nanos, waiting: ClassSet) -> ClassSet {
        let begins = ClassSet(waiting.0 & !self.waiting.0);
        begins.iter().for_each(|class| self.served(now, class));
        self.waiting = waiting;
        let is_late =
            |class: &Class| self.most.is_some_and(|most| now.since(self.since[class.index()]) > most);
        waiting.iter().filter(is_late).collect()
    }
}
