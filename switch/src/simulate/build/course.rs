//! What happens in a scenario from outside, and when: links that go down and come up, and settings that change.

use std::sync::Arc;

use miette::miette;
use xoff_config::scenario::{self, Fault};
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::Nanos;
use xoff_sim::flows::FlowFabric;
use xoff_sim::{At, ControlFaults, NodeId, Picos, Plan, Purpose, Seed};

use super::picos;

/// Settings of a switch that hold from a time on.
#[derive(Clone, Debug)]
pub struct Revised {
    /// From when on.
    pub at: Nanos,
    /// The number of the change that says so.
    pub change: usize,
    /// The switch.
    pub switch: u32,
    /// All that its kind is told.
    pub settings: Arc<SwitchSettings>,
}

/// Of several at one time, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The link of a fault goes down or comes up.
    Link { fault: usize, is_up: bool },
    /// The settings of a switch change.
    Settings { change: usize, revised: usize },
}

/// What happens in a run.
#[derive(Debug)]
pub struct Course {
    plan: Plan,
    seed: Seed,
    ends: Vec<At>,
    revised: Vec<Revised>,
    /// What is to come, the next last.
    open: Vec<(Picos, What)>,
}

impl Course {
    /// Of faults, and of switches that are told something else. What is lost or harmed is from now on.
    ///
    /// # Errors
    /// An end that there is not.
    pub(super) fn new(
        (faults, revised): (&[Fault], Vec<Revised>),
        plan: Plan,
        fabric: &mut FlowFabric,
        seed: Seed,
    ) -> miette::Result<Course> {
        let (mut ends, mut open) = (Vec::new(), Vec::new());
        for (number, fault) in faults.iter().enumerate() {
            let at = match fault.at {
                scenario::End::Host(host) => At::Host(host),
                scenario::End::Switch(switch, port) => At::Switch(switch, port),
            };
            if !plan.links().iter().any(|&(a, b, _)| a == at || b == at) {
                return Err(miette!("a [[fault]] names {at}, which there is not"));
            }
            harm(fault, at, fabric, seed);
            ends.push(at);
            let change = |time, is_up| (picos(time), What::Link { fault: number, is_up });
            open.extend(fault.down.map(|time| change(time, false)));
            open.extend(fault.up.map(|time| change(time, true)));
        }
        let settings = |(number, of): (usize, &Revised)| {
            (picos(of.at), What::Settings { change: of.change, revised: number })
        };
        open.extend(revised.iter().enumerate().map(settings));
        open.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Course { plan, seed, ends, revised, open })
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Picos {
        self.open.last().map_or(Picos::NEVER, |(time, _)| *time)
    }

    /// What is due happens.
    pub fn happen(&mut self, fabric: &mut FlowFabric) {
        while self.next() <= fabric.fabric().now()
            && let Some((_, what)) = self.open.pop()
        {
            let fabric = fabric.fabric_mut();
            match what {
                What::Link { fault, is_up } => fabric.set_link(self.ends[fault], is_up),
                What::Settings { revised, .. } => {
                    let Revised { switch, settings, .. } = &self.revised[revised];
                    fabric.revise(&self.plan, self.seed, *switch, settings);
                }
            }
        }
    }
}

fn harm(fault: &Fault, at: At, fabric: &mut FlowFabric, seed: Seed) {
    let fabric = fabric.fabric_mut();
    if fault.lost > 0.0 {
        let end = fabric.end(at);
        let stream =
            Seed(seed.number(end.node, Purpose::Faults)).number(NodeId(end.port.0.into()), Purpose::Load);
        let mut rng = fastrand::Rng::with_seed(stream);
        let lost = fault.lost;
        fabric.lose(at, move |_| rng.f64() < lost);
    }
    let control = ControlFaults {
        lost: of_1024(fault.control_lost),
        late: of_1024(fault.control_late),
        again: of_1024(fault.control_again),
        harmed: of_1024(fault.control_harmed),
        late_by: picos(fault.late_by),
    };
    if [control.lost, control.late, control.again, control.harmed].iter().any(|share| *share > 0) {
        fabric.harm_control(at, control, seed);
    }
}

/// A share that is not zero is one of 1,024 at least.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 1
fn of_1024(share: f64) -> u16 {
    (share * 1_024.0).ceil() as u16
}
