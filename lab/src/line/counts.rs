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
    Purpose,
    TakenDown,
    Down,
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

/// Counters of one direction of a delay line since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub frames: u64,
    pub lost_on_purpose: LostFrames,
    #[serde(default)]
    pub lost_taken_down: LostFrames,
    pub lost_link_down: LostFrames,
    pub lost_line_full: LostFrames,
    /// Frames of unknown class that the delay line's sockets and devices lost.
    pub lost_unseen: u64,
    pub waiting: u64,
    /// Sum in nanoseconds of the frames' lateness: the time from planned to actual departure of each frame.
    pub late_ns_total: u64,
    pub late_ns_max: u64,
}

impl Carried {
    /// Returns the number of frames lost unintentionally, except frames known to be lossy.
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
