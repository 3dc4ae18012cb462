mod fabric_side;
mod input;
mod output;
mod port;

use std::sync::Arc;

use xoff_dataplane::frame::FrameStore as _;
use xoff_dataplane::tap::{FrameEvent, Sighting, TAPS_MAX, Tap};
use xoff_flow_control::congestion::CongestionPoints;
use xoff_flow_control::counters::{ClassCounters, Counters};
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{PortSettings, SwitchSettings};
use xoff_wire::units::{Class, ClassSet, Nanos, PortId};

use super::Scheduled;
use super::frames::Frames;
use super::uplinks::Uplinks;
use crate::node::{Net, Node, Place};
use crate::pool::Packet;
use crate::slots::{Slots, View};
use crate::time::Picos;
use port::{ServerPort, input_frames};

/// Leaf of a scheduled fabric. Its first ports lead to servers, the others to spines.
///
/// A server's frames wait in a virtual output queue (VOQ) per output and class, until the output grants them. Buffer
/// thresholds, pauses, classification and congestion points work as in a dataplane switch.
#[derive(Debug)]
pub struct CellLeaf {
    place: Place,
    fabric: Scheduled,
    counters: Arc<Counters>,
    congestion: CongestionPoints,
    ports: Box<[ServerPort]>,
    uplinks: Uplinks,
    frames: Frames,
    taps: Vec<Box<dyn Tap>>,
    pauses: Slots,
    woken: Nanos,
}

impl CellLeaf {
    /// Creates a leaf.
    #[must_use]
    pub fn new(place: Place, fabric: Scheduled, settings: &SwitchSettings) -> CellLeaf {
        let servers = &settings.ports[..fabric.hosts.into()];
        let sampled = ClassSet(settings.qcn.ingress.0 | settings.qcn.egress.0);
        let slots = CellLeaf::congestion_slots(fabric, settings);
        CellLeaf {
            place,
            fabric,
            counters: Counters::new(settings.ports.len()),
            congestion: CongestionPoints::new(&settings.qcn, servers, slots),
            ports: servers.iter().map(|of| ServerPort::new(of, fabric.credits)).collect(),
            uplinks: Uplinks::new(fabric.hosts, fabric.spines, fabric.spine_buffer),
            frames: Frames::new(sampled),
            taps: Vec::new(),
            pauses: Slots::new(0, 1),
            woken: Nanos::NEVER,
        }
    }

    /// Returns how many slots a leaf's congestion points need: one per sampled frame that waits in an input's buffer or
    /// has a credit of its output.
    #[must_use]
    pub fn congestion_slots(fabric: Scheduled, settings: &SwitchSettings) -> u32 {
        let sampled = ClassSet(settings.qcn.ingress.0 | settings.qcn.egress.0);
        let of_class = |port: &PortSettings, class: Class| {
            input_frames(&port.classes[class.index()]).saturating_add(fabric.credits)
        };
        let servers = settings.ports[..fabric.hosts.into()].iter();
        let slots = servers.flat_map(|port| sampled.iter().map(move |class| of_class(port, class)));
        slots.fold(0, u32::saturating_add)
    }

    /// Returns the leaf's counters.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(super) fn put_tap(&mut self, tap: Box<dyn Tap>) -> Result<(), Box<dyn Tap>> {
        if self.taps.len() == TAPS_MAX {
            return Err(tap);
        }
        self.taps.push(tap);
        Ok(())
    }

    fn class(&self, port: PortId, class: Class) -> &ClassCounters {
        self.counters.class(port, class)
    }

    fn drop_frame(&self, at: (PortId, Class), reason: DropReason, packet: Packet, net: &mut Net) {
        self.class(at.0, at.1).drops[reason.index()].add(1);
        net.pool.free(packet);
    }

    fn server(&self, port: PortId) -> u16 {
        let leaf = u16::try_from(self.place.id().0).unwrap_or(u16::MAX);
        leaf * u16::from(self.fabric.hosts) + u16::from(port.0)
    }

    fn is_server(&self, port: PortId) -> bool {
        port.index() < self.ports.len()
    }

    fn make_pause(&mut self, port: PortId, bytes: &[u8], net: &mut Net) -> Packet {
        let at = net.now().floor();
        let view = &mut View { pool: &mut net.pool, slots: &mut self.pauses };
        let frame = view.control(bytes).expect("the slot of the leaf's previous pause must be free");
        let event = FrameEvent::Sent { after: Nanos::ZERO };
        let sighting = Sighting { at, port, class: None, is_control: true, event };
        self.taps.iter_mut().for_each(|tap| tap.see(&sighting, &frame, view));
        let packet = view.slots.send(&frame);
        view.free(frame);
        packet
    }

    fn schedule(&mut self, port: PortId, net: &mut Net) {
        let next = self.ports[port.index()].next_timer();
        if next < self.woken {
            self.woken = next;
            net.wake(self.place, Picos::from(next));
        }
    }
}

impl Node for CellLeaf {
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        if self.is_server(port) {
            self.arrived_from_server(port, packet, net);
        } else {
            self.arrived_from_spine(port, packet, net);
        }
    }

    fn left(&mut self, port: PortId, net: &mut Net) {
        if self.is_server(port) {
            self.left_to_server(port, net);
        } else {
            self.uplinks.set_idle(port);
            self.send_to_spines(net);
        }
    }

    fn due(&mut self, net: &mut Net) {
        let now = net.now().floor();
        if self.woken <= now {
            self.woken = Nanos::NEVER;
        }
        for port in (0..self.fabric.hosts).map(PortId) {
            self.advance(port, now);
            self.send_to_server(port, net);
            self.schedule(port, net);
        }
    }

    fn holds(&self) -> u64 {
        let at_ports = self.ports.iter().map(ServerPort::packets).sum::<usize>();
        (self.frames.packets() + self.uplinks.packets() + at_ports) as u64
    }
}
