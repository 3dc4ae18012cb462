//! A flow at the host that sends it.

use super::FlowPlan;
use crate::time::Picos;

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its start, or the time at which its next frame may leave: a timer is set.
    Time,
    /// Its turn.
    Turn,
    /// An acknowledgement.
    Answer,
    /// To be let go: the switch has paused it by a list of flows.
    Resume,
    /// Nothing any more.
    End,
}

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) plan: FlowPlan,
    /// When its next frame may leave.
    pub(super) free_at: Picos,
    /// When it goes back if nothing is heard.
    pub(super) deadline: Picos,
    /// Notifications of switches (CNMs) that came for it.
    pub(super) cnms: u32,
    /// Its number at the receiver.
    pub(super) peer: u32,
    /// How many frames it has.
    pub(super) frames: u32,
    /// The next to be sent.
    pub(super) next: u32,
    /// Those before it have come.
    pub(super) acknowledged: u32,
    /// Those before it have been sent once.
    pub(super) reached: u32,
    pub(super) resent: u32,
    pub(super) timeouts: u32,
    pub(super) port: u16,
    /// It sends no faster: the place of the rate among those that flows of its host have.
    pub(super) most: u16,
    pub(super) wait: Wait,
    /// A timer is set that looks at the deadline.
    pub(super) is_watched: bool,
    /// The switch has paused it by a list of flows.
    pub(super) is_held: bool,
}

/// Frames that carry so many bytes: one at least.
pub(super) fn frames(bytes: u64, payload_max: u32) -> u32 {
    let frames = bytes.div_ceil(payload_max.into()).max(1);
    u32::try_from(frames).expect("frames of a flow are counted in 32 bits")
}

/// What frame number `sequence` of them carries.
pub(super) fn payload(bytes: u64, payload_max: u32, sequence: u32) -> u32 {
    let before = u64::from(sequence) * u64::from(payload_max);
    u32::try_from(bytes.saturating_sub(before)).unwrap_or(u32::MAX).min(payload_max)
}

impl Sending {
    /// Its next frame is sent; answers its sequence number.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        let sequence = self.next;
        self.next += 1;
        self.resent += u32::from(sequence < self.reached);
        self.reached = self.reached.max(self.next);
        sequence
    }

    /// All frames before `sequence` have come; answers how many of them that was not known of.
    #[inline]
    pub(super) fn acknowledge(&mut self, sequence: u32) -> u32 {
        let fresh = sequence.min(self.reached).saturating_sub(self.acknowledged);
        self.acknowledged += fresh;
        self.next = self.next.max(self.acknowledged);
        fresh
    }

    /// Frames that were sent, those sent again too.
    pub(super) fn sent(&self) -> u32 {
        self.reached + self.resent
    }

    /// It goes back to what has not been acknowledged.
    pub(super) fn go_back(&mut self) {
        self.next = self.acknowledged;
    }

    /// Frames on their way, as far as it knows.
    #[inline]
    pub(super) fn unanswered(&self) -> u32 {
        self.next - self.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_into_frames_the_last_of_which_is_what_is_left() {
        for (bytes, expected) in
            [(0, vec![0]), (1, vec![1]), (10, vec![10]), (11, vec![10, 1]), (30, vec![10; 3])]
        {
            let all: Vec<u32> = (0..frames(bytes, 10)).map(|sequence| payload(bytes, 10, sequence)).collect();
            assert_eq!(all, expected, "{bytes}");
        }
    }
}
