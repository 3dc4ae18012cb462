//! Whether what waits has to.

use xoff_dataplane::units::{Bytes, PortId};

use super::{Driver, PORTS_U8, all_queues};

impl Driver {
    /// All that can move at this time has moved to where it leaves, and frames that were handed over are there.
    pub fn settle(&mut self) {
        let count = self.workers.len();
        let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        loop {
            let forwarded = (0..count)
                .filter(|&worker| std::iter::from_fn(|| self.forward(worker).then_some(())).count() > 0);
            let mut moved = forwarded.count() > 0;
            for (from, to) in pairs() {
                while self.hand_over(from, to) {
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
    }

    /// What waits for room at any port with a link tries again, though nothing has happened.
    pub fn try_all_again(&mut self) {
        let bridge = self.workers[0].bridge();
        let linked: Vec<u8> = (0..PORTS_U8).filter(|&port| bridge.is_up(PortId(port))).collect();
        linked.into_iter().for_each(|port| self.set_link(port, true));
        self.settle();
    }

    /// Bytes that wait to leave, by port and class.
    pub fn waiting(&self) -> Vec<Bytes> {
        all_queues().map(|(port, class)| self.buffer(port).egress(PortId(port), class)).collect()
    }
}
