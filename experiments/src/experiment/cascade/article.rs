//! Bridged fabric of the article on DSCP-based PFC (docs/experiments.md).

use xoff_host::Stream;

use super::sequence::{Chain, Sequence};
use super::{
    CascadeResults, CascadeRun, EXPERIMENT, Findings, GPU_3_PERCENT, Headline, OFFERED_PERCENT,
    OTHER_PERCENT, Request, SEND, Tell, other_class, percent_of, watched,
};
use crate::{FabricError, HostId, Line, Load, Plan, Setup, lossless};

const HEADLINES: &[Headline<CascadeResults>] = &[
    Headline::of("1-3 rail-c\nholds, ms", |of| of.at_ms("1-3", "rail-c")),
    Headline::of("5-7 spine\nholds rail-a", |of| of.at_ms("5-7", "rail-a")),
    Headline::of("9 rail-a\nholds gpu-1", |of| of.at_ms("9", "gpu-1")),
    Headline::of("10-12 rail-c\nreleases", |of| of.at_ms("10-12", "rail-c")),
    Headline::of("14 rail-a\nreleases gpu-1", |of| of.at_ms("14", "gpu-1")),
];

pub(super) fn plan(line: Line) -> (Plan, [HostId; 2], HostId, [HostId; 2]) {
    let mut plan = Plan::new(line);
    let [rail_a, rail_b, spine, rail_c] =
        ["rail-a", "rail-b", "spine", "rail-c"].map(|name| plan.switch(name));
    let senders = [plan.host("gpu-1", rail_a), plan.host("gpu-2", rail_b)];
    let gpu_3 = plan.host_with("gpu-3", rail_c, percent_of(line, GPU_3_PERCENT).unwrap_or(line.rate()));
    let others = [plan.host("other-1", rail_a), plan.host("other-3", rail_c)];
    for (leaf, top) in [(rail_a, spine), (rail_b, spine), (spine, rail_c)] {
        plan.trunk(leaf, top);
    }
    (plan, senders, gpu_3, others)
}

fn run(setup: &Setup<'_>) -> Result<CascadeRun, FabricError> {
    let line = setup.line;
    let (plan, senders, gpu_3, others) = plan(line);
    let mut load = Load::default();
    for sender in senders {
        let rate = percent_of(line, OFFERED_PERCENT);
        load.send(sender, Stream { rate, duration: Some(line.span(SEND)), ..lossless(gpu_3) });
    }
    load.send(others[0], other_class(others[1], percent_of(line, OTHER_PERCENT), line));
    let fabric = setup.build(plan)?;
    watched(fabric.plan(), fabric.start()?, &load, Vec::new())
}

pub(super) fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    super::measure((&EXPERIMENT, &sequence()), HEADLINES, run, request, tell)
}

pub(super) fn sequence() -> Sequence {
    let by = |first, sender| Chain { sink: "gpu-3", last: "rail-c", middle: "spine", first, sender };
    let title = "Cascade: two GPUs overload a third GPU; the path is rail switch, spine, rail switch";
    Sequence::new(title, [by("rail-a", "gpu-1"), by("rail-b", "gpu-2")])
}
