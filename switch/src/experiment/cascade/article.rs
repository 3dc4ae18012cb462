//! The article's own fabric, bridged: two rail switches, a spine, a rail switch.

use xoff_dataplane::units::BitRate;
use xoff_hosts::Stream;

use super::story::{Step, Story};
use super::watch::Deed;
use super::{
    EXPERIMENT, Findings, GPU_3_PERCENT, OFFERED_PERCENT, OTHER_PERCENT, Request, Run, SEND, Tell,
    other_class, percent_of, watched,
};
use crate::fabric::{Fabric, FabricError, HostId, Load, Plan, Settings, lossless};

/// With the senders, who receives, and both ends of the other class.
pub(super) fn plan(line: BitRate) -> (Plan, [HostId; 2], HostId, [HostId; 2]) {
    let mut plan = Plan::new(line);
    let [rail_a, rail_b, spine, rail_c] =
        ["rail-a", "rail-b", "spine", "rail-c"].map(|name| plan.switch(name));
    let senders = [plan.host("gpu-1", rail_a), plan.host("gpu-2", rail_b)];
    let gpu_3 = plan.host_with("gpu-3", rail_c, percent_of(line, GPU_3_PERCENT).unwrap_or(line));
    let others = [plan.host("other-1", rail_a), plan.host("other-3", rail_c)];
    for (leaf, top) in [(rail_a, spine), (rail_b, spine), (spine, rail_c)] {
        plan.trunk(leaf, top);
    }
    (plan, senders, gpu_3, others)
}

fn run(settings: &Settings, line: BitRate) -> Result<Run, FabricError> {
    let (plan, senders, gpu_3, others) = plan(line);
    let mut load = Load::default();
    for sender in senders {
        let rate = percent_of(line, OFFERED_PERCENT);
        load.send(sender, Stream { rate, duration: Some(SEND), ..lossless(gpu_3) });
    }
    load.send(others[0], other_class(others[1], percent_of(line, OTHER_PERCENT)));
    let fabric = Fabric::build(plan, settings)?;
    watched(fabric.plan(), fabric.start()?, &load, Vec::new())
}

pub(super) fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    super::measure(&EXPERIMENT, &STORY, run, request, tell)
}

pub(super) const STORY: Story = Story {
    title: "Cascade: two GPUs send more than a third takes; rail, spine, rail",
    steps: &STEPS,
    order: &ORDER,
    relay: &RELAY,
};

const STEPS: [Step; 14] = [
    (
        "1-3",
        "rail-c: the queue to gpu-3 is full, ingress is over xOFF, the spine is paused",
        "rail-c",
        "to-spine",
        Deed::Holds,
    ),
    ("4", "spine: stops class 3 to rail-c", "spine", "to-rail-c", Deed::Stops),
    ("5-7", "spine: its queue to rail-c is full, rail-a is paused", "spine", "to-rail-a", Deed::Holds),
    ("5-7", "spine: the same for rail-b", "spine", "to-rail-b", Deed::Holds),
    ("8", "rail-a: stops class 3 to the spine", "rail-a", "to-spine", Deed::Stops),
    ("8", "rail-b: stops class 3 to the spine", "rail-b", "to-spine", Deed::Stops),
    ("9", "rail-a: its queue to the spine is full, gpu-1 is paused", "rail-a", "gpu-1", Deed::Holds),
    ("9", "rail-b: its queue to the spine is full, gpu-2 is paused", "rail-b", "gpu-2", Deed::Holds),
    ("10-12", "rail-c: below xON, the spine may go on (quanta 0)", "rail-c", "to-spine", Deed::Releases),
    ("13", "spine: sends class 3 to rail-c again", "spine", "to-rail-c", Deed::Resumes),
    ("14", "spine: rail-a may go on", "spine", "to-rail-a", Deed::Releases),
    ("14", "spine: rail-b may go on", "spine", "to-rail-b", Deed::Releases),
    ("14", "rail-a: gpu-1 may go on", "rail-a", "gpu-1", Deed::Releases),
    ("14", "rail-b: gpu-2 may go on", "rail-b", "gpu-2", Deed::Releases),
];

const ORDER: [(usize, usize); 13] = [
    (0, 1),
    (1, 2),
    (1, 3),
    (2, 4),
    (3, 5),
    (4, 6),
    (5, 7),
    (0, 8),
    (8, 9),
    (9, 10),
    (9, 11),
    (6, 12),
    (7, 13),
];

const RELAY: [(usize, &str, bool); 5] = [
    (0, "gpu-3", false),
    (2, "to-rail-c", true),
    (3, "to-rail-c", true),
    (6, "to-spine", true),
    (7, "to-spine", true),
];
