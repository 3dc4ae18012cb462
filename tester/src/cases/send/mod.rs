//! Group `send`: does the device pause its peers when PFC requires it, and only then?

mod congestion;
mod format;
mod nic;
mod silence;
mod timing;

use super::{Case, Run};
pub(super) use congestion::flow;
pub(super) use nic::CASES as OF_NIC;

const PFC: &str = "IEEE 802.1Q 36.1.3.1";

const fn case(id: &'static str, title: &'static str, source: &'static str, ports: usize, run: Run) -> Case {
    Case { id, title, source, ports, run }
}

pub(super) const CASES: &[Case] = &[
    case(
        "send.format",
        "Are the PFC frames of the device correct in each byte?",
        "IEEE 802.3 31D.2",
        2,
        format::bytes,
    ),
    case("send.source", "Is the source a valid station address?", "IEEE 802.3 31B.1", 2, format::source),
    case(
        "send.before-loss",
        "Does the device pause a peer before it loses a frame?",
        PFC,
        2,
        timing::before_loss,
    ),
    case("send.incast", "Is no frame lost if several ports send to one?", PFC, 3, timing::incast),
    case("send.refresh", "Does the device refresh a pause before it expires?", PFC, 2, timing::refresh),
    case("send.xon", "Does the device end a pause when its buffer is empty?", PFC, 2, timing::xon),
    case(
        "send.only-lossless",
        "Does the device pause lossless classes only?",
        PFC,
        3,
        silence::only_lossless,
    ),
    case("send.only-held", "Does the device pause the congested class only?", PFC, 2, silence::only_held),
    case(
        "send.spurious",
        "Does the device pause only peers that cause congestion?",
        PFC,
        2,
        silence::spurious,
    ),
];
