//! LACP at one port of a group: the receive, periodic, mux and transmit machines of IEEE 802.1AX, clause 6.4.

use xoff_dataplane::forward::MemberState;
use xoff_flow_control::settings::Lacp;
use xoff_wire::lacp::{End, Lacpdu, State};
use xoff_wire::units::{MacAddr, Nanos};

const FAST_PERIOD: Nanos = Nanos::from_secs(1);
const SLOW_PERIOD: Nanos = Nanos::from_secs(30);
const SHORT_TIMEOUT: Nanos = Nanos::from_secs(3);
const LONG_TIMEOUT: Nanos = Nanos::from_secs(90);
/// Delay before a port joins its group, so that a flapping port does not join.
const JOIN_DELAY: Nanos = Nanos::from_secs(2);
/// Time for which a leaving port still accepts data, which its partner may have queued.
const LEAVE_DELAY: Nanos = Nanos::from_secs(1);
/// Maximum number of LACP frames that a port may send in [`FAST_PERIOD`].
const BURST: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    #[default]
    Down,
    /// The partner sends no LACP frames, or has stopped.
    NoPartner,
    /// The partner is this switch itself, or belongs to another system or group than the partners of the group's other
    /// ports.
    OtherPartner,
    /// The partner's LACP frames lack the bit Aggregation, and the group has another port.
    Individual,
    Waiting,
    Attached,
    Collecting,
    Distributing,
}

xoff_wire::named! { Standing {
    Down: "down",
    NoPartner: "no_partner",
    OtherPartner: "other_partner",
    Individual: "individual",
    Waiting: "waiting",
    Attached: "attached",
    Collecting: "collecting",
    Distributing: "distributing",
} }

impl Standing {
    /// Returns why members in this state send no data; the caller appends `port` and each name.
    #[must_use]
    pub const fn obstacle(self) -> &'static str {
        match self {
            Standing::Down => "no link at",
            Standing::NoPartner => "no LACP partner at",
            Standing::OtherPartner => "a partner of another system or group, or this switch itself, at",
            Standing::Individual => "a partner that does not aggregate its port (individual) at",
            Standing::Waiting => "about to join:",
            Standing::Attached => "the partner has not joined its end of the link to a group, at",
            Standing::Collecting => "the partner accepts no data at",
            Standing::Distributing => "joined:",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    Disabled,
    Expired,
    Defaulted,
    Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mux {
    Detached,
    /// Time from which the port may attach to its group.
    Waiting(Nanos),
    Attached,
    /// Time until which a leaving port accepts data; [`Nanos::NEVER`] for other ports.
    Collecting(Nanos),
    Distributing,
}

#[derive(Clone, Debug)]
pub struct Member {
    actor: End,
    partner: End,
    receive: Receive,
    expires: Nanos,
    mux: Mux,
    is_selected: bool,
    /// True if the operator is removing the port from its group.
    leaves: bool,
    needs_to_send: bool,
    next_periodic: Nanos,
    sent: [Nanos; BURST],
}

impl Member {
    #[must_use]
    pub fn new(actor: End) -> Member {
        let state = State::AGGREGATION.with(State::DEFAULTED, true);
        Member {
            actor: End { state, ..actor },
            partner: End::default(),
            receive: Receive::Disabled,
            expires: Nanos::NEVER,
            mux: Mux::Detached,
            is_selected: false,
            leaves: false,
            needs_to_send: false,
            next_periodic: Nanos::NEVER,
            sent: [Nanos::ZERO; BURST],
        }
    }

    /// Applies the group's settings. After a change of `key`, the port leaves the group and joins again.
    pub fn configure(&mut self, key: u16, settings: Lacp) {
        if self.actor.key != key {
            self.actor.key = key;
            (self.is_selected, self.needs_to_send) = (false, true);
        }
        self.set(State::ACTIVITY, settings.active);
        self.set(State::SHORT_TIMEOUT, settings.short_timeout);
    }

    pub fn set_link(&mut self, now: Nanos, is_up: bool) {
        if is_up == (self.receive != Receive::Disabled) {
            return;
        }
        (self.mux, self.is_selected) = (Mux::Detached, false);
        self.partner = End::default();
        for bits in [State::SYNCHRONIZATION, State::COLLECTING, State::DISTRIBUTING] {
            self.set(bits, false);
        }
        if is_up {
            self.expire(now);
            (self.needs_to_send, self.next_periodic) = (true, now.after(FAST_PERIOD));
        } else {
            (self.receive, self.expires) = (Receive::Disabled, Nanos::NEVER);
            self.needs_to_send = false;
        }
    }

    pub fn receive(&mut self, now: Nanos, pdu: &Lacpdu) {
        const SHARED: [State; 4] =
            [State::ACTIVITY, State::SHORT_TIMEOUT, State::SYNCHRONIZATION, State::AGGREGATION];
        if self.receive == Receive::Disabled {
            return;
        }
        if identity(&self.partner) != identity(&pdu.actor) {
            self.is_selected = false;
        }
        let names_this_end = identity(&pdu.partner) == identity(&self.actor);
        let is_outdated = |bit: State| pdu.partner.state.has(bit) != self.actor.state.has(bit);
        if !names_this_end || SHARED.into_iter().any(is_outdated) {
            self.needs_to_send = true;
        }
        let was_slow = !self.partner.state.has(State::SHORT_TIMEOUT);
        let lasts = pdu.actor.state.has(State::ACTIVITY)
            || self.actor.state.has(State::ACTIVITY) && pdu.partner.state.has(State::ACTIVITY);
        let is_in_sync = pdu.actor.state.has(State::SYNCHRONIZATION)
            && (names_this_end || !pdu.actor.state.has(State::AGGREGATION))
            && lasts;
        self.partner = pdu.actor;
        self.partner.state = self.partner.state.with(State::SYNCHRONIZATION, is_in_sync);
        if was_slow && self.partner.state.has(State::SHORT_TIMEOUT) {
            self.next_periodic = self.next_periodic.min(now.after(FAST_PERIOD));
        }
        self.receive = Receive::Current;
        self.set(State::DEFAULTED, false);
        self.set(State::EXPIRED, false);
        let is_short = self.actor.state.has(State::SHORT_TIMEOUT);
        self.expires = now.after(if is_short { SHORT_TIMEOUT } else { LONG_TIMEOUT });
    }

    pub fn advance(&mut self, now: Nanos) {
        if now >= self.expires {
            match self.receive {
                Receive::Current => {
                    self.expire(now);
                    self.next_periodic = self.next_periodic.min(now.after(FAST_PERIOD));
                }
                Receive::Expired => {
                    (self.receive, self.expires) = (Receive::Defaulted, Nanos::NEVER);
                    (self.partner, self.is_selected) = (End::default(), false);
                    self.set(State::EXPIRED, false);
                    self.set(State::DEFAULTED, true);
                }
                Receive::Disabled | Receive::Defaulted => self.expires = Nanos::NEVER,
            }
        }
        while let Some(next) = self.next_mux(now) {
            self.mux = next;
            self.set(State::COLLECTING, self.state() != MemberState::Detached);
            self.set(State::DISTRIBUTING, self.state() == MemberState::Distributing);
        }
        let is_attached = !matches!(self.mux, Mux::Detached | Mux::Waiting(_));
        self.set(State::SYNCHRONIZATION, is_attached && self.is_selected);
        if now >= self.next_periodic {
            self.needs_to_send = true;
        }
    }

    fn next_mux(&self, now: Nanos) -> Option<Mux> {
        let has_partner = self.is_selected && self.partner.state.has(State::SYNCHRONIZATION);
        let partner_collects = has_partner && self.partner.state.has(State::COLLECTING);
        match self.mux {
            Mux::Detached => self.is_selected.then(|| Mux::Waiting(now.after(JOIN_DELAY))),
            Mux::Waiting(_) | Mux::Attached if !self.is_selected => Some(Mux::Detached),
            Mux::Waiting(until) => (now >= until).then_some(Mux::Attached),
            Mux::Attached => has_partner.then_some(Mux::Collecting(Nanos::NEVER)),
            Mux::Collecting(_) if partner_collects => Some(Mux::Distributing),
            Mux::Collecting(Nanos::NEVER) if !has_partner => Some(Mux::Collecting(now.after(LEAVE_DELAY))),
            Mux::Collecting(until) if has_partner && until != Nanos::NEVER => {
                Some(Mux::Collecting(Nanos::NEVER))
            }
            Mux::Collecting(until) => (now >= until).then_some(Mux::Attached),
            Mux::Distributing => (!partner_collects).then_some(Mux::Collecting(Nanos::NEVER)),
        }
    }

    pub fn frame_due(&mut self, now: Nanos) -> Option<Lacpdu> {
        if !self.speaks() || !self.needs_to_send || now < self.may_send_at() {
            return None;
        }
        self.needs_to_send = false;
        self.sent.rotate_left(1);
        self.sent[BURST - 1] = now.max(Nanos(1));
        let is_fast = self.partner.state.has(State::SHORT_TIMEOUT);
        self.next_periodic = now.after(if is_fast { FAST_PERIOD } else { SLOW_PERIOD });
        Some(Lacpdu { actor: self.actor, partner: self.partner })
    }

    pub fn send_again(&mut self) {
        self.needs_to_send = true;
    }

    /// Returns the LACP frame by which the port leaves its group; `None` without a partner.
    #[must_use]
    pub fn last_frame(&self) -> Option<Lacpdu> {
        let state = State::default().with(State::ACTIVITY, self.actor.state.has(State::ACTIVITY));
        let actor = End { state, ..self.actor };
        (self.receive == Receive::Current).then_some(Lacpdu { actor, partner: self.partner })
    }

    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let mux = match self.mux {
            Mux::Waiting(until) | Mux::Collecting(until) => until,
            Mux::Detached | Mux::Attached | Mux::Distributing => Nanos::NEVER,
        };
        let send = match (self.speaks(), self.needs_to_send) {
            (true, true) => self.may_send_at(),
            (true, false) => self.next_periodic,
            (false, _) => Nanos::NEVER,
        };
        self.expires.min(mux).min(send)
    }

    #[must_use]
    pub fn candidate(&self) -> Option<&End> {
        let has_partner = matches!(self.receive, Receive::Current | Receive::Expired);
        let is_named = identity(&self.partner) != identity(&End::default());
        (has_partner && !self.is_partner_here() && is_named).then_some(&self.partner)
    }

    fn is_partner_here(&self) -> bool {
        self.partner.system == self.actor.system
    }

    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.mux == Mux::Detached
    }

    #[must_use]
    pub fn is_selected(&self) -> bool {
        self.is_selected
    }

    pub fn select(&mut self) {
        self.is_selected = !self.leaves;
    }

    pub fn set_leaves(&mut self, leaves: bool) {
        self.leaves = leaves;
        self.is_selected &= !leaves;
    }

    #[must_use]
    pub fn state(&self) -> MemberState {
        match self.mux {
            Mux::Detached | Mux::Waiting(_) | Mux::Attached => MemberState::Detached,
            Mux::Collecting(_) => MemberState::Collecting,
            Mux::Distributing => MemberState::Distributing,
        }
    }

    #[must_use]
    pub fn standing(&self) -> Standing {
        match (self.receive, self.mux) {
            (Receive::Disabled, _) => Standing::Down,
            (_, Mux::Waiting(_)) => Standing::Waiting,
            (_, Mux::Attached) => Standing::Attached,
            (_, Mux::Collecting(_)) => Standing::Collecting,
            (_, Mux::Distributing) => Standing::Distributing,
            (Receive::Current, Mux::Detached) if !self.is_partner_here() && self.partner.is_individual() => {
                Standing::Individual
            }
            (Receive::Current, Mux::Detached) => Standing::OtherPartner,
            (Receive::Expired | Receive::Defaulted, Mux::Detached) => Standing::NoPartner,
        }
    }

    #[must_use]
    pub fn ends(&self) -> (End, End) {
        (self.actor, self.partner)
    }

    /// Returns whether the port sends LACP frames: two passive ends do not.
    fn speaks(&self) -> bool {
        let either = State(self.actor.state.0 | self.partner.state.0);
        self.receive != Receive::Disabled && either.has(State::ACTIVITY)
    }

    fn may_send_at(&self) -> Nanos {
        match self.sent[0] {
            Nanos::ZERO => Nanos::ZERO,
            first => first.after(FAST_PERIOD),
        }
    }

    /// Enters the state EXPIRED, in which LACP asks the partner to send soon (short timeout).
    fn expire(&mut self, now: Nanos) {
        let state = self.partner.state.with(State::SYNCHRONIZATION, false);
        self.partner.state = state.with(State::SHORT_TIMEOUT, true);
        self.set(State::EXPIRED, true);
        (self.receive, self.expires) = (Receive::Expired, now.after(SHORT_TIMEOUT));
    }

    fn set(&mut self, bits: State, is_set: bool) {
        let state = self.actor.state.with(bits, is_set);
        self.needs_to_send |= state != self.actor.state;
        self.actor.state = state;
    }
}

type Identity = ((u16, MacAddr), u16, (u16, u16), bool);

fn identity(end: &End) -> Identity {
    (end.system, end.key, end.port, end.state.has(State::AGGREGATION))
}
