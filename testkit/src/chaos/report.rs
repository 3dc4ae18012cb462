//! What a run of many seeds says.

use std::fmt;

use xoff_flow_control::cause::Trigger;
use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::Nanos;

use crate::bed::Promise;

/// How much was run, and how much went wrong on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub seeds: u64,
    /// Events, in all of them.
    pub events: u64,
    /// Runs in which nothing moved any more in the end.
    pub came_to_rest: u64,
    /// Frames that hosts have received.
    pub frames: u64,
    /// XOFFs that switches have sent.
    pub xoffs: u64,
    /// Frames that were lost on links.
    pub lost: u64,
    /// Pause frames that came late, or again.
    pub late: u64,
    /// Pause frames that came with a byte changed.
    pub harmed: u64,
    /// Frames that switches have dropped, by reason.
    pub drops: [u64; DropReason::COUNT],
    /// Runs to which the promise of no lossless loss does not apply, because of what the run does on purpose.
    pub exempt_runs: u64,
    /// Lossless frames that switches have dropped in these runs, of reasons that the promise covers elsewhere.
    pub exempt_losses: u64,
    /// Times that peers began to be held, by what made a policy want it.
    pub causes: [u64; Trigger::COUNT],
    /// One number for all that has happened.
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

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub promise: Promise,
    /// When.
    pub at: Nanos,
    /// What was seen.
    pub what: String,
    /// The events before it, the last of them last.
    pub last: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// With which seed: [`run`](super::run) with it alone finds it again.
    pub seed: u64,
    /// At which event of the run.
    pub event: u64,
    /// What was broken.
    pub breach: Breach,
    /// The smallest scenario found in which the same promise is broken.
    pub shrunk: Shrunk,
}

/// A scenario made smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// All that is left of it.
    pub scenario: String,
    /// At which event.
    pub event: u64,
    /// What was broken in it.
    pub breach: Breach,
}

/// All that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events of a run at most.
    pub events_max: u64,
    /// How much was run.
    pub tally: Tally,
    /// The first promise that was broken, by seeds.
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
            "{seeds} runs, {events} events, {frames} frames received, {xoffs} XOFFs; {came_to_rest} came to rest"
        )?;
        writeln!(f, "{lost} frames lost on links, {late} pause frames late or again, {harmed} harmed")?;
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
        writeln!(f, "drops: {drops}; causes of XOFFs: {causes}")?;
        let Tally { exempt_runs, exempt_losses, .. } = self.tally;
        if exempt_losses > 0 {
            writeln!(
                f,
                "{exempt_losses} of the dropped frames were lossless, all in runs without a promise against loss ({exempt_runs} of {seeds}): there a \
                 link fails, a switch stalls or restarts, frames wait in a ring, or a peer ignores, loses or delays pauses"
            )?;
        }
        let Some(found) = &self.found else { return writeln!(f, "no promise was broken") };
        writeln!(f, "seed {}, event {}: {}", found.seed, found.event, found.breach)?;
        write!(f, "smaller, event {}: {}{}", found.shrunk.event, found.shrunk.breach, found.shrunk.scenario)
    }
}
