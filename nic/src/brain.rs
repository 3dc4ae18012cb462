//! What a host does when its switch speaks: time and frames in; which class stops, goes on, or keeps another
//! rate, and when it is to be asked again.
//!
//! Pauses are obeyed by the receiver of the traffic hosts ([`Gate`]), and so as the dataplane obeys them: quanta at the
//! line rate, the last value wins, time 0 resumes, a pause that is not refreshed runs out, and what is malformed pauses
//! nothing and is counted by reason. Rates of classes (GFC) are that receiver's too.
//!
//! QCN has one reaction point for each class, not for each flow: the kernel's frames carry no CN-TAG that would tell flows
//! apart, and a queueing discipline knows classes. A CNM names the class by its encapsulated priority. A reaction
//! point's cycles of time end by the clock, its cycles of bytes by what the class's leaf has sent, which is told by
//! [`Brain::carried`] every [`COUNT_EVERY`] while a class is limited.
//!
//! What is to be done is asked one by one ([`Brain::next_change`]), and is a transition: what holds already is
//! not said again. A rate changes no more often than every [`LIMIT_EVERY`]: the thread that does it has pauses to obey. While a class
//! is stopped its rate waits until it goes on.

use xoff_dataplane::congestion::ReactionPoint;
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos};
use xoff_dataplane::wire::cnm::Cnm;
use xoff_dataplane::wire::{CnmError, Header, MacControl};
use xoff_host::{Gate, Notices, Obedience, PauseCounts};

use crate::config::NicSettings;

/// From one change of a class's rate to the next.
pub const LIMIT_EVERY: Nanos = Nanos::from_millis(5);

/// How often a limited class has to be told what it has sent.
pub const COUNT_EVERY: Nanos = Nanos::from_millis(10);

/// From one try of a change that the kernel refuses to the next.
pub const AGAIN_EVERY: Nanos = Nanos::from_millis(10);

/// A reaction point is told of so much at a time: less than its shortest cycle.
const PORTION: u64 = 10_000;

/// What is to be done to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing more of it leaves.
    Stop(Class),
    /// It goes on.
    Start(Class),
    /// It keeps this rate; the line's own is no limit.
    Limit(Class, BitRate),
}

/// What holds for a class.
#[derive(Clone, Copy, Debug)]
struct Held {
    stopped: bool,
    /// `None`: not known, since the kernel refused the last one.
    rate: Option<BitRate>,
    /// When the rate may change again.
    limit_from: Nanos,
    /// When it may be stopped or started, where the kernel refused that.
    again_from: Nanos,
}

/// What decides.
#[derive(Debug)]
pub struct Brain {
    address: MacAddr,
    line: BitRate,
    gate: Gate,
    notices: Notices,
    points: Option<[ReactionPoint; CLASSES]>,
    /// What each limited class had sent when that was told last; `None`: not since it is limited.
    carried: [Option<Bytes>; CLASSES],
    /// Feedback asked of each class, all told.
    cnms: [u64; CLASSES],
    peer: Option<MacAddr>,
    /// As of the last question.
    paused: ClassSet,
    held: [Held; CLASSES],
}

impl Brain {
    /// Nothing stopped and nothing limited, at a device with this address.
    #[must_use]
    pub fn new(settings: &NicSettings, address: MacAddr) -> Brain {
        let line = settings.speed;
        let gate = Gate::new(line, Obedience::Obey, false).obeying_classes(settings.lossless);
        let [.., high, low] = address.0;
        let points = settings.qcn.map(|qcn| {
            let seed = qcn.seed_of(u16::from_be_bytes([high, low]));
            std::array::from_fn(|class| ReactionPoint::new(&qcn, line, seed.wrapping_add(class as u64)))
        });
        Brain {
            address,
            line,
            gate: if settings.obey_rates { gate.obeying_rates(line) } else { gate },
            notices: Notices::new(false),
            points,
            carried: [None; CLASSES],
            cnms: [0; CLASSES],
            peer: None,
            paused: ClassSet::NONE,
            held: [Held {
                stopped: false,
                rate: Some(line),
                limit_from: Nanos::ZERO,
                again_from: Nanos::ZERO,
            }; CLASSES],
        }
    }

    /// Takes a frame that came at `now`, which may be before the last question; what is neither MAC control nor a
    /// CNM is left alone. Answers the classes that it is an XOFF for.
    pub fn receive(&mut self, now: Nanos, frame: &[u8]) -> ClassSet {
        let mut asked = ClassSet::NONE;
        let Ok(header) = Header::parse(frame) else { return asked };
        if MacControl::is_mac_control(&header) {
            let before = self.gate.counts(now).classes;
            self.gate.receive(now, &header, frame);
            let after = self.gate.counts(now).classes;
            for (class, (before, after)) in Class::ALL.into_iter().zip(before.iter().zip(after)) {
                if after.xoff > before.xoff {
                    asked.insert(class);
                }
                if after.xoff + after.xon > before.xoff + before.xon {
                    self.peer = Some(header.src);
                }
            }
        } else if Cnm::is_cnm(&header)
            && let Some(cnm) = self.notices.read(now, self.address, &header, frame)
        {
            self.cnms[cnm.priority.index()] += 1;
            if let Some(points) = &mut self.points {
                let point = &mut points[cnm.priority.index()];
                if point.next_deadline() == Nanos::NEVER {
                    self.carried[cnm.priority.index()] = None;
                }
                point.notified(now, cnm.feedback);
            }
        }
        asked
    }

    /// The link is lost at `now`, and pauses and rates with it. What reaction points have learned of the network holds.
    pub fn link_lost(&mut self, now: Nanos) {
        self.gate.link_lost(now);
    }

    /// The device has this address by now.
    pub const fn has_address(&mut self, address: MacAddr) {
        self.address = address;
    }

    /// A class has sent so many bytes in all. What it sent before it was limited is no part of a cycle: the first
    /// number after that is what the next ones are counted from.
    pub fn carried(&mut self, class: Class, bytes: Bytes) {
        if !self.counted().contains(class) {
            return;
        }
        let Some(last) = self.carried[class.index()].replace(bytes) else { return };
        let Some(points) = &mut self.points else { return };
        let point = &mut points[class.index()];
        let mut left = bytes.0.saturating_sub(last.0);
        while left > 0 && point.next_deadline() != Nanos::NEVER {
            let portion = left.min(PORTION);
            point.sent(Bytes(portion));
            left -= portion;
        }
    }

    /// The classes that want to be told what they have sent.
    #[must_use]
    pub fn counted(&self) -> ClassSet {
        let limited = |class: &Class| {
            self.points.as_ref().is_some_and(|points| points[class.index()].next_deadline() != Nanos::NEVER)
        };
        Class::ALL.into_iter().filter(limited).collect()
    }

    /// Whether a class is limited since what it has sent was told last.
    #[must_use]
    pub fn counts_anew(&self) -> bool {
        self.counted().iter().any(|class| self.carried[class.index()].is_none())
    }

    /// The kernel has refused it at `now`: what held before still holds, and it is asked for again.
    pub fn refused(&mut self, now: Nanos, change: Change) {
        let (Change::Stop(class) | Change::Start(class) | Change::Limit(class, _)) = change;
        let held = &mut self.held[class.index()];
        match change {
            Change::Stop(_) | Change::Start(_) => {
                held.stopped = !held.stopped;
                held.again_from = now.after(AGAIN_EVERY);
            }
            Change::Limit(..) => {
                held.rate = None;
                held.limit_from = now.after(AGAIN_EVERY);
            }
        }
    }

    /// Somebody else has opened the queue of a class.
    pub const fn opened(&mut self, class: Class) {
        self.held[class.index()].stopped = false;
    }

    /// What is to be done at `now` beyond what was answered before; ask again until there is nothing.
    pub fn next_change(&mut self, now: Nanos) -> Option<Change> {
        let paused = self.gate.paused(now);
        self.paused = paused;
        for point in self.points.iter_mut().flatten() {
            point.advance(now);
        }
        // Those that stop come first: each of their frames counts against the switch's headroom.
        let mut stops = paused.iter().filter(|class| {
            let held = &self.held[class.index()];
            !held.stopped && now >= held.again_from
        });
        if let Some(class) = stops.next() {
            self.held[class.index()].stopped = true;
            return Some(Change::Stop(class));
        }
        for class in Class::ALL {
            let wanted = self.rate(class);
            let held = &mut self.held[class.index()];
            if held.stopped && !paused.contains(class) && now >= held.again_from {
                held.stopped = false;
                return Some(Change::Start(class));
            }
            if !held.stopped && held.rate != Some(wanted) && now >= held.limit_from {
                (held.rate, held.limit_from) = (Some(wanted), now.after(LIMIT_EVERY));
                return Some(Change::Limit(class, wanted));
            }
        }
        None
    }

    /// When [`Brain::next_change`] may have something, if nothing is received before.
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let points = self.points.iter().flatten().map(ReactionPoint::next_deadline);
        let limits = Class::ALL.into_iter().filter_map(|class| {
            let held = &self.held[class.index()];
            (!held.stopped && held.rate != Some(self.rate(class))).then_some(held.limit_from)
        });
        let refused = Class::ALL.into_iter().filter_map(|class| {
            let held = &self.held[class.index()];
            (held.stopped != self.paused.contains(class)).then_some(held.again_from)
        });
        points.chain(limits).chain(refused).fold(self.gate.next_change(), Nanos::min)
    }

    /// The rate that a class is to keep, as of the last question.
    #[must_use]
    pub fn rate(&self, class: Class) -> BitRate {
        let asked = self.gate.rate(class).unwrap_or(self.line);
        match &self.points {
            Some(points) => asked.min(points[class.index()].rate()),
            None => asked,
        }
    }

    /// The classes that are to be stopped, as of the last question.
    #[must_use]
    pub const fn paused(&self) -> ClassSet {
        self.paused
    }

    /// The classes that are stopped, as of the last answers.
    #[must_use]
    pub fn stopped(&self) -> ClassSet {
        Class::ALL.into_iter().filter(|class| self.held[class.index()].stopped).collect()
    }

    /// Pause frames received until `now`.
    #[must_use]
    pub fn pauses(&self, now: Nanos) -> PauseCounts {
        self.gate.counts(now)
    }

    /// Since when a class is paused; `None` where it is not.
    #[must_use]
    pub fn paused_since(&self, class: Class) -> Option<Nanos> {
        self.gate.since(class)
    }

    /// When the pause of a class ends by itself; `None` where there is none.
    #[must_use]
    pub fn paused_until(&self, class: Class) -> Option<Nanos> {
        self.gate.until(class)
    }

    /// CNMs received: all that are well-formed, those of each class, and malformed ones by reason.
    #[must_use]
    pub const fn notices(&self) -> (u64, &[u64; CLASSES], &[u64; CnmError::COUNT]) {
        (self.notices.received(), &self.cnms, self.notices.refused())
    }

    /// Who sent the last pause that was obeyed.
    #[must_use]
    pub const fn peer(&self) -> Option<MacAddr> {
        self.peer
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
