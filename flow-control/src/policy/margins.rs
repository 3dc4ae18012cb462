//! Tests of [`Policy::margin`]: events within the margin, if omitted, change neither a policy's intents nor its state.

use xoff_wire::units::{Bytes, Nanos, PortId};

use super::bench::{Bench, C3};
use super::{Event, Policy};
use crate::buffer::Margin;
use crate::settings::{PolicyKind, PolicySettings};

const PORTS: u8 = 5;
const STEPS: usize = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Receive,
    Enqueue,
    Dequeue,
    Release,
}

struct SparedPair {
    all: Bench,
    spared: Policy,
    wanted: bool,
}

impl SparedPair {
    fn new(kind: PolicyKind) -> SparedPair {
        let new = || Bench::new(kind, PolicySettings::default());
        SparedPair { all: new(), spared: new().policy, wanted: false }
    }

    fn margin(&self, event: Event) -> Margin {
        let of_policy = self.spared.margin(event, &self.all.buffer);
        match event {
            Event::Received { ingress } => self.all.buffer.margin_below_xoff(ingress, C3).min(of_policy),
            _ => of_policy,
        }
    }

    fn possible(&self, step: Step, from: u8, to: u8) -> u64 {
        let (ingress, egress, buffer) = (PortId(from), PortId(to), &self.all.buffer);
        match step {
            Step::Receive => {
                (buffer.xoff(ingress, C3).0 + 10_000).saturating_sub(buffer.ingress(ingress, C3).0)
            }
            Step::Enqueue => 30_000u64.saturating_sub(buffer.egress(egress, C3).0),
            Step::Dequeue => buffer.between(ingress, egress, C3).0,
            Step::Release => buffer.ingress(ingress, C3).0,
        }
    }

    fn take(&mut self, step: Step, from: u8, to: u8, size: u64, is_spared: bool) {
        let wanted = match step {
            Step::Receive => self.all.receive(from, size),
            Step::Enqueue => self.all.enqueue(from, to, size),
            Step::Dequeue => self.all.dequeue(from, to, size),
            Step::Release => self.all.release(from, size),
        };
        let mut wants = Vec::new();
        if !is_spared {
            let event = event(step, from, to, size);
            self.spared.observe(self.all.now, event, &self.all.buffer, &mut wants);
        }
        assert_eq!(
            wants, wanted,
            "a policy without the events inside its margin (left) must have the intents of one with all events (right): \
             {step:?} of {size} bytes from port {from} to {to}, inside: {is_spared}"
        );
        if is_spared {
            let [spared, all] = [&self.spared, &self.all.policy].map(|policy| format!("{policy:?}"));
            assert!(
                spared == all,
                "without event {step:?} (port {from} to {to}), the state must be as with it:\n{spared}\n{all}"
            );
        }
        self.wanted |= !wanted.is_empty();
    }

    fn take_a_byte(&mut self, step: Step, from: u8, to: u8) -> bool {
        self.wanted = false;
        let before = format!("{:?}", self.all.policy);
        self.take(step, from, to, 1, false);
        self.wanted || format!("{:?}", self.all.policy) != before
    }
}

fn event(step: Step, from: u8, to: u8, size: u64) -> Event {
    let (ingress, egress) = (PortId(from), PortId(to));
    match step {
        Step::Receive => Event::Received { ingress },
        Step::Enqueue => Event::Enqueued { ingress, egress, size: Bytes(size) },
        Step::Dequeue => Event::Dequeued { egress },
        Step::Release => Event::Released { ingress },
    }
}

fn explore(kind: PolicyKind, seed: u64) -> Vec<(Step, bool)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut pair = SparedPair::new(kind);
    let mut ends = Vec::new();
    for at in 0..STEPS {
        pair.all.now = Nanos(at as u64 * 1_000);
        let step = rng
            .choice([Step::Receive, Step::Enqueue, Step::Dequeue, Step::Release])
            .expect("the list of steps must not be empty");
        let (from, to) = (rng.u8(0..PORTS), rng.u8(0..2)); // few egress ports, so that they fill
        let mut margin = pair.margin(event(step, from, to, 0));
        let possible = pair.possible(step, from, to);
        let ends_at =
            (margin.in_bytes() > Bytes::ZERO && margin.bytes < Bytes(possible)).then_some(margin.bytes.0);
        if let Some(bytes) = ends_at.filter(|_| rng.bool()) {
            for size in [bytes - bytes / 2, bytes / 2].into_iter().filter(|&size| size > 0) {
                pair.take(step, from, to, size, true);
            }
            ends.push((step, pair.take_a_byte(step, from, to)));
            continue;
        }
        for _ in 0..rng.u8(1..6) {
            let size = rng.u64(64..1_519).min(pair.possible(step, from, to));
            let is_spared = margin.allows(Bytes(size).into());
            if is_spared {
                margin = Margin { frames: margin.frames - 1, bytes: margin.bytes - Bytes(size) };
            }
            if size > 0 {
                pair.take(step, from, to, size, is_spared);
            }
            if !is_spared {
                margin = pair.margin(event(step, from, to, 0));
            }
        }
    }
    ends
}

#[test] // proves: batches
fn events_that_a_policy_may_skip_do_not_change_its_intents() {
    for kind in PolicyKind::ALL {
        let ends: Vec<(Step, bool)> =
            xoff_explore::seeds(0..4).flat_map(|seed| explore(kind, seed)).collect();
        for step in [Step::Receive, Step::Enqueue, Step::Dequeue, Step::Release] {
            let mut of_step = ends.iter().filter(|(it, _)| *it == step).peekable();
            let ever_ended = of_step.peek().is_some();
            assert!(
                !ever_ended || of_step.any(|(_, led_to)| *led_to),
                "{kind:?}: in some run, a byte beyond the margin of {step:?} must change intents or state"
            );
            let looks_ahead = match step {
                Step::Receive => matches!(
                    kind,
                    PolicyKind::Pfc | PolicyKind::CaPfcStopMax | PolicyKind::CaPfcStopCalibrate
                ),
                Step::Enqueue => {
                    matches!(kind, PolicyKind::CaPfcStopMax | PolicyKind::CaPfcStopCalibrate)
                }
                Step::Dequeue | Step::Release => false,
            };
            assert!(
                ever_ended || !looks_ahead,
                "{kind:?}: some run must reach the end of a margin of {step:?}"
            );
        }
    }
}
