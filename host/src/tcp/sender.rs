mod recovery;

use xoff_wire::units::Nanos;

use super::control::{Congestion, Control};
use super::receiver::Ack;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::settings::{Detection, TcpSettings};
use recovery::{Proportional, Rack, Undo};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Index of a data segment; `None` for a SYN.
    pub segment: Option<u32>,
    pub is_again: bool,
    /// True if a switch may mark the segment (ECT).
    pub is_ecn_capable: bool,
    /// True if the segment reports a reduced window (CWR).
    pub is_reduced: bool,
}

/// State of an idle connection, which its next flow inherits.
#[derive(Clone, Debug)]
pub struct Path {
    window: u32,
    threshold: u32,
    control: Control,
    rtt: Rtt,
    used: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The SYN is unsent or unanswered.
    Connecting {
        is_sent: bool,
        at: Nanos,
    },
    Open,
    /// A congestion mark has reduced the window.
    Reducing,
    /// Loss recovery: segments found lost are sent again.
    Recovering,
    TimedOut,
}

#[derive(Clone, Debug)]
pub struct Sender {
    settings: TcpSettings,
    segments: u32,
    state: State,
    board: Scoreboard,
    window: u32,
    threshold: u32,
    control: Control,
    rtt: Rtt,
    /// Next unsent segment when the state began. Most states end once all earlier segments are acknowledged; `Reducing`
    /// ends once this one is acknowledged, too, or no segment is outstanding.
    high: u32,
    /// Next unsent segment when the last recovery or time-out began. Duplicate acknowledgements up to this segment
    /// begin no other recovery (RFC 6582).
    repaired: Option<u32>,
    proportional: Proportional,
    undo: Option<Undo>,
    rack: Rack,
    /// Maximum number of outstanding segments in the current window of data, and the first segment after this window.
    usage: (u32, u32),
    timeout_at: Nanos,
    is_reduced: bool,
    timeouts: u32,
    resent: u32,
}

impl Sender {
    /// Creates the sender of a flow of `segments` segments, on an idle connection, or on a new one (`None`).
    #[must_use]
    pub fn new(settings: &TcpSettings, segments: u32, now: Nanos, path: Option<Path>) -> Sender {
        let is_new = path.is_none();
        let mut path = path.unwrap_or_else(|| Path {
            window: settings.initial_window,
            threshold: u32::MAX,
            control: Control::new(settings.control),
            rtt: Rtt::new(settings),
            used: now,
        });
        if settings.idle_restart && now.since(path.used) > path.rtt.timeout(settings) {
            path.window = path.window.min(settings.initial_window);
        }
        path.control.restart();
        let connects = is_new && settings.handshake;
        Sender {
            settings: *settings,
            segments,
            state: if connects { State::Connecting { is_sent: false, at: now } } else { State::Open },
            board: Scoreboard::default(),
            window: path.window,
            threshold: path.threshold,
            control: path.control,
            rtt: path.rtt,
            high: 0,
            repaired: None,
            proportional: Proportional::default(),
            undo: None,
            rack: Rack::default(),
            usage: (0, 0),
            timeout_at: Nanos::NEVER,
            is_reduced: false,
            timeouts: 0,
            resent: 0,
        }
    }

    #[must_use]
    pub fn into_path(self, now: Nanos) -> Path {
        let Sender { window, threshold, control, rtt, .. } = self;
        Path { window, threshold, control, rtt, used: now }
    }

    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.board.first() == self.segments
    }

    #[must_use]
    pub const fn first(&self) -> u32 {
        self.board.first()
    }

    #[must_use]
    pub fn sent(&self) -> u32 {
        self.board.next()
    }

    #[must_use]
    pub const fn resent(&self) -> u32 {
        self.resent
    }

    #[must_use]
    pub const fn timeouts(&self) -> u32 {
        self.timeouts
    }

    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window
    }

    #[must_use]
    pub const fn threshold(&self) -> u32 {
        self.threshold
    }

    #[must_use]
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// Returns when the next timer expires, or [`Nanos::NEVER`].
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.timeout_at.min(self.rack.reorder_at)
    }

    #[must_use]
    pub fn can_send(&mut self) -> bool {
        if let State::Connecting { is_sent, .. } = self.state {
            return !is_sent;
        }
        if self.board.in_flight() >= self.window {
            return false;
        }
        let next = self.board.next();
        let has_data = next < self.segments && self.board.len() < self.settings.window_segments();
        has_data || self.board.next_repair().is_some()
    }

    pub fn send(&mut self, now: Nanos) -> Option<Transmission> {
        if !self.can_send() {
            return None;
        }
        if let State::Connecting { .. } = self.state {
            self.state = State::Connecting { is_sent: true, at: now };
            self.timeout_at = now.after(self.rtt.timeout(&self.settings));
            return Some(Transmission {
                segment: None,
                is_again: false,
                is_ecn_capable: false,
                is_reduced: false,
            });
        }
        let repair = self.board.next_repair();
        let segment = repair.unwrap_or_else(|| self.board.next());
        let is_again = repair.is_some();
        if is_again {
            self.board.resend(segment, now);
            self.resent += 1;
            if let Some(undo) = &mut self.undo {
                undo.resent.get_or_insert(now);
            }
        } else {
            self.board.push(now);
        }
        if self.board.first() >= self.usage.1 || self.board.len() > self.usage.0 {
            self.usage = (self.board.len(), self.board.next());
        }
        self.proportional.sent();
        if self.timeout_at == Nanos::NEVER {
            self.timeout_at = now.after(self.rtt.timeout(&self.settings));
        }
        // Report the reduced window (CWR) on a new segment only (RFC 3168 section 6.1.2).
        let is_reduced = !is_again && std::mem::take(&mut self.is_reduced);
        let is_ecn_capable = self.settings.ecn && !is_again;
        Some(Transmission { segment: Some(segment), is_again, is_ecn_capable, is_reduced })
    }

    pub fn connected(&mut self, now: Nanos) {
        if let State::Connecting { is_sent: true, at } = self.state {
            if self.timeouts == 0 {
                self.rtt.sample(&self.settings, now.since(at));
            } else {
                self.window = 1; // RFC 5681 section 3.1
            }
            self.state = State::Open;
            self.timeout_at = Nanos::NEVER;
        }
    }

    /// Processes an acknowledgement. `round_trip` is the age of the timestamp that it echoes.
    pub fn acknowledged(&mut self, now: Nanos, ack: &Ack, round_trip: Nanos) {
        if ack.next > self.board.next() {
            return;
        }
        // Of an acknowledgement that arrives after a later one, only the SACK blocks are new.
        let is_old = ack.next < self.board.first();
        let is_marked = ack.is_marked && !is_old;
        let was_full = self.is_window_full();
        let in_flight = self.board.len();
        let settings = self.settings;
        let rack = &mut self.rack;
        let delivered = self.board.acknowledge(ack.next, |segment, sent| {
            if !sent.is_sacked {
                rack.delivered(segment, sent, now);
            }
        });
        let mut fresh = delivered.fresh;
        if ack.blocks.has_duplicate(ack.next) {
            self.rack.received_twice([ack.next, self.board.next()]);
        }
        // Process SACK blocks in ascending order, as segments were sent: a lower segment after a higher one would count
        // as reordered.
        for &(from, to) in ack.blocks.sorted().as_slice() {
            for segment in from.max(self.board.first())..to.min(self.board.next()) {
                if let Some(sent) = self.board.sack(segment) {
                    self.rack.delivered(segment, &sent, now);
                    fresh += 1;
                }
            }
        }
        let advances = delivered.segments > 0;
        if let Some(sent) = delivered.sent {
            self.rtt.sample(&settings, now.since(sent));
        } else if advances {
            self.rtt.sample(&settings, round_trip);
        }
        let is_duplicate = !is_old && !advances && in_flight > 0 && ack.blocks.as_slice().is_empty();
        if is_duplicate && !settings.sack && self.state != State::TimedOut {
            self.board.add_duplicate();
            fresh += 1;
        }
        self.control.acknowledged(delivered.segments, is_marked, [self.board.first(), self.board.next()]);
        if advances {
            let none = self.board.len() == 0;
            self.timeout_at = if none { Nanos::NEVER } else { now.after(self.rtt.timeout(&settings)) };
        }
        let is_needless = advances && self.is_recovery_needless(now, round_trip);
        if is_needless && (ack.next >= self.high || !self.board.has_repairs_in_flight()) {
            self.undo();
        }
        // This advance proves that the loss was real. Later acknowledgements may echo old timestamps of reordered
        // segments (RFC 3522).
        if advances && !is_needless && self.undo.is_some_and(|undo| undo.resent.is_some()) {
            self.undo = None;
        }
        // After a reduction, require an acknowledgement beyond `high`: one up to `high` may still echo marks (ECE) of
        // earlier segments.
        let ends = match self.state {
            State::Reducing => ack.next > self.high || self.board.len() == 0,
            State::Open => true,
            State::Connecting { .. } | State::Recovering | State::TimedOut => ack.next >= self.high,
        };
        if advances && ends {
            self.end_state();
        }
        let lost = !(is_needless && self.state == State::Recovering) && self.detect(now, advances);
        match self.state {
            State::Open | State::Reducing if lost => self.recover(),
            State::Open if is_marked && settings.ecn => self.reduce_after_mark(),
            _ => {}
        }
        // As in Linux, SACK blocks also grow the window once a segment arrived three or more positions late.
        let is_reordered =
            settings.detection == Detection::Rack && self.rack.reordering > recovery::DUPLICATES;
        let grows = was_full && (advances || is_reordered);
        match self.state {
            State::Recovering => {
                let is_advance = advances && !lost;
                let window =
                    self.proportional.window(self.threshold, self.board.in_flight(), fresh, is_advance);
                self.window = window.unwrap_or(self.window);
            }
            State::Open | State::TimedOut if grows => self.grow(now, fresh),
            State::Connecting { .. } | State::Open | State::Reducing | State::TimedOut => {}
        }
    }

    pub fn expire(&mut self, now: Nanos) {
        if self.rack.reorder_at <= now
            && self.detect(now, false)
            && matches!(self.state, State::Open | State::Reducing)
        {
            self.recover();
            self.window = self.board.in_flight() + 1;
        }
        if self.timeout_at > now {
            return;
        }
        self.timeouts += 1;
        let is_first = !self.rtt.is_backed_off();
        self.rtt.back_off();
        self.timeout_at = now.after(self.rtt.timeout(&self.settings));
        if let State::Connecting { is_sent, .. } = &mut self.state {
            *is_sent = false;
            return;
        }
        // Reduce the threshold once per window of data, and again at a time-out after new acknowledgements (RFC 5681).
        let is_new_window = self.board.first() >= self.high;
        let reduces = match self.state {
            State::Open => true,
            State::TimedOut => is_first || is_new_window,
            State::Connecting { .. } | State::Reducing | State::Recovering => is_new_window,
        };
        if reduces {
            self.threshold = self.control.reduce(self.window, Congestion::Loss);
        }
        self.control.timed_out();
        self.is_reduced = self.settings.ecn;
        (self.state, self.high, self.window) = (State::TimedOut, self.board.next(), 1);
        self.undo = None;
        self.repaired = Some(self.high);
        self.board.forget_duplicates();
        (self.board.first()..self.board.next()).for_each(|segment| _ = self.board.lose(segment));
    }

    /// Returns whether the congestion window, not a lack of data, limits the rate.
    fn is_window_full(&self) -> bool {
        let (sent, _) = self.usage;
        if self.window < self.threshold { sent.saturating_mul(2) > self.window } else { sent >= self.window }
    }

    fn end_state(&mut self) {
        self.board.forget_duplicates();
        self.undo = None;
        match self.state {
            State::Reducing | State::Recovering => {
                self.window = self.threshold;
                self.state = State::Open;
            }
            State::TimedOut => self.state = State::Open,
            State::Connecting { .. } | State::Open => {}
        }
    }

    fn grow(&mut self, now: Nanos, delivered: u32) {
        let in_slow_start = delivered.min(self.threshold.saturating_sub(self.window));
        self.window += in_slow_start;
        let rest = delivered - in_slow_start;
        if rest > 0 {
            let round_trip = self.rtt.smoothed().unwrap_or_default();
            self.window = self.control.grow(self.window, rest, now, round_trip);
        }
    }

    fn reduce_after_mark(&mut self) {
        self.begin(State::Reducing, Congestion::Mark);
        self.window = self.threshold;
        self.is_reduced = true;
    }

    fn begin(&mut self, state: State, congestion: Congestion) {
        (self.state, self.high) = (state, self.board.next());
        self.threshold = self.control.reduce(self.window, congestion);
        self.proportional = Proportional::new(self.window);
    }
}

#[cfg(test)]
mod tests;
