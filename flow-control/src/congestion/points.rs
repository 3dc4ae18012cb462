//! The congestion points of a switch: one for each (port, class) that has one, allocated at start.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, PortId, TAGS};

use super::culprit::{BYTES_PER_SLOT, Crowd, Places};
use super::flows::BYTES_PER_FLOW;
use super::qcn::{CongestionPoint, Sample};
use crate::settings::{Culprit, PortSettings, QcnSettings};

/// What a switch without any costs: two empty sets to look into.
#[derive(Debug)]
pub struct CongestionPoints {
    settings: QcnSettings,
    points: Box<[[Option<Box<Point>>; CLASSES]]>,
    places: Places,
    rng: fastrand::Rng,
}

#[derive(Debug)]
struct Point {
    sampling: CongestionPoint,
    /// Empty where nobody asks for it ([`Culprit::Arrival`]).
    crowd: Crowd,
    /// The longest frame, as buffers count it.
    frame_max: Bytes,
}

/// What arrived where.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The port of the congestion point.
    pub port: PortId,
    /// Class of the frame.
    pub class: Class,
    /// Its slot.
    pub slot: u32,
    /// Its size.
    pub size: Bytes,
    /// The occupancy of the buffer with it.
    pub occupancy: Bytes,
}

/// Memory that the congestion points of a switch take, at most: tables of slots and of flows.
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
    /// As `settings` have it, for these ports and a store of `slots` slots.
    #[must_use]
    pub fn new(settings: &QcnSettings, ports: &[PortSettings], slots: u32) -> CongestionPoints {
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let classes = ClassSet(settings.ingress.0 | settings.egress.0);
        let crowded = if classes.is_empty() || settings.culprit == Culprit::Arrival { 0 } else { slots };
        let flows = (settings.culprit == Culprit::OccupancyDeterministic).then_some(settings.flows_max);
        let mut point = |port: &PortSettings| Point {
            sampling: CongestionPoint::new(settings, &mut rng),
            crowd: Crowd::new(crowded, flows),
            frame_max: Bytes::of_frame(port.mtu_frame + TAGS),
        };
        let points = ports
            .iter()
            .map(|port| Class::ALL.map(|class| classes.contains(class).then(|| Box::new(point(port)))))
            .collect();
        CongestionPoints { settings: *settings, points, places: Places::new(crowded), rng }
    }

    /// Classes sampled where they come in.
    #[inline]
    #[must_use]
    pub const fn ingress(&self) -> ClassSet {
        self.settings.ingress
    }

    /// Classes sampled where they go out.
    #[inline]
    #[must_use]
    pub const fn egress(&self) -> ClassSet {
        self.settings.egress
    }

    /// A frame has arrived; `flow` is asked for its [`flow_digest`](super::culprit::flow_digest) only
    /// where flows are told apart.
    pub fn arrived(&mut self, arrival: &Arrival, flow: impl FnOnce() -> u64) -> Option<Sample> {
        let Arrival { port, class, slot, size, occupancy } = *arrival;
        let point = self.points[port.index()][class.index()].as_deref_mut()?;
        if self.settings.culprit != Culprit::Arrival {
            point.crowd.enter(&mut self.places, slot, size, flow);
        }
        point.sampling.arrived(&self.settings, size, occupancy, &mut self.rng)
    }

    /// A frame that came in by `ingress` (and goes out by `egress`, if it got so far) waits no longer.
    #[inline]
    pub fn left(&mut self, ingress: PortId, egress: PortId, class: Class, slot: u32, size: Bytes) {
        if self.places.is_in(slot) {
            let port = if self.settings.ingress.contains(class) { ingress } else { egress };
            if let Some(point) = self.points[port.index()][class.index()].as_deref_mut() {
                point.crowd.leave(&mut self.places, slot, size);
            }
        }
    }

    /// The slot whose frame's source is to be told, after a sample at (`port`, `class`) when the frame
    /// in `arrived` came; `size` tells that of the frame in a slot.
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
            Culprit::OccupancyDeterministic => point.crowd.largest_flow(&self.places),
            Culprit::OccupancyRandom => point.crowd.random_unit(&mut self.rng, point.frame_max, size),
        }
    }
}
