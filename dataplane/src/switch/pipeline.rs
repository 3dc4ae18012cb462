//! The pipeline: what is neither in an ingress nor in an egress queue.
//!
//! By default a frame passes it at once, and nothing of it is here. The papers' switch has one that takes so many frames a
//! second, from the ports in turn, each as it came in whatever its class, and has each for a while
//! ([`PipelineSettings`]). It has a clock of its own:
//!
//! ```text
//!   arrived --- in turn, at `free_at` or when it comes ---> frames --- `delay` later, at `due` ---> room at egress?
//! ```
//!
//! Only where its egress has no room and the pipeline is to halt for that ([`WhenFull::Stop`]) a frame stays at the head: the
//! clock stands still, and until that frame has gone nothing else is forwarded or taken in, whatever
//! port it came in by, whatever class it is of and wherever it goes. The frame is decided anew after every event that may make room or
//! change its egress: a frame has left the switch or was dropped in an egress queue; a link, a storm or a standstill has begun or ended; or
//! routes or settings have changed. That an address ages ends no halt; but a frame that is decided anew is flooded where its address is
//! no longer known. A halt is counted at the first queue that its frame found full, and lasts until
//! that frame has gone, whichever queue it finds full meanwhile.
//!
//! A frame counts where it came in as if it waited there. A driver that comes late finds frames that should have moved before,
//! and moves them as if it had been there, as far as room is concerned as it is now.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_flow_control::counters::Counters;
#[cfg(doc)]
use xoff_flow_control::settings::WhenFull;
use xoff_flow_control::settings::{FrameRate, IngressOrder, PipelineSettings};
use xoff_wire::units::{Class, Nanos, PortId};

use crate::frame::Frame;
use crate::queue::{Fifo, FrameMeta, Nodes};

/// An egress queue.
type Queue = (PortId, Class);

/// What can be done with it now.
pub(super) enum Next {
    /// The frame at the head is through.
    Head(Frame),
    /// It takes a frame in.
    Enter,
    /// Nothing.
    Wait,
}

/// A halt, as it is counted.
#[derive(Clone, Copy, Debug)]
struct Halt {
    /// The slot of the frame that halts the pipeline.
    head: u32,
    queue: Queue,
    since: Nanos,
    /// When that frame tried again: the end of the halt, unless it finds no room.
    tried: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    /// Whether a frame passes at once: it takes no time, no other order than that of classes, and none is in it.
    passes_at_once: bool,
    is_default: bool,
    rate: Option<FrameRate>,
    delay: Nanos,
    frames: Fifo,
    /// When each of them is through, by its own clock; empty where there is no delay.
    due: VecDeque<Nanos>,
    /// When the next may enter, by its own clock, and what of a nanosecond is left out.
    free_at: Nanos,
    owed: u64,
    /// Whether the frame at the head found no room, and nothing has happened since.
    is_halted: bool,
    /// The one that has not yet been found to be over.
    halt: Option<Halt>,
    counters: Arc<Counters>,
    /// When the last frame was through, by its own clock: where that stands still in a halt.
    at: Nanos,
    /// How far its clock is behind.
    behind: Nanos,
}

impl Pipeline {
    /// In a switch whose store has `slots` slots.
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

    /// Whether it is that of a switch that runs to completion: no rate, no delay, and classes in their order.
    pub(super) fn is_default(&self) -> bool {
        self.is_default
    }

    /// What is next. The head goes before others enter.
    pub(super) fn next(&mut self, now: Nanos, nodes: &Nodes) -> Next {
        if self.is_halted {
            return Next::Wait;
        }
        if let Some(Halt { tried: Some(tried), .. }) = self.halt {
            self.end_halt(tried); // the frame that tried is through
            self.passes_at_once = self.is_default;
        }
        if self.head_due() <= now
            && let Some(frame) = self.frames.pop(nodes)
        {
            self.at = self.due.pop_front().unwrap_or(self.at);
            if let Some(halt) = self.halt.as_mut().filter(|halt| halt.head == frame.slot()) {
                halt.tried = Some(now);
            }
            return Next::Head(frame);
        }
        if self.free_at.after(self.behind) <= now { Next::Enter } else { Next::Wait }
    }

    /// Takes a frame in, whose turn it is. It comes back where it is through at once.
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

    /// Halts the pipeline: `head` finds no room at `full`.
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

    /// Frames that were through are decided anew, before all others.
    pub(super) fn put_back(&mut self, nodes: &mut Nodes, mut first: Fifo) {
        if self.delay > Nanos::ZERO {
            (0..first.frames()).for_each(|_| self.due.push_front(self.at));
        }
        first.append(nodes, std::mem::take(&mut self.frames));
        self.frames = first;
    }

    /// What was a halt, if there was one, was over at that time.
    fn end_halt(&mut self, at: Nanos) {
        if let Some(Halt { queue: (port, class), since, .. }) = self.halt.take() {
            self.counters.class(port, class).end_halt(at.since(since));
        }
    }

    /// Whether the frame at the head waits for room.
    pub(super) fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Lets the frame at the head be decided anew, if the pipeline is halted.
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

    /// When a frame can move; `arrived`: some have come in that may enter.
    pub(super) fn next_move(&self, arrived: bool) -> Nanos {
        if self.is_halted {
            return Nanos::NEVER;
        }
        let entry = if arrived { self.free_at.after(self.behind) } else { Nanos::NEVER };
        entry.min(self.head_due())
    }

    /// When the frame at the head is through.
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

/// The bits of a class that tell in which queue of its ingress port a frame waits: one for each class, or one for all.
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

    /// A frame that may leave by several ports finds now one of them full and now another.
    #[test]
    fn halted_frame_at_another_queue_continues_its_halt() {
        let (counters, mut nodes) = (Counters::new(2), Nodes::new(2));
        let halts = |port: usize| {
            let counted = counters.class(QUEUES[port].0, QUEUES[port].1);
            (counted.halts.get(), counted.halted_nanos.get())
        };
        let mut pipeline = Pipeline::new(&PipelineSettings::default(), 2, Arc::clone(&counters));
        pipeline.halt(Nanos(10), &mut nodes, Frame::new(0, 60), QUEUES[0]);
        for full in QUEUES {
            pipeline.try_again(Nanos(20));
            let Next::Head(frame) = pipeline.next(Nanos(20), &nodes) else { panic!("not decided anew") };
            pipeline.halt(Nanos(20), &mut nodes, frame, full);
        }
        pipeline.try_again(Nanos(30));
        let Next::Head(frame) = pipeline.next(Nanos(30), &nodes) else { panic!("not decided anew") };
        let _ = frame.into_parts(); // it has gone
        let _ = pipeline.next(Nanos(40), &nodes);
        assert_eq!([halts(0), halts(1)], [(1, 20), (0, 0)]);
    }

    #[test]
    fn frame_decided_before_the_halted_one_ends_no_halt() {
        let (counters, mut nodes) = (Counters::new(2), Nodes::new(2));
        let mut pipeline = Pipeline::new(&PipelineSettings::default(), 2, Arc::clone(&counters));
        pipeline.halt(Nanos(10), &mut nodes, Frame::new(0, 60), QUEUES[0]);
        let mut resolved = Fifo::default();
        resolved.push(&mut nodes, Frame::new(1, 60));
        pipeline.put_back(&mut nodes, resolved);
        pipeline.try_again(Nanos(20));
        for slot in [1, 0] {
            let Next::Head(frame) = pipeline.next(Nanos(20), &nodes) else { panic!("not decided anew") };
            assert_eq!(frame.slot(), slot);
            match slot {
                0 => pipeline.halt(Nanos(20), &mut nodes, frame, QUEUES[0]),
                _ => _ = frame.into_parts(),
            }
        }
        assert_eq!(counters.class(PortId(0), QUEUES[0].1).halts.get(), 1);
    }
}
