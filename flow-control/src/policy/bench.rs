use xoff_wire::units::{Bytes, Class, ClassSet, Nanos, PortId};

use super::{Event, Intent, Policy};
use crate::buffer::Buffer;
use crate::cause::Trigger;
use crate::counters::Counters;
use crate::settings::{
    Accounting, FdbSettings, FlowControl, HashSeed, Memory, PolicyKind, PolicySettings, SwitchSettings,
    WhenFull,
};
use crate::testing::port_settings;

pub(super) const C3: Class = Class::ALL[3];

/// Policy and buffer of five ports. XOFF and XON are 20,000 and 10,000 bytes at ingress, 10,000 and 8,000 at egress.
pub(super) struct Bench {
    pub(super) buffer: Buffer,
    pub(super) policy: Policy,
    class: Class,
    pub(super) now: Nanos,
}

impl Bench {
    pub(super) fn new(kind: PolicyKind, policy: PolicySettings) -> Bench {
        Bench::of_class(kind, policy, C3, ClassSet(0b1000), |_| {})
    }

    pub(super) fn of_class(
        kind: PolicyKind,
        policy: PolicySettings,
        class: Class,
        lossless: ClassSet,
        change: impl Fn(&mut SwitchSettings),
    ) -> Bench {
        let mut settings = SwitchSettings {
            ports: (0..5).map(port_settings).collect(),
            accounting: Accounting::default(),
            memory: Memory::Dedicated,
            lossy_pool: Default::default(),
            when_full: WhenFull::Drop,
            pipeline: Default::default(),
            policies: Default::default(),
            shadows: Vec::new(),
            qcn: Default::default(),
            policy,
            hash: Default::default(),
            fdb: FdbSettings { capacity: 16, ageing: None, statics: Vec::new(), seed: HashSeed::PUBLIC },
            vlans: Vec::new(),
            routed_vlans: Vec::new(),
            multicast: Default::default(),
            groups: Vec::new(),
        };
        for port in &mut settings.ports {
            let model = port.classes[C3.index()];
            port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet::ALL };
            port.classes[C3.index()].lossless = false;
            lossless.iter().for_each(|class| port.classes[class.index()] = model);
        }
        change(&mut settings);
        Bench {
            buffer: Buffer::new(&settings, 5, Counters::new(5)),
            policy: Policy::new(kind, class, &settings),
            class,
            now: Nanos::ZERO,
        }
    }

    pub(super) fn at(&mut self, now: u64) -> &mut Bench {
        self.now = Nanos(now);
        self
    }

    pub(super) fn receive(&mut self, port: u8, size: u64) -> Vec<Intent> {
        let ingress = PortId(port);
        self.buffer.enter_ingress(ingress, self.class, Bytes(size)).expect("ingress queues must have room");
        self.observe(Event::Received { ingress })
    }

    pub(super) fn release(&mut self, port: u8, size: u64) -> Vec<Intent> {
        let ingress = PortId(port);
        self.buffer.enter_ingress(ingress, self.class, Bytes::ZERO).expect("ingress queues must have room");
        self.buffer.leave_ingress(ingress, self.class, Bytes(size));
        self.observe(Event::Released { ingress })
    }

    pub(super) fn enqueue(&mut self, from: u8, egress: u8, size: u64) -> Vec<Intent> {
        let (ingress, egress, size) = (PortId(from), PortId(egress), Bytes(size));
        self.buffer.enter_egress(ingress, egress, self.class, size);
        self.observe(Event::Enqueued { ingress, egress, size })
    }

    pub(super) fn dequeue(&mut self, from: u8, egress: u8, size: u64) -> Vec<Intent> {
        let (ingress, egress) = (PortId(from), PortId(egress));
        self.buffer.enter_egress(ingress, egress, self.class, Bytes::ZERO);
        self.buffer.leave_egress(ingress, egress, self.class, Bytes(size));
        self.observe(Event::Dequeued { egress })
    }

    pub(super) fn adopt(&mut self) -> Vec<Intent> {
        let mut intents = Vec::new();
        self.policy.adopt(&self.buffer, &mut intents);
        intents
    }

    fn observe(&mut self, event: Event) -> Vec<Intent> {
        let mut intents = Vec::new();
        self.policy.observe(self.now, event, &self.buffer, &mut intents);
        intents
    }
}

pub(super) fn xoff(port: u8, trigger: Trigger) -> Intent {
    xoff_of(C3, port, trigger)
}

pub(super) fn xon(port: u8) -> Intent {
    Intent::Xon { port: PortId(port), class: C3 }
}

pub(super) fn xoff_of(class: Class, port: u8, trigger: Trigger) -> Intent {
    Intent::Xoff { port: PortId(port), class, trigger }
}
