use std::sync::{Arc, Mutex};

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::punt::{Punt, PuntSink};
use xoff_dataplane::switch::Switch;
use xoff_wire::units::{Nanos, PortId};

use crate::bed::store::MemoryStore;

#[derive(Debug)]
pub struct Punted {
    pub frames: Vec<(Punt, Vec<u8>)>,
    pub room: usize,
}

#[derive(Debug)]
struct Sink(Arc<Mutex<Punted>>);

impl PuntSink for Sink {
    fn take(&mut self, punt: &Punt, frame: &Frame, store: &dyn FrameStore) -> bool {
        let Punted { frames, room } = &mut *self.0.lock().expect("a test thread has panicked");
        if frames.len() == *room {
            return false;
        }
        let mut bytes = vec![0; frame.len() as usize];
        let len = store.read(frame, &mut bytes);
        bytes.truncate(len);
        frames.push((*punt, bytes));
        true
    }
}

pub fn punted_by(switch: &mut Switch) -> Arc<Mutex<Punted>> {
    let punted = Arc::new(Mutex::new(Punted { frames: Vec::new(), room: 1_000 }));
    let before = switch.batch(Nanos(0)).put_punt_sink(Box::new(Sink(Arc::clone(&punted))));
    assert!(before.is_none());
    punted
}

pub fn sent(switch: &mut Switch, store: &mut MemoryStore, now: &mut Nanos, port: PortId) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    loop {
        let mut frames = Vec::new();
        *now += Nanos::from_micros(20);
        let mut batch = switch.batch(*now);
        batch.transmit(port, store, 1, |_, frame| frames.push(frame));
        let Some(frame) = frames.pop() else { break };
        sent.push(store.frame(&frame).to_vec());
        batch.release(port, frame, store);
        while batch.forward(store) {}
    }
    assert_eq!(switch.ledger().missing(), 0);
    sent
}
