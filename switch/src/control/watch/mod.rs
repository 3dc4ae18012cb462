//! Logs each fault when it begins, while it lasts, and when it is over. A fault begins when the counter of its
//! [`Condition`] grows, or [`Condition::lasts`] returns true.

mod conditions;
mod lacp;
mod meter;
mod mismatch;
mod paused;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::Nanos;

use self::conditions::{Condition, End, KernelLosses, Location};
use self::meter::Meter;
use self::paused::PausedShares;
use super::judged::OngoingStatus;
use super::view::SwitchView;
use xoff_config::format::span;

const LOOK_EVERY: Duration = Duration::from_millis(100);
const KERNEL_EVERY: u32 = 10;
const OVER_AFTER: Nanos = Nanos::from_secs(5);
/// Minimum time between the two log lines about begin and end of a short fault ([`End::AtOnce`]).
const APART: Nanos = Nanos::from_secs(1);
/// First interval between log lines of a lasting fault. It doubles each time, up to `AGAIN_AFTER_MOST`.
const AGAIN_AFTER: Nanos = Nanos::from_secs(10);
const AGAIN_AFTER_MOST: Nanos = Nanos::from_secs(600);

pub(super) struct ConditionMonitor {
    conditions: Vec<(Condition, ConditionState)>,
    meters: Vec<Meter>,
    paused: Vec<PausedShares>,
    kernel_losses: KernelLosses,
    settings: Arc<SwitchSettings>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ConditionState {
    count: u64,
    episode: Option<Episode>,
}

#[derive(Clone, Copy, Debug)]
struct Episode {
    since: Nanos,
    before: u64,
    last_observed: Nanos,
    tests: u64,
    /// Start of the quiet period after which the fault is over: the last occurrence or, with [`Condition::tests`], the
    /// first occasion without it.
    quiet_since: Option<Nanos>,
    logged_at: Nanos,
    logged_count: u64,
    again_after: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Began,
    GoesOn,
    Over,
    Unwatched,
}

fn all_conditions(view: &SwitchView) -> impl Iterator<Item = Condition> {
    conditions::all(view).into_iter().chain(lacp::all(view))
}

impl ConditionMonitor {
    pub fn new(view: &SwitchView) -> ConditionMonitor {
        let conditions = all_conditions(view).map(|condition| (condition, ConditionState::default()));
        ConditionMonitor {
            conditions: conditions.collect(),
            meters: view.ports.iter().map(|_| Meter::default()).collect(),
            paused: vec![PausedShares::default(); view.ports.len()],
            kernel_losses: KernelLosses::new(view),
            settings: view.settings(),
        }
    }

    fn renew(&mut self, view: &SwitchView, now: Nanos) {
        self.settings = view.settings();
        let with_key =
            |(condition, course): (Condition, ConditionState)| (condition.key(), (condition, course));
        let mut before: BTreeMap<_, _> = self.conditions.drain(..).map(with_key).collect();
        let follow = |condition: Condition| {
            let fresh =
                || ConditionState { count: (condition.count)(view, &self.kernel_losses), episode: None };
            let course = before.remove(&condition.key()).map_or_else(fresh, |(_, course)| course);
            (condition, course)
        };
        self.conditions = all_conditions(view).map(follow).collect();
        for (condition, course) in before.into_values() {
            let Some(episode) = course.episode else { continue };
            let count = (condition.count)(view, &self.kernel_losses);
            log_phase(view, &condition, Phase::Unwatched, &episode, count, now);
        }
    }

    pub async fn run(&mut self, view: &SwitchView) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for number in (0..KERNEL_EVERY).cycle() {
            looks.tick().await;
            if number == 0 {
                self.kernel_losses.read_kernel(view);
            }
            self.look(view, (view.clock)());
        }
    }

    pub fn end(&mut self, view: &SwitchView) {
        self.kernel_losses.read_kernel(view);
        let now = (view.clock)();
        self.look(view, now);
        for (condition, course) in &mut self.conditions {
            if let Some(episode) = course.episode.filter(|episode| course.count > episode.logged_count) {
                log_phase(view, condition, Phase::GoesOn, &episode, course.count, now);
            }
        }
    }

    fn look(&mut self, view: &SwitchView, now: Nanos) {
        let mut changes = !Arc::ptr_eq(&self.settings, &view.settings());
        if changes {
            self.renew(view, now);
        }
        let watches = self.meters.iter_mut().zip(&mut self.paused);
        for ((id, port), (meter, paused)) in
            view.places().zip(watches).filter(|((_, port), _)| port.is_there())
        {
            meter.look(view, id, port);
            paused.look(view, id, now);
        }
        for (condition, course) in &mut self.conditions {
            let (count, lasts) = ((condition.count)(view, &self.kernel_losses), (condition.lasts)(view));
            let tests = condition.tests.as_ref().map(|tests| tests(view));
            let phase = course.follow(now, condition.kind.end, count, lasts, tests);
            let Some((phase, episode)) = phase else { continue };
            log_phase(view, condition, phase, &episode, count, now);
            changes = true;
        }
        let is_any = self.conditions.iter().any(|(_, course)| course.episode.is_some());
        if changes || is_any {
            view.ongoing.set(self.ongoing(view));
        }
    }

    fn ongoing(&self, view: &SwitchView) -> Vec<(Nanos, OngoingStatus)> {
        let open = |(condition, course): &(Condition, ConditionState)| {
            let episode = course.episode?;
            let Location { port, class, group, worker, cause } = condition.place.clone();
            let status = OngoingStatus {
                event: condition.kind.event.into(),
                text: condition.kind.began.into(),
                port: port.map(|port| view.name_of(port).to_owned()),
                class: class.map(|class| class.get()),
                group,
                worker,
                cause,
                count: course.count - episode.before,
                detail: (condition.detail)(view),
                began_nanos_ago: 0,
            };
            Some((episode.since, status))
        };
        self.conditions.iter().filter_map(open).collect()
    }
}

impl ConditionState {
    fn follow(
        &mut self,
        now: Nanos,
        end: End,
        count: u64,
        lasts: bool,
        tests: Option<u64>,
    ) -> Option<(Phase, Episode)> {
        let before = std::mem::replace(&mut self.count, count);
        let is_observed = count > before || lasts;
        let Some(episode) = &mut self.episode else {
            let begun = Episode {
                since: now,
                before: before.min(count),
                last_observed: now,
                tests: tests.unwrap_or(0),
                quiet_since: tests.is_none().then_some(now),
                logged_at: now,
                logged_count: count,
                again_after: AGAIN_AFTER,
            };
            if end == End::LoggedOnce {
                return (is_observed && before == 0).then_some((Phase::Began, begun));
            }
            self.episode = is_observed.then_some(begun);
            return is_observed.then_some((Phase::Began, begun));
        };
        if is_observed {
            (episode.last_observed, episode.tests) = (now, tests.unwrap_or(0));
            episode.quiet_since = tests.is_none().then_some(now);
        } else if episode.quiet_since.is_none() && tests > Some(episode.tests) {
            episode.quiet_since = Some(now);
        }
        let is_over = match end {
            End::AtOnce => !is_observed && now.since(episode.logged_at) >= APART,
            End::AfterQuiet | End::LoggedOnce => {
                episode.quiet_since.is_some_and(|since| now.since(since) >= OVER_AFTER)
            }
        };
        if is_over {
            return self.episode.take().map(|episode| (Phase::Over, episode));
        }
        if !is_observed || now.since(episode.logged_at) < episode.again_after {
            return None;
        }
        (episode.logged_at, episode.logged_count) = (now, count);
        episode.again_after = Nanos(episode.again_after.0 * 2).min(AGAIN_AFTER_MOST);
        Some((Phase::GoesOn, *episode))
    }
}

fn log_phase(
    view: &SwitchView,
    condition: &Condition,
    phase: Phase,
    episode: &Episode,
    count: u64,
    now: Nanos,
) {
    let (kind, Location { port, class, group, worker, cause }) = (condition.kind, &condition.place);
    let (words, until, name) = match phase {
        Phase::Began => (kind.began, None, "began"),
        Phase::GoesOn => (kind.goes_on, Some(now), "goes_on"),
        Phase::Over => (kind.over, Some(episode.last_observed), "over"),
        Phase::Unwatched => (kind.began, Some(episode.last_observed), "over"),
    };
    let count = count.saturating_sub(episode.before);
    let lasted = until.map(|until| until.since(episode.since));
    let mut message = match phase {
        Phase::Unwatched => {
            format!("with the new settings the switch does not check for this fault: {words}")
        }
        Phase::Began | Phase::GoesOn | Phase::Over => words.to_owned(),
    };
    let counted = (count > 0).then(|| format!("{}: {}", kind.counted, xoff_config::written::grouped(count)));
    let time = lasted.filter(|lasted| lasted.0 > 0).map(|lasted| format!("in {}", span(lasted.0)));
    let facts: Vec<String> = counted.into_iter().chain(time).collect();
    let facts = Some(facts.join(" ")).filter(|facts| !facts.is_empty());
    for part in facts.into_iter().chain((condition.detail)(view)) {
        message += &format!("; {part}");
    }
    let port = port.map(|port| tracing::field::display(view.name_of(port)));
    let class = class.map(|class| class.get());
    let [group, cause] = [group, cause].map(|it| it.as_ref().map(tracing::field::display));
    let milliseconds = lasted.map(|lasted| lasted.0 / 1_000_000);
    let (event, phase, switch) = (kind.event, name, &view.name);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(%event, %phase, port, class, group, worker, cause, count, milliseconds, %switch, "{message}")
        };
    }
    match kind.is_loss {
        true => line!(error),
        false => line!(warn),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
