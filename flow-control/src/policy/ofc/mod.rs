//! OFC (Xiao et al.: "OFC: An Original congestion-based Fine-grained Priority Flow Control"): only the flows that cause
//! congestion are paused, hop by hop up to their sources.
//!
//! A frame meets congestion if its ingress queue is between X_OFF^c (alpha x X_OFF) and X_OFF, and its egress queue is
//! at least X_OFF^c (Algorithm 1). Congestion is *original* if the peer of the egress port has paused no flow: then
//! all flows to that port are paused. Otherwise it is *local*: only the flows that this peer paused are paused further
//! upstream. Plain PFC pauses the whole class: at X_OFF, if a table is full, or if the peer understands no flow lists.
//!
//! Deviations from the paper: docs/policies/ofc.md.

mod congested;
mod flow_table;
mod memory;
mod pause_frames;

pub use self::memory::{BYTES_PER_NESTED_FLOW, memory};

use xoff_wire::ofc::{FlowPauseWriter, Operation};
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet, Quanta};
use xoff_wire::{FlowKey, mac_control};

use self::congested::CongestedFlows;
use self::flow_table::{Chain, FlowTable, PauseRequest};
use self::pause_frames::{FlowId, FrameKind, PauseFrames};
use super::share::Share;
use super::{Event, Intent, NO_FLOW, Pfc};
use crate::buffer::Buffer;
use crate::cause::Trigger;
use crate::settings::{OfcSettings, SwitchSettings, ports_where};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct TableBytes {
    pub flow_in_port: usize,
    pub congested_flow: usize,
    pub pause_frame: usize,
}

/// Policy OFC of one class.
#[derive(Debug)]
pub struct Ofc {
    pfc: Pfc,
    alpha: Share,
    understands_flows: PortSet,
    class_paused: PortSet,
    fallen_back: PortSet,
    egress: Box<[EgressTables]>,
    pause_frames: Box<[PauseFrames]>,
}

#[derive(Debug)]
struct EgressTables {
    flows: FlowTable,
    congested: CongestedFlows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CulpritFlows {
    /// All flows queued at the egress port: its peer has paused none (original congestion), or the whole class.
    All,
    /// Flows that the egress port's peer has paused (`congested_flow_tab`): the paper's local congestion.
    Paused,
}

/// Length and kind of an encoded frame that pauses or resumes flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPauseFrame {
    /// Length in bytes, without FCS.
    pub len: usize,
    /// True to resume flows, false to pause them.
    pub resumes: bool,
}

impl Ofc {
    pub(super) fn new(pfc: Pfc, settings: &SwitchSettings) -> Ofc {
        let ofc = &settings.policy.ofc;
        Ofc {
            understands_flows: ports_where(&settings.ports, |id, port| port.ofc_peer && pfc.may_send(id)),
            class_paused: PortSet::NONE,
            fallen_back: PortSet::NONE,
            egress: settings.ports.iter().map(|_| EgressTables::new(ofc, settings.ports.len())).collect(),
            pause_frames: settings
                .ports
                .iter()
                .map(|port| PauseFrames::new(ofc.paused_flows as usize, port.refresh))
                .collect(),
            alpha: Share::new(ofc.alpha),
            pfc,
        }
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.pfc.class();
        match event {
            Event::Received { ingress: port } => {
                if self.pfc.reached_xoff(port, buffer) && !self.fallen_back.contains(port) {
                    intents.push(Intent::Xoff { port, class, trigger: Trigger::Ingress });
                }
            }
            Event::Enqueued { ingress, egress, .. } => self.enqueued(ingress, egress, buffer, intents),
            Event::Dequeued { .. } => (),
            Event::Released { ingress: port } => {
                if self.pfc.fell_below_xon(port, buffer) && !self.fallen_back.contains(port) {
                    intents.push(Intent::Xon { port, class });
                }
                if buffer.ingress(port, class) <= buffer.xon(port, class) {
                    self.resume(port, intents);
                }
            }
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        self.pfc.adopt(buffer, intents);
    }

    #[inline]
    fn enqueued(&mut self, ingress: PortId, egress: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.pfc.class();
        let q_in = buffer.ingress(ingress, class);
        if q_in <= buffer.xon(ingress, class) {
            self.resume(ingress, intents); // line 16
        }
        let xoff_c = self.alpha.of(buffer.xoff(ingress, class));
        let congested = q_in >= xoff_c && buffer.egress(egress, class) >= xoff_c; // lines 3 and 4
        let stopped = self.pfc.is_paused(ingress) || self.fallen_back.contains(ingress);
        let EgressTables { flows, congested: paused } = &mut self.egress[egress.index()];
        if !(congested && self.understands_flows.contains(ingress) && !stopped) {
            flows.take_overflow(ingress);
            return;
        }
        let culprits = match paused.is_empty() || self.class_paused.contains(egress) {
            true => CulpritFlows::All,
            false => CulpritFlows::Paused,
        };
        if flows.first_of(ingress, culprits).is_some() || flows.has_overflow(ingress) {
            self.pause(ingress, culprits, egress, intents);
        }
    }

    /// Requests pauses of flows (Algorithm 1 of OFC, lines 5 to 8, 13 to 15).
    #[cold]
    fn pause(&mut self, port: PortId, culprits: CulpritFlows, egress: PortId, intents: &mut Vec<Intent>) {
        let flows = &mut self.egress[egress.index()].flows;
        let pause_frames = &mut self.pause_frames[port.index()];
        let mut full = flows.take_overflow(port);
        let mut count = 0;
        let mut again = false;
        while let Some(flow) = flows.first_of(port, culprits) {
            match flows.entry(flow).request {
                PauseRequest::Ending => again = true,
                PauseRequest::None if pause_frames.request_pause(FlowId { flow, egress }) => (),
                PauseRequest::None | PauseRequest::Active => {
                    full = true;
                    break;
                }
            }
            flows.set_request(flow, PauseRequest::Active);
            count += 1;
        }
        if again {
            let is_requested =
                |id: FlowId| id.egress == egress && flows.entry(id.flow).request == PauseRequest::Active;
            pause_frames.withdraw_resumes(is_requested);
        }
        if count > 0 {
            intents.push(Intent::PauseFlows { port, count });
        }
        if full {
            let class = self.pfc.class();
            self.fallen_back.insert(port);
            intents.push(Intent::Xoff { port, class, trigger: Trigger::TableFull(egress) });
        }
    }

    /// Resumes the flows that the peer is requested to pause (Algorithm 1 of OFC, lines 16 to 19).
    #[inline]
    fn resume(&mut self, ingress: PortId, intents: &mut Vec<Intent>) {
        if self.pause_frames[ingress.index()].requested() > 0 || self.fallen_back.contains(ingress) {
            self.resume_all(ingress, intents);
        }
    }

    #[cold]
    fn resume_all(&mut self, ingress: PortId, intents: &mut Vec<Intent>) {
        if self.requested_flows(ingress) > 0 {
            self.resume_all_flows(ingress);
            intents.push(Intent::ResumeFlows { port: ingress });
        }
        if self.fallen_back.contains(ingress) {
            self.fallen_back.remove(ingress);
            if !self.pfc.is_paused(ingress) {
                let class = self.pfc.class();
                intents.push(Intent::Xon { port: ingress, class });
            }
        }
    }
}

impl Ofc {
    /// Counts a frame about to be queued at `egress`. Returns its flow's number; [`u32::MAX`] if the table is full.
    #[inline]
    pub fn packet_in(&mut self, egress: PortId, ingress: PortId, key: &FlowKey) -> u32 {
        self.egress[egress.index()].flows.packet_in(key, ingress)
    }

    /// Counts a frame that left `egress`; `flow` is [`Ofc::packet_in`]'s result.
    #[inline]
    pub fn packet_out(&mut self, egress: PortId, flow: u32) {
        if flow != NO_FLOW {
            self.egress[egress.index()].flows.packet_out(flow);
        }
    }

    /// Records a flow pause by `egress`'s peer (Algorithm 2 of OFC, line 4). Returns the flow's number; `None` if a
    /// table is full: then the class must be paused.
    pub fn pause_flow(&mut self, egress: PortId, key: &FlowKey, until: Nanos) -> Option<u32> {
        let EgressTables { flows, congested } = &mut self.egress[egress.index()];
        let is_listed = flows.find(key).is_some_and(|flow| flows.entry(flow).congested);
        if !is_listed && congested.is_full() {
            return None;
        }
        let flow = flows.mark_congested(key)?;
        congested.pause(flow, until);
        Some(flow)
    }

    /// Records a flow resume by `egress`'s peer (Algorithm 2 of OFC, line 8). Returns the flow's number if it was
    /// paused.
    pub fn resume_flow(&mut self, egress: PortId, key: &FlowKey) -> Option<u32> {
        let EgressTables { flows, congested } = &mut self.egress[egress.index()];
        let flow = flows.find(key).filter(|&flow| congested.resume(flow))?;
        flows.clear_congested(flow);
        Some(flow)
    }

    /// Records whether `egress`'s peer pauses the whole class.
    pub fn class_is_paused(&mut self, egress: PortId, is_paused: bool) {
        match is_paused {
            true => self.class_paused.insert(egress),
            false => self.class_paused.remove(egress),
        }
    }

    /// Removes and returns a flow whose pause at `egress` has expired at `now`, if any; at [`Nanos::NEVER`], every
    /// pause counts as expired.
    pub fn pop_expired(&mut self, egress: PortId, now: Nanos) -> Option<u32> {
        let EgressTables { flows, congested } = &mut self.egress[egress.index()];
        let flow = congested.pop_expired(now)?;
        flows.clear_congested(flow);
        Some(flow)
    }

    /// Returns the next expiry of a flow pause at `egress`.
    #[must_use]
    pub fn next_expiry(&self, egress: PortId) -> Nanos {
        self.egress[egress.index()].congested.next_expiry()
    }

    /// Returns whether a frame that pauses or resumes flows is due at `port`.
    #[must_use]
    pub fn is_due(&self, port: PortId) -> bool {
        self.pause_frames[port.index()].is_due()
    }

    /// Advances the time to `now`; refreshes of flow pauses may fall due.
    pub fn advance(&mut self, port: PortId, now: Nanos) {
        self.pause_frames[port.index()].advance(now);
    }

    /// Returns the next refresh of flow pauses at `port`.
    #[must_use]
    pub fn next_refresh(&self, port: PortId) -> Nanos {
        self.pause_frames[port.index()].next_refresh()
    }

    /// Writes a due flow pause or resume into `bytes`, which must have room for a frame of minimum length. `from` is
    /// the address of `port`, `time` the pause time.
    pub fn write_frame(
        &mut self,
        now: Nanos,
        port: PortId,
        from: MacAddr,
        time: Quanta,
        bytes: &mut [u8],
    ) -> Option<FlowPauseFrame> {
        debug_assert!(bytes.len() >= mac_control::LEN);
        let pause_frames = &mut self.pause_frames[port.index()];
        let kind = pause_frames.next()?;
        let operation = match kind {
            FrameKind::Pause => Operation::Pause(time),
            FrameKind::Resume => Operation::Resume,
        };
        let mut frame = FlowPauseWriter::new(bytes, from, operation, self.pfc.class());
        let egress = &mut self.egress;
        pause_frames.send(now, kind, |id| {
            let flows = &mut egress[id.egress.index()].flows;
            frame.push(&flows.entry(id.flow).key).then(|| flows.record_sent(id.flow, kind)).is_some()
        });
        Some(FlowPauseFrame { len: frame.finish().len(), resumes: kind == FrameKind::Resume })
    }

    /// Marks due flow pauses and resumes as sent, because a shadow policy ([`super::Shadow`]) sends no frames.
    pub(super) fn discard_frames(&mut self, port: PortId) {
        let egress = &mut self.egress;
        let pause_frames = &mut self.pause_frames[port.index()];
        while let Some(kind) = pause_frames.next() {
            pause_frames.send(Nanos::ZERO, kind, |id| {
                egress[id.egress.index()].flows.record_sent(id.flow, kind);
                true
            });
        }
    }

    /// Requests that `port`'s peer resume every flow.
    pub fn resume_all_flows(&mut self, port: PortId) {
        let egress = &mut self.egress;
        self.pause_frames[port.index()].resume_all_flows(|id, needs_resume| {
            let request = if needs_resume { PauseRequest::Ending } else { PauseRequest::None };
            egress[id.egress.index()].flows.set_request(id.flow, request);
        });
    }

    /// Forgets all flow pauses that `port` sent, because its peer has lost them.
    pub fn forget_sent(&mut self, port: PortId) {
        let egress = &mut self.egress;
        let ended = |id: FlowId| egress[id.egress.index()].flows.set_request(id.flow, PauseRequest::None);
        self.pause_frames[port.index()].forget_sent(ended);
    }

    /// Returns whether `port`'s peer may still pause a flow at this switch's request.
    #[must_use]
    pub fn has_sent_pause(&self, port: PortId) -> bool {
        self.pause_frames[port.index()].has_sent_pause()
    }

    /// Returns how many flows the peer of `port` is requested to pause.
    #[must_use]
    pub fn requested_flows(&self, port: PortId) -> usize {
        self.pause_frames[port.index()].requested()
    }

    /// Returns how many flows to `port` are paused by its peer.
    #[must_use]
    pub fn flows_paused(&self, port: PortId) -> usize {
        self.egress[port.index()].congested.len()
    }

    /// Returns the table bytes in use at `port`.
    #[must_use]
    pub fn table_bytes(&self, port: PortId) -> TableBytes {
        let EgressTables { flows, congested } = &self.egress[port.index()];
        TableBytes {
            flow_in_port: flows.bytes(),
            congested_flow: congested.bytes(),
            pause_frame: self.pause_frames[port.index()].bytes(),
        }
    }
}

impl EgressTables {
    fn new(settings: &OfcSettings, ports: usize) -> EgressTables {
        EgressTables {
            flows: FlowTable::new(settings.flows, ports),
            congested: CongestedFlows::new(settings.congested_flows as usize),
        }
    }
}

impl FlowTable {
    fn first_of(&self, ingress: PortId, culprits: CulpritFlows) -> Option<u32> {
        let congested = self.first_in(Chain { ingress, congested: true });
        match culprits {
            CulpritFlows::Paused => congested,
            CulpritFlows::All => congested.or_else(|| self.first_in(Chain { ingress, congested: false })),
        }
    }

    fn record_sent(&mut self, flow: u32, kind: FrameKind) {
        if kind == FrameKind::Resume {
            self.set_request(flow, PauseRequest::None);
        }
    }
}

#[cfg(test)]
mod tests;
