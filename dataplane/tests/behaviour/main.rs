//! Behaviours of whole switches, in virtual time: one file per family, all on the same bed.

mod allocations;
mod batches;
mod by_hand;
mod cascade;
mod conformance;
mod custom;
mod ecn;
mod floods;
mod gfc;
mod groups;
mod halts;
mod headroom;
mod ignored_pauses;
mod isolation;
mod loops;
mod losslessness;
mod mixes;
mod ofc;
mod paused_floods;
mod pipeline;
mod policies;
mod properties;
mod punts;
mod qcn;
mod revisions;
mod robustness;
mod routes;
mod stalls;
mod storm_control;
mod trains;
mod watchdog;

use xoff_conformance::bed;
use xoff_dataplane::settings::{Accounting, WhenFull};
use xoff_dataplane::units::{Class, Quanta};
use xoff_dataplane::wire::mac_control::{MacControl, Pfc};

const C0: Class = Class::ALL[0];
const C3: Class = Class::ALL[3];
const C4: Class = Class::ALL[4];

/// Until when a frame counts at its ingress, and what a full egress queue does, where nothing lossless is lost for that.
const KEEPING: [(Accounting, WhenFull); 5] = [
    (Accounting::UntilTransmitted, WhenFull::Drop),
    (Accounting::UntilTransmitted, WhenFull::Stop),
    (Accounting::UntilForwarded, WhenFull::Stop),
    (Accounting::UntilTransmitted, WhenFull::StopClass),
    (Accounting::UntilForwarded, WhenFull::StopClass),
];

/// A PFC frame that pauses one class.
fn stop(class: Class, quanta: u16) -> MacControl {
    MacControl::Pfc(Pfc::default().with(class, Quanta(quanta)))
}

/// A PFC frame that lets one class go.
fn resume(class: Class) -> MacControl {
    stop(class, 0)
}
