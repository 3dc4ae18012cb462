use std::sync::Arc;

use xoff_dataplane::tap::{Tap, TapId};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::PortId;

use super::{CellLeaf, CellSpine, Scheduled};
use crate::node::{Net, Node, Place};
use crate::pool::Packet;
use crate::switch_node::{ImpairmentCounts, SlotCounts, SwitchNode};

/// Switch with xoff's dataplane, or switch of a scheduled fabric.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // a fabric has switches of the dataplane only, or none
pub enum AnySwitch {
    /// Switch with xoff's dataplane.
    Dataplane(SwitchNode),
    /// Leaf of a scheduled fabric.
    Leaf(Box<CellLeaf>),
    /// Spine of a scheduled fabric.
    Spine(Box<CellSpine>),
}

/// Type of switch, with xoff's dataplane or not.
pub trait MaybeDataplane {
    /// Returns the dataplane switch; `None` in a scheduled fabric.
    fn dataplane(&mut self) -> Option<&mut SwitchNode>;
}

impl MaybeDataplane for SwitchNode {
    fn dataplane(&mut self) -> Option<&mut SwitchNode> {
        Some(self)
    }
}

impl MaybeDataplane for AnySwitch {
    fn dataplane(&mut self) -> Option<&mut SwitchNode> {
        match self {
            AnySwitch::Dataplane(switch) => Some(switch),
            AnySwitch::Leaf(_) | AnySwitch::Spine(_) => None,
        }
    }
}

impl AnySwitch {
    /// Creates a switch of the scheduled fabric `fabric`; with `None`, one with xoff's dataplane.
    #[must_use]
    pub fn new(
        place: Place,
        settings: &SwitchSettings,
        slots: SlotCounts,
        fabric: Option<Scheduled>,
    ) -> AnySwitch {
        match fabric {
            None => AnySwitch::Dataplane(SwitchNode::new(place, settings, slots)),
            Some(fabric) if place.id().0 < fabric.leaves.into() => {
                AnySwitch::Leaf(Box::new(CellLeaf::new(place, fabric, settings)))
            }
            Some(fabric) => AnySwitch::Spine(Box::new(CellSpine::new(place, fabric))),
        }
    }

    /// Returns the switch's counters. A scheduled fabric's spine counts cells as frames.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        match self {
            AnySwitch::Dataplane(switch) => switch.counters(),
            AnySwitch::Leaf(leaf) => leaf.counters(),
            AnySwitch::Spine(spine) => spine.counters(),
        }
    }

    /// Adds a tap, an observer of the switch's frames (in a scheduled fabric, only of sent pauses).
    ///
    /// # Errors
    /// Returns the tap if the switch has its maximum of taps.
    pub fn put_tap(&mut self, id: TapId, tap: Box<dyn Tap>, net: &Net) -> Result<(), Box<dyn Tap>> {
        match self {
            AnySwitch::Dataplane(switch) => switch.put_tap(id, tap, net),
            AnySwitch::Leaf(leaf) => leaf.put_tap(tap),
            AnySwitch::Spine(_) => Ok(()),
        }
    }

    /// Returns the counts of driver impairments; zero in a scheduled fabric.
    #[must_use]
    pub fn impairment_counts(&self) -> ImpairmentCounts {
        match self {
            AnySwitch::Dataplane(switch) => switch.impairment_counts(),
            AnySwitch::Leaf(_) | AnySwitch::Spine(_) => ImpairmentCounts::default(),
        }
    }
}

macro_rules! each {
    ($switch:expr, $node:ident => $call:expr) => {
        match $switch {
            AnySwitch::Dataplane($node) => $call,
            AnySwitch::Leaf($node) => $call,
            AnySwitch::Spine($node) => $call,
        }
    };
}

impl Node for AnySwitch {
    #[inline]
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        each!(self, node => node.arrived(port, packet, net));
    }

    #[inline]
    fn left(&mut self, port: PortId, net: &mut Net) {
        each!(self, node => node.left(port, net));
    }

    fn due(&mut self, net: &mut Net) {
        each!(self, node => node.due(net));
    }

    fn linked(&mut self, port: PortId, is_up: bool, net: &mut Net) {
        each!(self, node => node.linked(port, is_up, net));
    }

    fn prefetch(&self, step: usize, net: &Net) -> bool {
        each!(self, node => node.prefetch(step, net))
    }

    fn holds(&self) -> u64 {
        each!(self, node => node.holds())
    }
}
