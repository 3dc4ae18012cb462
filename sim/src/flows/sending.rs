use xoff_wire::units::{Class, MacAddr};

use super::FlowPlan;
use super::segment::Envelope;
use crate::time::Picos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Start { is_held: bool },
    Time,
    Turn,
    Answer,
    Resume,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) bytes: u64,
    start: Picos,
    pub(super) under_way: Option<Box<SendState>>,
    pub(super) to: u32,
    pub(super) peer: u32,
    pub(super) resent: u32,
    pub(super) timeouts: u32,
    tag: u16,
    pub(super) port: u16,
    pub(super) most: u16,
    pub(super) class: Class,
    pub(super) wait: Wait,
}

#[derive(Clone, Debug)]
pub(super) struct SendState {
    pub(super) free_at: Picos,
    pub(super) deadline: Picos,
    pub(super) frames: u32,
    pub(super) next: u32,
    pub(super) acknowledged: u32,
    reached: u32,
    pub(super) is_watched: bool,
    pub(super) is_held: bool,
}

pub(super) fn frames(bytes: u64, payload_max: u32) -> u32 {
    let frames = bytes.div_ceil(payload_max.into()).max(1);
    u32::try_from(frames).expect("the number of a flow's frames must fit into 32 bits")
}

pub(super) fn payload(bytes: u64, payload_max: u32, sequence: u32) -> u32 {
    let before = u64::from(sequence) * u64::from(payload_max);
    u32::try_from(bytes.saturating_sub(before)).unwrap_or(u32::MAX).min(payload_max)
}

impl Sending {
    pub(super) fn envelope(&self, from: u32, via: Option<MacAddr>, is_ecn_capable: bool) -> Envelope {
        Envelope { from, to: self.to, via, class: self.class, port: self.port, is_ecn_capable }
    }

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

    pub(super) fn plan(&self, from: u32) -> FlowPlan {
        let &Sending { bytes, start, to, tag, class, .. } = self;
        FlowPlan { from, to, class, bytes, start, tag }
    }

    #[inline]
    pub(super) fn begin(&mut self, now: Picos, payload_max: u32) -> bool {
        let Wait::Start { is_held } = self.wait else { return false };
        self.under_way = Some(Box::new(SendState {
            free_at: now,
            deadline: Picos::NEVER,
            frames: frames(self.bytes, payload_max),
            next: 0,
            acknowledged: 0,
            reached: 0,
            is_watched: false,
            is_held,
        }));
        true
    }

    pub(super) fn end(&mut self) {
        self.under_way = None;
        self.wait = Wait::End;
    }

    pub(super) fn hold(&mut self, is_held: bool) {
        match &mut self.under_way {
            Some(under_way) => under_way.is_held = is_held,
            None => self.wait = Wait::Start { is_held },
        }
    }

    pub(super) fn sent(&self, payload_max: u32) -> u32 {
        let once = match (&self.under_way, self.wait) {
            (Some(under_way), _) => under_way.reached,
            (None, Wait::End) => frames(self.bytes, payload_max),
            (None, _) => 0,
        };
        once + self.resent
    }
}

impl SendState {
    #[inline]
    pub(super) fn take(&mut self) -> (u32, bool) {
        let sequence = self.next;
        self.next += 1;
        let is_again = sequence < self.reached;
        self.reached = self.reached.max(self.next);
        (sequence, is_again)
    }

    #[inline]
    pub(super) fn acknowledge(&mut self, sequence: u32) -> u32 {
        let fresh = sequence.min(self.reached).saturating_sub(self.acknowledged);
        self.acknowledged += fresh;
        self.next = self.next.max(self.acknowledged);
        fresh
    }

    pub(super) fn go_back(&mut self) {
        self.next = self.acknowledged;
    }

    #[inline]
    pub(super) fn unanswered(&self) -> u32 {
        self.next - self.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_frame_of_flow_carries_its_remaining_bytes() {
        for (bytes, expected) in
            [(0, vec![0]), (1, vec![1]), (10, vec![10]), (11, vec![10, 1]), (30, vec![10; 3])]
        {
            let all: Vec<u32> = (0..frames(bytes, 10)).map(|sequence| payload(bytes, 10, sequence)).collect();
            assert_eq!(all, expected, "{bytes}");
        }
    }
}
