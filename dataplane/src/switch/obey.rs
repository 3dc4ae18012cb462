//! Parsing of received frames, and execution of control frames (pauses, flow lists, rates).

use xoff_flow_control::pause::Resumed;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{FlowControl, Lldp};
use xoff_wire::cnm::Cnm;
use xoff_wire::header::Header;
use xoff_wire::mac_control::{DESTINATION, MacControl, MacControlError};
use xoff_wire::units::{CLASSES, ClassSet, PortId, Quanta};
use xoff_wire::{lacp, lldp};

use super::Switch;
use super::micro_flow::FrameKind;
use super::port::Peer;

pub(super) enum Reading {
    Data(FrameKind),
    Consumed,
    Punted(PuntReason),
    Malformed,
}

impl Switch {
    /// Parses a received frame, and obeys it if it is a control frame. The caller must [discard](Switch::discard)
    /// malformed frames.
    #[inline(never)]
    pub(super) fn read(&mut self, port: PortId, head: &[u8]) -> Reading {
        let Ok(header) = Header::parse(head) else { return Reading::Malformed };
        if MacControl::is_mac_control(&header) {
            self.obey(port, header, head);
            return Reading::Consumed;
        }
        if header.dst.is_link_local() {
            self.counters.port(port).reserved_frames.add(1);
            return self.why_punted(port, &header, head).map_or(Reading::Consumed, Reading::Punted);
        }
        if Cnm::is_cnm(&header) {
            self.count_notice(port, header, head);
        }
        let ingress = &mut self.ports[port.index()].ingress;
        let class = ingress.classifier.classify(&header);
        if ingress.classifier.overrules_pcp(&header, class) {
            self.counters.port(port).pcp_overruled.add(1);
        }
        let kind = FrameKind { class, layout: header.layout(), tags: header.tags_len(head) };
        if ingress.checksum_probe.is_open() {
            ingress.checksum_probe.examine(&header, head, self.counters.port(port));
            ingress.micro_flow.end();
        } else {
            ingress.micro_flow.begin(head, kind);
        }
        Reading::Data(kind)
    }

    #[cold]
    fn why_punted(&self, port: PortId, header: &Header, head: &[u8]) -> Option<PuntReason> {
        if lldp::is_lldp(header) && self.ports[port.index()].settings.lldp != Lldp::Off {
            return Some(PuntReason::Lldp);
        }
        let has_lacp = self.bridge.groups().with_lacp().contains(port);
        (has_lacp && lacp::is_lacp(header, head)).then_some(PuntReason::Lacp)
    }

    #[cold]
    fn obey(&mut self, port: PortId, header: Header, head: &[u8]) {
        self.end_run();
        if let Err(error) = self.obey_control(port, &header, head) {
            self.counters.port(port).malformed_control[error.index()].add(1);
        }
    }

    fn obey_control(&mut self, port: PortId, header: &Header, head: &[u8]) -> Result<(), MacControlError> {
        let peer = header.src.to_number();
        let control = self.parse_control(port, header, head)?;
        let (named, times, obeyed) = match control {
            MacControl::Pfc(pfc) => {
                let is_list = self.obey_list(port, &pfc, head, peer)?;
                let is_done = is_list || self.obey_rates(port, &pfc, head)?;
                self.counters.port(port).pfc_frames_received.add(1);
                if is_done {
                    return Ok(());
                }
                (pfc.classes, pfc.times, ClassSet(pfc.classes.0 & self.obeys(port).0))
            }
            MacControl::Pause(time) => {
                self.counters.port(port).pause_frames_received.add(1);
                let obeyed = if self.obeys_8023x(port) { ClassSet::ALL } else { ClassSet::NONE };
                (ClassSet::ALL, [time; CLASSES], obeyed)
            }
        };
        if !obeyed.is_empty() {
            self.count_obeyed(port, peer);
            self.pause_classes(port, obeyed, &times);
        } else if !named.is_empty() {
            let counters = self.counters.port(port);
            counters.pfc_classes_ignored.set(match control {
                MacControl::Pfc(pfc) => pfc.classes.0.into(),
                MacControl::Pause(_) => 0,
            });
            counters.pause_frames_ignored.add(1);
        }
        Ok(())
    }

    /// Parses a MAC control frame. PAUSE may be addressed to the port itself (802.3 Annex 31B), PFC may not.
    fn parse_control(
        &self,
        port: PortId,
        header: &Header,
        head: &[u8],
    ) -> Result<MacControl, MacControlError> {
        let is_own = header.dst == self.ports[port.index()].settings.mac;
        if !is_own || !self.obeys_8023x(port) {
            return MacControl::parse(header, head);
        }
        match MacControl::parse(&Header { dst: DESTINATION, ..*header }, head) {
            Ok(MacControl::Pfc(_)) => Err(MacControlError::WrongDestination),
            other => other,
        }
    }

    fn obeys_8023x(&self, port: PortId) -> bool {
        self.ports[port.index()].settings.flow_control == FlowControl::Pause8023x
    }

    pub(super) fn obeys(&self, port: PortId) -> ClassSet {
        match self.ports[port.index()].settings.flow_control {
            FlowControl::Pfc { obey, .. } => obey,
            FlowControl::Pause8023x | FlowControl::Ignore => ClassSet::NONE,
        }
    }

    pub(super) fn count_obeyed(&mut self, port: PortId, peer: u64) {
        self.pauses_obeyed += 1;
        self.counters.port(port).pause_peer.set(peer);
    }

    pub(super) fn pause_classes(&mut self, port: PortId, classes: ClassSet, times: &[Quanta; CLASSES]) {
        for class in classes.iter() {
            let counters = self.counters.class(port, class);
            match times[class.index()] {
                Quanta(0) => {
                    counters.xon_received.add(1);
                    self.resume_flows(port, class);
                }
                _ => counters.xoff_received.add(1),
            }
        }
        let at = &mut self.ports[port.index()];
        at.peer.paused_for_flows.0 &= !classes.0;
        let paused = &mut at.peer.paused;
        let resumed = paused.receive(self.now, classes, times);
        for class in paused.classes().iter() {
            let since = paused.since(class).map_or(0, |since| since.0.max(1));
            self.counters.class(port, class).paused_since.set(since);
        }
        self.ready.schedule(port, paused.next_expiry());
        classes.iter().for_each(|class| self.report_class_pause(port, class));
        self.note_resumed(port, &resumed);
        self.watch_pauses(port, classes);
        let Peer { standstill, paused, .. } = &mut self.ports[port.index()].peer;
        standstill.pauses_changed(self.now, paused.blocked());
        self.ready.schedule(port, standstill.next_look());
    }

    pub(super) fn note_resumed(&mut self, port: PortId, resumed: &Resumed) {
        self.watch_pauses(port, resumed.classes);
        if !self.ports[port.index()].eligible().is_empty() {
            self.ready.egress_active.insert(port);
        }
        for class in resumed.classes.iter() {
            self.report_class_pause(port, class);
            let counters = self.counters.class(port, class);
            let paused_for = resumed.paused_for[class.index()].0;
            // Clear the start of the pause first: a concurrent reader may then miss the pause's duration, but never counts it twice.
            if !self.ports[port.index()].peer.paused.classes().contains(class) {
                counters.paused_since.set(0);
            }
            counters.paused_nanos.add(paused_for);
            counters.paused_durations.record(paused_for);
        }
    }
}
