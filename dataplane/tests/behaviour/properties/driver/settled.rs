use xoff_wire::units::{Bytes, PortId};

use super::{Driver, PORTS_U8, all_queues};

impl Driver {
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

    pub fn try_again(&mut self) {
        let bridge = self.workers[0].bridge();
        if let Some(port) = (0..PORTS_U8).find(|&port| bridge.is_up(PortId(port))) {
            self.set_link(port, true);
            self.settle();
        }
    }

    pub fn refused(&self, port: u8) -> u64 {
        self.workers[0].bridge().fdb().refused_at(PortId(port))
    }

    pub fn waiting(&self) -> Vec<Bytes> {
        all_queues().map(|(port, class)| self.buffer(port).egress(PortId(port), class)).collect()
    }
}
