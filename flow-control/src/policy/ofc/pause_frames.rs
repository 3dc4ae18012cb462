//! OFC's `pause_frame_tab` of one ingress port: flows that the port's peer is requested to pause, each with the state
//! (paused or resumed) last sent.
//!
//! A frame is due while a state is unsent, and for periodic refreshes.

use xoff_wire::units::{Nanos, PortId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentState {
    Nothing,
    Pause,
    StalePause,
    ResumeDue,
}

impl SentState {
    const fn is_due(self) -> bool {
        matches!(self, SentState::Nothing | SentState::StalePause)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowId {
    pub(super) flow: u32,
    pub(super) egress: PortId,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    flow: u32,
    egress: PortId,
    sent: SentState,
}

pub(super) const BYTES_PER_PAUSED_FLOW: usize = size_of::<Row>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Pause,
    Resume,
}

#[derive(Debug)]
pub(super) struct PauseFrames {
    rows: Vec<Row>,
    pauses_due: usize,
    resumes_due: usize,
    refresh: Nanos,
    next_refresh: Nanos,
}

impl PauseFrames {
    pub(super) fn new(capacity: usize, refresh: Nanos) -> PauseFrames {
        PauseFrames {
            rows: Vec::with_capacity(capacity),
            pauses_due: 0,
            resumes_due: 0,
            refresh,
            next_refresh: Nanos::NEVER,
        }
    }

    /// Requests a pause of the flow. Returns false if the table is full.
    pub(super) fn request_pause(&mut self, id: FlowId) -> bool {
        if self.rows.len() == self.rows.capacity() {
            return false;
        }
        self.rows.push(Row { flow: id.flow, egress: id.egress, sent: SentState::Nothing });
        self.pauses_due += 1;
        true
    }

    pub(super) fn withdraw_resumes(&mut self, is_requested: impl Fn(FlowId) -> bool) {
        let resumes_due = self.rows.iter_mut().filter(|row| row.sent == SentState::ResumeDue);
        for row in resumes_due.filter(|row| is_requested(FlowId { flow: row.flow, egress: row.egress })) {
            row.sent = SentState::StalePause;
            self.resumes_due -= 1;
            self.pauses_due += 1;
        }
    }

    /// Resumes all flows. Calls `each` with every flow, and whether a resume must be sent.
    pub(super) fn resume_all_flows(&mut self, mut each: impl FnMut(FlowId, bool)) {
        self.rows.retain_mut(|row| {
            let needs_resume = row.sent != SentState::Nothing;
            row.sent = SentState::ResumeDue;
            each(FlowId { flow: row.flow, egress: row.egress }, needs_resume);
            needs_resume
        });
        self.pauses_due = 0;
        self.resumes_due = self.rows.len();
        self.next_refresh = Nanos::NEVER;
    }

    /// Forgets which pauses and resumes were sent. Calls `each` for every flow that then needs no resume.
    pub(super) fn forget_sent(&mut self, mut each: impl FnMut(FlowId)) {
        self.rows.retain_mut(|row| {
            let ends = row.sent == SentState::ResumeDue;
            row.sent = SentState::Nothing;
            if ends {
                each(FlowId { flow: row.flow, egress: row.egress });
            }
            !ends
        });
        self.pauses_due = self.rows.len();
        self.resumes_due = 0;
        self.next_refresh = Nanos::NEVER;
    }

    pub(super) const fn is_due(&self) -> bool {
        self.pauses_due > 0 || self.resumes_due > 0
    }

    pub(super) fn advance(&mut self, now: Nanos) {
        if now >= self.next_refresh {
            self.next_refresh = Nanos::NEVER;
            let paused = self.rows.iter_mut().filter(|row| row.sent == SentState::Pause);
            paused.for_each(|row| row.sent = SentState::StalePause);
            self.pauses_due = self.rows.len() - self.resumes_due;
        }
    }

    pub(super) const fn next(&self) -> Option<FrameKind> {
        match (self.pauses_due, self.resumes_due) {
            (0, 0) => None,
            (0, _) => Some(FrameKind::Resume),
            _ => Some(FrameKind::Pause),
        }
    }

    pub(super) fn send(&mut self, now: Nanos, kind: FrameKind, mut write: impl FnMut(FlowId) -> bool) {
        match kind {
            FrameKind::Pause => {
                for row in self.rows.iter_mut().filter(|row| row.sent.is_due()) {
                    if !write(FlowId { flow: row.flow, egress: row.egress }) {
                        break;
                    }
                    row.sent = SentState::Pause;
                    self.pauses_due -= 1;
                }
                self.next_refresh = self.next_refresh.min(now.after(self.refresh));
            }
            FrameKind::Resume => {
                let mut room = true;
                self.rows.retain(|row| {
                    if row.sent != SentState::ResumeDue || !room {
                        return true;
                    }
                    room = write(FlowId { flow: row.flow, egress: row.egress });
                    !room
                });
                self.resumes_due = self.rows.iter().filter(|row| row.sent == SentState::ResumeDue).count();
            }
        }
    }

    pub(super) const fn next_refresh(&self) -> Nanos {
        self.next_refresh
    }

    pub(super) fn requested(&self) -> usize {
        self.rows.len() - self.resumes_due
    }

    pub(super) fn has_sent_pause(&self) -> bool {
        self.rows.iter().any(|row| row.sent != SentState::Nothing)
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
        flows.iter().for_each(|&flow| assert!(table.request_pause(id(flow))));
        table
    }

    fn send(table: &mut PauseFrames, now: u64, room: usize) -> Option<(FrameKind, Vec<u32>)> {
        let kind = table.next()?;
        let mut sent = Vec::new();
        table.send(Nanos(now), kind, |id| {
            let fits = sent.len() < room;
            sent.extend(fits.then_some(id.flow));
            fits
        });
        Some((kind, sent))
    }

    #[test] // Algorithm 1 lines 13 to 15 and 17 to 19
    fn one_frame_pauses_and_one_frame_resumes_all_listed_flows() {
        let mut table = table(&[1, 2]);
        assert_eq!(send(&mut table, 0, 9), Some((FrameKind::Pause, vec![1, 2])));
        assert_eq!(table.next(), None);
        let mut resumed = Vec::new();
        assert!(table.request_pause(id(3)));
        table.resume_all_flows(|id, needs_resume| resumed.push((id.flow, needs_resume)));
        assert_eq!(
            resumed,
            [(1, true), (2, true), (3, false)],
            "flow 3, whose pause was not sent, must need no resume"
        );
        assert_eq!(send(&mut table, 1, 9), Some((FrameKind::Resume, vec![1, 2])));
        assert_eq!((table.next(), table.bytes()), (None, 0));
    }

    #[test]
    fn flows_that_exceed_one_pause_frame_go_into_the_next() {
        let mut table = table(&[1, 2, 3]);
        assert_eq!(send(&mut table, 0, 2), Some((FrameKind::Pause, vec![1, 2])));
        assert_eq!(send(&mut table, 0, 2), Some((FrameKind::Pause, vec![3])));
        table.resume_all_flows(|_, _| ());
        assert_eq!(send(&mut table, 0, 2), Some((FrameKind::Resume, vec![1, 2])));
        assert_eq!(send(&mut table, 0, 2), Some((FrameKind::Resume, vec![3])));
        assert_eq!(send(&mut table, 0, 2), None);
    }

    #[test]
    fn flow_pause_is_refreshed_when_due() {
        let mut table = table(&[1]);
        send(&mut table, 5, 9);
        assert!(table.request_pause(id(2)));
        send(&mut table, 50, 9);
        assert_eq!(table.next_refresh(), Nanos(105), "the refresh must be due 100 ns after the first pause");
        table.advance(Nanos(104));
        assert!(!table.is_due());
        table.advance(Nanos(105));
        assert_eq!(send(&mut table, 106, 9), Some((FrameKind::Pause, vec![1, 2])));
        assert_eq!(table.next_refresh(), Nanos(206));
        table.resume_all_flows(|_, _| ());
        assert_eq!(table.next_refresh(), Nanos::NEVER);
    }

    #[test]
    fn resume_replaces_due_refresh_of_flow_pause() {
        let mut table = table(&[1]);
        send(&mut table, 0, 9);
        table.advance(Nanos(100));
        table.resume_all_flows(|_, needs_resume| assert!(needs_resume));
        assert_eq!(send(&mut table, 101, 9), Some((FrameKind::Resume, vec![1])));
    }

    #[test]
    fn new_pause_request_withdraws_pending_resume() {
        let mut table = table(&[1, 2]);
        send(&mut table, 0, 9);
        table.resume_all_flows(|_, _| ());
        table.withdraw_resumes(|flow| flow == id(2));
        assert_eq!(table.requested(), 1);
        assert_eq!(send(&mut table, 1, 9), Some((FrameKind::Pause, vec![2])));
        assert_eq!(send(&mut table, 1, 9), Some((FrameKind::Resume, vec![1])));
        assert_eq!((table.requested(), table.next(), table.next_refresh()), (1, None, Nanos(101)));
    }

    #[test]
    fn link_loss_resends_flow_pauses_but_drops_due_resumes() {
        let mut table = table(&[1, 2]);
        send(&mut table, 0, 9);
        table.resume_all_flows(|_, _| ());
        table.withdraw_resumes(|flow| flow == id(2));
        let mut ended = Vec::new();
        table.forget_sent(|id| ended.push(id.flow));
        assert_eq!(ended, [1]);
        assert!(!table.has_sent_pause());
        assert_eq!(send(&mut table, 1, 9), Some((FrameKind::Pause, vec![2])));
    }

    #[test]
    fn full_ofc_table_of_flows_to_pause_refuses_further_flows() {
        let mut table = table(&[1, 2, 3, 4]);
        assert!(!table.request_pause(id(5)));
        assert_eq!(table.bytes(), 32);
    }
}
