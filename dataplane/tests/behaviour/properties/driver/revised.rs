use xoff_dataplane::switch::{Revision, WorkerId, Workers};
use xoff_flow_control::settings::FlowControl;
use xoff_wire::units::{Bytes, Class, Nanos};

use super::super::settings::AnyPort;
use super::Driver;

#[derive(Clone, Debug)]
pub struct Revised {
    pub ports: Vec<AnyPort>,
    pub is_lossless: bool,
    pub is_tagged: bool,
}

impl Driver {
    pub(super) fn revise(&mut self, revised: &Revised) {
        let Revised { ports, is_lossless, is_tagged } = revised;
        let mut settings = self.plan.settings.clone();
        for class in Class::ALL {
            settings.policies[class.index()] = self.workers[0].policy(class);
        }
        for (port, change) in settings.ports.iter_mut().zip(ports) {
            change.revise(port);
            port.classes[3].lossless = *is_lossless;
            port.classes[3].headroom = if *is_lossless { Bytes(1_500) } else { Bytes::ZERO };
        }
        for vlan in settings.vlans.iter_mut().filter(|_| *is_tagged) {
            vlan.tagged.append(&mut vlan.untagged);
        }
        for (me, worker) in (0..=u8::MAX).map(WorkerId).zip(&mut self.workers) {
            let id = |owner: &usize| WorkerId(u8::try_from(*owner).expect("more than 255 workers"));
            let roles = Workers::new(self.owners.iter().map(id).collect(), me);
            let slots = self.plan.slots + self.plan.control_slots;
            let revision = Box::new(Revision::new(settings.clone(), &roles, slots));
            drop(worker.batch(self.now).revise(revision));
        }
        for (port, now) in settings.ports.iter().enumerate() {
            let FlowControl::Pfc { obey, .. } = now.flow_control else { continue };
            for class in Class::ALL.into_iter().filter(|class| !obey.contains(*class)) {
                self.paused_until[port][class.index()] = Nanos::ZERO;
            }
        }
        for class in Class::ALL {
            self.flow_pauses.iter_mut().for_each(|pauses| pauses.clear(class));
            self.of_no_flow[class.index()] = self.next_number;
        }
        self.before.push(std::mem::replace(&mut self.plan.settings, settings));
    }
}
