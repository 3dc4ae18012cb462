//! What a queueing discipline counts.

use std::iter::Sum;

use rtnetlink::packet_route::tc::TcAttribute;

/// Counters of a queueing discipline, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Dropped since it was installed.
    pub dropped: u64,
    /// Waiting now.
    pub waiting: u64,
}

impl Sum for QueueCounts {
    fn sum<I: Iterator<Item = QueueCounts>>(all: I) -> QueueCounts {
        all.fold(QueueCounts::default(), |sum, of| QueueCounts {
            dropped: sum.dropped + of.dropped,
            waiting: sum.waiting + of.waiting,
        })
    }
}

pub(super) fn queue_counts(attribute: &TcAttribute) -> QueueCounts {
    match attribute {
        TcAttribute::Stats(stats) => QueueCounts { dropped: stats.drops.into(), waiting: stats.qlen.into() },
        _ => QueueCounts::default(),
    }
}
