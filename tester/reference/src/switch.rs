//! The reference switch without I/O: `receive` takes a frame, `transmit` returns the frame that a port sends now. Times
//! are in nanoseconds.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use crate::arrivals::Arrivals;
use crate::counters::{Counters, Reason};
use crate::defects::{Defect, Defects};
use crate::egress::{Egress, Line, Packet};
use crate::frame::{Address, CLASSES, Header};
use crate::holds::Holds;
use crate::ingress::{Ingress, Thresholds};
use crate::lldp;
use crate::pauses::Pauses;
use crate::pfc::{self, TYPE_MAC_CONTROL};
use crate::watchdog::{self, Action, Change, Watchdog};

const DUPLICATE_INTERVAL: u64 = 500;

#[derive(Clone, Debug)]
pub struct Settings {
    pub speed_bps: u64,
    /// Lossless classes; bit n stands for class n.
    pub lossless: u8,
    pub thresholds: Thresholds,
    pub quanta: u16,
    pub lossy_max: u64,
    /// Bytes of an egress queue above which some ECN-capable packets are marked, and all.
    pub ecn: [u64; 2],
    /// Share of packets marked just below the second length.
    pub ecn_probability: f64,
    pub weights: [u32; CLASSES],
    pub watchdog: Option<watchdog::Settings>,
    pub defects: Defects,
}

#[derive(Debug)]
struct Port {
    name: String,
    address: Address,
    is_up: bool,
    has_flapped: bool,
    arrivals: Arrivals,
    ingress: Ingress,
    holds: Holds,
    pauses: Pauses,
    egress: Egress,
    line: Line,
    watchdog: Watchdog,
    counters: Counters,
    lldp_due: u64,
    /// Frames that leave before all queued data and regardless of pauses, such as PFC and LLDP.
    urgent: VecDeque<Vec<u8>>,
    sent: u64,
}

impl Port {
    fn new(name: String, address: Address, settings: &Settings) -> Port {
        let &Settings { speed_bps, lossless, thresholds, quanta, weights, watchdog, defects, .. } = settings;
        Port {
            name,
            address,
            is_up: true,
            has_flapped: false,
            arrivals: Arrivals::new(defects),
            ingress: Ingress::new(thresholds, lossless, defects),
            holds: Holds::new(quanta, speed_bps, lossless, defects),
            pauses: Pauses::new(speed_bps, lossless, defects),
            egress: Egress::new(weights, defects),
            line: Line::new(speed_bps),
            watchdog: Watchdog::new(watchdog, defects),
            counters: Counters::new(defects),
            lldp_due: 0,
            urgent: VecDeque::new(),
            sent: 0,
        }
    }
}

#[derive(Debug)]
pub struct Switch {
    settings: Settings,
    ports: Vec<Port>,
    learned: HashMap<Address, usize>,
    admitted: u64,
    /// State of the random numbers, not 0.
    random: u64,
    first_held: Option<usize>,
    /// Serial numbers (`Packet::number`) of each ingress port's queued packets, in order of arrival. Used only with [`Defect::HeadOfLine`].
    in_order: Vec<VecDeque<u64>>,
}

impl Switch {
    #[must_use]
    pub fn new(settings: Settings, ports: impl IntoIterator<Item = (String, Address)>) -> Switch {
        let port = |(name, address)| Port::new(name, address, &settings);
        let mut ports: Vec<Port> = ports.into_iter().map(port).collect();
        if let Some(last) = ports.last_mut().filter(|_| settings.defects.has(Defect::XoffTenthLastPort)) {
            let defects = settings.defects.with(Defect::XoffTenth);
            last.ingress = Ingress::new(settings.thresholds, settings.lossless, defects);
        }
        let in_order = vec![VecDeque::new(); ports.len()];
        Switch {
            settings,
            ports,
            learned: HashMap::new(),
            admitted: 0,
            random: 1,
            first_held: None,
            in_order,
        }
    }

    #[must_use]
    pub fn counters(&self) -> String {
        self.ports.iter().map(|port| port.counters.lines(&port.name)).collect()
    }

    const fn has(&self, defect: Defect) -> bool {
        self.settings.defects.has(defect)
    }

    pub fn receive(&mut self, from: usize, bytes: Vec<u8>, now: u64) {
        let Some(header) = Header::parse(&bytes) else { return };
        let port = &mut self.ports[from];
        let pfc = pfc::parse(&bytes, &header, self.settings.defects);
        if let Some(pfc) = pfc {
            port.counters.pfc_received(&pfc);
            if !(port.has_flapped && self.settings.defects.has(Defect::FlapIgnoresPfc)) {
                port.pauses.obey(&pfc, now);
            }
        }
        let is_control = header.ethertype == TYPE_MAC_CONTROL;
        if is_control && self.settings.defects.has(Defect::RelaysPfc) {
            (0..self.ports.len())
                .filter(|&to| to != from)
                .for_each(|to| self.ports[to].urgent.push_back(bytes.clone()));
        }
        if !is_control && !header.is_link_local() {
            self.forward(from, bytes, header, now);
        }
    }

    fn forward(&mut self, from: usize, bytes: Vec<u8>, header: Header, now: u64) {
        let (class, len) = (header.class(&bytes, self.settings.defects), bytes.len() as u64);
        let port = &mut self.ports[from];
        if port.arrivals.loses(bytes.len(), now) {
            return;
        }
        port.counters.received(class);
        if header.source[0] & 1 == 0 && !self.settings.defects.has(Defect::NeverLearns) {
            self.learned.insert(header.source, from);
        }
        let targets = self.targets(from, &header);
        if targets.is_empty() {
            return;
        }
        let ingress_class = header.ingress_class(&bytes, self.settings.defects);
        let is_admitted = self.ports[from].ingress.admit(ingress_class, len);
        self.hold(from, ingress_class, now);
        if !is_admitted {
            self.ports[from].counters.dropped(ingress_class, Reason::Headroom);
            return;
        }
        self.admitted += 1;
        let packet = Rc::new(Packet { bytes, header, ingress: from, class, number: self.admitted });
        if self.has(Defect::Reflects) {
            self.ports[from].urgent.push_back(packet.bytes.clone());
        }
        for to in targets {
            match self.refusal(to, &packet, now) {
                Some(reason) => self.count_drop(to, &packet, reason),
                None => self.enqueue(to, Rc::clone(&packet)),
            }
        }
        self.release(packet, now);
    }

    fn targets(&self, from: usize, header: &Header) -> Vec<usize> {
        match self.learned.get(&header.destination) {
            Some(&to) if !header.is_group() => [to].into_iter().filter(|&to| to != from).collect(),
            _ => (0..self.ports.len()).filter(|&to| to != from).collect(),
        }
    }

    fn refusal(&self, to: usize, packet: &Packet, now: u64) -> Option<Reason> {
        let (port, class) = (&self.ports[to], packet.class);
        let is_lossy = self.settings.lossless & 1 << class == 0;
        if !port.is_up {
            Some(Reason::LinkDown)
        } else if port.watchdog.action(class) == Some(Action::Drop) {
            Some(Reason::Watchdog)
        } else if is_lossy && port.egress.bytes(class) + packet.bytes.len() as u64 > self.settings.lossy_max
            || self.has(Defect::PausedDropped) && port.pauses.is_paused(class, now)
        {
            Some(Reason::Full)
        } else {
            None
        }
    }

    fn enqueue(&mut self, to: usize, packet: Rc<Packet>) {
        if self.has(Defect::HeadOfLine) {
            self.in_order[packet.ingress].push_back(packet.number);
        }
        self.ports[to].egress.push(packet);
    }

    /// Releases a reference to a frame; with the last one, the frame's bytes leave the ingress queue.
    fn release(&mut self, packet: Rc<Packet>, now: u64) {
        let Some(Packet { bytes, header, ingress, .. }) = Rc::into_inner(packet) else { return };
        let class = header.ingress_class(&bytes, self.settings.defects);
        self.ports[ingress].ingress.release(class, bytes.len() as u64);
        self.hold(ingress, class, now);
    }

    fn hold(&mut self, at: usize, class: usize, now: u64) {
        let is_held = self.ports[at].ingress.is_held(class);
        let count = self.ports.len();
        if is_held && *self.first_held.get_or_insert(at) != at && self.has(Defect::XoffFirstPort) {
            return;
        }
        let ports = if self.has(Defect::XoffAllPorts) {
            0..count
        } else if self.has(Defect::XoffOtherPort) {
            let next = (at + 1) % count;
            next..next + 1
        } else {
            at..at + 1
        };
        self.ports[ports].iter_mut().for_each(|port| port.holds.want(class, is_held, now));
    }

    pub fn transmit(&mut self, at: usize, now: u64) -> Option<Vec<u8>> {
        let port = &mut self.ports[at];
        if !port.line.is_free(now) || !port.is_up {
            return None;
        }
        if let Some(pfc) = port.holds.due(now) {
            port.counters.pfc_sent(&pfc);
            port.urgent.push_front(pfc::build(&pfc, port.address, self.settings.defects));
        }
        let bytes = match port.urgent.pop_front() {
            Some(bytes) => bytes,
            None => self.next_data(at, now)?,
        };
        self.ports[at].line.take(bytes.len() as u64, now);
        Some(bytes)
    }

    fn next_data(&mut self, at: usize, now: u64) -> Option<Vec<u8>> {
        let Some(packet) = self.pop(at, now) else {
            self.ports[at].line.idle(now);
            return None;
        };
        let mut bytes = packet.bytes.clone();
        // Add the frame that has just left the queue, because it counts for the ECN threshold.
        let is_congested = self.is_congested(self.ports[at].egress.bytes(packet.class) + bytes.len() as u64);
        let port = &mut self.ports[at];
        if is_congested {
            packet.header.mark_congestion(&mut bytes, self.settings.defects);
            port.counters.classes[packet.class].ecn_marked += u64::from(bytes != packet.bytes);
        }
        packet.header.rewrite(&mut bytes, self.settings.defects);
        port.watchdog.sent(packet.class);
        port.pauses.sent(packet.class);
        port.counters.sent(packet.class);
        port.sent += 1;
        if port.has_flapped && self.settings.defects.has(Defect::FlapDuplicates)
            || port.sent.is_multiple_of(DUPLICATE_INTERVAL) && self.settings.defects.has(Defect::Duplicates)
        {
            port.urgent.push_back(bytes.clone());
        }
        self.release(packet, now);
        Some(bytes)
    }

    /// Returns whether a packet leaving a queue of `queued` bytes gets an ECN mark.
    fn is_congested(&mut self, queued: u64) -> bool {
        let scaled = |bytes: u64| match bytes {
            bytes if self.has(Defect::MarksEarly) => bytes / 2,
            bytes if self.has(Defect::MarksLate) => bytes * 2,
            bytes => bytes,
        };
        let [low, high] = self.settings.ecn.map(scaled);
        if self.has(Defect::NeverMarks) || self.has(Defect::MarksAlways) {
            return self.has(Defect::MarksAlways);
        }
        if queued > high || queued <= low {
            return queued > high;
        }
        let share = self.settings.ecn_probability * (queued - low) as f64 / (high - low) as f64;
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let random = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
        random < if self.has(Defect::MarksHalf) { share / 2.0 } else { share }
    }

    fn pop(&mut self, at: usize, now: u64) -> Option<Rc<Packet>> {
        let is_stopped = |class| {
            let stops_all = self.settings.defects.has(Defect::PauseStopsSwitch);
            let stops_classes = self.settings.defects.has(Defect::PauseStopsAll);
            let pair = (at + 2) % self.ports.len();
            let has_pair = self.settings.defects.has(Defect::PausesPortPair);
            self.ports[at].pauses.is_paused(class, now)
                && self.ports[at].watchdog.action(class) != Some(Action::Forward)
                || has_pair && self.ports[pair].pauses.is_paused(class, now)
                || stops_classes
                    && self
                        .ports
                        .iter()
                        .any(|port| (0..CLASSES).any(|class| port.pauses.is_paused(class, now)))
                || stops_all && self.ports.iter().any(|port| port.pauses.is_paused(class, now))
        };
        let paused: [bool; CLASSES] = std::array::from_fn(is_stopped);
        let has_one_queue = self.has(Defect::HeadOfLine);
        let in_order = &mut self.in_order;
        let is_first = |packet: &Packet| in_order[packet.ingress].front() == Some(&packet.number);
        let packet = self.ports[at]
            .egress
            .pop(|packet| !paused[packet.class] && (!has_one_queue || is_first(packet)))?;
        if has_one_queue {
            in_order[packet.ingress].pop_front();
        }
        Some(packet)
    }

    pub fn poll(&mut self, now: u64) {
        for at in 0..self.ports.len() {
            let port = &mut self.ports[at];
            if now >= port.lldp_due {
                port.lldp_due = now + lldp::INTERVAL_NS;
                let is_silent = at > 0 && self.settings.defects.has(Defect::LldpOnePort);
                let lossless = if is_silent { 0 } else { self.settings.lossless };
                let frame = lldp::build(&port.name, port.address, lossless, self.settings.defects);
                port.urgent.extend(frame.filter(|_| port.is_up));
            }
            for class in 0..CLASSES {
                let port = &mut self.ports[at];
                let (is_paused, has_frames) =
                    (port.pauses.is_paused(class, now), port.egress.bytes(class) > 0);
                let change = port.watchdog.poll(class, is_paused, has_frames, now);
                let is_storm = change == Some(Change::Storm);
                if !self.settings.defects.has(Defect::CountsNoStorms) {
                    let counters = &mut port.counters.classes[class];
                    counters.storms += u64::from(is_storm);
                    counters.restored += u64::from(change == Some(Change::Restored));
                }
                if is_storm && port.watchdog.action(class) == Some(Action::Drop) {
                    self.flush(at, class, Reason::Watchdog, now);
                }
            }
        }
    }

    fn flush(&mut self, at: usize, class: usize, reason: Reason, now: u64) {
        for packet in self.ports[at].egress.flush(class) {
            self.count_drop(at, &packet, reason);
            if self.has(Defect::HeadOfLine) {
                self.in_order[packet.ingress].retain(|&number| number != packet.number);
            }
            self.release(packet, now);
        }
    }

    fn count_drop(&mut self, to: usize, packet: &Packet, reason: Reason) {
        self.ports[packet.ingress].counters.dropped(packet.class, reason);
        if matches!(reason, Reason::Watchdog) {
            self.ports[to].counters.classes[packet.class].watchdog_dropped += 1;
        }
    }

    pub fn set_link(&mut self, at: usize, is_up: bool, now: u64) {
        let port = &mut self.ports[at];
        if std::mem::replace(&mut port.is_up, is_up) == is_up {
            return;
        }
        if is_up {
            port.has_flapped = true;
            return;
        }
        port.pauses.link_lost(now);
        port.holds.link_lost();
        port.urgent.clear();
        self.learned.retain(|_, learned| *learned != at);
        (0..CLASSES).for_each(|class| self.flush(at, class, Reason::LinkDown, now));
    }

    #[must_use]
    pub fn has_frames(&self) -> bool {
        self.ports
            .iter()
            .any(|port| !port.urgent.is_empty() || (0..CLASSES).any(|class| port.egress.bytes(class) > 0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
