//! Counters of a delay line, by direction.

use serde::{Deserialize, Serialize};
use xoff_flow_control::counter::Counter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lossless,
    Lossy,
    MacControl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Loss that the link's settings demand.
    Purpose,
    /// A command held the link down.
    TakenDown,
    /// The device of a node was down.
    Down,
    /// Lack of memory: the line was full.
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) frames: Counter,
    lost: [[Counter; 3]; 4],
    pub(super) waiting: Counter,
    pub(super) late_ns: Counter,
    pub(super) late_ns_max: Counter,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostFrames {
    pub lossless: u64,
    pub lossy: u64,
    pub mac_control: u64,
}

impl LostFrames {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lossless + self.lossy + self.mac_control
    }
}

/// Frames of one direction since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub frames: u64,
    /// Frames lost by the link's `loss`.
    pub lost_on_purpose: LostFrames,
    /// Frames lost while a command held the link down.
    #[serde(default)]
    pub lost_taken_down: LostFrames,
    /// Frames lost because the device of a node was down.
    pub lost_link_down: LostFrames,
    /// Frames lost because the delay line was full.
    pub lost_line_full: LostFrames,
    /// Frames lost by the line's sockets and devices, of unknown class.
    pub lost_unseen: u64,
    /// Frames on their way.
    pub waiting: u64,
    /// Sum over all frames of the time between the planned and the actual departure.
    pub late_ns_total: u64,
    pub late_ns_max: u64,
}

impl Carried {
    /// Returns the number of frames lost by mistake, without lossy ones.
    #[must_use]
    pub fn mishaps(&self) -> u64 {
        self.lost_link_down.lossless + self.lost_line_full.lossless + self.lost_unseen
    }
}

impl Counts {
    pub(super) fn lose(&self, why: Loss, kind: Kind) {
        self.lost[why as usize][kind as usize].add(1);
    }

    pub(super) fn read(&self, lost_unseen: u64) -> Carried {
        let lost = |why: Loss| {
            let [lossless, lossy, mac_control] = self.lost[why as usize].each_ref().map(Counter::get);
            LostFrames { lossless, lossy, mac_control }
        };
        Carried {
            frames: self.frames.get(),
            lost_on_purpose: lost(Loss::Purpose),
            lost_taken_down: lost(Loss::TakenDown),
            lost_link_down: lost(Loss::Down),
            lost_line_full: lost(Loss::Full),
            lost_unseen,
            waiting: self.waiting.get(),
            late_ns_total: self.late_ns.get(),
            late_ns_max: self.late_ns_max.get(),
        }
    }
}
