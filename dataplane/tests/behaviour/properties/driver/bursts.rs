//! Many frames alike, step by step, as a worker takes them: each step a batch, or each frame a batch of its own.

use std::collections::VecDeque;

use xoff_dataplane::frame::Frame;
use xoff_dataplane::switch::Batch;
use xoff_dataplane::units::PortId;

use super::{Driver, MemoryStore, PORTS_U8};

/// Frames that come in together and leave as far as they may.
#[derive(Clone, Debug)]
pub struct Burst {
    pub port: u8,
    pub to: u8,
    pub pcp: Option<u8>,
    pub len: u32,
    pub frames: u32,
    /// How many of those that wait at the port that they go to leave, and are released.
    pub leave: usize,
}

impl Driver {
    /// Each step for all frames, then the next; each of them a batch, or each frame one.
    pub(super) fn burst(&mut self, burst: &Burst) {
        let &Burst { port, to, pcp, len, frames, leave } = burst;
        let mut received: VecDeque<Frame> = VecDeque::new();
        for n in 0..frames {
            let bytes = self.data(port, to, pcp, len + n % 3);
            received.extend(self.store.fill(&bytes));
        }
        let out = if to < PORTS_U8 { to } else { port };
        let [at_in, at_out] = [port, out].map(|port| self.owners[usize::from(port)]);
        self.each_step(at_in, |steps, store| {
            let Some(frame) = received.pop_front() else { return false };
            steps.receive(PortId(port), frame, store);
            true
        });
        self.each_step(at_in, |steps, store| steps.forward(store));
        let batches = self.batches;
        let mut sent = Vec::new();
        self.each_step(at_out, |steps, store| {
            let most = batches.most(u32::try_from(leave - sent.len()).expect("a burst is short"));
            steps.transmit(PortId(out), store, most, |_, frame| sent.push(frame)) > 0
        });
        sent.iter().for_each(|frame| self.check_sent(out, frame));
        let mut ring = std::mem::take(&mut self.rings[usize::from(out)]);
        ring.extend(sent);
        let keep = ring.len().saturating_sub(leave);
        self.each_step(at_out, |steps, store| {
            let frame = if ring.len() > keep { ring.pop_front() } else { None };
            let any = frame.is_some();
            frame.into_iter().for_each(|frame| steps.release(PortId(out), frame, store));
            any
        });
        self.rings[usize::from(out)] = ring;
    }

    /// Takes a step while there is one: in one batch, or each in a batch of its own.
    fn each_step(&mut self, worker: usize, mut step: impl FnMut(&mut Batch<'_>, &mut MemoryStore) -> bool) {
        let (worker, store) = (&mut self.workers[worker], &mut self.store);
        self.batches.take(worker, self.now, |batch| step(batch, store));
    }
}
