use xoff_wire::units::Nanos;

use super::super::rtt::Rtt;
use super::super::scoreboard::{Scoreboard, Sent};
use super::{Detection, Sender, State};

pub(super) const DUPLICATES: u32 = 3;
/// Number of recoveries for which a widened reordering window is kept (RFC 8985).
const PERSISTENCE: u32 = 16;

/// Proportional rate reduction (RFC 6937): spreads the segments sent after a reduction over a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proportional {
    before: u32,
    delivered: u32,
    sent: u32,
}

impl Proportional {
    pub(super) fn new(window: u32) -> Proportional {
        Proportional { before: window, delivered: 0, sent: 0 }
    }

    pub(super) const fn sent(&mut self) {
        self.sent += 1;
    }

    /// Returns the window after `fresh` newly delivered segments; `None` leaves it unchanged. `is_advance` is true for
    /// a cumulative acknowledgement without new losses.
    pub(super) fn window(
        &mut self,
        threshold: u32,
        in_flight: u32,
        fresh: u32,
        is_advance: bool,
    ) -> Option<u32> {
        if fresh == 0 || self.before == 0 {
            return None;
        }
        self.delivered += fresh;
        let allowed = if in_flight > threshold {
            let share = u64::from(self.delivered) * u64::from(threshold);
            let share = u32::try_from(share.div_ceil(self.before.into())).unwrap_or(u32::MAX);
            share.saturating_sub(self.sent)
        } else {
            let limit = self.delivered.saturating_sub(self.sent).max(fresh) + u32::from(is_advance);
            limit.min(threshold - in_flight)
        };
        let first = u32::from(self.sent == 0); // the first retransmission
        Some(in_flight + allowed.max(first))
    }
}

/// Connection state before a loss recovery, restored if the recovery proves needless.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) window: u32,
    pub(super) threshold: u32,
    /// Time of the recovery's first retransmission.
    pub(super) resent: Option<Nanos>,
}

/// Loss detection by delivery times (RFC 8985).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// Sending time of the delivered segment that was sent last, and its index plus one.
    sent: (Nanos, u32),
    /// Round-trip time of the segment delivered last.
    round_trip: Nanos,
    round_trip_min: Nanos,
    /// Index of the highest delivered segment, plus one.
    highest: u32,
    /// Maximum distance from a segment, at its delivery, to `highest`.
    pub(super) reordering: u32,
    /// Reordering window in quarters of the minimum round-trip time.
    steps: u32,
    persistence: u32,
    /// Index: all segments below must be acknowledged before the reordering window may be widened again.
    next_step: u32,
    pub(super) reorder_at: Nanos,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent: (Nanos::ZERO, 0),
            round_trip: Nanos::ZERO,
            round_trip_min: Nanos::NEVER,
            highest: 0,
            reordering: 0,
            steps: 1,
            persistence: 0,
            next_step: 0,
            reorder_at: Nanos::NEVER,
        }
    }
}

impl Rack {
    pub(super) fn delivered(&mut self, segment: u32, sent: &Sent, now: Nanos) {
        let round_trip = now.since(sent.at);
        if segment + 1 >= self.highest {
            self.highest = segment + 1;
        } else if !sent.was_resent {
            self.reordering = self.reordering.max(self.highest - segment);
        }
        if sent.was_resent && round_trip < self.round_trip_min {
            return; // the first transmission may have been delivered
        }
        self.round_trip_min = self.round_trip_min.min(round_trip);
        self.round_trip = round_trip;
        self.sent = self.sent.max((sent.at, segment + 1));
    }

    /// Widens the reordering window after a needless retransmission, at most once per round trip.
    pub(super) const fn received_twice(&mut self, [first, next]: [u32; 2]) {
        if first >= self.next_step {
            self.steps += 1;
            (self.persistence, self.next_step) = (PERSISTENCE, next);
        }
    }

    fn recovers(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.steps = 1;
        }
    }

    fn reordering_window(&self, rtt: &Rtt, sacked: u32, state: State) -> Nanos {
        let is_certain = sacked >= DUPLICATES || matches!(state, State::Recovering | State::TimedOut);
        if self.reordering == 0 && is_certain {
            return Nanos::ZERO;
        }
        let window = (self.round_trip_min.0 / 4).saturating_mul(self.steps.into());
        Nanos(window).min(rtt.smoothed().unwrap_or(Nanos::NEVER))
    }

    fn detect(&mut self, board: &mut Scoreboard, rtt: &Rtt, now: Nanos, state: State) -> bool {
        let late = self.round_trip.after(self.reordering_window(rtt, board.sacked(), state));
        let (mut is_lost, mut latest) = (false, Nanos::ZERO);
        for segment in board.first()..board.next() {
            let Some(sent) = board.get(segment) else { break };
            if (sent.at, segment + 1) >= self.sent {
                if board.has_repairs_in_flight() {
                    continue;
                }
                break; // later segments were sent later
            }
            if sent.is_sacked || sent.is_lost && !sent.is_resent {
                continue;
            }
            let due = sent.at.after(late);
            if due <= now {
                is_lost |= board.lose(segment);
            } else {
                latest = latest.max(due);
            }
        }
        if latest > Nanos::ZERO {
            self.reorder_at = latest;
        }
        is_lost
    }
}

impl Sender {
    pub(super) fn detect(&mut self, now: Nanos, advances: bool) -> bool {
        self.rack.reorder_at = Nanos::NEVER;
        let has_sack = self.settings.sack;
        match self.settings.detection {
            Detection::Never => false,
            Detection::Rack if has_sack => self.rack.detect(&mut self.board, &self.rtt, now, self.state),
            Detection::Rack => self.detect_by_duplicates(DUPLICATES, advances),
            Detection::Duplicates(limit) if has_sack => self.detect_by_sacks(limit),
            Detection::Duplicates(limit) => self.detect_by_duplicates(limit, advances),
        }
    }

    /// Marks a segment as lost if `limit` later segments are acknowledged selectively (RFC 6675).
    fn detect_by_sacks(&mut self, limit: u32) -> bool {
        if self.board.sacked() < limit {
            return false;
        }
        let sacked = self.board.iter().rev().filter(|(_, sent)| sent.is_sacked);
        let Some(last) = sacked.map(|(segment, _)| segment).nth(limit.saturating_sub(1) as usize) else {
            return false;
        };
        let mut is_lost = false;
        for segment in self.board.first()..last {
            if self.board.get(segment).is_some_and(|sent| !sent.is_lost && !sent.was_resent) {
                is_lost |= self.board.lose(segment);
            }
        }
        is_lost
    }

    /// Marks the first outstanding segment as lost after `limit` duplicate acknowledgements, or in recovery at a
    /// partial acknowledgement (RFC 6582).
    fn detect_by_duplicates(&mut self, limit: u32, advances: bool) -> bool {
        let first = self.board.first();
        let is_lost = match self.state {
            State::Recovering => advances,
            State::Open | State::Reducing => {
                let is_new = self.repaired.is_none_or(|repaired| first > repaired);
                is_new && self.board.duplicates() >= limit
            }
            State::Connecting { .. } | State::TimedOut => false,
        };
        let is_first_time = self.board.get(first).is_some_and(|sent| !sent.was_resent);
        is_lost && is_first_time && self.board.lose(first)
    }

    /// Returns whether the echoed timestamp, of age `round_trip`, is from before the first retransmission (RFC 3522):
    /// the segment was delayed, not lost. Timestamps are in microseconds.
    pub(super) fn is_recovery_needless(&self, now: Nanos, round_trip: Nanos) -> bool {
        let [now, round_trip] = [now, round_trip].map(|time| time.0 / 1_000);
        let may_undo = self.settings.undo && self.state == State::Recovering;
        let resent = self.undo.and_then(|undo| undo.resent).filter(|_| may_undo);
        resent.is_some_and(|resent| now.saturating_sub(round_trip) < resent.0 / 1_000)
    }

    pub(super) fn undo(&mut self) {
        let Some(Undo { window, threshold, .. }) = self.undo.take() else { return };
        (self.window, self.threshold) = (self.window.max(window), self.threshold.max(threshold));
        (self.state, self.repaired) = (State::Open, None);
        self.is_reduced = false;
        self.board.forget_losses();
    }

    pub(super) fn recover(&mut self) {
        self.rack.recovers();
        self.repaired = Some(self.board.next());
        if self.state == State::Reducing {
            (self.state, self.high) = (State::Recovering, self.board.next());
            self.proportional = Proportional::new(self.board.in_flight());
        } else {
            self.undo = Some(Undo { window: self.window, threshold: self.threshold, resent: None });
            self.begin(State::Recovering, super::Congestion::Loss);
            self.is_reduced = self.settings.ecn;
        }
    }
}
