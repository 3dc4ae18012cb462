//! Rates of classes (GFC): asked of peers as policies want them, and kept for peers that ask.
//!
//! What a port keeps for its peer is a shaper of the class, beside which a `max_rate` of its own still
//! holds: the lower of the two counts. A limit begins without credit, and lets at most one frame be
//! caught up on.

use super::{Port, Switch};
use crate::frame::{Frame, FrameStore};
use crate::policy::Policy;
use crate::schedule::Shaper;
use crate::settings::{FlowControl, PortSettings};
use crate::units::{BitRate, Bytes, Class, ClassSet, Nanos, PortId, RateStep, TAGS};
use crate::wire::{MacControlError, Pfc, Rates};

impl Switch {
    /// The step that the peer of `port` is asked to keep in `class`.
    #[must_use]
    pub fn rate_asked(&self, port: PortId, class: Class) -> RateStep {
        self.ports[port.index()].peer.asked_rates.step(class)
    }

    pub(super) fn ask_rate(&mut self, port: PortId, class: Class, step: RateStep) {
        let at = &mut self.ports[port.index()];
        if at.peer.asked_rates.step(class) == step {
            return;
        }
        at.peer.asked_rates.set(class, step);
        self.counters.class(port, class).rate_asked.ask(step, at.settings.speed);
        self.note_untold(port);
    }

    /// The frame with rates that is due at `port`; `None` where none is or may leave now.
    pub(super) fn announce_rates<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        let at = &self.ports[port.index()];
        if !at.peer.asked_rates.due() || at.egress.is_fully_committed() || !self.control_is_free(port, store)
        {
            return None;
        }
        let at = &mut self.ports[port.index()];
        let rates = at.peer.asked_rates.announce(self.now, at.settings.pause_time);
        let bytes = rates.encode(at.settings.mac);
        self.agenda.look_at(port, at.peer.asked_rates.next_refresh());
        self.counters.port(port).rate_frames_sent.add(1);
        Some(self.send_control(port, &bytes, store))
    }

    /// Obeys the rates in a frame, where the peer of `port` is one that may ask for them. Answers whether
    /// there were any.
    pub(super) fn obey_rates(
        &mut self,
        port: PortId,
        pfc: &Pfc,
        head: &[u8],
    ) -> Result<bool, MacControlError> {
        let settings = &self.ports[port.index()].settings;
        let FlowControl::Pfc { obey, .. } = settings.flow_control else { return Ok(false) };
        if !settings.gfc_peer {
            return Ok(false);
        }
        let Some(rates) = Rates::parse(pfc, head)? else { return Ok(false) };
        let at = &mut self.ports[port.index()];
        let changed = at.peer.kept_rates.receive(self.now, obey, &rates);
        self.agenda.look_at(port, at.peer.kept_rates.next_expiry());
        self.counters.port(port).rate_frames_received.add(1);
        self.keep_rates(port, changed);
        Ok(true)
    }

    /// Ends the limits whose time is over.
    #[cold]
    pub(super) fn expire_rates(&mut self, port: PortId) {
        let over = self.ports[port.index()].peer.kept_rates.expire(self.now);
        self.keep_rates(port, over);
    }

    /// The link is gone, and with it what either side had asked.
    pub(super) fn forget_rates(&mut self, port: PortId) {
        let at = &mut self.ports[port.index()];
        at.peer.asked_rates.forget_told();
        let all =
            Class::ALL.into_iter().fold(Rates::default(), |rates, class| rates.with(class, RateStep::FULL));
        let changed = at.peer.kept_rates.receive(self.now, ClassSet::ALL, &all);
        self.keep_rates(port, changed);
    }

    /// The peer of `port` may send as fast as it can, also when what is still inside leaves.
    pub(super) fn lift_rates(&mut self, port: PortId) {
        for class in Class::ALL {
            if let Policy::Gfc(gfc) = &mut self.policies.acting[class.index()] {
                gfc.let_go(port);
            }
            self.ask_rate(port, class, RateStep::FULL);
        }
    }

    fn keep_rates(&mut self, port: PortId, classes: ClassSet) {
        for class in classes.iter() {
            let at = &mut self.ports[port.index()];
            at.keep_rate(self.now, class);
            let rate = at.peer.kept_rates.rate(class).map_or(0, |rate| rate.bits_per_second());
            self.counters.class(port, class).rate_obeyed.set(rate);
        }
    }
}

/// The longest frame as the line sees it.
fn longest(port: &PortSettings) -> Bytes {
    Bytes::on_line(port.mtu_frame + TAGS)
}

/// How far a class of `port` may run ahead of a rate of its own: for as long as the port may run ahead of
/// its line, so by the part of the port's burst that the rate is of the line; one frame at least.
fn burst(port: &PortSettings, rate: BitRate) -> Bytes {
    rate.bytes_in(port.speed.time_of(port.burst)).max(longest(port))
}

/// What holds a class of `port` to a rate of its own.
pub(super) fn shaper(port: &PortSettings, rate: BitRate) -> Shaper {
    Shaper::new(rate, burst(port, rate))
}

impl Port {
    /// The class is held to the lower of its own rate and the one that the peer asks for.
    fn keep_rate(&mut self, now: Nanos, class: Class) {
        let own = self.settings.classes[class.index()].max_rate;
        let asked = self.peer.kept_rates.rate(class);
        let Some(rate) = own.into_iter().chain(asked).min() else {
            return self.egress.lift_rate(class);
        };
        let burst = if asked.is_some() { longest(&self.settings) } else { burst(&self.settings, rate) };
        let shaper = self.egress.keep_rate(now, class, rate, burst);
        if asked.is_some() {
            shaper.forgo(now);
        }
    }
}
