mod allocations;
mod batches;
mod by_hand;
mod cascade;
mod conformance;
mod control_frames;
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
mod micro_flows;
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
mod snooping;
mod stalls;
mod storm_control;
mod turns;
mod watchdog;

use xoff_testkit::bed;
use xoff_testkit::bed::plan::KEEPING;
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{Class, Quanta};

const C0: Class = Class::ALL[0];
const C3: Class = Class::ALL[3];
const C4: Class = Class::ALL[4];

fn stop(class: Class, quanta: u16) -> MacControl {
    MacControl::Pfc(Pfc::default().with(class, Quanta(quanta)))
}

fn resume(class: Class) -> MacControl {
    stop(class, 0)
}
