use serde::Serialize;

use super::{Conduct, Experiment, Findings, Request, Tell, Variant};
use crate::raw::Recorder;
use crate::statistics::Headline;
use crate::{FabricError, Setup};

pub(super) struct Compared<R, M> {
    pub name: String,
    pub runs: Vec<R>,
    pub measured: M,
}

impl<R, M> Compared<R, M> {
    pub(super) fn row(&self) -> (&str, &M) {
        (&self.name, &self.measured)
    }
}

pub(super) fn named<R, M, T>(all: &[Compared<R, M>], of: impl Fn(&Compared<R, M>) -> T) -> Vec<(String, T)> {
    all.iter().map(|policy| (policy.name.clone(), of(policy))).collect()
}

pub(super) fn compare<R, M: Serialize>(
    experiment: &Experiment,
    (request, tell): (&Request, &mut Tell<'_>),
    run: impl FnMut(&Setup<'_>) -> Result<R, FabricError>,
    mut conduct: impl FnMut(&Variant, &[R]) -> Conduct,
    measured: impl Fn(&[R]) -> M,
    headlines: &[Headline<M>],
) -> Result<(Findings, Vec<Compared<R, M>>), FabricError> {
    let mut findings = Findings::new(headlines);
    let mut all = Vec::new();
    for (variant, runs) in in_turns(experiment, request, tell, run)? {
        let together = measured(&runs);
        let each: Vec<M> = runs.chunks(1).map(&measured).collect();
        let name = findings.add(
            (variant, experiment.promises(variant)),
            conduct(variant, &runs),
            &together,
            &each,
            headlines,
        );
        all.push(Compared { name, runs, measured: together });
    }
    Ok((findings, all))
}

/// Runs the policies in turns (all first runs, then all second runs), so that disturbances of the machine affect all
/// policies equally.
pub(super) fn in_turns<R>(
    experiment: &Experiment,
    request: &Request,
    tell: &mut Tell<'_>,
    mut run: impl FnMut(&Setup<'_>) -> Result<R, FabricError>,
) -> Result<Vec<(&'static Variant, Vec<R>)>, FabricError> {
    let mut measured: Vec<_> = request.policies.iter().map(|&variant| (variant, Vec::new())).collect();
    for number in 1..=request.runs {
        for (variant, results) in &mut measured {
            tell(&format!("{} (run {number} of {})", variant.name, request.runs));
            let mut settings = experiment.run_settings(variant, request, number);
            let policy = variant.name;
            settings.recorder = request.raw.clone().map(|raw| Recorder { raw, policy, run: number });
            let Request { line, ref machine, .. } = *request;
            results.push(run(&Setup { line, settings: &settings, machine })?);
        }
    }
    Ok(measured)
}
