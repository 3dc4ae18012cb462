//! Group `losslessness`: does a lossless class lose, duplicate, reorder or change a frame under load?

mod bursts;
mod flap;
mod loads;

use super::{Case, Run};

const PFC: &str = "IEEE 802.1Q 36.1.1";
const ORDER: &str = "IEEE 802.1Q 8.6.6";

pub(super) const SOAK: &str = "losslessness.soak";

const fn case(id: &'static str, title: &'static str, source: &'static str, ports: usize, run: Run) -> Case {
    Case { id, title, source, ports, run }
}

pub(super) const CASES: &[Case] = &[
    case("losslessness.sizes", "Do frames of all sizes arrive unchanged?", PFC, 2, bursts::sizes),
    case("losslessness.jumbo", "Do frames up to the MTU arrive unchanged?", PFC, 2, bursts::jumbo),
    case("losslessness.bursts", "Does each frame of a burst after silence arrive?", PFC, 2, bursts::bursts),
    case("losslessness.idle", "Does the first frame after a long silence arrive?", PFC, 2, bursts::idle),
    case("losslessness.order", "Do frames keep their order across pauses?", ORDER, 2, loads::order),
    case(
        "losslessness.storm",
        "Does a peer that pauses again and again cause no loss?",
        PFC,
        2,
        loads::storms,
    ),
    case(
        "losslessness.incast",
        "Is no frame lost if N ports send to one at line rate?",
        PFC,
        3,
        loads::incast,
    ),
    case(
        "losslessness.incast-sizes",
        "Is no frame of one size lost if N ports send to one at line rate?",
        PFC,
        3,
        loads::incast_sizes,
    ),
    case("losslessness.mix", "Is no frame of any size lost if N ports send to one?", PFC, 3, loads::mix),
    case(
        "losslessness.two-classes",
        "Is no frame lost if two lossless classes are congested?",
        PFC,
        3,
        loads::two_classes,
    ),
    case(
        "losslessness.receivers",
        "Is no frame lost if all ports send to each other?",
        PFC,
        3,
        loads::receivers,
    ),
    case(
        "losslessness.flap",
        "Do frames arrive once after a link was lost and returned?",
        PFC,
        2,
        flap::flap,
    ),
    case(SOAK, "Is no frame lost in a longer run (`soak`)?", PFC, 2, loads::soak),
];
