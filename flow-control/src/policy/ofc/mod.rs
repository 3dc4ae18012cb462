//! OFC (Xiao et al.: "OFC: An Original congestion-based Fine-grained Priority Flow Control"): only the
//! flows that cause congestion are paused, hop by hop up to where they come from.
//!
//! Three tables per class, named as in the paper:
//!
//! * `flow_in_port_tab`, of an egress port ([`flow_table`]): the flows that wait there.
//! * `congested_flow_tab`, of an egress port ([`congested`]): those of them that its peer has paused.
//! * `pause_frame_tab`, of an ingress port ([`pause_frames`]): flows that its peer is asked to pause.
//!
//! Between X_OFF^c and X_OFF of an ingress queue, a frame for an egress queue that holds X_OFF^c too
//! means congestion there (Algorithm 1). Where the peer of that egress port has paused no flow, the
//! congestion is *original*: all flows to it are paused. Otherwise it is *local*: those are paused that
//! the peer has paused, so that the cause travels up the tree and nobody else is stopped for it. At X_OFF
//! the class as a whole is paused by plain PFC; to whom that is told it is the paper's PAUSE with all keys (line 11): while
//! the pause holds congestion there is local, and every flow that waits there is one that the peer has paused.
//!
//! Where this differs from the paper, and why:
//!
//! * Only flows that came in through the port whose peer is told are put into its PAUSE: the effect
//!   upstream is the same, and the frame stays small.
//! * Line 14 replaces what was told before; here it is added to, because a flow that is paused and
//!   forgotten would never be resumed.
//! * A PAUSE is sent on change and refreshed, not with every frame.
//! * The resume check (line 16) also runs when a frame has left: otherwise a paused sender that stops
//!   would never be resumed.
//! * Tables are bounded. Where one is full the class is paused, by plain PFC.
//! * The peer of a port that is not known to understand lists of flows gets plain PFC.

mod congested;
mod flow_table;
mod memory;
mod pause_frames;

pub use self::memory::{BYTES_PER_NESTED_FLOW, memory};

use xoff_wire::ofc::{FlowPauseWriter, Operation};
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet, Quanta};
use xoff_wire::{FlowKey, mac_control};

use self::congested::CongestedFlows;
use self::flow_table::{Asked, Chain, FlowTable};
use self::pause_frames::{FlowId, PauseFrames, Say};
use super::share::Share;
use super::{Event, Intent, NO_FLOW, Pfc};
use crate::buffer::Buffer;
use crate::cause::Trigger;
use crate::settings::{OfcSettings, SwitchSettings};

/// Bytes of the tables' entries in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableBytes {
    /// `flow_in_port_tab`.
    pub flow_in_port: usize,
    /// `congested_flow_tab`.
    pub congested_flow: usize,
    /// `pause_frame_tab`.
    pub pause_frame: usize,
}

/// OFC of one class.
#[derive(Debug)]
pub struct Ofc {
    pfc: Pfc,
    /// X_OFF^c is this part of X_OFF.
    alpha: Share,
    /// Ports whose peers are asked to pause single flows.
    tells_flows: PortSet,
    /// Ports whose peers have paused the class as a whole.
    class_paused: PortSet,
    /// Ports whose peers have to stop the class because a table was full.
    fallen_back: PortSet,
    egress: Box<[Egress]>,
    /// By ingress port.
    pause_frames: Box<[PauseFrames]>,
}

#[derive(Debug)]
struct Egress {
    flows: FlowTable,
    congested: CongestedFlows,
}

/// Whose flows congest an egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Culprits {
    /// All that wait there: congestion is original, or the peer has paused the class as a whole.
    All,
    /// Those in the congested_flow_tab: congestion is local.
    Paused,
}

/// A list of flows that was written for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Length of the frame, without FCS.
    pub len: usize,
    /// Whether it resumes flows; otherwise it pauses them.
    pub resumes: bool,
}

impl Ofc {
    pub(super) fn new(pfc: Pfc, settings: &SwitchSettings) -> Ofc {
        let ofc = &settings.policy.ofc;
        let ids = (0..=u8::MAX).map(PortId);
        let tells_flows = ids.zip(&settings.ports).filter(|(id, port)| port.ofc_peer && pfc.may_send(*id));
        Ofc {
            tells_flows: tells_flows.map(|(id, _)| id).collect(),
            class_paused: PortSet::NONE,
            fallen_back: PortSet::NONE,
            egress: settings.ports.iter().map(|_| Egress::new(ofc, settings.ports.len())).collect(),
            pause_frames: settings
                .ports
                .iter()
                .map(|port| PauseFrames::new(ofc.paused_flows as usize, port.refresh))
                .collect(),
            alpha: Share::new(ofc.alpha),
            pfc,
        }
    }

    #[inline(always)] // where it is called the kind of event is a constant
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

    /// Flows are counted from the next frame on.
    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        self.pfc.adopt(buffer, intents);
    }

    /// Algorithm 1, for a frame that came in through `ingress` and waits at `egress` now.
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
        let Egress { flows, congested: paused } = &mut self.egress[egress.index()];
        if !(congested && self.tells_flows.contains(ingress) && !stopped) {
            flows.take_overflow(ingress);
            return;
        }
        let culprits = match paused.is_empty() || self.class_paused.contains(egress) {
            true => Culprits::All,
            false => Culprits::Paused,
        };
        if flows.first_of(ingress, culprits).is_some() || flows.has_overflow(ingress) {
            self.pause(ingress, culprits, egress, intents);
        }
    }

    /// Algorithm 1, lines 5 to 8 and 13 to 15: asks the peer of `port` to pause the culprits among the flows that come
    /// from there, because they congest `egress`.
    #[cold]
    fn pause(&mut self, port: PortId, culprits: Culprits, egress: PortId, intents: &mut Vec<Intent>) {
        let flows = &mut self.egress[egress.index()].flows;
        let pause_frames = &mut self.pause_frames[port.index()];
        let mut full = flows.take_overflow(port);
        let mut count = 0;
        let mut again = false;
        while let Some(flow) = flows.first_of(port, culprits) {
            match flows.entry(flow).asked {
                Asked::Leaving => again = true,
                Asked::No if pause_frames.ask(FlowId { flow, egress }) => (),
                Asked::No | Asked::Yes => {
                    full = true;
                    break;
                }
            }
            flows.set_asked(flow, Asked::Yes);
            count += 1;
        }
        if again {
            let is_asked = |id: FlowId| id.egress == egress && flows.entry(id.flow).asked == Asked::Yes;
            pause_frames.ask_again(is_asked);
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

    /// Algorithm 1, lines 16 to 19: the queue of `ingress` has drained.
    #[inline]
    fn resume(&mut self, ingress: PortId, intents: &mut Vec<Intent>) {
        if self.pause_frames[ingress.index()].asked() > 0 || self.fallen_back.contains(ingress) {
            self.resume_all(ingress, intents);
        }
    }

    #[cold]
    fn resume_all(&mut self, ingress: PortId, intents: &mut Vec<Intent>) {
        if self.flows_asked(ingress) > 0 {
            self.let_go(ingress);
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

/// What the queues and the control frames have to tell and to ask.
impl Ofc {
    /// A frame of the flow, which came in through `ingress`, is about to wait at `egress`. The number by
    /// which its queue knows the flow; [`u32::MAX`] where the table is full.
    #[inline]
    pub fn packet_in(&mut self, egress: PortId, ingress: PortId, key: &FlowKey) -> u32 {
        self.egress[egress.index()].flows.packet_in(key, ingress)
    }

    /// A frame has left the queue of `egress`; `flow` as [`Ofc::packet_in`] gave it.
    #[inline]
    pub fn packet_out(&mut self, egress: PortId, flow: u32) {
        if flow != NO_FLOW {
            self.egress[egress.index()].flows.packet_out(flow);
        }
    }

    /// The peer of `egress` has paused a flow until then (Algorithm 2 line 4). Its number; `None` where a
    /// table is full, and the class has to stop.
    pub fn pause_flow(&mut self, egress: PortId, key: &FlowKey, until: Nanos) -> Option<u32> {
        let Egress { flows, congested } = &mut self.egress[egress.index()];
        let known = flows.find(key).is_some_and(|flow| flows.entry(flow).congested);
        if !known && congested.is_full() {
            return None;
        }
        let flow = flows.mark_congested(key)?;
        congested.pause(flow, until);
        Some(flow)
    }

    /// The peer of `egress` has resumed a flow (Algorithm 2 line 8). Its number, where it was paused.
    pub fn resume_flow(&mut self, egress: PortId, key: &FlowKey) -> Option<u32> {
        let Egress { flows, congested } = &mut self.egress[egress.index()];
        let flow = flows.find(key).filter(|&flow| congested.resume(flow))?;
        flows.clear_congested(flow);
        Some(flow)
    }

    /// Whether the peer of `egress` has paused the class as a whole now.
    pub fn class_is_paused(&mut self, egress: PortId, is_paused: bool) {
        match is_paused {
            true => self.class_paused.insert(egress),
            false => self.class_paused.remove(egress),
        }
    }

    /// A flow at `egress` whose pause is over by `now`; [`Nanos::NEVER`] ends every pause.
    pub fn pop_expired(&mut self, egress: PortId, now: Nanos) -> Option<u32> {
        let Egress { flows, congested } = &mut self.egress[egress.index()];
        let flow = congested.pop_expired(now)?;
        flows.clear_congested(flow);
        Some(flow)
    }

    /// When the next flow at `egress` goes on by itself.
    #[must_use]
    pub fn next_expiry(&self, egress: PortId) -> Nanos {
        self.egress[egress.index()].congested.next_expiry()
    }

    /// Whether the peer of `port` is to be told something about flows.
    #[must_use]
    pub fn is_due(&self, port: PortId) -> bool {
        self.pause_frames[port.index()].is_due()
    }

    /// Notes that the time is `now`; what the peer of `port` was told may have to be told again.
    pub fn advance(&mut self, port: PortId, now: Nanos) {
        self.pause_frames[port.index()].advance(now);
    }

    /// When it will have to be.
    #[must_use]
    pub fn next_refresh(&self, port: PortId) -> Nanos {
        self.pause_frames[port.index()].next_refresh()
    }

    /// Writes what is due into `bytes`, which bounds the frame and holds the shortest at least; `from`: the
    /// address of `port`, `time`: how long flows are to be paused. `None` where nothing is due.
    pub fn tell(
        &mut self,
        now: Nanos,
        port: PortId,
        from: MacAddr,
        time: Quanta,
        bytes: &mut [u8],
    ) -> Option<Told> {
        debug_assert!(bytes.len() >= mac_control::LEN);
        let pause_frames = &mut self.pause_frames[port.index()];
        let say = pause_frames.next()?;
        let operation = match say {
            Say::Pause => Operation::Pause(time),
            Say::Resume => Operation::Resume,
        };
        let mut frame = FlowPauseWriter::new(bytes, from, operation, self.pfc.class());
        let egress = &mut self.egress;
        pause_frames.tell(now, say, |id| {
            let flows = &mut egress[id.egress.index()].flows;
            frame.push(&flows.entry(id.flow).key).then(|| flows.was_told(id.flow, say)).is_some()
        });
        Some(Told { len: frame.finish().len(), resumes: say == Say::Resume })
    }

    /// As if the peer of `port` had been told all that is due, at once and for good: a policy that is not
    /// heard ([`super::Shadow`]) waits for no line.
    pub(super) fn tell_nobody(&mut self, port: PortId) {
        let egress = &mut self.egress;
        let pause_frames = &mut self.pause_frames[port.index()];
        while let Some(say) = pause_frames.next() {
            pause_frames.tell(Nanos::ZERO, say, |id| {
                egress[id.egress.index()].flows.was_told(id.flow, say);
                true
            });
        }
    }

    /// The peer of `port` is to resume every flow.
    pub fn let_go(&mut self, port: PortId) {
        let egress = &mut self.egress;
        self.pause_frames[port.index()].let_go(|id, to_be_told| {
            let asked = if to_be_told { Asked::Leaving } else { Asked::No };
            egress[id.egress.index()].flows.set_asked(id.flow, asked);
        });
    }

    /// The peer of `port` has no flow paused any more, whatever it was told.
    pub fn forget_told(&mut self, port: PortId) {
        let egress = &mut self.egress;
        let ended = |id: FlowId| egress[id.egress.index()].flows.set_asked(id.flow, Asked::No);
        self.pause_frames[port.index()].forget_told(ended);
    }

    /// Whether the peer of `port` may have a flow paused because it was told so.
    #[must_use]
    pub fn has_told(&self, port: PortId) -> bool {
        self.pause_frames[port.index()].has_told()
    }

    /// How many flows the peer of `port` is asked to pause.
    #[must_use]
    pub fn flows_asked(&self, port: PortId) -> usize {
        self.pause_frames[port.index()].asked()
    }

    /// How many flows the peer of `port` has paused here.
    #[must_use]
    pub fn flows_paused(&self, port: PortId) -> usize {
        self.egress[port.index()].congested.len()
    }

    /// What the tables of `port` hold now.
    #[must_use]
    pub fn table_bytes(&self, port: PortId) -> TableBytes {
        let Egress { flows, congested } = &self.egress[port.index()];
        TableBytes {
            flow_in_port: flows.bytes(),
            congested_flow: congested.bytes(),
            pause_frame: self.pause_frames[port.index()].bytes(),
        }
    }
}

impl Egress {
    fn new(settings: &OfcSettings, ports: usize) -> Egress {
        Egress {
            flows: FlowTable::new(settings.flows, ports),
            congested: CongestedFlows::new(settings.congested_flows as usize),
        }
    }
}

impl FlowTable {
    /// A culprit that came in through `ingress` and waits here, and has yet to be asked for.
    fn first_of(&self, ingress: PortId, culprits: Culprits) -> Option<u32> {
        let congested = self.first_in(Chain { ingress, congested: true });
        match culprits {
            Culprits::Paused => congested,
            Culprits::All => congested.or_else(|| self.first_in(Chain { ingress, congested: false })),
        }
    }

    /// The peer that the flow comes from has been told: with a resume that is the end of it.
    fn was_told(&mut self, flow: u32, say: Say) {
        if say == Say::Resume {
            self.set_asked(flow, Asked::No);
        }
    }
}

#[cfg(test)]
mod tests;
