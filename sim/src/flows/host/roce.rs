use std::cmp::Reverse;

use super::super::control::Reaction;
use super::super::segment::{Kind, Segment};
use super::super::sending::Wait;
use super::{FlowHost, Timer};
use crate::time::Picos;

impl FlowHost {
    pub(super) fn window(&self, number: u32) -> u32 {
        let payload_max = u64::from(self.settings.payload_max);
        let fixed = self.roce().and_then(|roce| roce.window);
        let fixed = fixed.map(|bytes| u32::try_from(bytes.0 / payload_max).unwrap_or(u32::MAX).max(1));
        let reaction = self.reactions.get(number as usize).and_then(Option::as_ref);
        let reaction_window = reaction.and_then(Reaction::window);
        fixed.into_iter().chain(reaction_window).min().unwrap_or(u32::MAX)
    }

    #[cold]
    pub(super) fn look_at_deadline(&mut self, number: u32, now: Picos) {
        let flow = &mut self.sending[number as usize];
        let Some(under_way) = &mut flow.under_way else { return };
        under_way.is_watched = false;
        if under_way.unanswered() == 0 {
            return;
        }
        if under_way.deadline <= now {
            flow.timeouts += 1;
            self.go_back(number, now);
        }
        let Some(under_way) = &mut self.sending[number as usize].under_way else { return };
        if under_way.deadline > now && under_way.unanswered() > 0 {
            under_way.is_watched = true;
            self.timers.push(Reverse((under_way.deadline, Timer::Patience(number))));
        }
    }

    #[cold]
    fn go_back(&mut self, number: u32, now: Picos) {
        if let Some(under_way) = &mut self.sending[number as usize].under_way {
            under_way.go_back();
        }
        if let Some(reaction) = self.reaction(number) {
            reaction.lost(now);
        }
        self.resume(number, now);
    }

    #[inline]
    pub(super) fn resume(&mut self, number: u32, now: Picos) {
        if self.sending[number as usize].wait == Wait::Answer {
            self.settle(number, now);
        }
    }

    pub(super) fn hear(&mut self, segment: &Segment, now: Picos) {
        let number = segment.number;
        let timeout = self.roce().map_or(Picos::ZERO, |roce| roce.timeout);
        let Some(flow) = self.sending.get_mut(number as usize) else { return };
        let reaction = self.reactions.get_mut(number as usize).and_then(Option::as_mut);
        if segment.kind == Kind::Cnp {
            return reaction.into_iter().for_each(|reaction| reaction.notified(now));
        }
        let mut under_way = flow.under_way.as_deref_mut();
        let fresh = under_way.as_mut().map_or(0, |under_way| under_way.acknowledge(segment.sequence));
        if let Some(reaction) = reaction {
            reaction.acknowledged(now, fresh, now.since(segment.sent));
        }
        let Some(under_way) = under_way else { return };
        if fresh > 0 {
            under_way.deadline = now.after(timeout);
        }
        if segment.kind == Kind::Nak
            && segment.sequence == under_way.acknowledged
            && under_way.unanswered() > 0
        {
            return self.go_back(number, now);
        }
        self.resume(number, now);
    }
}
