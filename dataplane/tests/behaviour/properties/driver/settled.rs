//! Whether what waits has to.

use xoff_wire::units::{Bytes, PortId};

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

    /// The frame that halts the pipeline tries again, though nothing has happened: any link that is up is said to be.
    pub fn try_again(&mut self) {
        let bridge = self.workers[0].bridge();
        if let Some(port) = (0..PORTS_U8).find(|&port| bridge.is_up(PortId(port))) {
            self.set_link(port, true);
            self.settle();
        }
    }

    /// Frames at a port whose source was not learned.
    pub fn refused(&self, port: u8) -> u64 {
        self.workers[0].bridge().fdb().refused_at(PortId(port))
    }

    /// Bytes that wait to leave, by port and class.
    pub fn waiting(&self) -> Vec<Bytes> {
        all_queues().map(|(port, class)| self.buffer(port).egress(PortId(port), class)).collect()
    }
}
