//! Class rates (GFC) that policies request from peers, and that peers request from this switch.
//!
//! A rate that a peer requests becomes a shaper of the class. It begins without credit, and saves credit for at most
//! one frame.

use xoff_flow_control::policy::Policy;
use xoff_flow_control::settings::FlowControl;
use xoff_wire::units::{BitRate, Class, ClassSet, PortId, RateStep};
use xoff_wire::{MacControlError, Pfc, Rates};

use super::Switch;
use super::port::{SwitchPort, class_lead, longest_frame};
use crate::frame::{Frame, FrameStore};
use crate::schedule::Shaper;

impl Switch {
    /// Returns the rate of `class` that this switch requests from the peer of `port`.
    #[must_use]
    pub fn requested_rate(&self, port: PortId, class: Class) -> RateStep {
        self.ports[port.index()].peer.requested_rates.step(class)
    }

    pub(super) fn request_rate(&mut self, port: PortId, class: Class, step: RateStep) {
        let at = &mut self.ports[port.index()];
        if at.peer.requested_rates.step(class) == step {
            return;
        }
        at.peer.requested_rates.set(class, step);
        self.counters.class(port, class).rate_requests.record(step, at.settings.speed);
        self.note_announcements(port);
    }

    pub(super) fn announce_rates<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        let at = &self.ports[port.index()];
        if !at.peer.requested_rates.due()
            || at.egress.is_fully_committed()
            || !self.control_is_free(port, store)
        {
            return None;
        }
        let at = &mut self.ports[port.index()];
        let rates = at.peer.requested_rates.announce(self.now, at.settings.pause_time);
        let bytes = rates.encode(at.settings.mac);
        self.ready.schedule(port, at.peer.requested_rates.next_refresh());
        self.counters.port(port).rate_frames_sent.add(1);
        Some(self.send_control(port, &bytes, store))
    }

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
        self.ready.schedule(port, at.peer.kept_rates.next_expiry());
        self.counters.port(port).rate_frames_received.add(1);
        self.keep_rates(port, changed);
        Ok(true)
    }

    pub(super) fn forget_rates(&mut self, port: PortId) {
        let at = &mut self.ports[port.index()];
        at.peer.requested_rates.forget_announced();
        let over = Rates { classes: ClassSet::ALL, ..Rates::default() };
        let changed = at.peer.kept_rates.receive(self.now, ClassSet::ALL, &over);
        self.keep_rates(port, changed);
    }

    /// Ends all rates requested from the peer of `port`, and resets the policy, so that queued frames cause no new
    /// request.
    pub(super) fn lift_rates(&mut self, port: PortId) {
        for class in Class::ALL {
            if let Policy::Gfc(gfc) = &mut self.policies.acting[class.index()] {
                gfc.lift_limit(port);
            }
            self.request_rate(port, class, RateStep::FULL);
        }
    }

    pub(super) fn keep_rates(&mut self, port: PortId, classes: ClassSet) {
        let SwitchPort { settings, egress, peer, .. } = &mut self.ports[port.index()];
        for class in classes.iter() {
            let kept = peer.kept_rates.rate(class);
            self.counters.class(port, class).rate_obeyed.set(kept.map_or(0, BitRate::bits_per_second));
            let own = settings.classes[class.index()].max_rate;
            let shaper = &mut egress.class_rates[class.index()];
            let Some(rate) = own.into_iter().chain(kept).min() else {
                egress.shaped.remove(class);
                *shaper = None;
                continue;
            };
            egress.shaped.insert(class);
            let lead =
                if kept.is_some() { longest_frame(settings).into() } else { class_lead(settings, rate) };
            let shaper = shaper.get_or_insert_with(|| Shaper::new(rate, lead));
            shaper.set_rate(self.now, rate, lead);
            if kept.is_some() {
                shaper.forgo(self.now);
            }
        }
    }
}
