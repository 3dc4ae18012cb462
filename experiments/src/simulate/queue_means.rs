//! Mean queue lengths, and queues stuck at the end of a run (deadlock, or failed link).

use xoff_flow_control::counters::ClassCounters;
use xoff_sim::Picos;
use xoff_wire::units::{Class, PortId};

use super::build::Model;
use super::tables::decimal;
use crate::counted::queues as queues_of;

pub struct QueueMeans {
    samples: u64,
    bytes: Vec<Vec<[u64; Class::ALL.len()]>>,
}

impl QueueMeans {
    pub fn new(model: &Model) -> QueueMeans {
        let switches = model.fabric.fabric().switches().iter();
        let bytes = switches.map(|switch| vec![[0; Class::ALL.len()]; switch.counters().ports()]).collect();
        QueueMeans { samples: 0, bytes }
    }

    pub fn sample(&mut self, model: &Model) {
        self.samples += 1;
        for (switch, bytes) in model.fabric.fabric().switches().iter().zip(&mut self.bytes) {
            for (port, class, counters) in queues_of(switch.counters()) {
                bytes[port.index()][class.index()] += counters.egress_bytes.get();
            }
        }
    }

    pub fn mean(&self, switch: usize, port: PortId, class: Class) -> String {
        let sum = self.bytes[switch][port.index()][class.index()];
        if self.samples == 0 { String::new() } else { decimal(sum as f64 / self.samples as f64) }
    }
}

const EVERY: Picos = Picos::from_micros(100);
const LONG: Picos = Picos::from_micros(1_000);

pub struct StuckQueues {
    next: Picos,
    queues: Vec<(u64, Picos)>,
}

impl StuckQueues {
    pub fn new(model: &Model) -> StuckQueues {
        StuckQueues { next: EVERY, queues: vec![(0, Picos::ZERO); queues(model).count()] }
    }

    pub fn next(&self) -> Picos {
        self.next
    }

    pub fn sample(&mut self, model: &Model, now: Picos) {
        if now < self.next {
            return;
        }
        self.next = now.after(EVERY);
        for ((sent, since), queue) in self.queues.iter_mut().zip(queues(model)) {
            let sent_now = queue.tx_frames.get();
            if sent_now != *sent || queue.egress_bytes.get() == 0 {
                (*sent, *since) = (sent_now, now);
            }
        }
    }

    /// Formats the bytes in stuck queues, and the time since which the first one is stuck.
    pub fn cells(&self, model: &Model, now: Picos) -> [String; 2] {
        let stuck = self.queues.iter().zip(queues(model)).filter(|((sent, since), queue)| {
            queue.egress_bytes.get() > 0 && queue.tx_frames.get() == *sent && now.since(*since) >= LONG
        });
        let (mut bytes, mut first) = (0, None);
        for ((_, since), queue) in stuck {
            bytes += queue.egress_bytes.get();
            first = Some(first.map_or(*since, |first: Picos| first.min(*since)));
        }
        let first = first.map_or(String::new(), |first| decimal(first.0 as f64 / 1e6));
        [decimal(bytes as f64 / 1e3), first]
    }
}

fn queues(model: &Model) -> impl Iterator<Item = &ClassCounters> {
    let switches = model.fabric.fabric().switches().iter();
    switches.flat_map(|switch| queues_of(switch.counters())).map(|(.., class)| class)
}
