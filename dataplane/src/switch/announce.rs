//! Control frames to peers. Their memory is a separate pool, and they leave before data.

use xoff_flow_control::pause::Announcement;
use xoff_flow_control::settings::FlowControl;
use xoff_wire::mac_control::{self, MacControl, Pfc};
use xoff_wire::units::{Class, ClassSet, PortId, PortSet, Quanta};

use super::Switch;
use super::journey::on_line;
use crate::frame::{Frame, FrameStore};
use crate::queue::FrameMeta;

impl Switch {
    /// Returns ports at which a pause or rate frame is due ([`super::Batch::announce`]).
    #[inline]
    #[must_use]
    pub fn announcements_due(&self) -> PortSet {
        self.ready.announcements_due
    }

    #[inline]
    pub(super) fn note_announcements(&mut self, port: PortId) {
        let at = &self.ports[port.index()];
        if at.up && at.peer.is_announcement_due() {
            self.ready.announcements_due.insert(port);
            self.ready.egress_active.insert(port);
        } else {
            self.ready.announcements_due.remove(port);
            self.ready.starved.remove(port);
        }
    }

    #[cold]
    pub(super) fn announce<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        self.end_run();
        if !self.ports[port.index()].up {
            return None;
        }
        let frame = self.announce_pause(port, store).or_else(|| self.announce_rates(port, store));
        self.note_announcements(port);
        frame
    }

    #[cold]
    pub(super) fn control<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        self.announce(port, store)
            .or_else(|| self.announce_flows(port, store))
            .or_else(|| self.next_injected(port))
    }

    pub(super) fn control_is_free<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> bool {
        let Some(probe) = store.control(&[0; mac_control::LEN]) else {
            if !self.ready.starved.contains(port) {
                self.counters.port(port).control_starved.add(1);
                self.ready.starved.insert(port);
            }
            return false;
        };
        self.ready.starved.remove(port);
        store.free(probe);
        true
    }

    fn announce_pause<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        if !self.ports[port.index()].peer.held.due() || !self.control_is_free(port, store) {
            return None;
        }
        let at = &mut self.ports[port.index()];
        let what = at.peer.held.announce(self.now)?;
        let bytes =
            pause_frame(at.settings.flow_control, &what, at.settings.pause_time).encode(at.settings.mac);
        self.ready.schedule(port, at.peer.held.next_refresh());
        self.xoffs_sent += u64::from(!what.xoff.is_empty());
        self.counters.port(port).pause_frames_sent.add(1);
        for class in what.vector().iter() {
            if what.xoff.contains(class)
                && let Some(since) = at.peer.held.since(class)
            {
                at.peer.response.xoff_sent(self.now, class, since);
            }
            let counters = self.counters.class(port, class);
            counters.xoff_sent.add(u64::from(what.xoff.contains(class)));
            counters.xon_sent.add(u64::from(what.xon.contains(class)));
            counters.refreshes_sent.add(u64::from(what.refreshed.contains(class)));
        }
        for class in what.xon.iter() {
            self.forget_flow_pauses(port, class); // XON for the class resumes all of its flows
        }
        Some(self.send_control(port, &bytes, store))
    }

    pub(super) fn send_control<S: FrameStore>(&mut self, port: PortId, bytes: &[u8], store: &mut S) -> Frame {
        let frame =
            store.control(bytes).expect("the pool must have a free control frame: the caller has checked it");
        let at = &mut self.ports[port.index()];
        at.egress.commit(self.now, on_line(&frame).into());
        self.ledger.made += 1;
        *self.nodes.meta_mut(&frame) = FrameMeta::of_control(self.now, port, Class::ALL[7], &frame);
        frame
    }
}

fn pause_frame(flow_control: FlowControl, what: &Announcement, pause_time: Quanta) -> MacControl {
    let stopped = ClassSet(what.xoff.0 | what.refreshed.0);
    let time = |class: Class| if stopped.contains(class) { pause_time } else { Quanta(0) };
    match flow_control {
        FlowControl::Pause8023x if stopped.is_empty() => MacControl::Pause(Quanta(0)),
        FlowControl::Pause8023x => MacControl::Pause(pause_time),
        FlowControl::Pfc { .. } | FlowControl::Ignore => MacControl::Pfc(
            what.vector().iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time(class))),
        ),
    }
}
