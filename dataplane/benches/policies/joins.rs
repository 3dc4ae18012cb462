//! Benchmark of policy OFC: flows join a congested egress queue one by one, while no frame departs.

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::{PolicyKind, Trust};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use super::driver::{BATCH, settings};

const IN: PortId = PortId(0);
const OUT: PortId = PortId(1);
const LEN: u32 = 60;

pub struct Joins {
    switch: Switch,
    packets: Packets,
    next: u16,
}

impl Joins {
    pub fn new(flows: u16) -> Joins {
        let mut settings = settings(2, PolicyKind::Ofc);
        let most = u32::from(u16::MAX);
        (settings.policy.ofc.flows, settings.policy.ofc.paused_flows) = (most, most);
        settings.policy.ofc.alpha = 1e-7; // the first frames suffice for congestion
        for port in &mut settings.ports {
            (port.ofc_peer, port.trust) = (true, Trust::Pcp);
            for class in &mut port.classes {
                (class.xoff, class.xon) = (Bytes(1 << 30), Bytes::ZERO);
                (class.ingress_max, class.egress_max) = (Bytes(1 << 30), Bytes(1 << 30));
            }
        }
        let packets = Packets::new(flows + u16::try_from(BATCH).expect("batch exceeds 65,535 frames") + 1);
        let switch = Switch::new(&settings, packets.capacity(), Workers::single(2), Counters::new(2));
        let mut joins = Joins { switch, packets, next: 0 };
        joins.step(OUT);
        (0..flows).for_each(|_| joins.join());
        joins
    }

    pub fn join(&mut self) {
        self.step(IN);
    }

    pub fn requested(&self) -> usize {
        self.switch.ofc(Class::ALL[3]).map_or(0, |ofc| ofc.requested_flows(IN))
    }

    fn step(&mut self, port: PortId) {
        let frame = Frame::new(self.next.into(), LEN);
        self.next += 1;
        let mut batch = self.switch.batch(Nanos::ZERO);
        batch.receive(port, frame, &mut self.packets);
        while batch.forward(&mut self.packets) {}
    }
}

struct Packets(Vec<[u8; LEN as usize]>);

impl Packets {
    fn new(flows: u16) -> Packets {
        let mut packets = vec![[0; LEN as usize]; flows.into()];
        for (flow, packet) in (0_u16..).zip(&mut packets) {
            let [here, there] = if flow == 0 { [1, 0] } else { [0, 1] };
            packet[..6].copy_from_slice(&[2, 0, 0, 0, 0, there]);
            packet[6..12].copy_from_slice(&[2, 0, 0, 0, 0, here]);
            packet[12..18].copy_from_slice(&[0x81, 0x00, 3 << 5, 0, 0x08, 0x00]);
            (packet[18], packet[21], packet[27]) = (0x45, 42, 17); // IPv4 without options, its length, UDP
            packet[30..38].copy_from_slice(&[10, 0, 0, here, 10, 0, 0, there]);
            packet[38..40].copy_from_slice(&flow.to_be_bytes());
            packet[40..42].copy_from_slice(&4791_u16.to_be_bytes());
        }
        Packets(packets)
    }
}

impl FrameStore for Packets {
    fn capacity(&self) -> u32 {
        u32::try_from(self.0.len()).expect("the number of packets must fit in 32 bits")
    }

    fn head(&self, frame: &Frame) -> &[u8] {
        &self.0[frame.slot() as usize]
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        &mut self.0[frame.slot() as usize]
    }

    fn free(&mut self, frame: Frame) {
        let _ = frame.into_parts();
    }
}
