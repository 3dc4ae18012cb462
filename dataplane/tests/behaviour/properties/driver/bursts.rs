use xoff_dataplane::driver::Boundary as _;
use xoff_dataplane::frame::Frame;
use xoff_wire::units::PortId;

use super::{Driver, PORTS_U8};

#[derive(Clone, Debug)]
pub struct Burst {
    pub port: u8,
    pub to: u8,
    pub pcp: Option<u8>,
    pub len: u32,
    pub frames: u32,
    pub leave: usize,
}

impl Driver {
    pub(super) fn burst(&mut self, burst: &Burst) {
        let &Burst { port, to, pcp, len, frames, leave } = burst;
        let data: Vec<Vec<u8>> = (0..frames).map(|n| self.data(port, to, pcp, len + n % 3)).collect();
        let out = if to < PORTS_U8 { to } else { port };
        let [at_in, at_out] = [port, out].map(|port| self.owners[usize::from(port)]);
        let Driver { now, workers, store, batches: by, .. } = self;
        let received: Vec<Frame> = data.iter().filter_map(|bytes| store.fill(bytes)).collect();
        let mut batch = by.batch(&mut workers[at_in], *now);
        received.into_iter().for_each(|frame| by.receive(&mut batch, PortId(port), frame, store));
        drop(batch);
        let mut batch = by.batch(&mut workers[at_in], *now);
        by.forward_all(&mut batch, store);
        drop(batch);
        let (mut sent, most) = (Vec::new(), u32::try_from(leave).expect("burst exceeds 32 bits"));
        let mut batch = by.batch(&mut workers[at_out], *now);
        by.transmit(&mut batch, PortId(out), store, most, |_, frame| sent.push(frame));
        drop(batch);
        sent.iter().for_each(|frame| self.check_sent(out, frame));
        let Driver { now, workers, store, batches: by, rings, .. } = self;
        let ring = &mut rings[usize::from(out)];
        ring.extend(sent);
        let mut batch = by.batch(&mut workers[at_out], *now);
        for frame in ring.drain(..leave.min(ring.len())) {
            by.release(&mut batch, PortId(out), frame, store);
        }
    }
}
