use std::sync::mpsc::{Receiver, Sender, channel};

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::punt::{Punt, PuntSink};
use xoff_dataplane::switch::WorkerId;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::units::PortId;

use super::ends::{HostFrame, SendCounts, WorkerSide, ends};
use super::*;
use crate::handoff::Bells;

struct One(Vec<u8>);

impl FrameStore for One {
    fn capacity(&self) -> u32 {
        1
    }
    fn head(&self, _: &Frame) -> &[u8] {
        &self.0
    }
    fn head_mut(&mut self, _: &Frame) -> &mut [u8] {
        &mut self.0
    }
    fn free(&mut self, _: Frame) {}
}

struct Echo(Sender<(PortId, Vec<u8>)>);

impl Host for Echo {
    fn take(&mut self, punted: &Punted<'_>, outbox: &mut Outbox) {
        assert!(outbox.tell(punted.punt.at, punted.punt.port, punted.bytes));
        self.0.send((punted.punt.port, punted.bytes.to_vec())).unwrap();
    }
    fn advance(&mut self, _: Nanos, _: &mut Outbox) -> Nanos {
        Nanos::NEVER
    }
    fn stop(&mut self, now: Nanos, outbox: &mut Outbox) {
        assert!(outbox.tell(now, PortId(1), b"the end"));
    }
}

type Had = Receiver<(PortId, Vec<u8>)>;

fn two_workers() -> (HostPath, Vec<WorkerSide>, Had, Arc<SendCounts>) {
    let bell = Arc::new(Bell::new().unwrap());
    let counts = SendCounts::new(2);
    let bells = Bells::new(2).unwrap();
    let (end, workers) = ends(&bells, [WorkerId(0), WorkerId(1)].into(), 2, &bell, &counts);
    let (had, has) = channel();
    (start(end, &bell, Echo(had), &Privileges::Keep).unwrap(), workers, has, counts)
}

fn punt(sink: &mut dyn PuntSink, port: u8, bytes: &[u8]) -> bool {
    let store = One(bytes.to_vec());
    let frame = Frame::new(0, u32::try_from(bytes.len()).unwrap());
    let punt = Punt { at: Nanos(5), port: PortId(port), vid: 0, reason: PuntReason::Lldp };
    let is_taken = sink.take(&punt, &frame, &store);
    let _ = frame.into_parts();
    is_taken
}

#[test] // proves: slow-path
fn answer_to_punted_frame_goes_to_the_worker_of_its_port() {
    let (mut path, mut workers, had, counts) = two_workers();
    for (port, (sink, end)) in (0..).zip(&mut workers) {
        assert!(punt(&mut **sink, port, &[port; 60]));
        end.ring();
        assert_eq!(had.recv().unwrap(), (PortId(port), vec![port; 60]));
    }
    path.stop();
    let mut frames_of = |worker: usize| {
        let end = &mut workers[worker].1;
        let mut all = Vec::new();
        while let Some(HostFrame::ToPeer(port, bytes)) = end.next_frame() {
            all.push((port, bytes.to_vec()));
        }
        all.iter().for_each(|(port, bytes)| end.count(*port, bytes.len() == 60));
        all
    };
    assert_eq!(frames_of(0), [(PortId(0), vec![0; 60])]);
    assert_eq!(frames_of(1), [(PortId(1), vec![1; 60]), (PortId(1), b"the end".to_vec())]);
    assert_eq!([counts.sent(PortId(1)), counts.unsent(PortId(1))], [1, 1]);
}

#[test]
fn full_punt_ring_refuses_frames_and_loses_no_accepted_one() {
    let bell = Arc::new(Bell::new().unwrap());
    let bells = Bells::new(1).unwrap();
    let (mut end, mut workers) = ends(&bells, [WorkerId(0)].into(), 1, &bell, &SendCounts::new(1));
    let sink = &mut *workers[0].0;
    let taken = (0..u32::MAX).take_while(|n| punt(sink, 0, &n.to_ne_bytes())).count();
    assert!(taken > 1_000 && !punt(sink, 0, b"more"));
    let mut expected = 0..;
    while end.take(7, |punted, _| assert_eq!(punted.bytes, u32::to_ne_bytes(expected.next().unwrap()))) {}
    assert_eq!(expected.next().unwrap() as usize, taken);
    assert!(punt(sink, 0, b"room again"));
}
