use std::iter::Sum;

use xoff_netlink::tc::Node;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub dropped: u64,
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

impl QueueCounts {
    pub(super) fn of(qdisc: &Node) -> QueueCounts {
        QueueCounts { dropped: qdisc.statistics.drops.into(), waiting: qdisc.statistics.qlen.into() }
    }
}
