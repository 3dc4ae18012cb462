//! Changes of a running switch's settings, without allocation.
//!
//! Frames stay counted, so the store must hold frames admitted by the old and by the new limits. A peer stays paused if
//! both the old and the new settings pause it. Policies start anew with the present queues, so flow pauses and
//! requested rates end.

use xoff_flow_control::classify::Classifier;
use xoff_flow_control::policy::{Capabilities, Shadow};
use xoff_flow_control::settings::{FlowControl, SwitchSettings};
use xoff_wire::units::{CLASSES, Class, ClassSet, PortId};

use super::micro_flow::MicroFlow;
use super::paths::Paths;
use super::policy_swap::PolicySwap;
use super::port::SwitchPort;
use super::storm_control::StormControl;
use super::workers::Workers;
use super::{Batch, Switch};
use crate::forward::{Groups, Vlans};

/// New settings of a worker, with their memory. After the exchange, it holds the old settings.
#[derive(Debug)]
pub struct Revision {
    settings: SwitchSettings,
    vlans: Vlans,
    groups: Groups,
    paths: Paths,
    classifiers: Box<[Classifier]>,
    capabilities: Capabilities,
    swaps: [Option<Box<PolicySwap>>; CLASSES],
    shadows: Box<[Shadow]>,
    unplaced: usize,
}

impl Revision {
    /// Prepares new settings for a worker with `slots` slots. The number of ports, kinds of queues, flow-control mode
    /// and capacity of the forwarding database must not change. Neither must `accounting`, `pipeline`, `when_full`,
    /// `shadows` and `qcn`. The maximum frame length may change only at ports without frames.
    #[must_use]
    pub fn new(settings: SwitchSettings, workers: &Workers, slots: u32) -> Revision {
        let capabilities = Capabilities::new(&settings.ports, |port| workers.owns(port));
        let swap = |class: Class| {
            Some(Box::new(PolicySwap::new(settings.policies[class.index()], class, &settings)))
        };
        Revision {
            vlans: Vlans::new(&settings.vlans, &settings.ports).with_routers(&settings.routed_vlans),
            groups: Groups::new(&settings),
            paths: Paths::new(&settings),
            classifiers: settings.ports.iter().map(Classifier::new).collect(),
            swaps: Class::ALL.map(swap),
            shadows: settings
                .shadows
                .iter()
                .map(|&kind| Shadow::new(kind, &settings, slots, &capabilities))
                .collect(),
            capabilities,
            settings,
            unplaced: 0,
        }
    }

    /// Returns how many static addresses of the new settings do not fit into the forwarding database.
    #[must_use]
    pub const fn unplaced(&self) -> usize {
        self.unplaced
    }
}

impl Batch<'_> {
    /// Replaces the settings without losing frames, allocating or freeing.
    #[must_use = "the returned old settings are large: drop them outside the packet loop"]
    pub fn revise(&mut self, revision: Box<Revision>) -> Box<Revision> {
        self.switch.revise(revision)
    }
}

impl Switch {
    fn revise(&mut self, mut revision: Box<Revision>) -> Box<Revision> {
        self.end_run();
        let Revision { settings, vlans, groups, paths, classifiers, capabilities, swaps, shadows, unplaced } =
            &mut *revision;
        let lossless = settings.lossless_anywhere();
        let count = self.ports.len();
        let ports = || (0..=u8::MAX).map(PortId).take(count);
        self.outbox.revise();
        self.buffer.revise(settings);
        self.accounts.bound(lossless);
        *unplaced = self.bridge.revise(settings, vlans, groups);
        std::mem::swap(&mut self.paths, paths);
        std::mem::swap(&mut self.policies.capabilities, capabilities);
        for port in ports() {
            let mac = self.ports[port.index()].settings.mac;
            let of_port = &mut settings.ports[port.index()];
            of_port.mac = mac; // of the current device
            std::mem::swap(&mut *self.ports[port.index()].settings, of_port);
            let classifier = &mut self.ports[port.index()].ingress.classifier;
            std::mem::swap(classifier, &mut classifiers[port.index()]);
            self.revise_port(port, lossless);
        }
        for class in Class::ALL {
            let swap = swaps[class.index()].take().expect("the revision must have a policy for each class");
            swaps[class.index()] = Some(self.set_policy(swap));
        }
        self.revise_shadows(shadows);
        self.pipeline.try_again(self.now);
        self.ready.timed = self.workers.own();
        self.ready.next_timer = self.now;
        self.ready.egress_active =
            self.workers.own().iter().filter(|port| self.ports[port.index()].up).collect();
        revision
    }

    fn revise_port(&mut self, port: PortId, lossless: ClassSet) {
        let at = &mut self.ports[port.index()];
        let SwitchPort { settings, ingress, egress, peer, punts, .. } = at;
        ingress.micro_flow = MicroFlow::default();
        ingress.mtu_frame = settings.mtu_frame;
        *ingress.storm_control = StormControl::new(settings);
        egress.revise(self.now, settings, lossless);
        peer.held.set_refresh(self.now, settings.refresh);
        peer.requested_rates.set_refresh(self.now, settings.refresh);
        punts.revise(self.now, settings.punt_limit);
        peer.response.revise(settings);
        peer.paused.set_rate(settings.speed);
        peer.kept_rates.set_line(settings.speed);
        if !self.workers.owns(port) {
            return;
        }
        let ended = peer.watchdog.revise(settings.classes.map(|class| class.watchdog));
        let obeyed = match settings.flow_control {
            FlowControl::Pfc { obey, .. } => obey,
            FlowControl::Pause8023x | FlowControl::Ignore => ClassSet::ALL,
        };
        if !settings.ofc_peer {
            peer.paused_for_flows = ClassSet::NONE; // pauses apply to whole classes from here on
        }
        let not_obeyed = ClassSet(peer.paused.classes().0 & !obeyed.0);
        let resumed = peer.paused.receive(self.now, not_obeyed, &Default::default());
        ended.iter().for_each(|class| self.end_storm(port, class));
        self.note_resumed(port, &resumed);
        self.watch_pauses(port, ClassSet::ALL);
        self.keep_rates(port, ClassSet::ALL);
        self.note_announcements(port);
        self.buffer.show_port(port);
    }

    fn revise_shadows(&mut self, replacements: &mut [Shadow]) {
        let Switch { policies, buffer, counters, now, .. } = self;
        for (number, (shadow, replacement)) in policies.shadows.iter_mut().zip(replacements).enumerate() {
            shadow.give_way(replacement, *now, buffer, &mut policies.intents, counters.shadow(number));
        }
    }
}
