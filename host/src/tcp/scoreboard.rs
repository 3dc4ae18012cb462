//! State of each outstanding segment: sent, but not acknowledged cumulatively.

use std::collections::VecDeque;

use xoff_wire::units::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Time of the segment's last transmission.
    pub(super) at: Nanos,
    pub(super) is_sacked: bool,
    pub(super) is_lost: bool,
    /// True while a retransmission of the segment is in flight.
    pub(super) is_resent: bool,
    pub(super) was_resent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) segments: u32,
    /// Acknowledged segments that no earlier SACK or duplicate reported as delivered.
    pub(super) fresh: u32,
    /// Sending time of the first acknowledged segment; `None` if a retransmission may have delayed the acknowledgement.
    pub(super) sent: Option<Nanos>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    first: u32,
    sent: VecDeque<Sent>,
    sacked: u32,
    /// Duplicate acknowledgements without SACK; each stands for a delivered segment (RFC 6582).
    duplicates: u32,
    lost: u32,
    resent: u32,
    /// Lowest segment that may be lost and not yet retransmitted.
    repair_from: u32,
}

impl Scoreboard {
    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn next(&self) -> u32 {
        self.first + self.len()
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.sent.len()).unwrap_or(u32::MAX)
    }

    /// Estimates how many segments are in the network (RFC 6675).
    pub(super) fn in_flight(&self) -> u32 {
        (self.len() + self.resent).saturating_sub(self.sacked + self.duplicates + self.lost)
    }

    pub(super) const fn sacked(&self) -> u32 {
        self.sacked + self.duplicates
    }

    pub(super) const fn duplicates(&self) -> u32 {
        self.duplicates
    }

    pub(super) const fn has_repairs_in_flight(&self) -> bool {
        self.resent > 0
    }

    pub(super) fn push(&mut self, at: Nanos) {
        self.sent.push_back(Sent {
            at,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
        });
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &Sent)> {
        self.sent
            .iter()
            .enumerate()
            .map(|(at, sent)| (self.first + u32::try_from(at).unwrap_or(u32::MAX), sent))
    }

    fn get_mut(&mut self, segment: u32) -> Option<&mut Sent> {
        self.sent.get_mut(segment.checked_sub(self.first)? as usize)
    }

    pub(super) fn get(&self, segment: u32) -> Option<&Sent> {
        self.sent.get(segment.checked_sub(self.first)? as usize)
    }

    pub(super) fn acknowledge(&mut self, ack: u32, mut each: impl FnMut(u32, &Sent)) -> Delivered {
        let mut delivered = Delivered::default();
        let mut has_repair = false;
        while self.first < ack
            && let Some(sent) = self.sent.pop_front()
        {
            each(self.first, &sent);
            self.first += 1;
            delivered.segments += 1;
            delivered.fresh += u32::from(!sent.is_sacked);
            self.sacked -= u32::from(sent.is_sacked);
            self.lost -= u32::from(sent.is_lost);
            self.resent -= u32::from(sent.is_resent);
            has_repair |= sent.was_resent;
            if !sent.is_sacked && delivered.sent.is_none() {
                delivered.sent = Some(sent.at);
            }
        }
        if has_repair {
            delivered.sent = None;
        }
        self.repair_from = self.repair_from.max(self.first);
        // Each newly acknowledged segment except the first had caused a duplicate acknowledgement, which counted it as
        // delivered (RFC 6582).
        let duplicates = self.duplicates.min(delivered.segments.saturating_sub(1));
        self.duplicates -= duplicates;
        delivered.fresh -= duplicates.min(delivered.fresh);
        self.limit_duplicates();
        delivered
    }

    pub(super) fn add_duplicate(&mut self) {
        self.duplicates += 1;
        self.limit_duplicates();
    }

    pub(super) const fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    fn limit_duplicates(&mut self) {
        self.duplicates = self.duplicates.min(self.len().saturating_sub(self.lost.max(1)));
    }

    /// Marks a segment as acknowledged selectively. Returns its former state; `None` if it was marked already, or is
    /// not outstanding.
    pub(super) fn sack(&mut self, segment: u32) -> Option<Sent> {
        let sent = self.get_mut(segment).filter(|sent| !sent.is_sacked)?;
        let before = *sent;
        (sent.is_sacked, sent.is_lost, sent.is_resent) = (true, false, false);
        self.sacked += 1;
        self.lost -= u32::from(before.is_lost);
        self.resent -= u32::from(before.is_resent);
        Some(before)
    }

    /// Marks a segment as lost, unless it is acknowledged selectively. Returns whether it or its retransmission was in
    /// flight.
    pub(super) fn lose(&mut self, segment: u32) -> bool {
        let Some(sent) = self.get_mut(segment).filter(|sent| !sent.is_sacked) else { return false };
        let (was_lost, was_resent) = (sent.is_lost, sent.is_resent);
        (sent.is_lost, sent.is_resent) = (true, false);
        self.lost += u32::from(!was_lost);
        self.resent -= u32::from(was_resent);
        self.repair_from = self.repair_from.min(segment);
        !was_lost || was_resent
    }

    /// Marks lost segments as in flight again, unless already retransmitted.
    pub(super) fn forget_losses(&mut self) {
        for sent in self.sent.iter_mut().filter(|sent| sent.is_lost && !sent.is_resent) {
            sent.is_lost = false;
            self.lost -= 1;
        }
    }

    pub(super) fn next_repair(&mut self) -> Option<u32> {
        if self.lost == self.resent {
            return None;
        }
        let from = self.repair_from.max(self.first);
        let found = (from..self.next())
            .find(|segment| self.get(*segment).is_some_and(|sent| sent.is_lost && !sent.is_resent))?;
        self.repair_from = found;
        Some(found)
    }

    pub(super) fn resend(&mut self, segment: u32, at: Nanos) {
        let Some(sent) = self.get_mut(segment) else { return };
        (sent.at, sent.is_resent, sent.was_resent) = (at, true, true);
        self.resent += 1;
    }
}

// Tests for SPECIFICATION.md: tcp
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_segments_in_flight_follow_losses_sacks_and_repairs() {
        let mut board = Scoreboard::default();
        (0..6).for_each(|at| board.push(Nanos(at)));
        assert!(board.sack(3).is_some() && board.sack(3).is_none());
        assert_eq!(board.in_flight(), 5);
        assert!(board.lose(0) && !board.lose(0) && !board.lose(3) && board.lose(1));
        assert_eq!((board.in_flight(), board.next_repair()), (3, Some(0)));
        board.resend(0, Nanos(9));
        assert_eq!((board.in_flight(), board.next_repair()), (4, Some(1)));
        assert!(board.lose(0), "the lost retransmission must have been in flight");
        assert_eq!((board.in_flight(), board.next_repair()), (3, Some(0)));
        let delivered = board.acknowledge(4, |_, _| {});
        assert_eq!(delivered, Delivered { segments: 4, fresh: 3, sent: None }, "a repair is among them");
        assert_eq!((board.first(), board.next(), board.in_flight(), board.next_repair()), (4, 6, 2, None));
        assert_eq!(board.acknowledge(6, |_, _| {}).sent, Some(Nanos(4)));
    }

    #[test]
    fn duplicate_acks_never_exceed_segments_behind_the_gap() {
        let mut board = Scoreboard::default();
        (0..4).for_each(|at| board.push(Nanos(at)));
        (0..9).for_each(|_| board.add_duplicate());
        assert_eq!((board.sacked(), board.in_flight()), (3, 1));
        board.acknowledge(2, |_, _| {});
        assert_eq!((board.sacked(), board.in_flight()), (1, 1));
    }
}
