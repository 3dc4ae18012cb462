//! `pause_frame_tab` of one ingress port: flows that its peer is asked to pause, and the state last sent.
//!
//! A flow is identified by its egress port and its number in that port's flow table. A frame is due while a state has
//! not been sent, and periodically to keep pauses alive.

use xoff_wire::units::{Nanos, PortId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Pause,
    /// A pause that is due for a refresh.
    PauseLongAgo,
    /// A pause whose resume is due.
    Leaving,
}

impl Told {
    const fn is_due(self) -> bool {
        matches!(self, Told::Nothing | Told::PauseLongAgo)
    }
}

/// Flow, by its egress port and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowId {
    pub(super) flow: u32,
    pub(super) egress: PortId,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    flow: u32,
    egress: PortId,
    told: Told,
}

pub(super) const BYTES_PER_PAUSED_FLOW: usize = size_of::<Row>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Pause,
    Resume,
}

#[derive(Debug)]
pub(super) struct PauseFrames {
    rows: Vec<Row>,
    due: usize,
    leaving: usize,
    refresh: Nanos,
    next_refresh: Nanos,
}

impl PauseFrames {
    /// Creates an empty table; pauses are sent again every `refresh`.
    pub(super) fn new(capacity: usize, refresh: Nanos) -> PauseFrames {
        PauseFrames {
            rows: Vec::with_capacity(capacity),
            due: 0,
            leaving: 0,
            refresh,
            next_refresh: Nanos::NEVER,
        }
    }

    /// Requests a pause of a flow that is not in the table (Algorithm 1 line 14). Returns false if the table is full.
    pub(super) fn ask(&mut self, id: FlowId) -> bool {
        if self.rows.len() == self.rows.capacity() {
            return false;
        }
        self.rows.push(Row { flow: id.flow, egress: id.egress, told: Told::Nothing });
        self.due += 1;
        true
    }

    /// Withdraws pending resumes of those flows for which `is_asked` returns true.
    pub(super) fn ask_again(&mut self, is_asked: impl Fn(FlowId) -> bool) {
        let leaving = self.rows.iter_mut().filter(|row| row.told == Told::Leaving);
        for row in leaving.filter(|row| is_asked(FlowId { flow: row.flow, egress: row.egress })) {
            row.told = Told::PauseLongAgo;
            self.leaving -= 1;
            self.due += 1;
        }
    }

    /// Requests a resume of every flow (Algorithm 1 lines 17 and 18). Calls `each` with every flow and whether a
    /// resume must still be sent.
    pub(super) fn let_go(&mut self, mut each: impl FnMut(FlowId, bool)) {
        self.rows.retain_mut(|row| {
            let to_be_told = row.told != Told::Nothing;
            row.told = Told::Leaving;
            each(FlowId { flow: row.flow, egress: row.egress }, to_be_told);
            to_be_told
        });
        self.due = 0;
        self.leaving = self.rows.len();
        self.next_refresh = Nanos::NEVER;
    }

    /// Forgets all sent states. Calls `each` with every flow that ends by that.
    pub(super) fn forget_told(&mut self, mut each: impl FnMut(FlowId)) {
        self.rows.retain_mut(|row| {
            let ends = row.told == Told::Leaving;
            row.told = Told::Nothing;
            if ends {
                each(FlowId { flow: row.flow, egress: row.egress });
            }
            !ends
        });
        self.due = self.rows.len();
        self.leaving = 0;
        self.next_refresh = Nanos::NEVER;
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due > 0 || self.leaving > 0
    }

    /// Advances to time `now`; all pauses may become due for a refresh.
    pub(super) fn advance(&mut self, now: Nanos) {
        if now >= self.next_refresh {
            self.next_refresh = Nanos::NEVER;
            let paused = self.rows.iter_mut().filter(|row| row.told == Told::Pause);
            paused.for_each(|row| row.told = Told::PauseLongAgo);
            self.due = self.rows.len() - self.leaving;
        }
    }

    /// Returns the kind of the next frame; pauses come first.
    pub(super) const fn next(&self) -> Option<Say> {
        match (self.due, self.leaving) {
            (0, 0) => None,
            (0, _) => Some(Say::Resume),
            _ => Some(Say::Pause),
        }
    }

    /// Sends flows for a frame of kind `say`, as long as `write` has room.
    pub(super) fn tell(&mut self, now: Nanos, say: Say, mut write: impl FnMut(FlowId) -> bool) {
        match say {
            Say::Pause => {
                for row in self.rows.iter_mut().filter(|row| row.told.is_due()) {
                    if !write(FlowId { flow: row.flow, egress: row.egress }) {
                        break;
                    }
                    row.told = Told::Pause;
                    self.due -= 1;
                }
                self.next_refresh = self.next_refresh.min(now.after(self.refresh));
            }
            Say::Resume => {
                let mut room = true;
                self.rows.retain(|row| {
                    if row.told != Told::Leaving || !room {
                        return true;
                    }
                    room = write(FlowId { flow: row.flow, egress: row.egress });
                    !room
                });
                self.leaving = self.rows.iter().filter(|row| row.told == Told::Leaving).count();
            }
        }
    }

    pub(super) const fn next_refresh(&self) -> Nanos {
        self.next_refresh
    }

    /// Returns the number of flows that the peer is asked to pause.
    pub(super) fn asked(&self) -> usize {
        self.rows.len() - self.leaving
    }

    pub(super) fn has_told(&self) -> bool {
        self.rows.iter().any(|row| row.told != Told::Nothing)
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(flow: u32) -> FlowId {
        FlowId { flow, egress: PortId(1) }
    }

    fn table(flows: &[u32]) -> PauseFrames {
        let mut table = PauseFrames::new(4, Nanos(100));
        flows.iter().for_each(|&flow| assert!(table.ask(id(flow))));
        table
    }

    fn tell(table: &mut PauseFrames, now: u64, room: usize) -> Option<(Say, Vec<u32>)> {
        let say = table.next()?;
        let mut told = Vec::new();
        table.tell(Nanos(now), say, |id| {
            let fits = told.len() < room;
            told.extend(fits.then_some(id.flow));
            fits
        });
        Some((say, told))
    }

    #[test] // Algorithm 1 lines 13 to 15 and 17 to 19
    fn a_flow_is_told_once_and_resumed_once() {
        let mut table = table(&[1, 2]);
        assert_eq!(tell(&mut table, 0, 9), Some((Say::Pause, vec![1, 2])));
        assert_eq!(table.next(), None);
        let mut gone = Vec::new();
        assert!(table.ask(id(3)));
        table.let_go(|id, to_be_told| gone.push((id.flow, to_be_told)));
        assert_eq!(gone, [(1, true), (2, true), (3, false)], "of the third the peer knows nothing");
        assert_eq!(tell(&mut table, 1, 9), Some((Say::Resume, vec![1, 2])));
        assert_eq!((table.next(), table.bytes()), (None, 0));
    }

    #[test]
    fn what_does_not_fit_goes_into_the_next_frame() {
        let mut table = table(&[1, 2, 3]);
        assert_eq!(tell(&mut table, 0, 2), Some((Say::Pause, vec![1, 2])));
        assert_eq!(tell(&mut table, 0, 2), Some((Say::Pause, vec![3])));
        table.let_go(|_, _| ());
        assert_eq!(tell(&mut table, 0, 2), Some((Say::Resume, vec![1, 2])));
        assert_eq!(tell(&mut table, 0, 2), Some((Say::Resume, vec![3])));
        assert_eq!(tell(&mut table, 0, 2), None);
    }

    #[test]
    fn what_holds_is_told_again_when_its_time_comes_and_not_before() {
        let mut table = table(&[1]);
        tell(&mut table, 5, 9);
        assert!(table.ask(id(2)));
        tell(&mut table, 50, 9);
        assert_eq!(table.next_refresh(), Nanos(105), "from the first");
        table.advance(Nanos(104));
        assert!(!table.is_due());
        table.advance(Nanos(105));
        assert_eq!(tell(&mut table, 106, 9), Some((Say::Pause, vec![1, 2])));
        assert_eq!(table.next_refresh(), Nanos(206));
        table.let_go(|_, _| ());
        assert_eq!(table.next_refresh(), Nanos::NEVER);
    }

    #[test]
    fn a_flow_whose_refresh_is_due_is_resumed_like_any_other() {
        let mut table = table(&[1]);
        tell(&mut table, 0, 9);
        table.advance(Nanos(100));
        table.let_go(|_, to_be_told| assert!(to_be_told));
        assert_eq!(tell(&mut table, 101, 9), Some((Say::Resume, vec![1])));
    }

    #[test]
    fn a_flow_that_is_asked_for_again_before_its_resume_was_told_stays_paused() {
        let mut table = table(&[1, 2]);
        tell(&mut table, 0, 9);
        table.let_go(|_, _| ());
        table.ask_again(|flow| flow == id(2));
        assert_eq!(table.asked(), 1);
        assert_eq!(tell(&mut table, 1, 9), Some((Say::Pause, vec![2])));
        assert_eq!(tell(&mut table, 1, 9), Some((Say::Resume, vec![1])));
        assert_eq!((table.asked(), table.next(), table.next_refresh()), (1, None, Nanos(101)));
    }

    #[test]
    fn a_peer_that_was_away_is_told_anew_and_of_no_resume() {
        let mut table = table(&[1, 2]);
        tell(&mut table, 0, 9);
        table.let_go(|_, _| ());
        table.ask_again(|flow| flow == id(2));
        let mut ended = Vec::new();
        table.forget_told(|id| ended.push(id.flow));
        assert_eq!(ended, [1]);
        assert!(!table.has_told());
        assert_eq!(tell(&mut table, 1, 9), Some((Say::Pause, vec![2])));
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = table(&[1, 2, 3, 4]);
        assert!(!table.ask(id(5)));
        assert_eq!(table.bytes(), 32);
    }
}
