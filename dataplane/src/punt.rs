//! Punting: frames for the slow path (the control plane or the host) are copied to a [`PuntSink`] and freed. A token
//! bucket at each port ([`PuntLimit`]) limits their rate.

use std::fmt;

use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::PuntLimit;
use xoff_wire::units::{Nanos, PortId};

use crate::frame::{Frame, FrameStore};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PuntRefusal {
    Rate,
    Room,
}

/// Metadata of a punted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Punt {
    pub at: Nanos,
    pub port: PortId,
    /// VLAN whose router receives the frame; 0 for the port itself.
    pub vid: u16,
    pub reason: PuntReason,
}

/// Receiver of punted frames.
pub trait PuntSink: fmt::Debug + Send {
    /// Copies a punted frame. Returns false if there is no space. Must neither allocate nor wait.
    fn take(&mut self, punt: &Punt, frame: &Frame, store: &dyn FrameStore) -> bool;
}

const FRAME: u64 = 1_000_000_000;

/// Token bucket, with credit in billionths of a frame, so that nothing is rounded.
#[derive(Clone, Debug)]
pub(crate) struct PuntBucket {
    limit: PuntLimit,
    credit: u64,
    updated: Nanos,
}

impl PuntBucket {
    pub(crate) fn new(limit: PuntLimit) -> PuntBucket {
        PuntBucket { limit, credit: most(limit), updated: Nanos::ZERO }
    }

    pub(crate) fn revise(&mut self, now: Nanos, limit: PuntLimit) {
        self.refill(now);
        self.limit = limit;
        self.credit = self.credit.min(most(limit));
    }

    pub(crate) fn allows(&mut self, now: Nanos, reason: PuntReason) -> bool {
        let kept = match reason {
            PuntReason::Lldp | PuntReason::Lacp => 0,
            _ if reason.is_transit() => self.limit.burst / 2,
            _ => self.limit.burst / 8,
        };
        let least = FRAME * (u64::from(kept) + 1);
        if self.credit < least {
            self.refill(now);
        }
        self.credit >= least
    }

    pub(crate) fn spend(&mut self, now: Nanos) {
        self.refill(now);
        self.credit -= FRAME;
    }

    fn refill(&mut self, now: Nanos) {
        let earned = now.since(self.updated).0.saturating_mul(self.limit.rate.into());
        self.credit = self.credit.saturating_add(earned).min(most(self.limit));
        self.updated = self.updated.max(now);
    }
}

fn most(limit: PuntLimit) -> u64 {
    FRAME * u64::from(limit.burst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &mut PuntBucket, now: Nanos) -> usize {
        taken_of(bucket, now, PuntReason::Arp)
    }

    fn taken_of(bucket: &mut PuntBucket, now: Nanos, reason: PuntReason) -> usize {
        std::iter::from_fn(|| bucket.allows(now, reason).then(|| bucket.spend(now))).count()
    }

    #[test]
    fn transit_packets_use_at_most_half_of_punt_burst() {
        let mut bucket = PuntBucket::new(PuntLimit { rate: 1, burst: 5 });
        assert_eq!(taken_of(&mut bucket, Nanos(0), PuntReason::NoRoute), 3);
        assert_eq!(taken_of(&mut bucket, Nanos(0), PuntReason::Lldp), 2);
        assert_eq!(taken_of(&mut bucket, Nanos::from_secs(2), PuntReason::Unresolved), 0);
        assert_eq!(taken_of(&mut bucket, Nanos::from_secs(3), PuntReason::Unresolved), 1);
        let mut least = PuntBucket::new(PuntLimit { rate: 0, burst: 1 });
        assert_eq!(
            taken_of(&mut least, Nanos(0), PuntReason::TooBig),
            1,
            "a punt burst of one must allow one transit packet"
        );
    }

    #[test] // proves: slow-path
    fn punt_bucket_allows_burst_then_exact_rate() {
        let mut bucket = PuntBucket::new(PuntLimit { rate: 3, burst: 5 });
        assert_eq!(taken(&mut bucket, Nanos(0)), 5);
        assert!(!bucket.allows(Nanos(333_333_333), PuntReason::Arp));
        assert_eq!(taken(&mut bucket, Nanos(333_333_334)), 1);
        assert_eq!(taken(&mut bucket, Nanos(999_999_999)), 1, "credit must not be rounded up");
        assert_eq!(
            taken(&mut bucket, Nanos(1_000_000_000)),
            1,
            "the punt bucket must keep fractions of a frame's credit"
        );
        assert_eq!(
            taken(&mut bucket, Nanos::from_secs(1_000)),
            5,
            "the punt bucket must not save more credit than its burst"
        );
    }

    #[test] // proves: lacp
    fn part_of_punt_burst_is_reserved_for_link_protocols() {
        let mut bucket = PuntBucket::new(PuntLimit { rate: 1, burst: 16 });
        assert_eq!(taken(&mut bucket, Nanos(0)), 14);
        assert_eq!(taken_of(&mut bucket, Nanos(0), PuntReason::Lacp), 2);
    }

    #[test]
    fn punt_bucket_with_zero_rate_allows_only_its_burst() {
        assert_eq!(taken(&mut PuntBucket::new(PuntLimit { rate: 1_000, burst: 0 }), Nanos::from_secs(9)), 0);
        let mut once = PuntBucket::new(PuntLimit { rate: 0, burst: 1 });
        assert_eq!([taken(&mut once, Nanos(0)), taken(&mut once, Nanos::NEVER)], [1, 0]);
    }

    #[test]
    fn changed_punt_limit_keeps_credit_up_to_new_burst() {
        let mut bucket = PuntBucket::new(PuntLimit { rate: 1, burst: 5 });
        bucket.revise(Nanos(7), PuntLimit { rate: 1, burst: 2 });
        assert_eq!(taken(&mut bucket, Nanos(7)), 2);
        bucket.revise(Nanos(7), PuntLimit { rate: 2, burst: 9 });
        // An eighth of the burst, here one frame, is reserved for link protocols such as LLDP.
        assert_eq!([7, 500_000_007, 1_000_000_007].map(|at| taken(&mut bucket, Nanos(at))), [0, 0, 1]);
    }
}
