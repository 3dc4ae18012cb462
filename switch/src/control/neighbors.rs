use std::sync::Arc;

use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{Lldp, SwitchSettings};
use xoff_wire::lldp::{BRIDGE, ROUTER};
use xoff_wire::units::{Nanos, PortId};

use super::reload::Reloads;
use super::view::{Link, PortView, SwitchView};
use crate::host_path::Host;
use crate::host_path::ends::{Outbox, Punted, SendCounts};
use crate::lldp::dcbx::{self, Speaker};
use crate::lldp::table::{Neighbor, NeighborChange};
use crate::lldp::timer::TTL;
use crate::lldp::{LineLimit, Port};

#[derive(Debug)]
pub struct Speakers {
    view: Arc<SwitchView>,
    reloads: Option<Reloads>,
    counts: Arc<SendCounts>,
    settings: Arc<SwitchSettings>,
    last_frames: Vec<(Vec<u8>, u64)>,
    lines: Vec<LineLimit>,
}

impl Speakers {
    #[must_use]
    pub fn new(view: Arc<SwitchView>, reloads: Option<Reloads>, counts: Arc<SendCounts>) -> Speakers {
        let settings = view.settings();
        let last_frames = vec![(Vec::new(), 0); view.ports.len()];
        let lines = vec![LineLimit::default(); view.ports.len()];
        Speakers { view, reloads, counts, settings, last_frames, lines }
    }

    fn is_on(&self, id: PortId, port: &PortView) -> bool {
        port.is_there() && port.link.get() == Link::Up && self.settings.ports[id.index()].lldp == Lldp::Switch
    }

    fn frame(&self, id: PortId, ttl: u16) -> Vec<u8> {
        let port = &self.view.ports[id.index()];
        let (chassis, device) = (self.view.ports().next().map(|(_, port)| port.now().mac), port.device.get());
        let mac = port.now().mac;
        let (chassis, system) = (chassis.unwrap_or(mac), self.view.name.as_str());
        let capabilities = if self.view.router.is_some() { BRIDGE | ROUTER } else { BRIDGE };
        let speaker = Speaker { chassis, mac, system, device: &device, capabilities };
        dcbx::frame(&speaker, &self.settings.ports[id.index()], ttl)
    }

    fn look(&mut self, now: Nanos, id: PortId, is_new: bool, outbox: &mut Outbox) -> Nanos {
        let view = Arc::clone(&self.view);
        let is_on = self.is_on(id, &view.ports[id.index()]);
        let mut ports = view.neighbors.lock();
        let at = &mut ports[id.index()];
        let mut removed = at.age(now);
        let begins = is_on && !at.timer.is_on();
        match (at.timer.is_on(), is_on) {
            (false, true) => at.timer.begin(now),
            (true, false) => {
                at.timer.end();
                removed.extend(at.table.clear());
            }
            (false, false) | (true, true) => (),
        }
        for neighbor in &removed {
            self.tell(now, id, false, neighbor);
        }
        if is_new || !removed.is_empty() {
            self.compare(now, id, at);
        }
        let unsent = self.counts.unsent(id);
        at.counts.not_sent = unsent;
        if !is_on {
            return Nanos::NEVER;
        }
        if is_new || begins {
            let frame = self.frame(id, TTL);
            if self.last_frames[id.index()].0 != frame {
                self.last_frames[id.index()].0 = frame;
                at.timer.changed(now);
            }
        }
        let (frame, unsent_before) = &mut self.last_frames[id.index()];
        if std::mem::replace(unsent_before, unsent) != unsent {
            at.timer.again(now);
        }
        if at.timer.sends(now) {
            if outbox.tell(now, id, frame) {
                at.counts.frames_out += 1;
            } else {
                at.timer.again(now);
            }
        }
        at.timer.next().min(at.table.next_expiry())
    }

    fn tell(&mut self, now: Nanos, id: PortId, comes: bool, neighbor: &Neighbor) {
        if !self.lines[id.index()].is_allowed(now) {
            return;
        }
        let Neighbor { chassis, port: theirs, announced, .. } = neighbor;
        let (port, name) = (self.view.name_of(id), &announced.system_name);
        if comes {
            let dcbx = announced.dcbx.join(", ");
            tracing::info!(event = "neighbor-new", %port, chassis, neighbor_port = theirs, name, dcbx, "a neighbor has come");
        } else {
            tracing::info!(event = "neighbor-gone", %port, chassis, neighbor_port = theirs, name, "a neighbor has gone");
        }
    }

    fn compare(&mut self, now: Nanos, id: PortId, at: &mut Port) {
        let settings = &self.settings.ports[id.index()];
        if let Some(reloads) = self.reloads.as_ref().filter(|_| dcbx::follows(settings)) {
            reloads.neighbors_changed();
        }
        if at.compare(settings) && self.lines[id.index()].is_allowed(now) {
            let (port, reason) = (self.view.name_of(id), at.not_compared(settings).unwrap_or_default());
            tracing::warn!(
                event = "dcbx-ambiguous",
                %port,
                "{reason}; the port is compared with none of them, and settings that follow a neighbor are the configured ones: turn DCBX \
                 off at all but one"
            );
        }
    }
}

impl Host for Speakers {
    fn take(&mut self, punted: &Punted<'_>, _: &mut Outbox) {
        if punted.punt.reason != PuntReason::Lldp {
            return;
        }
        let (view, id) = (Arc::clone(&self.view), punted.punt.port);
        if !self.is_on(id, &view.ports[id.index()]) {
            return;
        }
        let mut ports = view.neighbors.lock();
        let at = &mut ports[id.index()];
        let change = at.receive(punted.punt.at, punted.bytes);
        match &change {
            NeighborChange::Nothing | NeighborChange::Refreshed | NeighborChange::TooMany => return,
            NeighborChange::Changed => (),
            NeighborChange::New => {
                if let Some(neighbor) = at.table.all().last() {
                    self.tell(punted.punt.at, id, true, neighbor);
                }
            }
            NeighborChange::Removed(neighbor) => self.tell(punted.punt.at, id, false, neighbor),
        }
        self.compare(punted.punt.at, id, at);
    }

    fn advance(&mut self, now: Nanos, outbox: &mut Outbox) -> Nanos {
        let settings = self.view.settings();
        let is_new = !Arc::ptr_eq(&settings, &self.settings);
        self.settings = settings;
        let ids = (0..=u8::MAX).map(PortId).take(self.view.ports.len());
        ids.map(|id| self.look(now, id, is_new, outbox)).min().unwrap_or(Nanos::NEVER)
    }

    fn stop(&mut self, now: Nanos, outbox: &mut Outbox) {
        for id in (0..=u8::MAX).map(PortId).take(self.view.ports.len()) {
            if self.is_on(id, &self.view.ports[id.index()]) {
                outbox.tell(now, id, &self.frame(id, 0)); // without room, it expires
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::bell::Bell;
    use crate::control::testing::view;
    use crate::handoff::Bells;
    use crate::host_path::ends::ends;

    #[test]
    fn lldp_frame_not_sent_because_link_went_down_is_counted() {
        let (view, _inbox) = view();
        let (bells, bell) = (Bells::new(1).unwrap(), Arc::new(Bell::new().unwrap()));
        let counts = SendCounts::new(2);
        let owners = vec![xoff_dataplane::switch::WorkerId(0); 2];
        let (mut host, workers) = ends(&bells, owners.into(), 1, &bell, &counts);
        let mut settings = SwitchSettings::clone(&view.settings());
        settings.ports[0].lldp = Lldp::Switch;
        view.configured.set(settings);
        let mut speakers = Speakers::new(Arc::clone(&view), None, counts);
        let (left, sec) = (PortId(0), Nanos::from_secs);
        view.ports[0].link.set(Link::Up);
        speakers.advance(sec(10), &mut host.outbox);
        let counted = || {
            let ports = view.neighbors.lock();
            (ports[0].counts.frames_out, ports[0].counts.not_sent)
        };
        assert_eq!(counted(), (1, 0));
        view.ports[0].link.set(Link::Down);
        workers[0].1.count(left, false);
        speakers.advance(sec(11), &mut host.outbox);
        assert_eq!(counted(), (1, 1));
        view.ports[0].link.set(Link::Up);
        speakers.advance(sec(12), &mut host.outbox);
        assert_eq!(counted(), (2, 1), "the port must send LLDP again once its link is up");
    }
}
