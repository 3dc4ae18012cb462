//! Fuzz target: a whole switch under streams, arbitrary frames, link flaps and policy changes. The test bed checks
//! after each event that no guarantee is violated.
//!
//! ```text
//!   bytes --> plan     configuration
//!        `--> script   steps, one after the other, and their frames
//! ```

mod frames;
mod input;
mod plan;

use input::Input;
use xoff_flow_control::classify::Classifier;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{ClassCounters, PortCounters};
use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_flow_control::settings::{
    Accounting, EgressLimits, HeadroomPlace, Memory, SharedMemory, SwitchSettings, WatchdogAction, WhenFull,
};
use xoff_testkit::bed::{Flow, Obeys, Star, Stream};
use xoff_wire::units::{Bytes, Class, Nanos, PortId, Quanta, RateStep};
use xoff_wire::{Header, MacControl, Pfc, Rates};

/// Maximum number of steps per input, which bounds its run time.
const STEPS_MAX: usize = 64;

/// Counts of events by name. An event with a count of zero in all inputs is not exercised.
pub type Reached = [(&'static str, u64); 18];

pub fn check(bytes: &[u8]) -> Reached {
    let mut input = Input(bytes);
    let mut run = Run::new(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        run.step(&mut input);
    }
    if !run.stops {
        run.drain();
    }
    run.no_loss_without_leave();
    if run.stops {
        run.stop(); // nobody is paused from here on
    }
    run.reached()
}

struct Run {
    star: Star,
    settings: SwitchSettings,
    has_one_worker: bool,
    flows: Vec<(Flow, Stream)>,
    /// True if the host at this port sends lossless frames despite pauses.
    unruly: Vec<bool>,
    flapped: Vec<bool>,
    up: Vec<bool>,
    stops: bool,
    flaps: u64,
    policies_replaced: u64,
}

impl Run {
    fn new(input: &mut Input<'_>) -> Run {
        let (plan, response) = plan::any(input);
        let (settings, has_one_worker) = (plan.settings.clone(), plan.owners.is_empty());
        let ports = settings.ports.len();
        let obeys = if response == Nanos::ZERO { Obeys::AtOnce } else { Obeys::Late(response) };
        let mut star = Star::with(plan, |_| obeys);
        for (port, _) in settings.ports.iter().enumerate().filter(|(_, port)| port.gfc_peer) {
            star.keep_rates(port);
        }
        star.run_for(Nanos::ZERO);
        Run {
            star,
            settings,
            has_one_worker,
            flows: Vec::new(),
            unruly: vec![false; ports],
            flapped: vec![false; ports],
            up: vec![true; ports],
            stops: input.below(4) == 3,
            flaps: 0,
            policies_replaced: 0,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let ports = u8::try_from(self.settings.ports.len()).expect("more than 255 ports");
        let port = usize::from(input.below(ports));
        match input.below(14) {
            0 | 1 => self.stream(port, input),
            2 | 3 => {
                let frame = frames::data(input, &self.star);
                (0..=input.below(16)).for_each(|_| self.come(port, &frame));
            }
            4 => self.come(port, &frames::notice(input, &self.star)),
            5 => self.come(port, &frames::any(input)),
            6 => self.come(port, &frames::any_control(input)),
            7 => self.star.pause(port, frames::pfc(input)),
            8 => self.star.pause(port, MacControl::Pause(Quanta(input.number()))),
            9 => self.come(port, &frames::list(input, &self.star)),
            10 => self.come(port, &frames::rates(input).encode(self.star.mac(port))),
            11 => self.set_link(port, !self.up[port]),
            12 => self.replace_policy(input),
            _ => self.star.run_for(input.span()),
        }
    }

    fn stream(&mut self, from: usize, input: &mut Input<'_>) {
        let ports = self.settings.ports.len();
        let to = (from + 1 + usize::from(input.byte()) % (ports - 1)) % ports;
        let class = input.class();
        let stream = Stream {
            len: input.len(),
            rate: input.rate(),
            qcn: input.flag().then(Default::default),
            ..self.star.stream(to, class, 1 + u64::from(input.below(64)))
        };
        match input.below(4) {
            0 => _ = self.star.start_to_all(from, Stream { to: input.address(&self.star), ..stream }),
            _ => self.flows.push((self.star.start(from, to, stream), stream)),
        }
    }

    /// Delivers `bytes` at a port, even if the frame's class is paused.
    fn come(&mut self, port: usize, bytes: &[u8]) {
        let settings = &self.settings.ports[port];
        if let Ok(header) = Header::parse(bytes)
            && !MacControl::is_mac_control(&header)
        {
            let class = Classifier::new(settings).classify(&header);
            self.unruly[port] |= settings.classes[class.index()].lossless;
        }
        self.star.inject(port, bytes);
    }

    fn set_link(&mut self, port: usize, up: bool) {
        if self.up[port] != up {
            self.star.set_link(u8::try_from(port).expect("more than 255 ports"), up);
            (self.up[port], self.flapped[port]) = (up, true);
            self.flaps += 1;
        }
    }

    fn replace_policy(&mut self, input: &mut Input<'_>) {
        let (class, kind) = (input.class(), input.policy());
        let kind = plan::fitting(kind, class, &self.settings);
        if self.has_one_worker || !kind.needs_one_worker(None) {
            self.star.set_policy(class, kind);
            self.policies_replaced += 1;
        }
    }

    fn drain(&mut self) {
        for port in 0..self.settings.ports.len() {
            self.set_link(port, true);
            let all = Class::ALL.into_iter();
            let xon = all.clone().fold(Pfc::default(), |pfc, class| pfc.with(class, Quanta(0)));
            self.star.pause(port, MacControl::Pfc(xon));
            self.star.pause(port, MacControl::Pause(Quanta(0)));
            let full = all.fold(Rates::default(), |rates, class| rates.with(class, RateStep::FULL));
            let mac = self.star.mac(port);
            self.star.inject(port, &full.encode(mac));
        }
        self.star.run_to_rest();
        for (flow, stream) in &self.flows {
            let received = self.star.received(*flow);
            assert_eq!(self.star.at(flow.from).sent(flow.id), stream.count, "{flow:?} is stalled");
            assert_eq!(received.late_or_twice, 0, "{flow:?} is out of order");
            if self.must_come(*flow, stream.class) {
                assert_eq!(
                    received.frames, stream.count,
                    "no counter shows a loss, so all frames of {flow:?} must arrive"
                );
            }
        }
    }

    fn stop(&mut self) {
        self.star.release_peers();
        for port in self.star.switch().ports() {
            let held = self.star.switch().worker(port).held(port).classes();
            assert!(held.is_empty(), "{port:?} holds {held:?}");
        }
        self.star.run_for(Nanos::from_micros(100));
    }

    /// Returns whether every frame of `flow` must arrive: its ports may exchange frames, and none of its class was lost
    /// in the switch, on a wire, or by an empty fill ring.
    fn must_come(&self, flow: Flow, class: Class) -> bool {
        let [from, to] = [flow.from, flow.to];
        let isolated = |port: usize| self.settings.ports[port].isolated;
        let lost = |reason: &DropReason| reason.kind() == DropKind::Lost;
        let mut drops = DropReason::ALL.into_iter().filter(lost);
        let none = drops.all(|reason| self.classes(class, |it| it.drops[reason.index()].get()) == 0);
        let flapped = self.flapped[from] || self.flapped[to];
        none && !flapped && !(isolated(from) && isolated(to)) && self.star.switch().unreceived_frames() == 0
    }

    fn no_loss_without_leave(&self) {
        for (port, settings) in self.star.switch().ports().zip(&self.settings.ports) {
            for class in settings.lossless().iter() {
                let drops = &self.star.switch().counters.class(port, class).drops;
                for reason in DropReason::ALL.into_iter().filter(|it| drops[it.index()].get() > 0) {
                    let spared = reason.kind() != DropKind::Lost || self.may_lose(port, class, reason);
                    assert!(spared, "{port:?} class {class} must lose no frame for reason {}", reason.name());
                }
            }
        }
    }

    fn may_lose(&self, port: PortId, class: Class, reason: DropReason) -> bool {
        let settings = &self.settings.ports[port.index()];
        let floods_may = self.settings.ports.len() > 2;
        match reason {
            DropReason::LinkDown => true,
            DropReason::HeadroomExhausted if self.shares(|it| it.headroom == HeadroomPlace::Pool) => true,
            DropReason::HeadroomExhausted => {
                let starved = self.ports(|port| port.control_starved.get()) > 0;
                let at = port.index();
                self.unruly[at] || self.flapped[at] || starved || !settings.sends().contains(class)
            }
            DropReason::EgressFull => {
                let all: u64 =
                    self.settings.ports.iter().map(|port| port.classes[class.index()].ingress_most().0).sum();
                self.settings.when_full == WhenFull::Drop
                    && (self.settings.accounting == Accounting::UntilForwarded
                        || self.shares(|it| it.egress_limits == EgressLimits::All)
                        || settings.classes[class.index()].egress_max <= Bytes(all))
            }
            DropReason::PausedDiscard => {
                let watchdog = settings.classes[class.index()].watchdog;
                watchdog.is_some_and(|it| it.action == WatchdogAction::Drop)
            }
            DropReason::NoFrames | DropReason::FloodPaused => floods_may,
            _ => false,
        }
    }

    fn shares(&self, so: impl Fn(&SharedMemory) -> bool) -> bool {
        matches!(&self.settings.memory, Memory::Shared(shared) if so(shared))
    }

    fn ports(&self, count: impl Fn(&PortCounters) -> u64) -> u64 {
        let switch = self.star.switch();
        switch.ports().map(|port| count(switch.counters.port(port))).sum()
    }

    fn classes(&self, class: Class, count: impl Fn(&ClassCounters) -> u64) -> u64 {
        self.ports(|port| count(&port.classes[class.index()]))
    }

    fn reached(&self) -> Reached {
        let all = |count: fn(&ClassCounters) -> u64| {
            Class::ALL.iter().map(|&class| self.classes(class, count)).sum()
        };
        let switch = self.star.switch();
        [
            ("frames sent", all(|it| it.tx_frames.get())),
            ("XOFFs sent", all(|it| it.xoff_sent.get())),
            ("XONs sent", all(|it| it.xon_sent.get())),
            ("pauses obeyed", all(|it| it.paused_durations.count())),
            ("lists of flows received", all(|it| it.flows.pause_frames_received.get())),
            ("lists of flows sent", all(|it| it.flows.pause_frames_sent.get())),
            ("rate frames received", self.ports(|it| it.rate_frames_received.get())),
            ("rate frames sent", self.ports(|it| it.rate_frames_sent.get())),
            ("CNMs sent", all(|it| it.cnms_sent.get())),
            ("copies made for floods", switch.worker(PortId(0)).ledger().copied),
            ("floods dropped at paused ports", switch.counters.dropped(DropReason::FloodPaused)),
            ("pause storms", all(|it| it.storms.get())),
            ("malformed MAC control", self.ports(|it| it.malformed_control.iter().map(Counter::get).sum())),
            ("link changes", self.flaps),
            ("replaced policies", self.policies_replaced),
            ("stops", self.stops.into()),
            ("pipeline halts", all(|it| it.halts.get())),
            ("pipelines with a rate or delay", self.settings.pipeline.keeps_frames().into()),
        ]
    }
}
