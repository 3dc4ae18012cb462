//! Congestion points of a switch: sampled buffers, with their queued frames.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, PortId, TAGS};

use super::culprit::{BYTES_PER_SLOT, QueuedFrames, SlotTable};
use super::flows::BYTES_PER_FLOW;
use super::qcn::{CongestionPoint, Sample};
use crate::settings::{Culprit, PortSettings, QcnSettings};

/// Congestion points, one for each configured (port, class).
#[derive(Debug)]
pub struct CongestionPoints {
    settings: QcnSettings,
    points: Box<[[Option<Box<Point>>; CLASSES]]>,
    slots: SlotTable,
    rng: fastrand::Rng,
}

#[derive(Debug)]
struct Point {
    sampling: CongestionPoint,
    queued: QueuedFrames,
    frame_max: Bytes,
}

/// Frame arriving at a congestion point.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Arrival {
    pub port: PortId,
    pub class: Class,
    pub slot: u32,
    pub size: Bytes,
    pub occupancy: Bytes,
}

/// Returns the maximum memory of a switch's congestion points in bytes.
#[must_use]
pub fn memory(settings: &QcnSettings, ports: usize, slots: u64) -> u64 {
    let points = (ports * ClassSet(settings.ingress.0 | settings.egress.0).iter().count()) as u64;
    let (once, each) = BYTES_PER_SLOT;
    let crowds = if points == 0 { 0 } else { slots * (once as u64 + points * each as u64) };
    match settings.culprit {
        Culprit::Arrival => 0,
        Culprit::OccupancyRandom => crowds,
        Culprit::OccupancyDeterministic => {
            crowds + points * u64::from(settings.flows_max) * BYTES_PER_FLOW as u64
        }
    }
}

impl CongestionPoints {
    /// Creates the congestion points for `slots` frame slots.
    #[must_use]
    pub fn new(settings: &QcnSettings, ports: &[PortSettings], slots: u32) -> CongestionPoints {
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let classes = ClassSet(settings.ingress.0 | settings.egress.0);
        let crowded = if classes.is_empty() || settings.culprit == Culprit::Arrival { 0 } else { slots };
        let flows = (settings.culprit == Culprit::OccupancyDeterministic).then_some(settings.flows_max);
        let mut point = |port: &PortSettings| Point {
            sampling: CongestionPoint::new(settings, &mut rng),
            queued: QueuedFrames::new(crowded, flows),
            frame_max: Bytes::of_frame(port.mtu_frame + TAGS),
        };
        let points = ports
            .iter()
            .map(|port| Class::ALL.map(|class| classes.contains(class).then(|| Box::new(point(port)))))
            .collect();
        CongestionPoints { settings: *settings, points, slots: SlotTable::new(crowded), rng }
    }

    /// Returns classes with congestion points at ingress.
    #[inline]
    #[must_use]
    pub const fn ingress(&self) -> ClassSet {
        self.settings.ingress
    }

    /// Returns classes with congestion points at egress.
    #[inline]
    #[must_use]
    pub const fn egress(&self) -> ClassSet {
        self.settings.egress
    }

    /// Counts an arriving frame; returns a sample if due. `flow` returns the frame's
    /// [`flow_digest`](super::culprit::flow_digest), and is called only if needed.
    pub fn arrived(&mut self, arrival: &Arrival, flow: impl FnOnce() -> u64) -> Option<Sample> {
        let Arrival { port, class, slot, size, occupancy } = *arrival;
        let point = self.points[port.index()][class.index()].as_deref_mut()?;
        if self.settings.culprit != Culprit::Arrival {
            point.queued.enter(&mut self.slots, slot, size, flow);
        }
        point.sampling.arrived(&self.settings, size, occupancy, &mut self.rng)
    }

    /// Removes a departed frame from the congestion points of its ingress and egress port.
    #[inline]
    pub fn left(&mut self, ingress: PortId, egress: PortId, class: Class, slot: u32, size: Bytes) {
        if self.slots.is_in(slot) {
            let port = if self.settings.ingress.contains(class) { ingress } else { egress };
            if let Some(point) = self.points[port.index()][class.index()].as_deref_mut() {
                point.queued.leave(&mut self.slots, slot, size);
            }
        }
    }

    /// Returns the slot of the frame to blame for a sample. The frame in slot `arrived` caused the sample; `size`
    /// returns the size of a slot's frame.
    #[must_use]
    pub fn culprit(
        &mut self,
        port: PortId,
        class: Class,
        arrived: u32,
        size: impl Fn(u32) -> Bytes,
    ) -> Option<u32> {
        let point = self.points[port.index()][class.index()].as_deref()?;
        match self.settings.culprit {
            Culprit::Arrival => Some(arrived),
            Culprit::OccupancyDeterministic => point.queued.largest_flow(&self.slots),
            Culprit::OccupancyRandom => point.queued.random_unit(&mut self.rng, point.frame_max, size),
        }
    }
}
