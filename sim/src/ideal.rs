//! Ideal hardware: a switch that never stalls, with one frame on each line and none waiting in a driver, beside peers that stop as
//! fast as the standard asks.

use xoff_dataplane::headroom::{Headroom, Link, standard_response};
use xoff_dataplane::settings::{
    ClassSettings, FlowControl, LoopDetection, PortSettings, SwitchSettings, Trust,
};
use xoff_dataplane::units::{Bytes, Class, ClassSet, MacAddr, Nanos};

use crate::ends::Line;
use crate::plan::SwitchKind;
use crate::switch_node::SlotCounts;

/// The longest frame, without tags and FCS.
const MTU_FRAME: u32 = 1514;
/// Room of a lossy class.
const LOSSY: Bytes = Bytes(256 << 10);
/// Slots for control frames, by port.
const CONTROL: u32 = 8;

/// What an ideal switch is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ideal {
    /// Of all its ports.
    pub line: Line,
    /// Classes that never lose a frame.
    pub lossless: ClassSet,
    /// Lossless classes are paused earlier where their frames are smaller than this, without FCS, so that they find a slot.
    pub smallest_frame: u32,
}

impl Ideal {
    /// Beside such lines, with class 3 lossless.
    #[must_use]
    pub const fn beside(line: Line) -> Ideal {
        Ideal { line, lossless: ClassSet(1 << 3), smallest_frame: 508 }
    }

    /// What its links need: see [`Headroom`].
    #[must_use]
    pub fn headroom(&self) -> Headroom {
        Headroom::of(&Link {
            speed: self.line.rate,
            mtu_frame: MTU_FRAME,
            cable: Nanos(self.line.delay.0.div_ceil(1_000)),
            loop_gap: Nanos::ZERO,
            commit: Bytes(1),
            peer_response: standard_response(self.line.rate),
            peer_backlog: Bytes::ZERO,
        })
    }

    /// A kind of switch with so many ports. A lossless class resumes at what its peer may send until it is heard, and is paused at
    /// twice that.
    #[must_use]
    pub fn switch(&self, ports: u8) -> SwitchKind {
        let headroom = self.headroom().total();
        let xoff = Bytes(2 * headroom.0);
        let frames = |bytes: Bytes| {
            u32::try_from(bytes.0 / Bytes::of_frame(self.smallest_frame).0).unwrap_or(u32::MAX)
        };
        let lossless = ClassSettings {
            lossless: true,
            xoff,
            xon: headroom,
            headroom,
            xoff_frames: frames(xoff),
            egress_max: Bytes(u64::from(ports) * (xoff + headroom).0 + 1),
            ..ClassSettings::lossy(LOSSY)
        };
        let classes = Class::ALL.map(|class| match self.lossless.contains(class) {
            true => lossless,
            false => ClassSettings::lossy(LOSSY),
        });
        let port = |number: u8| PortSettings {
            mtu_frame: MTU_FRAME,
            trust: Trust::Both,
            learning: false,
            loop_detection: LoopDetection::Off,
            flood_unknown: false,
            flow_control: FlowControl::Pfc { obey: ClassSet::ALL, send: self.lossless },
            commit: Bytes(1),
            past_xoff: headroom,
            peer_response: standard_response(self.line.rate),
            ..PortSettings::plain(
                format!("p{number}"),
                MacAddr([2, 1, 0, 0, 0, number]),
                self.line.rate,
                classes,
            )
        };
        let of_lossless =
            u32::try_from(self.lossless.iter().count()).unwrap_or_default() * frames(xoff + headroom);
        SwitchKind {
            settings: SwitchSettings::plain((0..ports).map(port).collect()),
            slots: SlotCounts {
                data: u32::from(ports) * (of_lossless + frames(LOSSY) / 8),
                control: u32::from(ports) * CONTROL,
            },
        }
    }
}
