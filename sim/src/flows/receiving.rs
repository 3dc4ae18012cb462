use xoff_wire::units::Class;

use super::segment::Kind;
use crate::time::Picos;

#[derive(Clone, Debug)]
pub(super) struct Receiving {
    finish: Picos,
    under_way: Option<Box<ReceiveState>>,
    pub(super) flow: u32,
    pub(super) peer: u32,
    pub(super) from: u32,
    frames: u32,
    pub(super) out_of_order: u32,
    pub(super) marked: u32,
    pub(super) cnps: u32,
    pub(super) class: Class,
}

#[derive(Clone, Debug, Default)]
struct ReceiveState {
    expected: u32,
    received: u32,
    unanswered: u32,
    is_gap_reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) kind: Kind,
    pub(super) sequence: u32,
}

impl Receiving {
    pub(super) fn new(flow: u32, from: u32, peer: u32, frames: u32, class: Class) -> Receiving {
        Receiving {
            finish: Picos::NEVER,
            under_way: None,
            flow,
            peer,
            from,
            frames,
            out_of_order: 0,
            marked: 0,
            cnps: 0,
            class,
        }
    }

    #[inline]
    fn under_way(&mut self) -> Option<&mut ReceiveState> {
        (self.finish == Picos::NEVER).then(|| &mut **self.under_way.get_or_insert_default())
    }

    #[inline]
    pub(super) fn take_any(&mut self, now: Picos, sequence: u32) -> bool {
        let frames = self.frames;
        let Some(under_way) = self.under_way() else {
            self.out_of_order += 1;
            return false;
        };
        let is_in_order = sequence == under_way.expected;
        under_way.expected = sequence.wrapping_add(1);
        under_way.received += 1;
        let is_last = under_way.received == frames;
        self.out_of_order += u32::from(!is_in_order);
        self.end_if(now, is_last)
    }

    /// Counts a received TCP segment. Returns whether it completes the flow.
    #[inline]
    pub(super) fn take_tcp(&mut self, now: Picos, is_new: bool, is_in_order: bool) -> bool {
        let frames = self.frames;
        self.out_of_order += u32::from(!is_in_order);
        let Some(under_way) = self.under_way().filter(|_| is_new) else { return false };
        under_way.received += 1;
        let is_last = under_way.received == frames;
        self.end_if(now, is_last)
    }

    pub(super) const fn frames(&self) -> u32 {
        self.frames
    }

    #[inline]
    pub(super) fn take_in_order(
        &mut self,
        now: Picos,
        sequence: u32,
        ack_every: u32,
    ) -> (Option<Answer>, bool) {
        let frames = self.frames;
        let Some(under_way) = self.under_way() else {
            self.out_of_order += 1;
            return (Some(Answer { kind: Kind::Ack, sequence: frames }), false);
        };
        if sequence != under_way.expected {
            let kind = if sequence < under_way.expected { Kind::Ack } else { Kind::Nak };
            let is_reported = kind == Kind::Nak && std::mem::replace(&mut under_way.is_gap_reported, true);
            let answer = Answer { kind, sequence: under_way.expected };
            self.out_of_order += 1;
            return ((!is_reported).then_some(answer), false);
        }
        under_way.expected += 1;
        under_way.received += 1;
        under_way.unanswered += 1;
        under_way.is_gap_reported = false;
        let answer = Answer { kind: Kind::Ack, sequence: under_way.expected };
        let is_last = under_way.expected == frames;
        let is_due = is_last || under_way.unanswered >= ack_every;
        if is_due {
            under_way.unanswered = 0;
        }
        (is_due.then_some(answer), self.end_if(now, is_last))
    }

    pub(super) fn finish(&self) -> Option<Picos> {
        (self.finish < Picos::NEVER).then_some(self.finish)
    }

    pub(super) fn received(&self) -> u32 {
        match &self.under_way {
            Some(under_way) => under_way.received,
            None => self.finish().map_or(0, |_| self.frames),
        }
    }

    fn end_if(&mut self, now: Picos, is_last: bool) -> bool {
        if is_last {
            self.finish = now;
            self.under_way = None;
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiving(frames: u32) -> Receiving {
        Receiving::new(0, 0, 0, frames, Class::ALL[3])
    }

    fn answer(kind: Kind, sequence: u32) -> Option<Answer> {
        Some(Answer { kind, sequence })
    }

    #[test]
    fn receiver_acknowledges_every_nth_and_last_frame() {
        let mut flow = receiving(5);
        let answers: Vec<_> = (0..5).map(|sequence| flow.take_in_order(Picos(9), sequence, 2)).collect();
        let ack = |sequence| answer(Kind::Ack, sequence);
        assert_eq!(answers, [(None, false), (ack(2), false), (None, false), (ack(4), false), (ack(5), true)]);
        assert_eq!((flow.finish(), flow.out_of_order), (Some(Picos(9)), 0));
    }

    #[test]
    fn receiver_sends_one_nak_per_gap_and_acks_duplicates() {
        let mut flow = receiving(9);
        let mut take = |sequence| flow.take_in_order(Picos(1), sequence, 4).0;
        assert_eq!([take(0), take(2), take(3)], [None, answer(Kind::Nak, 1), None]);
        assert_eq!([take(1), take(3), take(0)], [None, answer(Kind::Nak, 2), answer(Kind::Ack, 2)]);
        assert_eq!(flow.out_of_order, 4);
        assert_eq!(flow.received(), 2);
    }

    #[test]
    fn duplicates_after_flow_end_are_acknowledged_and_counted() {
        let mut flow = receiving(2);
        (0..2).for_each(|sequence| _ = flow.take_in_order(Picos(1), sequence, 1));
        assert!(flow.under_way.is_none());
        let again = [0, 1].map(|sequence| flow.take_in_order(Picos(2), sequence, 4));
        assert_eq!(again, [(answer(Kind::Ack, 2), false); 2]);
        assert_eq!((flow.finish(), flow.received(), flow.out_of_order), (Some(Picos(1)), 2, 2));
    }

    #[test]
    fn flow_with_reordered_frames_ends_when_all_have_arrived() {
        let mut flow = receiving(3);
        assert_eq!([1, 0, 2].map(|sequence| flow.take_any(Picos(7), sequence)), [false, false, true]);
        assert_eq!((flow.finish(), flow.out_of_order), (Some(Picos(7)), 3));
    }
}
