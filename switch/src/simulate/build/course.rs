//! What goes wrong in a scenario.

use miette::miette;
use xoff_config::scenario::{self, Fault};
use xoff_sim::flows::FlowFabric;
use xoff_sim::{At, ControlFaults, NodeId, Picos, Plan, Purpose, Seed};

use super::picos;

/// A link goes down or comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// When.
    pub time: Picos,
    /// Whether it comes up.
    pub is_up: bool,
    /// Which fault says so.
    fault: usize,
}

/// What goes wrong in a run.
#[derive(Debug, Default)]
pub struct Faults {
    ends: Vec<At>,
    /// Those to come, the next one last.
    changes: Vec<Change>,
}

impl Faults {
    /// Of the scenario. What is lost or harmed is from now on.
    ///
    /// # Errors
    /// An end that there is not.
    pub(super) fn new(
        faults: &[Fault],
        plan: &Plan,
        fabric: &mut FlowFabric,
        seed: Seed,
    ) -> miette::Result<Faults> {
        let (mut ends, mut changes) = (Vec::new(), Vec::new());
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
            let change = |time, is_up| Change { time: picos(time), is_up, fault: number };
            changes.extend(fault.down.map(|time| change(time, false)));
            changes.extend(fault.up.map(|time| change(time, true)));
        }
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Faults { ends, changes })
    }

    /// When a link goes down or comes up next.
    #[must_use]
    pub fn next(&self) -> Picos {
        self.changes.last().map_or(Picos::NEVER, |change| change.time)
    }

    /// Those that are due happen.
    pub fn happen(&mut self, fabric: &mut FlowFabric) {
        while self.next() <= fabric.fabric().now()
            && let Some(change) = self.changes.pop()
        {
            fabric.fabric_mut().set_link(self.ends[change.fault], change.is_up);
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
