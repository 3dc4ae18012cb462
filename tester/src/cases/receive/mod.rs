//! Group `receive`: does the device obey PFC frames of its peer? Streams flow from port 1 to port 2, which pauses them.

mod frames;
mod stop;
mod timers;

use super::{Case, Run};

const PFC: &str = "IEEE 802.1Q 36.1.3.3";
const CONTROL: &str = "IEEE 802.3 31.3, 31B.1";
const FORMAT: &str = "IEEE 802.3 31D.2";

/// Case that needs several ports of the device, so that it cannot examine a NIC.
pub(super) const NOT_RELAYED: &str = "receive.not-relayed";

const fn case(id: &'static str, title: &'static str, source: &'static str, run: Run) -> Case {
    Case { id, title, source, ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case(
        "receive.stops-class",
        "Does the device stop a class within the allowed response time after an XOFF?",
        "IEEE 802.1Q 36.1.3.3, 802.3 31B.3.7",
        stop::stops_class,
    ),
    case("receive.only-class", "Do all other classes flow while one class is paused?", PFC, stop::only_class),
    case("receive.xon", "Does a pause time of zero end a pause?", PFC, stop::xon),
    case(
        "receive.expiry",
        "Does a pause end after its quanta at the speed of the port?",
        "IEEE 802.1Q 36.1.3.3, 802.3 31B.2",
        stop::expiry,
    ),
    case("receive.shorter", "Does a shorter pause replace a longer one?", PFC, timers::shorter),
    case("receive.longer", "Does a longer pause replace a shorter one?", PFC, timers::longer),
    case("receive.refresh", "Does a repeated XOFF extend a pause without a gap?", PFC, timers::refresh),
    case("receive.timers", "Does each class have a timer of its own?", PFC, timers::eight_timers),
    case("receive.zero-time", "Does a pause time of zero pause nothing?", PFC, timers::zero_time),
    case(
        "receive.other-xon",
        "Does XON for other classes leave a pause unchanged?",
        PFC,
        timers::other_class_xon,
    ),
    case(
        "receive.other-destination",
        "Does the device ignore PFC frames to another address?",
        CONTROL,
        frames::other_destination,
    ),
    case(
        "receive.other-opcode",
        "Does the device ignore unknown MAC control opcodes?",
        CONTROL,
        frames::other_opcode,
    ),
    case(
        "receive.other-ethertype",
        "Does the device ignore PFC frames of another EtherType?",
        CONTROL,
        frames::other_ether_type,
    ),
    case("receive.tagged", "Does the device ignore PFC frames with a VLAN tag?", CONTROL, frames::tagged),
    case("receive.truncated", "Does the device ignore truncated PFC frames?", FORMAT, frames::truncated),
    case(
        "receive.empty-vector",
        "Does the device ignore pause times of disabled classes?",
        FORMAT,
        frames::empty_vector,
    ),
    case(
        "receive.lossy-class",
        "Does the device ignore PFC for classes without PFC?",
        PFC,
        frames::lossy_class,
    ),
    case("receive.reserved-byte", "Is the reserved byte of PFC ignored?", FORMAT, frames::reserved_byte),
    case(
        "receive.zero-source",
        "Does the device obey PFC from the address zero?",
        FORMAT,
        frames::zero_source,
    ),
    case("receive.dirty-padding", "Is the padding of PFC frames ignored?", FORMAT, frames::dirty_padding),
    case(NOT_RELAYED, "Does the device keep MAC control frames on their link?", CONTROL, frames::not_relayed),
    case(
        "receive.pause-802-3x",
        "Does the device ignore 802.3x PAUSE while PFC is enabled?",
        "IEEE 802.1Q 36.1.1",
        frames::pause_802_3x,
    ),
];
