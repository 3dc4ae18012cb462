//! Steps of the article on DSCP-based PFC in a routed fabric.
//!
//! Two chains of pauses begin at leaf-2: over spine-1 to gpu-1, and over spine-2 to gpu-2. Host `other` sends gpu-1 a
//! small stream of the same class, which no switch may pause.

use xoff_host::Stream;

use super::sequence::{Chain, Sequence};
use super::{
    BESIDE_PERCENT, CascadeResults, CascadeRun, Findings, FlowPath, GPU_3_PERCENT, Headline, OFFERED_PERCENT,
    OTHER_PERCENT, ROUTED, Request, SEND, Tell, other_class, percent_of, watched,
};
use crate::{FabricError, HostId, LOSSLESS, Line, Load, Plan, PortOf, Setup, lossless};

const HEADLINES: &[Headline<CascadeResults>] = &[
    Headline::of("1-3 leaf-2 holds\nspine-1, ms", |of| of.at_ms("1-3", "spine-1")),
    Headline::of("5-7 spine-1\nholds leaf-1", |of| of.at_ms("5-7", "spine-1")),
    Headline::of("9 leaf-1\nholds gpu-1", |of| of.at_ms("9", "gpu-1")),
    Headline::of("10-12 leaf-2\nreleases spine-1", |of| of.at_ms("10-12", "spine-1")),
    Headline::of("14 leaf-1\nreleases gpu-1", |of| of.at_ms("14", "gpu-1")),
];

pub(super) struct RoutedScene {
    pub(super) plan: Plan,
    senders: [(HostId, PortOf); 2],
    gpu_3: HostId,
    other: HostId,
}

/// Frame sizes of the two senders in bytes with FCS. They differ, so that byte counters show whose frames passed.
const SIZES: [u32; 2] = [1518, 1514];

pub(super) fn plan(line: Line) -> RoutedScene {
    let mut plan = Plan::new(line).routed();
    let [leaf_1, leaf_2, spine_1, spine_2] =
        ["leaf-1", "leaf-2", "spine-1", "spine-2"].map(|name| plan.switch(name));
    let senders = ["gpu-1", "gpu-2"].map(|name| plan.host(name, leaf_1));
    let gpu_3 = plan.host_with("gpu-3", leaf_2, percent_of(line, GPU_3_PERCENT).unwrap_or(line.rate()));
    let other = plan.host("other", leaf_2);
    let up = [spine_1, spine_2].map(|spine| {
        plan.trunk(leaf_2, spine);
        plan.trunk(leaf_1, spine).0
    });
    let senders = [(senders[0], up[0]), (senders[1], up[1])];
    RoutedScene { plan, senders, gpu_3, other }
}

fn run(setup: &Setup<'_>) -> Result<CascadeRun, FabricError> {
    let line = setup.line;
    let RoutedScene { plan, senders, gpu_3, other } = plan(line);
    let fabric = setup.build(plan)?;
    let plan = fabric.plan();
    let started = fabric.start()?;
    let (mut load, mut flows) = (Load::default(), Vec::new());
    for ((sender, up), size) in senders.into_iter().zip(SIZES) {
        let mut source_port = None;
        if fabric.keeps_flows() {
            let found = started.source_port(sender, gpu_3, up)?;
            let [from, by] = [plan.port_of(sender), up].map(|at| plan.port_name(at).to_owned());
            flows.push(FlowPath { from, by, source_port: found });
            source_port = Some(found);
        }
        let rate = percent_of(line, OFFERED_PERCENT);
        let stream = Stream { rate, source_port, size, duration: Some(line.span(SEND)), ..lossless(gpu_3) };
        load.send(sender, Stream { via: plan.gateway(sender), ..stream });
    }
    let (from, _) = senders[0];
    let stream = other_class(other, percent_of(line, OTHER_PERCENT), line);
    load.send(from, Stream { via: plan.gateway(from), ..stream });
    let reverse =
        Stream { rate: percent_of(line, BESIDE_PERCENT), duration: Some(line.span(SEND)), ..lossless(from) };
    load.send(other, Stream { via: plan.gateway(other), ..reverse });
    let run = watched(plan, started, &load, flows)?;
    let astray = run.flows.iter().zip(senders).filter_map(|(flow, (sender, up))| {
        let sent = run.account.host(sender).sent.iter().filter(|of| of.class == LOSSLESS.get());
        let sent = sent.fold((0, 0), |(frames, bytes), of| (frames + of.frames, bytes + of.bytes));
        let left = run.account.class(up, LOSSLESS);
        astray(flow, sent, (left.tx_frames.get(), left.tx_bytes.get()))
    });
    Ok(CascadeRun { astray: astray.collect(), ..run })
}

fn astray(FlowPath { from, by, .. }: &FlowPath, sent: (u64, u64), left: (u64, u64)) -> Option<String> {
    let [sent_text, left_text] =
        [sent, left].map(|(frames, bytes)| format!("{frames} frames ({bytes} bytes)"));
    let text = format!("{from} sent {sent_text}, but {left_text} left its leaf by {by}");
    (sent != left).then_some(text)
}

pub(super) fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    super::measure((&ROUTED, &sequence()), HEADLINES, run, request, tell)
}

pub(super) fn sequence() -> Sequence {
    let by = |middle, sender| Chain { sink: "gpu-3", last: "leaf-2", middle, first: "leaf-1", sender };
    let title = "Cascade over routers: two GPUs overload a third GPU, each over its own spine; the path is leaf, spine, leaf";
    Sequence::new(title, [by("spine-1", "gpu-1"), by("spine-2", "gpu-2")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: cascade
    fn cascade_reports_flow_that_left_by_an_unexpected_port() {
        let flow = FlowPath { from: "gpu-1".into(), by: "to-spine-1".into(), source_port: 49_152 };
        let [own, other] = SIZES.map(|size| (300, 300 * u64::from(size)));
        assert_eq!(astray(&flow, own, own), None);
        let difference = |left| astray(&flow, own, left).unwrap_or_default();
        assert_eq!(
            difference(other),
            "gpu-1 sent 300 frames (455400 bytes), but 300 frames (454200 bytes) left its leaf by to-spine-1"
        );
        assert!(difference((299, own.1)).contains("but 299 frames"));
    }
}
