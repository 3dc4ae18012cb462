//! Pause controller of a host: from received frames and the clock, decides when to stop, start or limit a class. A [`Gate`] processes
//! pauses and rates (GFC), as in the switch's dataplane.
//!
//! QCN has one reaction point per class, because queueing disciplines know no flows. The priority in a CNM gives the class.

use xoff_flow_control::congestion::ReactionPoint;
use xoff_host::{Gate, Notices, Obedience, PauseCounts};
use xoff_wire::cnm::Cnm;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos};
use xoff_wire::{CnmError, Header, MacControl};

use crate::config::NicSettings;

pub const LIMIT_EVERY: Nanos = Nanos::from_millis(5);

pub const COUNT_EVERY: Nanos = Nanos::from_millis(10);

/// Interval at which the agent repeats a change of the queues that the kernel refused.
pub const AGAIN_EVERY: Nanos = Nanos::from_millis(10);

/// Maximum bytes reported to a reaction point at once: less than its shortest byte cycle, so that no cycle is skipped.
const PORTION: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Stop(Class),
    Start(Class),
    /// Limits the class to a rate; the line rate means no limit.
    Limit(Class, BitRate),
}

#[derive(Clone, Copy, Debug)]
struct AppliedState {
    stopped: bool,
    rate: Option<BitRate>,
    limit_from: Nanos,
    again_from: Nanos,
}

#[derive(Debug)]
pub struct PauseController {
    address: MacAddr,
    line: BitRate,
    gate: Gate,
    notices: Notices,
    points: Option<[ReactionPoint; CLASSES]>,
    reported: [Option<Bytes>; CLASSES],
    cnms: [u64; CLASSES],
    peer: Option<MacAddr>,
    paused: ClassSet,
    applied: [AppliedState; CLASSES],
}

impl PauseController {
    #[must_use]
    pub fn new(settings: &NicSettings, address: MacAddr) -> PauseController {
        let line = settings.speed;
        let gate = Gate::new(line, Obedience::Obey, false).obeying_classes(settings.lossless);
        let [.., high, low] = address.0;
        let points = settings.qcn.map(|qcn| {
            let seed = qcn.seed_of(u16::from_be_bytes([high, low]));
            std::array::from_fn(|class| ReactionPoint::new(&qcn, line, seed.wrapping_add(class as u64)))
        });
        PauseController {
            address,
            line,
            gate: if settings.obey_rates { gate.obeying_rates(line) } else { gate },
            notices: Notices::new(false),
            points,
            reported: [None; CLASSES],
            cnms: [0; CLASSES],
            peer: None,
            paused: ClassSet::NONE,
            applied: [AppliedState {
                stopped: false,
                rate: Some(line),
                limit_from: Nanos::ZERO,
                again_from: Nanos::ZERO,
            }; CLASSES],
        }
    }

    /// Processes a MAC control frame or CNM. Its arrival time `now` may precede the times given to other methods. Returns the classes that
    /// the frame paused.
    pub fn receive(&mut self, now: Nanos, frame: &[u8]) -> ClassSet {
        let mut paused = ClassSet::NONE;
        let Ok(header) = Header::parse(frame) else { return paused };
        if MacControl::is_mac_control(&header) {
            let before = self.gate.counts(now).classes;
            self.gate.receive(now, &header, frame);
            let after = self.gate.counts(now).classes;
            for (class, (before, after)) in Class::ALL.into_iter().zip(before.iter().zip(after)) {
                if after.xoff > before.xoff {
                    paused.insert(class);
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
                    self.reported[cnm.priority.index()] = None;
                }
                point.notified(now, cnm.feedback);
            }
        }
        paused
    }

    /// Ends all pauses and GFC rates. QCN's rates stay, because they reflect the network's congestion.
    pub fn link_lost(&mut self, now: Nanos) {
        self.gate.link_lost(now);
    }

    /// Makes only `classes` obey pauses, and ends the pauses of other classes.
    pub fn set_lossless(&mut self, now: Nanos, classes: ClassSet) {
        self.gate.set_classes(now, classes);
    }

    pub const fn set_address(&mut self, address: MacAddr) {
        self.address = address;
    }

    /// Tells a class's QCN reaction point the total bytes that the class has sent. The first report only sets the start value.
    pub fn report_sent(&mut self, class: Class, bytes: Bytes) {
        if !self.counted().contains(class) {
            return;
        }
        let Some(last) = self.reported[class.index()].replace(bytes) else { return };
        let Some(points) = &mut self.points else { return };
        let point = &mut points[class.index()];
        let mut left = bytes.0.saturating_sub(last.0);
        while left > 0 && point.next_deadline() != Nanos::NEVER {
            let portion = left.min(PORTION);
            point.sent(Bytes(portion));
            left -= portion;
        }
    }

    /// Returns the classes that QCN limits: [`report_sent`](Self::report_sent) must be called for them.
    #[must_use]
    pub fn counted(&self) -> ClassSet {
        let limited = |class: &Class| {
            self.points.as_ref().is_some_and(|points| points[class.index()].next_deadline() != Nanos::NEVER)
        };
        Class::ALL.into_iter().filter(limited).collect()
    }

    #[must_use]
    pub fn needs_first_report(&self) -> bool {
        self.counted().iter().any(|class| self.reported[class.index()].is_none())
    }

    /// Records a change that the kernel refused; [`next_change`](Self::next_change) returns the change again later.
    pub fn refused(&mut self, now: Nanos, change: Change) {
        let (Change::Stop(class) | Change::Start(class) | Change::Limit(class, _)) = change;
        let applied = &mut self.applied[class.index()];
        match change {
            Change::Stop(_) | Change::Start(_) => {
                applied.stopped = !applied.stopped;
                applied.again_from = now.after(AGAIN_EVERY);
            }
            Change::Limit(..) => {
                applied.rate = None;
                applied.limit_from = now.after(AGAIN_EVERY);
            }
        }
    }

    /// Records that the guard started a class, which the agent must stop again if the class is still paused.
    pub const fn opened(&mut self, class: Class) {
        self.applied[class.index()].stopped = false;
    }

    pub fn next_change(&mut self, now: Nanos) -> Option<Change> {
        let paused = self.gate.paused(now);
        self.paused = paused;
        for point in self.points.iter_mut().flatten() {
            point.advance(now);
        }
        // Stop classes before other changes, because each frame of a paused class takes headroom at the switch.
        let mut stops = paused.iter().filter(|class| {
            let applied = &self.applied[class.index()];
            !applied.stopped && now >= applied.again_from
        });
        if let Some(class) = stops.next() {
            self.applied[class.index()].stopped = true;
            return Some(Change::Stop(class));
        }
        for class in Class::ALL {
            let wanted = self.rate(class);
            let applied = &mut self.applied[class.index()];
            if applied.stopped && !paused.contains(class) && now >= applied.again_from {
                applied.stopped = false;
                return Some(Change::Start(class));
            }
            if !applied.stopped && applied.rate != Some(wanted) && now >= applied.limit_from {
                (applied.rate, applied.limit_from) = (Some(wanted), now.after(LIMIT_EVERY));
                return Some(Change::Limit(class, wanted));
            }
        }
        None
    }

    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let points = self.points.iter().flatten().map(ReactionPoint::next_deadline);
        let limits = Class::ALL.into_iter().filter_map(|class| {
            let applied = &self.applied[class.index()];
            (!applied.stopped && applied.rate != Some(self.rate(class))).then_some(applied.limit_from)
        });
        let refused = Class::ALL.into_iter().filter_map(|class| {
            let applied = &self.applied[class.index()];
            (applied.stopped != self.paused.contains(class)).then_some(applied.again_from)
        });
        points.chain(limits).chain(refused).fold(self.gate.next_change(), Nanos::min)
    }

    #[must_use]
    pub fn rate(&self, class: Class) -> BitRate {
        let rate = self.gate.rate(class).unwrap_or(self.line);
        match &self.points {
            Some(points) => rate.min(points[class.index()].rate()),
            None => rate,
        }
    }

    #[must_use]
    pub const fn paused(&self) -> ClassSet {
        self.paused
    }

    #[must_use]
    pub fn stopped(&self) -> ClassSet {
        Class::ALL.into_iter().filter(|class| self.applied[class.index()].stopped).collect()
    }

    #[must_use]
    pub fn pauses(&self, now: Nanos) -> PauseCounts {
        self.gate.counts(now)
    }

    #[must_use]
    pub fn paused_since(&self, class: Class) -> Option<Nanos> {
        self.gate.since(class)
    }

    #[must_use]
    pub fn paused_until(&self, class: Class) -> Option<Nanos> {
        self.gate.until(class)
    }

    /// Returns the numbers of received CNMs: well-formed, well-formed by class, malformed by defect.
    #[must_use]
    pub const fn notices(&self) -> (u64, &[u64; CLASSES], &[u64; CnmError::COUNT]) {
        (self.notices.received(), &self.cnms, self.notices.refused())
    }

    #[must_use]
    pub const fn peer(&self) -> Option<MacAddr> {
        self.peer
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
