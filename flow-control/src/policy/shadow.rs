//! Shadow policies get the acting policy's events, but have no effect. Counters show which peers they would have
//! paused.
//!
//! A lost frame counts against a shadow that requested no pause of the frame's sender. A shadow of OFC also gets the
//! peers' flow pauses, and has its own flow tables.

use xoff_wire::FlowKey;
use xoff_wire::units::{BitRate, CLASSES, Class, ClassSet, Nanos, PortId};

use super::{Capabilities, Event, Intent, Policy};
use crate::buffer::Buffer;
use crate::counters::ShadowCounters;
use crate::policy::NO_FLOW;
use crate::settings::{PolicyKind, SwitchSettings};

/// Policies, one for each class, that observe events but have no effect.
#[derive(Debug)]
pub struct Shadow {
    policies: [Policy; CLASSES],
    demands: Box<[[ClassSet; CLASSES]]>,
    lines: Box<[BitRate]>,
    flows: Box<[u32]>,
    capabilities: Option<Capabilities>,
}

impl Shadow {
    /// Creates a worker's shadow policies of `kind`.
    pub fn new(
        kind: PolicyKind,
        settings: &SwitchSettings,
        slots: u32,
        capabilities: &Capabilities,
    ) -> Shadow {
        let flows = if kind == PolicyKind::Ofc { slots as usize } else { 0 };
        Shadow {
            policies: Class::ALL.map(|class| Policy::new(kind, class, settings)),
            demands: vec![[ClassSet::NONE; CLASSES]; settings.ports.len()].into_boxed_slice(),
            lines: settings.ports.iter().map(|port| port.speed).collect(),
            flows: vec![NO_FLOW; flows].into_boxed_slice(),
            capabilities: (kind == PolicyKind::Custom).then(|| capabilities.clone()),
        }
    }

    /// Ends the pauses that this shadow requests, and starts its `successor` with the frames in the buffer.
    pub fn give_way(
        &mut self,
        successor: &mut Shadow,
        now: Nanos,
        buffer: &Buffer,
        intents: &mut Vec<Intent>,
        counters: &[[ShadowCounters; CLASSES]],
    ) {
        for (port, of_port) in (0..=u8::MAX).map(PortId).zip(counters) {
            for (class, of_class) in Class::ALL.into_iter().zip(of_port) {
                for by in self.demands[port.index()][class.index()].iter() {
                    self.note(now, by, Intent::Xon { port, class }, counters);
                }
                of_class.flows.now.set(0);
                of_class.rate.now.set(0);
            }
        }
        std::mem::swap(self, successor);
        for class in Class::ALL {
            self.policies[class.index()].adopt(buffer, intents);
            if let Some(capabilities) = &self.capabilities {
                capabilities.restrict(class, intents);
            }
            intents.drain(..).for_each(|intent| self.note(now, class, intent, counters));
        }
    }

    /// Returns whether the shadow now requests a pause of `class` at `port`'s peer.
    pub fn holds(&self, port: PortId, class: Class) -> bool {
        !self.demands[port.index()][class.index()].is_empty()
    }

    /// Handles an event and counts the intents in this shadow's `counters`. `intents` is scratch space.
    #[inline(always)] // the kind of event is constant at each call
    pub fn observe(
        &mut self,
        now: Nanos,
        class: Class,
        event: Event,
        buffer: &Buffer,
        intents: &mut Vec<Intent>,
        counters: &[[ShadowCounters; CLASSES]],
    ) {
        self.policies[class.index()].observe(now, event, buffer, intents);
        if !intents.is_empty() {
            let refused =
                self.capabilities.as_ref().map_or(0, |capabilities| capabilities.restrict(class, intents));
            counters[event.port().index()][class.index()].refused.add(refused);
            intents.drain(..).for_each(|intent| self.note(now, class, intent, counters));
        }
    }

    #[cold]
    fn note(&mut self, now: Nanos, by: Class, intent: Intent, counters: &[[ShadowCounters; CLASSES]]) {
        let counters = |port: PortId, class: Class| &counters[port.index()][class.index()];
        match intent {
            Intent::Xoff { port, class, .. } => {
                let demands = &mut self.demands[port.index()][class.index()];
                if demands.is_empty() {
                    counters(port, class).xoff.add(1);
                    counters(port, class).held_since.set(now.0.max(1));
                }
                demands.insert(by);
            }
            Intent::Xon { port, class } => {
                let demands = &mut self.demands[port.index()][class.index()];
                let held = !demands.is_empty();
                demands.remove(by);
                if held && demands.is_empty() {
                    let since = counters(port, class).held_since.get();
                    counters(port, class).held_nanos.add(now.0.saturating_sub(since));
                    counters(port, class).held_since.set(0);
                }
            }
            Intent::PauseFlows { port, count } => {
                counters(port, by).flows.pause(count);
                self.discard_frames(port, by, counters(port, by));
            }
            Intent::ResumeFlows { port } => {
                counters(port, by).flows.resumes.add(1);
                self.discard_frames(port, by, counters(port, by));
            }
            Intent::Rate { port, class, step } => {
                counters(port, class).rate.record(step, self.lines[port.index()]);
            }
        }
    }

    fn discard_frames(&mut self, port: PortId, class: Class, counters: &ShadowCounters) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            ofc.discard_frames(port);
            counters.flows.now.set(ofc.requested_flows(port) as u64);
        }
    }
}

impl Shadow {
    /// Returns whether the shadow counts flows (OFC).
    pub const fn counts_flows(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Counts the frame in `slot`, which is about to be queued at `egress`.
    pub fn packet_in(
        &mut self,
        now: Nanos,
        slot: u32,
        class: Class,
        [ingress, egress]: [PortId; 2],
        key: &FlowKey,
    ) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            while ofc.pop_expired(egress, now).is_some() {}
            self.flows[slot as usize] = ofc.packet_in(egress, ingress, key);
        }
    }

    /// Counts the departure of the frame in `slot` from `egress`.
    pub fn packet_out(&mut self, slot: u32, class: Class, egress: PortId) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            ofc.packet_out(egress, std::mem::replace(&mut self.flows[slot as usize], NO_FLOW));
        }
    }

    /// Records that `port`'s peer pauses the flows in `flows` until `until`.
    pub fn pause_flows(
        &mut self,
        port: PortId,
        class: Class,
        until: Nanos,
        flows: impl Iterator<Item = FlowKey>,
    ) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            flows.for_each(|flow| _ = ofc.pause_flow(port, &flow, until));
        }
    }

    /// Records whether `port`'s peer pauses the whole `class`.
    pub fn class_is_paused(&mut self, port: PortId, class: Class, is_paused: bool) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            ofc.class_is_paused(port, is_paused);
        }
    }

    /// Records that `port`'s peer resumes the flows in `flows`.
    pub fn resume_flows(&mut self, port: PortId, class: Class, flows: impl Iterator<Item = FlowKey>) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            flows.for_each(|flow| _ = ofc.resume_flow(port, &flow));
        }
    }

    /// Records that `port`'s peer resumes all flows of `class`.
    pub fn resume_all_flows(&mut self, port: PortId, class: Class) {
        if let Policy::Ofc(ofc) = &mut self.policies[class.index()] {
            while ofc.pop_expired(port, Nanos::NEVER).is_some() {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::policy::TableBytes;
    use crate::testing::port_settings;

    const C3: Class = Class::ALL[3];
    const IN: PortId = PortId(0);
    const OUT: PortId = PortId(1);

    fn shadow() -> Shadow {
        let settings = SwitchSettings {
            ports: vec![port_settings(0), port_settings(1)],
            accounting: Default::default(),
            memory: Default::default(),
            lossy_pool: Default::default(),
            when_full: Default::default(),
            pipeline: Default::default(),
            policies: Default::default(),
            shadows: vec![PolicyKind::Ofc],
            policy: Default::default(),
            hash: Default::default(),
            fdb: crate::settings::FdbSettings {
                capacity: 16,
                ageing: None,
                statics: Vec::new(),
                seed: crate::settings::HashSeed::PUBLIC,
            },
            vlans: Vec::new(),
            routed_vlans: Vec::new(),
            multicast: Default::default(),
            groups: Vec::new(),
            qcn: Default::default(),
        };
        Shadow::new(PolicyKind::Ofc, &settings, 8, &Capabilities::new(&settings.ports, |_| true))
    }

    #[test]
    fn shadow_policy_keeps_paused_flow_until_peer_resumes_it() {
        let mut shadow = shadow();
        let key = FlowKey::V4 { protocol: 17, ports: [1, 2], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] };
        shadow.packet_in(Nanos(0), 5, C3, [IN, OUT], &key);
        shadow.pause_flows(OUT, C3, Nanos(100), [key].into_iter());
        let tables = |shadow: &Shadow| shadow.policies[3].as_ofc().unwrap().table_bytes(OUT);
        assert!(tables(&shadow).flow_in_port > 0 && tables(&shadow).congested_flow > 0);
        shadow.packet_out(5, C3, OUT);
        assert!(tables(&shadow).flow_in_port > 0, "a flow paused by the peer must stay in the table");
        shadow.resume_flows(OUT, C3, [key].into_iter());
        assert_eq!(tables(&shadow), TableBytes::default());
    }

    #[test]
    fn shadow_policy_forgets_flow_pause_when_it_expires() {
        let mut shadow = shadow();
        let flow = |n| FlowKey::V4 { protocol: 17, ports: [n, 2], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] };
        shadow.packet_in(Nanos(0), 0, C3, [IN, OUT], &flow(0));
        shadow.pause_flows(OUT, C3, Nanos(100), [flow(0)].into_iter());
        for (n, now, paused) in [(1, 99, true), (2, 100, false)] {
            shadow.packet_in(Nanos(now), n.into(), C3, [IN, OUT], &flow(n));
            let bytes = shadow.policies[3].as_ofc().unwrap().table_bytes(OUT).congested_flow;
            assert_eq!(bytes > 0, paused, "at {now} ns: the flow's pause must end at 100 ns");
        }
    }
}
