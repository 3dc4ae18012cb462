//! A flow at the host that sends it. What it has to remember while it is under way is in a box that exists only then: most flows of a
//! run have yet to start, or have ended.

use xoff_dataplane::units::Class;

use super::FlowPlan;
use crate::time::Picos;

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its start: a timer is set. The switch may have paused it by a list of flows before.
    Start { is_held: bool },
    /// The time at which its next frame may leave: a timer is set.
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
    pub(super) bytes: u64,
    start: Picos,
    /// From its start until it waits for nothing any more.
    pub(super) under_way: Option<Box<Ongoing>>,
    pub(super) to: u32,
    /// Its number at the receiver.
    pub(super) peer: u32,
    pub(super) resent: u32,
    pub(super) timeouts: u32,
    tag: u16,
    pub(super) port: u16,
    /// It sends no faster: the place of the rate among those that flows of its host have.
    pub(super) most: u16,
    pub(super) class: Class,
    pub(super) wait: Wait,
}

/// What is remembered of a flow while it is under way.
#[derive(Clone, Debug)]
pub(super) struct Ongoing {
    /// When its next frame may leave.
    pub(super) free_at: Picos,
    /// When it goes back if nothing is heard.
    pub(super) deadline: Picos,
    /// How many frames it has.
    pub(super) frames: u32,
    /// The next to be sent.
    pub(super) next: u32,
    /// Those before it have come.
    pub(super) acknowledged: u32,
    /// Those before it have been sent once.
    reached: u32,
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
    /// It is number `peer` at its receiver.
    pub(super) fn new(plan: &FlowPlan, peer: u32, port: u16, most: u16) -> Sending {
        let &FlowPlan { from: _, to, class, bytes, start, tag } = plan;
        Sending {
            bytes,
            start,
            under_way: None,
            to,
            peer,
            resent: 0,
            timeouts: 0,
            tag,
            port,
            most,
            class,
            wait: Wait::Start { is_held: false },
        }
    }

    /// What was planned of it; `from` is its host.
    pub(super) fn plan(&self, from: u32) -> FlowPlan {
        let &Sending { bytes, start, to, tag, class, .. } = self;
        FlowPlan { from, to, class, bytes, start, tag }
    }

    /// Where it has waited for its start, that has come.
    #[inline]
    pub(super) fn begin(&mut self, now: Picos, payload_max: u32) {
        if let Wait::Start { is_held } = self.wait {
            self.under_way = Some(Box::new(Ongoing {
                free_at: now,
                deadline: Picos::NEVER,
                frames: frames(self.bytes, payload_max),
                next: 0,
                acknowledged: 0,
                reached: 0,
                is_watched: false,
                is_held,
            }));
        }
    }

    /// It waits for nothing any more.
    pub(super) fn end(&mut self) {
        self.under_way = None;
        self.wait = Wait::End;
    }

    /// The switch has paused it by a list of flows, or not.
    pub(super) fn hold(&mut self, is_held: bool) {
        match &mut self.under_way {
            Some(under_way) => under_way.is_held = is_held,
            None => self.wait = Wait::Start { is_held },
        }
    }

    /// Frames that were sent, those sent again too.
    pub(super) fn sent(&self, payload_max: u32) -> u32 {
        let once = match (&self.under_way, self.wait) {
            (Some(under_way), _) => under_way.reached,
            (None, Wait::End) => frames(self.bytes, payload_max),
            (None, _) => 0,
        };
        once + self.resent
    }
}

impl Ongoing {
    /// Its next frame is sent; answers its sequence number, and whether it had been sent before.
    #[inline]
    pub(super) fn take(&mut self) -> (u32, bool) {
        let sequence = self.next;
        self.next += 1;
        let is_again = sequence < self.reached;
        self.reached = self.reached.max(self.next);
        (sequence, is_again)
    }

    /// All frames before `sequence` have come; answers how many of them that was not known of.
    #[inline]
    pub(super) fn acknowledge(&mut self, sequence: u32) -> u32 {
        let fresh = sequence.min(self.reached).saturating_sub(self.acknowledged);
        self.acknowledged += fresh;
        self.next = self.next.max(self.acknowledged);
        fresh
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
