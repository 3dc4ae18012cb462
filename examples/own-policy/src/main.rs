//! `xoff` with a custom policy, "equal shares". A peer is paused when its port holds more than an equal share of an egress queue's bytes,
//! and resumed at half of that share. PFC's thresholds also apply, so no frame is lost.

use std::process::ExitCode;

use xoff::{OwnPolicy, Parameters};
use xoff_flow_control::cause::Trigger;
use xoff_flow_control::policy::{CustomPolicy, Event, Intent, Occupancies};
use xoff_flow_control::settings::{PolicyFactory, SwitchSettings};
use xoff_wire::units::{Bytes, Class, Nanos, PortId, PortSet};
#[cfg(test)]
mod tests;

fn main() -> ExitCode {
    xoff::main_with(OwnPolicy::new("equal shares", EqualShares::read))
}

/// Settings `[policy.custom]`. `backlog`: limit of an egress queue in bytes, divided equally among the ingress ports of its frames.
#[derive(Debug)]
struct EqualShares {
    backlog: Bytes,
}

impl EqualShares {
    fn read(parameters: &mut Parameters<'_>) -> EqualShares {
        EqualShares { backlog: parameters.bytes("backlog").unwrap_or(Bytes(60_000)) }
    }
}

impl PolicyFactory for EqualShares {
    fn policy(&self, class: Class, settings: &SwitchSettings) -> Box<dyn CustomPolicy> {
        let ports = (0..=u8::MAX).map(PortId).take(settings.ports.len()).collect();
        let (senders, paused) = (settings.senders(class), PortSet::NONE);
        Box::new(OfClass { class, backlog: self.backlog, ports, senders, paused })
    }
}

#[derive(Debug)]
struct OfClass {
    class: Class,
    backlog: Bytes,
    ports: PortSet,
    senders: PortSet,
    paused: PortSet,
}

impl OfClass {
    fn share(&self, egress: PortId, buffer: &dyn Occupancies) -> Bytes {
        let has_some = |port: &PortId| buffer.between(*port, egress, self.class) > Bytes::ZERO;
        Bytes(self.backlog.0 / (self.ports.iter().filter(has_some).count().max(1) as u64))
    }

    fn pause(&mut self, port: PortId, trigger: Trigger, intents: &mut Vec<Intent>) {
        if self.senders.contains(port) && !self.paused.contains(port) {
            self.paused.insert(port);
            intents.push(Intent::Xoff { port, class: self.class, trigger });
        }
    }

    fn may_resume(&self, port: PortId, buffer: &dyn Occupancies) -> bool {
        let has_half =
            |egress: PortId| buffer.between(port, egress, self.class).0 <= self.share(egress, buffer).0 / 2;
        buffer.below_xon(port, self.class) && self.ports.iter().all(has_half)
    }
}

impl CustomPolicy for OfClass {
    fn observe(&mut self, _: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>) {
        match event {
            Event::Received { ingress } if buffer.at_xoff(ingress, self.class) => {
                self.pause(ingress, Trigger::Ingress, intents);
            }
            Event::Enqueued { ingress, egress, .. }
                if buffer.between(ingress, egress, self.class) > self.share(egress, buffer) =>
            {
                self.pause(ingress, Trigger::Egress(egress), intents);
            }
            Event::Dequeued { .. } | Event::Released { .. } => {
                let resume: PortSet =
                    self.paused.iter().filter(|&port| self.may_resume(port, buffer)).collect();
                for port in resume.iter() {
                    self.paused.remove(port);
                    intents.push(Intent::Xon { port, class: self.class });
                }
            }
            Event::Received { .. } | Event::Enqueued { .. } => (),
        }
    }

    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>) {
        let class = self.class;
        for ingress in self.senders.iter().filter(|&port| buffer.ingress(port, class) > Bytes::ZERO) {
            self.observe(Nanos::ZERO, Event::Received { ingress }, buffer, intents);
        }
    }
}
