use std::fmt;

use xoff_flow_control::cause::Trigger;
use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_wire::units::Nanos;

use crate::bed::Promise;

/// Sums of work and faults over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Tally {
    pub seeds: u64,
    pub events: u64,
    /// Runs that ended because no event was left.
    pub came_to_rest: u64,
    pub frames: u64,
    pub xoffs: u64,
    pub lost: u64,
    /// Pause frames that were delayed or duplicated.
    pub late: u64,
    /// Pause frames with a changed byte.
    pub harmed: u64,
    pub drops: [u64; DropReason::COUNT],
    /// Runs whose faults may cause losses of lossless frames.
    pub exempt_runs: u64,
    /// Lossless frames dropped in runs whose faults may cause such drops.
    pub exempt_losses: u64,
    pub causes: [u64; Trigger::COUNT],
    /// Hash of all events, equal for equal runs.
    pub digest: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.came_to_rest += other.came_to_rest;
        self.frames += other.frames;
        self.xoffs += other.xoffs;
        self.lost += other.lost;
        self.late += other.late;
        self.harmed += other.harmed;
        self.exempt_runs += other.exempt_runs;
        self.exempt_losses += other.exempt_losses;
        self.drops.iter_mut().zip(other.drops).for_each(|(sum, more)| *sum += more);
        self.causes.iter_mut().zip(other.causes).for_each(|(sum, more)| *sum += more);
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

/// Broken promise in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Breach {
    pub promise: Promise,
    pub at: Nanos,
    pub what: String,
    /// Last events before the breach, in order.
    pub last: Vec<String>,
}

/// Breach of a promise, with the seed of its run and a smaller scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Finding {
    pub seed: u64,
    pub event: u64,
    pub breach: Breach,
    pub shrunk: Shrunk,
}

/// Smaller scenario that breaks the same promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Shrunk {
    pub scenario: String,
    pub event: u64,
    pub breach: Breach,
}

/// Result of all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Report {
    pub events_max: u64,
    pub tally: Tally,
    /// Breach with the lowest seed, if there was any.
    pub found: Option<Finding>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} at {} ns, after", self.promise, self.what, self.at.0)?;
        self.last.iter().try_for_each(|event| writeln!(f, "    {event}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { seeds, events, came_to_rest, frames, xoffs, lost, late, harmed, .. } = self.tally;
        writeln!(
            f,
            "{seeds} runs, {events} events, {frames} frames received, {xoffs} XOFFs; {came_to_rest} runs came to rest"
        )?;
        writeln!(
            f,
            "{lost} frames lost on links; pause frames: {late} late or duplicated, {harmed} corrupted"
        )?;
        let drops = DropReason::ALL.map(DropReason::name).into_iter().zip(self.tally.drops);
        let causes = Trigger::NAMES.into_iter().zip(self.tally.causes);
        let some = |counts: &mut dyn Iterator<Item = (&str, u64)>| -> String {
            let counts: Vec<String> = counts
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            if counts.is_empty() { "none".into() } else { counts.join(", ") }
        };
        let (drops, causes) = (some(&mut drops.into_iter()), some(&mut causes.into_iter()));
        writeln!(f, "dropped frames: {drops}; causes of XOFFs: {causes}")?;
        let Tally { exempt_runs, exempt_losses, .. } = self.tally;
        if exempt_losses > 0 {
            writeln!(
                f,
                "{exempt_losses} of the dropped frames were lossless, all in the {exempt_runs} of {seeds} runs that may lose frames: there \
                 a link fails, a switch stalls or restarts, frames wait in a ring, or a peer ignores, loses or delays pauses"
            )?;
        }
        let of_kind = |kind| -> u64 {
            let drops = DropReason::ALL.into_iter().zip(self.tally.drops);
            drops.filter(|(reason, _)| reason.kind() == kind).map(|(_, count)| count).sum()
        };
        let (filtered, lost) = (of_kind(DropKind::Filtered), of_kind(DropKind::Lost));
        let lossy = lost.saturating_sub(exempt_losses);
        if filtered + lossy > 0 && self.found.is_none() {
            writeln!(
                f,
                "{lossy} of the dropped frames were in lossy classes, and {filtered} had no egress port: no promise covers them"
            )?;
        }
        let Some(found) = &self.found else { return writeln!(f, "no promise was broken") };
        writeln!(f, "seed {}, event {}: {}", found.seed, found.event, found.breach)?;
        write!(
            f,
            "smaller scenario, event {}: {}{}",
            found.shrunk.event, found.shrunk.breach, found.shrunk.scenario
        )
    }
}
