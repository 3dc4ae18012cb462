//! Pipeline between ingress and egress queues.
//!
//! By default a frame passes at once. As in the papers on CaPFC and QCN, the pipeline may delay frames, and take them
//! from the ports in turn at a limited rate ([`PipelineSettings`]).
//!
//! A full egress queue may halt the pipeline ([`WhenFull::Stop`]): its clock stops, and nothing is forwarded. Every
//! event that may free queue space, or change the egress of the head frame, retries that frame. A halt counts at the
//! queue that was full first.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_flow_control::counters::Counters;
#[cfg(doc)]
use xoff_flow_control::settings::WhenFull;
use xoff_flow_control::settings::{FrameRate, IngressOrder, PipelineSettings};
use xoff_wire::units::{Class, Nanos, PortId};

use crate::frame::Frame;
use crate::queue::{Fifo, FrameMeta, Nodes};

type Queue = (PortId, Class);

pub(super) enum PipelineStep {
    Head(Frame),
    Enter,
    Wait,
}

#[derive(Clone, Copy, Debug)]
struct Halt {
    head: u32,
    queue: Queue,
    since: Nanos,
    tried: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    passes_at_once: bool,
    is_default: bool,
    rate: Option<FrameRate>,
    delay: Nanos,
    frames: Fifo,
    due: VecDeque<Nanos>,
    /// Time from which the next frame may enter, by the pipeline's clock, which stops during a halt. Rounded down to
    /// ns; the rest is `owed` / `rate`.
    free_at: Nanos,
    owed: u64,
    /// True from a halt by a full queue until an event that may free space.
    is_halted: bool,
    halt: Option<Halt>,
    counters: Arc<Counters>,
    at: Nanos,
    behind: Nanos,
}

impl Pipeline {
    pub(super) fn new(settings: &PipelineSettings, slots: u32, counters: Arc<Counters>) -> Pipeline {
        let is_default = *settings == PipelineSettings::default();
        let delayed = if settings.delay > Nanos::ZERO { slots as usize } else { 0 };
        Pipeline {
            passes_at_once: is_default,
            is_default,
            rate: settings.rate,
            delay: settings.delay,
            frames: Fifo::default(),
            due: VecDeque::with_capacity(delayed),
            free_at: Nanos::ZERO,
            owed: 0,
            is_halted: false,
            halt: None,
            counters,
            at: Nanos::ZERO,
            behind: Nanos::ZERO,
        }
    }

    #[inline]
    pub(super) fn passes_at_once(&self) -> bool {
        self.passes_at_once
    }

    pub(super) fn is_default(&self) -> bool {
        self.is_default
    }

    pub(super) fn next(&mut self, now: Nanos, nodes: &Nodes) -> PipelineStep {
        if self.is_halted {
            return PipelineStep::Wait;
        }
        if let Some(Halt { tried: Some(tried), .. }) = self.halt {
            self.end_halt(tried);
            self.passes_at_once = self.is_default;
        }
        if self.head_due() <= now
            && let Some(frame) = self.frames.pop(nodes)
        {
            self.at = self.due.pop_front().unwrap_or(self.at);
            if let Some(halt) = self.halt.as_mut().filter(|halt| halt.head == frame.slot()) {
                halt.tried = Some(now);
            }
            return PipelineStep::Head(frame);
        }
        if self.free_at.after(self.behind) <= now { PipelineStep::Enter } else { PipelineStep::Wait }
    }

    pub(super) fn enter(&mut self, nodes: &mut Nodes, frame: Frame) -> Option<Frame> {
        let &FrameMeta { since, .. } = nodes.meta(&frame);
        let start = self.free_at.max(since.since(self.behind));
        if let Some(rate) = self.rate {
            let owed = if start > self.free_at { 0 } else { self.owed };
            (self.free_at, self.owed) = rate.next(start, owed);
        }
        if self.delay == Nanos::ZERO {
            self.at = start;
            return Some(frame);
        }
        self.due.push_back(start.after(self.delay));
        self.frames.push(nodes, frame);
        None
    }

    pub(super) fn halt(&mut self, now: Nanos, nodes: &mut Nodes, head: Frame, full: Queue) {
        match &mut self.halt {
            Some(halt) if halt.head == head.slot() => halt.tried = None,
            _ => {
                self.end_halt(now);
                self.halt = Some(Halt { head: head.slot(), queue: full, since: now, tried: None });
                self.counters.class(full.0, full.1).begin_halt(now);
            }
        }
        self.frames.unpop(nodes, head);
        if self.delay > Nanos::ZERO {
            self.due.push_front(self.at);
        }
        (self.is_halted, self.passes_at_once) = (true, false);
    }

    pub(super) fn put_back(&mut self, nodes: &mut Nodes, mut first: Fifo) {
        if self.delay > Nanos::ZERO {
            (0..first.frames()).for_each(|_| self.due.push_front(self.at));
        }
        first.append(nodes, std::mem::take(&mut self.frames));
        self.frames = first;
    }

    fn end_halt(&mut self, at: Nanos) {
        if let Some(Halt { queue: (port, class), since, .. }) = self.halt.take() {
            self.counters.class(port, class).end_halt(at.since(since));
        }
    }

    pub(super) fn is_halted(&self) -> bool {
        self.is_halted
    }

    #[inline]
    pub(super) fn try_again(&mut self, now: Nanos) {
        if self.is_halted {
            self.resume(now);
        }
    }

    #[cold]
    fn resume(&mut self, now: Nanos) {
        (self.is_halted, self.behind) = (false, now.since(self.at));
        if self.at > self.free_at {
            (self.free_at, self.owed) = (self.at, 0);
        }
    }

    pub(super) fn next_move(&self, arrived: bool) -> Nanos {
        if self.is_halted {
            return Nanos::NEVER;
        }
        let entry = if arrived { self.free_at.after(self.behind) } else { Nanos::NEVER };
        entry.min(self.head_due())
    }

    fn head_due(&self) -> Nanos {
        match self.frames.is_empty() {
            true => Nanos::NEVER,
            false => self.due.front().map_or(self.at, |due| *due).after(self.behind),
        }
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames.frames()
    }
}

pub(super) const fn lane_bits(order: IngressOrder) -> u8 {
    match order {
        IngressOrder::ByClass => 0b111,
        IngressOrder::Fifo => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: [Queue; 2] = [(PortId(0), Class::ALL[3]), (PortId(1), Class::ALL[3])];

    #[test]
    fn pipeline_halt_by_two_full_queues_counts_at_first_only() {
        let (counters, mut nodes) = (Counters::new(2), Nodes::new(2));
        let halts = |port: usize| {
            let counted = counters.class(QUEUES[port].0, QUEUES[port].1);
            (counted.halts.get(), counted.halted_nanos.get())
        };
        let mut pipeline = Pipeline::new(&PipelineSettings::default(), 2, Arc::clone(&counters));
        pipeline.halt(Nanos(10), &mut nodes, Frame::new(0, 60), QUEUES[0]);
        for full in QUEUES {
            pipeline.try_again(Nanos(20));
            let PipelineStep::Head(frame) = pipeline.next(Nanos(20), &nodes) else {
                panic!("the pipeline must retry the halted frame")
            };
            pipeline.halt(Nanos(20), &mut nodes, frame, full);
        }
        pipeline.try_again(Nanos(30));
        let PipelineStep::Head(frame) = pipeline.next(Nanos(30), &nodes) else {
            panic!("the pipeline must retry the halted frame")
        };
        let _ = frame.into_parts();
        let _ = pipeline.next(Nanos(40), &nodes);
        assert_eq!([halts(0), halts(1)], [(1, 20), (0, 0)]);
    }

    #[test]
    fn frame_put_before_halted_frame_does_not_end_pipeline_halt() {
        let (counters, mut nodes) = (Counters::new(2), Nodes::new(2));
        let mut pipeline = Pipeline::new(&PipelineSettings::default(), 2, Arc::clone(&counters));
        pipeline.halt(Nanos(10), &mut nodes, Frame::new(0, 60), QUEUES[0]);
        let mut resolved = Fifo::default();
        resolved.push(&mut nodes, Frame::new(1, 60));
        pipeline.put_back(&mut nodes, resolved);
        pipeline.try_again(Nanos(20));
        for slot in [1, 0] {
            let PipelineStep::Head(frame) = pipeline.next(Nanos(20), &nodes) else {
                panic!("the pipeline must retry the halted frame")
            };
            assert_eq!(frame.slot(), slot);
            match slot {
                0 => pipeline.halt(Nanos(20), &mut nodes, frame, QUEUES[0]),
                _ => _ = frame.into_parts(),
            }
        }
        assert_eq!(counters.class(PortId(0), QUEUES[0].1).halts.get(), 1);
    }
}
