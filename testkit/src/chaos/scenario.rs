//! Random scenario that a seed determines, in plain values, so that a failing scenario can be shrunk.

use xoff_flow_control::settings::{
    Accounting, PolicyKind, QueueKind, WatchdogAction, WatchdogSettings, WhenFull,
};
use xoff_sim::{ControlFaults, Picos};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use crate::bed::SwitchPlan;
use crate::bed::plan::{self, KEEPING, LINK, LOSSLESS, MTU_FRAME, XOFF, XON};

const BUSY: u64 = 12_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlannedFlow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) class: Class,
    pub(super) len: u32,
    pub(super) count: u64,
    pub(super) rate: Option<BitRate>,
    pub(super) start: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Flap(usize, u8, Nanos),
    Stall(usize, Nanos),
    Refuse(usize, u8, Nanos),
    CompleteLate(usize, Nanos),
    Replace(usize, Class, PolicyKind),
    /// Sets XOFF and XON of a switch to a number of eighths of their planned values.
    Revise(usize, u64),
    Pause(usize, Class, u16),
    Restart(usize),
}

impl Action {
    fn may_harm(self) -> bool {
        matches!(self, Action::Flap(..) | Action::Stall(..) | Action::Refuse(..) | Action::Restart(_))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) parents: Vec<usize>,
    /// True if frames cross a ring of switches in one direction, so that full queues can block each other.
    pub(super) is_ring: bool,
    pub(super) hosts: usize,
    pub(super) policy: PolicyKind,
    pub(super) shadows: Vec<PolicyKind>,
    pub(super) understand: bool,
    pub(super) accounting: Accounting,
    pub(super) when_full: WhenFull,
    pub(super) queue: QueueKind,
    pub(super) workers: u8,
    pub(super) xoff: Bytes,
    pub(super) xon: Bytes,
    pub(super) has_twins: bool,
    pub(super) unruly: Option<usize>,
    pub(super) flows: Vec<PlannedFlow>,
    pub(super) faults: Vec<(usize, u8, ControlFaults)>,
    pub(super) actions: Vec<(Nanos, Action)>,
}

const WATCHDOG: WatchdogSettings = WatchdogSettings {
    action: WatchdogAction::Drop,
    detect: Nanos::from_millis(1),
    restore: Nanos::from_millis(2),
    share: WatchdogSettings::UNBROKEN,
};

impl Scenario {
    pub(super) fn of(seed: u64) -> Scenario {
        let mut rng = fastrand::Rng::with_seed(seed);
        let is_ring = rng.u8(0..10) == 0;
        let switches = if is_ring { rng.usize(3..=4) } else { rng.usize(1..=4) };
        let before =
            |switch: usize, rng: &mut fastrand::Rng| if is_ring { switch - 1 } else { rng.usize(0..switch) };
        let parents: Vec<usize> = (1..switches).map(|switch| before(switch, &mut rng)).collect();
        let hosts = rng.usize(2..=4);
        let (accounting, when_full) = KEEPING[if rng.bool() { 0 } else { rng.usize(0..KEEPING.len()) }];
        let workers = if rng.u8(0..4) == 0 { 2 } else { 1 };
        let eighths = rng.u64(4..=16);
        let mut scenario = Scenario {
            seed,
            parents,
            is_ring,
            hosts,
            policy: PolicyKind::Pfc,
            shadows: Vec::new(),
            understand: rng.bool(),
            accounting,
            when_full,
            queue: if rng.u8(0..3) == 0 { QueueKind::Voq } else { QueueKind::Fifo },
            workers: if when_full == WhenFull::Stop { 1 } else { workers },
            xoff: Bytes(XOFF.0 * eighths / 8),
            xon: Bytes(XON.0 * eighths / 8),
            has_twins: rng.u8(0..8) == 0,
            unruly: None,
            flows: Vec::new(),
            faults: Vec::new(),
            actions: Vec::new(),
        };
        scenario.policy = if rng.bool() { scenario.any_policy(&mut rng) } else { PolicyKind::Pfc };
        if rng.u8(0..4) == 0 {
            scenario.shadows = (0..rng.usize(1..=2)).map(|_| scenario.any_policy(&mut rng)).collect();
        }
        let all = scenario.hosts * switches;
        let frames_max = if rng.bool() { 1_200 } else { 5_000 };
        scenario.flows = (0..rng.usize(4..=24)).map(|_| flow(all, frames_max, &mut rng)).collect();
        if is_ring {
            scenario.flows.extend((0..all).map(|from| round(from, (from + 2 * scenario.hosts) % all)));
            return scenario;
        }
        let is_harmless = rng.u8(0..3) == 0;
        for _ in 0..rng.usize(0..=12) {
            let action = scenario.any_action(&mut rng);
            if !is_harmless || !action.may_harm() {
                scenario.actions.push((Nanos(rng.u64(0..BUSY)), action));
            }
        }
        scenario.actions.sort_by_key(|(at, _)| *at);
        if !is_harmless && rng.u8(0..4) == 0 {
            scenario.unruly = Some(rng.usize(1..all));
            scenario.flows.extend((0..6).map(|_| PlannedFlow {
                from: scenario.unruly.unwrap_or_default(),
                to: 0,
                class: Class::ALL[3],
                len: rng.u32(60..140),
                count: 1_500,
                rate: None,
                start: Nanos(rng.u64(0..BUSY / 4)),
            }));
        }
        if !is_harmless && rng.bool() {
            for _ in 0..rng.usize(1..=4) {
                let switch = rng.usize(0..switches);
                let port = scenario.any_port(switch, &mut rng);
                scenario.faults.push((switch, port, control_faults(&mut rng)));
            }
        }
        scenario
    }

    pub(super) fn switches(&self) -> usize {
        self.parents.len() + 1
    }

    pub(super) fn may_harm(&self) -> bool {
        self.is_ring
            || self.unruly.is_some()
            || !self.faults.is_empty()
            || self.actions.iter().any(|(_, action)| action.may_harm())
    }

    /// Returns whether two switches whose pipelines stop at full queues may block each other forever.
    pub(super) fn may_stand_still(&self) -> bool {
        self.when_full == WhenFull::Stop && self.switches() > 1
    }

    pub(super) fn uplink(&self, switch: usize) -> (u8, u8) {
        let before = (1..switch).filter(|other| self.parents[other - 1] == self.parents[switch - 1]).count();
        let parent = self.parents[switch - 1];
        let first = self.hosts + usize::from(parent > 0);
        (port(self.hosts), port(first + before))
    }

    fn ports(&self, switch: usize) -> usize {
        let children = self.parents.iter().filter(|parent| **parent == switch).count();
        let closes = self.is_ring && (switch == 0 || switch == self.parents.len());
        self.hosts + usize::from(switch > 0) + children + usize::from(closes)
    }

    pub(super) fn closing(&self) -> Option<(u8, u8)> {
        let last = |switch: usize| port(self.ports(switch) - 1);
        self.is_ring.then(|| (last(self.parents.len()), last(0)))
    }

    pub(super) fn onward(&self, switch: usize) -> Option<u8> {
        let (last, _) = self.closing()?;
        Some(if switch == self.parents.len() { last } else { self.uplink(switch + 1).1 })
    }

    pub(super) fn plan(&self, switch: usize) -> SwitchPlan {
        let ports = self.ports(switch);
        let mut plan = plan::switch(&vec![LINK; ports]);
        let lossless = (self.xoff.0 + plan.settings.ports[0].classes[3].headroom.0) * 2 * ports as u64;
        let (queue, waits) = (self.queue, self.when_full == WhenFull::Stop);
        plan.settings.accounting = self.accounting;
        plan.settings.when_full = self.when_full;
        plan.settings.policies = [self.policy; 8];
        plan.settings.shadows.clone_from(&self.shadows);
        plan.each_port(|port| {
            for class in &mut port.classes {
                class.queue = queue;
            }
        });
        for (number, port) in plan.settings.ports.iter_mut().enumerate() {
            port.gfc_peer = self.understand;
            port.ofc_peer = self.understand && number >= self.hosts;
        }
        if self.is_ring {
            plan.each_lossless(|class| class.watchdog = Some(WATCHDOG));
        }
        let (xoff, xon) = (self.xoff, self.xon);
        plan.each_lossless(|class| {
            (class.xoff, class.xon) = (xoff, xon);
            class.egress_max = if waits { Bytes(20_000) } else { Bytes(lossless + 1) };
        });
        if self.workers > 1 {
            plan.owners = (0..port(ports)).map(|port| port % self.workers).collect();
        }
        (plan.may_lose, plan.may_lapse) = (self.may_harm(), self.may_harm());
        plan
    }

    pub(super) fn leaf_of_nobody(&self) -> Option<usize> {
        if self.is_ring {
            return None;
        }
        let last = self.switches() - 1;
        let first_host = last * self.hosts;
        let is_used = self.unruly.is_some_and(|host| host >= first_host)
            || self.flows.iter().any(|flow| flow.from.max(flow.to) >= first_host)
            || self
                .faults
                .iter()
                .any(|(switch, port, _)| *switch == last || self.leads_to(*switch, *port, last))
            || self.actions.iter().any(|(_, action)| match *action {
                Action::Flap(switch, port, _) | Action::Refuse(switch, port, _) => {
                    switch == last || self.leads_to(switch, port, last)
                }
                Action::Stall(switch, _)
                | Action::CompleteLate(switch, _)
                | Action::Replace(switch, ..)
                | Action::Revise(switch, _)
                | Action::Restart(switch) => switch == last,
                Action::Pause(host, ..) => host >= first_host,
            });
        (last > 0 && !is_used).then_some(last)
    }

    fn leads_to(&self, switch: usize, port: u8, child: usize) -> bool {
        child > 0 && self.parents[child - 1] == switch && self.uplink(child).1 == port
    }

    pub(super) fn cut(&mut self, last: usize) {
        self.parents.truncate(last - 1);
    }

    fn any_policy(&self, rng: &mut fastrand::Rng) -> PolicyKind {
        let kind = PolicyKind::ALL[rng.usize(0..PolicyKind::ALL.len())];
        let settings = self.plan(0).settings;
        let fits = LOSSLESS.iter().all(|class| kind.misfit(class, &settings).is_none());
        if fits && (self.workers == 1 || !kind.needs_one_worker(None)) { kind } else { PolicyKind::Pfc }
    }

    fn any_port(&self, switch: usize, rng: &mut fastrand::Rng) -> u8 {
        rng.u8(0..port(self.ports(switch)))
    }

    fn any_action(&self, rng: &mut fastrand::Rng) -> Action {
        let switch = rng.usize(0..self.switches());
        let at = self.any_port(switch, rng);
        let span = Nanos(rng.u64(1_000..400_000));
        let class = Class::ALL[rng.usize(3..5)];
        match rng.u8(0..9) {
            0 => Action::Flap(switch, at, span),
            1 => Action::Stall(switch, span),
            2 => Action::Refuse(switch, at, span),
            3 => Action::CompleteLate(switch, span),
            4 => Action::Replace(switch, class, self.any_policy(rng)),
            5 => Action::Revise(switch, rng.u64(4..=8)),
            6 | 7 => {
                let quanta = if rng.bool() { 0 } else { rng.u16(1..2_000) };
                Action::Pause(rng.usize(0..self.switches() * self.hosts), class, quanta)
            }
            _ => Action::Restart(switch),
        }
    }
}

fn round(from: usize, to: usize) -> PlannedFlow {
    let start = Nanos::from_micros(100);
    PlannedFlow { from, to, class: Class::ALL[3], len: MTU_FRAME, count: 1_000, rate: None, start }
}

fn flow(hosts: usize, frames_max: u64, rng: &mut fastrand::Rng) -> PlannedFlow {
    let from = rng.usize(0..hosts);
    let to = if rng.bool() { 0 } else { rng.usize(0..hosts) }; // half of the flows go to host 0 (incast)
    PlannedFlow {
        from,
        to: if to == from { (from + 1) % hosts } else { to },
        class: if rng.u8(0..4) > 0 { Class::ALL[rng.usize(3..5)] } else { Class::ALL[rng.usize(0..8)] },
        len: if rng.bool() { MTU_FRAME } else { rng.u32(60..=MTU_FRAME) },
        count: rng.u64(20..frames_max),
        rate: rng.bool().then(|| BitRate::from_mbps(rng.u64(10..900))),
        start: Nanos(rng.u64(0..BUSY / 2)),
    }
}

fn control_faults(rng: &mut fastrand::Rng) -> ControlFaults {
    let mut share = || if rng.bool() { 0 } else { rng.u16(1..200) };
    let (lost, late, again, harmed) = (share(), share(), share(), share());
    ControlFaults { lost, late, again, harmed, late_by: Picos::from_micros(rng.u64(1..100)) }
}

fn port(number: usize) -> u8 {
    u8::try_from(number).expect("the number of ports must fit in 8 bits")
}
