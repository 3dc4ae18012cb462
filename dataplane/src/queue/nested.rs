//! Nested queues of policy OFC (OFC paper, section III-B, Algorithm 3): three FIFOs hold the frames of a class. A
//! paused flow neither blocks other flows nor is reordered.
//!
//! Frames join the *normal* queue. At its head, frames of paused flows move to the *paused* queue, one of two backup
//! queues. When flows resume, the two backup queues swap roles, and the old paused queue is drained: frames of resumed
//! flows leave, the others move to the new paused queue. Once the old one is empty (the paper's Order Mark), the normal
//! queue is served again.
//!
//! A flow that resumes *during* a drain may have frames in both backup queues, so it stays paused until the drain ends.

use xoff_flow_control::policy::{BYTES_PER_NESTED_FLOW, NO_FLOW};
use xoff_wire::units::Nanos;

use super::nodes::{Fifo, FrameMeta, Nodes};
use crate::frame::Frame;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Passing,
    Held,
    Resuming,
    HeldAgain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Normal,
    /// Drain of the old paused queue, which has a frame whenever a method returns.
    Draining,
}

#[derive(Debug)]
pub(crate) struct Nested {
    normal: Fifo,
    backup: [Fifo; 2],
    paused: usize,
    served: Served,
    flows: Box<[State]>,
    resumed: Vec<u32>,
    unnumbered: u32,
}

const _: () = assert!(
    size_of::<State>() + size_of::<u32>() == BYTES_PER_NESTED_FLOW,
    "BYTES_PER_NESTED_FLOW must be the bytes that a flow takes"
);

impl Nested {
    pub(crate) fn new(flows: usize) -> Nested {
        Nested {
            normal: Fifo::default(),
            backup: Default::default(),
            paused: 0,
            served: Served::Normal,
            flows: vec![State::Passing; flows].into_boxed_slice(),
            resumed: Vec::with_capacity(flows),
            unnumbered: 0,
        }
    }

    pub(crate) fn continue_with(&mut self, fifo: Fifo) {
        debug_assert_eq!(self.frames(), 0);
        self.unnumbered = fifo.frames();
        self.normal = fifo;
    }

    pub(crate) fn give_up(&mut self, nodes: &mut Nodes) -> Fifo {
        let [first, second] = std::mem::take(&mut self.backup);
        let (paused, drained) = if self.paused == 0 { (first, second) } else { (second, first) };
        let mut all = paused;
        all.append(nodes, drained);
        all.append(nodes, std::mem::take(&mut self.normal));
        all.for_each_meta(nodes, |meta| meta.flow = NO_FLOW);
        self.unnumbered = 0;
        all
    }

    #[inline]
    pub(crate) fn push(&mut self, nodes: &mut Nodes, frame: Frame) {
        self.unnumbered += u32::from(nodes.meta(&frame).flow == NO_FLOW);
        self.normal.push(nodes, frame);
        if self.normal.frames() == 1 {
            self.settle(nodes);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, nodes: &mut Nodes) -> Option<Frame> {
        let frame = self.served().pop(nodes)?;
        self.unnumbered -= u32::from(nodes.meta(&frame).flow == NO_FLOW);
        self.settle(nodes);
        Some(frame)
    }

    pub(crate) fn take_if(&mut self, nodes: &mut Nodes, mut leaves: impl FnMut(&FrameMeta) -> bool) -> Fifo {
        let mut taken = Fifo::default();
        let [first, second] = &mut self.backup;
        let (paused, drained) = if self.paused == 0 { (first, second) } else { (second, first) };
        for queue in [paused, drained, &mut self.normal] {
            let of_queue = queue.take_if(nodes, &mut leaves);
            taken.append(nodes, of_queue);
        }
        taken.for_each_meta(nodes, |meta| self.unnumbered -= u32::from(meta.flow == NO_FLOW));
        self.settle(nodes);
        taken
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        match self.served {
            Served::Normal => !self.normal.is_empty(),
            Served::Draining => true,
        }
    }

    pub(crate) fn oldest(&self, nodes: &Nodes) -> Option<Nanos> {
        match self.served {
            Served::Normal => self.normal.oldest(nodes),
            Served::Draining => self.backup[1 - self.paused].oldest(nodes),
        }
    }

    pub(crate) fn can_hold_flows(&self) -> bool {
        self.unnumbered == 0
    }

    pub(crate) fn frames(&self) -> u32 {
        self.normal.frames() + self.backup.iter().map(Fifo::frames).sum::<u32>()
    }

    pub(crate) fn hold(&mut self, nodes: &mut Nodes, flows: impl IntoIterator<Item = u32>) {
        for flow in flows {
            let state = &mut self.flows[flow as usize];
            *state = match state {
                State::Passing | State::Held => State::Held,
                State::Resuming | State::HeldAgain => State::HeldAgain,
            };
        }
        self.settle(nodes);
    }

    pub(crate) fn resume(&mut self, nodes: &mut Nodes, flows: impl IntoIterator<Item = u32>) {
        for flow in flows {
            let state = &mut self.flows[flow as usize];
            match state {
                State::Passing | State::Resuming => continue,
                State::Held => self.resumed.push(flow),
                State::HeldAgain => (),
            }
            *state = State::Resuming;
        }
        if self.served == Served::Normal {
            self.order_mark();
        }
        self.settle(nodes);
    }

    fn order_mark(&mut self) {
        self.served = Served::Normal;
        if self.resumed.is_empty() {
            return;
        }
        for flow in self.resumed.drain(..) {
            let state = &mut self.flows[flow as usize];
            *state = if *state == State::Resuming { State::Passing } else { State::Held };
        }
        if !self.backup[self.paused].is_empty() {
            self.paused = 1 - self.paused;
            debug_assert!(
                self.backup[self.paused].is_empty(),
                "the second backup queue must be empty before it becomes the paused queue"
            );
            self.served = Served::Draining;
        }
    }

    fn settle(&mut self, nodes: &mut Nodes) {
        loop {
            while let Some(flow) = self.served().front(nodes).map(|meta| meta.flow)
                && self.is_held(flow)
            {
                let frame = self.served().pop(nodes).expect("the served queue must have a front frame");
                self.backup[self.paused].push(nodes, frame);
            }
            if self.served == Served::Normal || !self.served().is_empty() {
                return;
            }
            self.order_mark();
        }
    }

    #[inline]
    fn is_held(&self, flow: u32) -> bool {
        flow != NO_FLOW && self.flows[flow as usize] != State::Passing
    }

    #[inline]
    fn served(&mut self) -> &mut Fifo {
        match self.served {
            Served::Normal => &mut self.normal,
            Served::Draining => &mut self.backup[1 - self.paused],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use xoff_explore::explore;

    const FLOWS: u32 = 4;

    struct QueueBench {
        nodes: Nodes,
        queue: Nested,
        next: u32,
    }

    impl QueueBench {
        fn new() -> QueueBench {
            QueueBench { nodes: Nodes::new(512), queue: Nested::new(FLOWS as usize), next: 0 }
        }

        fn push(&mut self, flow: u32) {
            let frame = Frame::new(self.next, 60);
            self.nodes.meta_mut(&frame).flow = flow;
            self.queue.push(&mut self.nodes, frame);
            self.next += 1;
        }

        fn become_fifo_and_back(&mut self) {
            let fifo = self.queue.give_up(&mut self.nodes);
            self.queue = Nested::new(FLOWS as usize);
            self.queue.continue_with(fifo);
        }

        fn push_all(&mut self, flows: &[u32]) {
            flows.iter().for_each(|&flow| self.push(flow));
        }

        fn hold(&mut self, flow: u32) {
            self.queue.hold(&mut self.nodes, [flow]);
        }

        fn resume(&mut self, flow: u32) {
            self.queue.resume(&mut self.nodes, [flow]);
        }

        fn pop(&mut self) -> Option<(u32, u32)> {
            let frame = self.queue.pop(&mut self.nodes)?;
            let flow = self.nodes.meta(&frame).flow;
            Some((flow, frame.into_parts().0))
        }

        fn drain(&mut self) -> Vec<u32> {
            std::iter::from_fn(|| self.pop().map(|(_, number)| number)).collect()
        }

        fn shape(&self) -> [u32; 3] {
            let other = &self.queue.backup[1 - self.queue.paused];
            [self.queue.normal.frames(), self.queue.backup[self.queue.paused].frames(), other.frames()]
        }
    }

    #[test] // Algorithm 3 lines 7-8 and 13-14
    fn frames_of_paused_flow_wait_while_other_flows_leave() {
        let mut bench = QueueBench::new();
        bench.push_all(&[0, 1, 0, 1, 0]);
        bench.hold(0);
        assert_eq!(bench.shape(), [4, 1, 0]);
        assert_eq!(bench.drain(), [1, 3]);
        assert_eq!(bench.shape(), [0, 3, 0]);
        assert!(!bench.queue.is_ready() && bench.queue.frames() == 3);
    }

    #[test] // Algorithm 3 lines 3-6
    fn resume_serves_paused_queue_before_normal_queue() {
        let mut bench = QueueBench::new();
        bench.hold(0);
        bench.push_all(&[0, 0, 1]);
        assert_eq!(bench.pop(), Some((1, 2)));
        bench.push_all(&[1, 0]);
        bench.resume(0);
        assert_eq!(bench.drain(), [0, 1, 3, 4]);
    }

    #[test] // Algorithm 3: "partial paused flows resumed"
    fn resume_of_some_paused_flows_swaps_backup_queues() {
        let mut bench = QueueBench::new();
        bench.hold(0);
        bench.hold(1);
        bench.push_all(&[0, 1, 0, 1]);
        bench.resume(1);
        assert_eq!(
            bench.shape(),
            [0, 1, 3],
            "frames of the paused flow must move to the second backup queue"
        );
        assert_eq!(bench.drain(), [1, 3]);
        assert_eq!(bench.shape(), [0, 2, 0], "backup queues must swap");
        bench.resume(0);
        assert_eq!(bench.drain(), [0, 2]);
    }

    #[test]
    fn flow_resumed_during_drain_stays_paused_until_drain_ends() {
        let mut bench = QueueBench::new();
        bench.hold(0);
        bench.hold(1);
        bench.push_all(&[0, 1, 0, 1]);
        bench.resume(1);
        bench.push(0);
        bench.resume(0);
        assert_eq!(bench.drain(), [1, 3, 0, 2, 4]);
    }

    #[test]
    fn flow_paused_during_queue_drain_sends_no_further_frame() {
        let mut bench = QueueBench::new();
        bench.hold(0);
        bench.push_all(&[0, 0, 1]);
        bench.resume(0);
        assert_eq!(bench.pop(), Some((0, 0)));
        bench.hold(0);
        assert_eq!(bench.drain(), [2]);
        bench.resume(0);
        assert_eq!(bench.drain(), [1]);
    }

    #[test]
    fn flow_paused_again_before_queue_drain_ends_stays_paused() {
        let mut bench = QueueBench::new();
        bench.hold(0);
        bench.hold(1);
        bench.push_all(&[0, 1]);
        bench.resume(1);
        bench.resume(0);
        bench.hold(0);
        assert_eq!(bench.drain(), [1]);
        bench.resume(0);
        assert_eq!(bench.drain(), [0]);
    }

    #[test]
    fn nested_queue_turned_into_fifo_keeps_order_of_each_flow() {
        let mut bench = QueueBench::new();
        bench.push_all(&[NO_FLOW, NO_FLOW]);
        bench.become_fifo_and_back();
        bench.push_all(&[0, 1, 0, 1, 2]);
        bench.hold(0);
        bench.hold(1);
        assert_eq!([bench.pop(), bench.pop()], [Some((NO_FLOW, 0)), Some((NO_FLOW, 1))]);
        bench.push_all(&[0, 1]);
        bench.resume(1);
        let mut fifo = bench.queue.give_up(&mut bench.nodes);
        let order: Vec<u32> = std::iter::from_fn(|| fifo.pop(&bench.nodes))
            .map(|frame| {
                assert_eq!(bench.nodes.meta(&frame).flow, NO_FLOW);
                frame.into_parts().0
            })
            .collect();
        assert_eq!(order, [2, 3, 4, 5, 6, 7, 8]);
    }

    #[derive(Clone, Debug)]
    enum QueueStep {
        Push(u32),
        Pop,
        Hold(Vec<u32>),
        Resume(Vec<u32>),
        BecomeFifo,
    }

    fn any_step() -> impl Strategy<Value = QueueStep> {
        let flows = || prop::collection::vec(0..FLOWS, 1..4);
        prop_oneof![
            12 => prop_oneof![9 => 0..FLOWS, 1 => Just(NO_FLOW)].prop_map(QueueStep::Push),
            8 => Just(QueueStep::Pop),
            3 => flows().prop_map(QueueStep::Hold),
            3 => flows().prop_map(QueueStep::Resume),
            1 => Just(QueueStep::BecomeFifo),
        ]
    }

    struct Waiting {
        flow: u32,
        number: u32,
        is_numbered: bool,
    }

    #[derive(Default)]
    struct Model {
        waiting: Vec<Waiting>,
        held: Vec<u32>,
    }

    impl Model {
        fn may_leave(&self, frame: &Waiting) -> bool {
            !frame.is_numbered || !self.held.contains(&frame.flow)
        }

        fn popped(&mut self, number: u32) {
            let at = self.waiting.iter().position(|frame| frame.number == number).unwrap();
            let frame = &self.waiting[at];
            assert!(self.may_leave(frame), "no frame of paused flow {} may leave", frame.flow);
            let overtakes = self.waiting[..at].iter().any(|older| older.flow == frame.flow);
            assert!(!overtakes, "flow {} reordered", frame.flow);
            self.waiting.remove(at);
        }
    }

    fn run(steps: &[QueueStep]) {
        let mut bench = QueueBench::new();
        let mut model = Model::default();
        for step in steps {
            match step {
                QueueStep::Push(flow) => {
                    model.waiting.push(Waiting { flow: *flow, number: bench.next, is_numbered: true });
                    bench.push(*flow);
                }
                QueueStep::Pop => {
                    if let Some((_, number)) = bench.pop() {
                        model.popped(number);
                    }
                }
                QueueStep::Hold(flows) => {
                    bench.queue.hold(&mut bench.nodes, flows.iter().copied());
                    model.held.extend(flows);
                }
                QueueStep::Resume(flows) => {
                    bench.queue.resume(&mut bench.nodes, flows.iter().copied());
                    model.held.retain(|flow| !flows.contains(flow));
                }
                QueueStep::BecomeFifo => {
                    bench.become_fifo_and_back();
                    model.held.clear();
                    model.waiting.iter_mut().for_each(|frame| frame.is_numbered = false);
                }
            }
            assert_eq!(bench.queue.frames() as usize, model.waiting.len());
            let may_leave = model.waiting.iter().any(|frame| model.may_leave(frame));
            assert_eq!(bench.queue.is_ready(), may_leave, "is_ready() must return whether a frame may leave");
            let all_are_numbered =
                model.waiting.iter().all(|frame| frame.is_numbered && frame.flow != NO_FLOW);
            assert_eq!(bench.queue.can_hold_flows(), all_are_numbered);
            let [_, _, other] = bench.shape();
            assert_eq!(
                other == 0,
                bench.queue.served == Served::Normal,
                "the second backup queue must have frames exactly during a drain"
            );
        }
        bench.queue.resume(&mut bench.nodes, 0..FLOWS);
        model.held.clear();
        while let Some((_, number)) = bench.pop() {
            model.popped(number);
        }
        assert!(model.waiting.is_empty(), "{} frames are stranded", model.waiting.len());
    }

    explore! {
        cases = 4_096;

        #[test] // proves: ofc-flows
        fn nested_queues_never_reorder_a_flow_or_strand_a_frame(steps in prop::collection::vec(any_step(), 1..120)) {
            run(&steps);
        }
    }
}
