//! The same steps over routed hops: two leaves and two spines that are routers, with a way through each spine.
//!
//! ```text
//!   gpu-1 --+        +-- spine-1 --+        +-- gpu-3, 40 % of the others' lines
//!           +-- leaf-1              leaf-2 --+
//!   gpu-2 --+        +-- spine-2 --+        +-- other
//! ```
//!
//! Each GPU sends one flow, and routers take a flow by one way. So there are two chains of pauses, each of which begins behind leaf-2 and
//! ends at one sender: gpu-1 is halted by spine-1's chain alone and gpu-2 by that of spine-2, if their flows take these ways. They
//! are made to, by their UDP source ports. Against both goes a little of the same class, from other to gpu-1: nobody may ever hold that.

use xoff_dataplane::units::BitRate;
use xoff_hosts::Stream;
use xoff_hosts::report::SentStream;

use super::story::{Step, Story};
use super::watch::Deed;
use super::{
    BESIDE_PERCENT, Findings, Flow, GPU_3_PERCENT, OFFERED_PERCENT, OTHER_PERCENT, ROUTED, Request, Run,
    SEND, Tell, other_class, percent_of, watched,
};
use crate::fabric::{Fabric, FabricError, HostId, LOSSLESS, Load, Plan, PortOf, Settings, lossless};

/// What is to be built, and who is who in it.
pub(super) struct Scene {
    pub(super) plan: Plan,
    /// Each with the port of leaf-1 by which its flow is to leave.
    senders: [(HostId, PortOf); 2],
    gpu_3: HostId,
    other: HostId,
}

pub(super) fn plan(line: BitRate) -> Scene {
    let mut plan = Plan::new(line).routed();
    let [leaf_1, leaf_2, spine_1, spine_2] =
        ["leaf-1", "leaf-2", "spine-1", "spine-2"].map(|name| plan.switch(name));
    let senders = ["gpu-1", "gpu-2"].map(|name| plan.host(name, leaf_1));
    let gpu_3 = plan.host_with("gpu-3", leaf_2, percent_of(line, GPU_3_PERCENT).unwrap_or(line));
    let other = plan.host("other", leaf_2);
    let up = [spine_1, spine_2].map(|spine| {
        plan.trunk(leaf_2, spine);
        plan.trunk(leaf_1, spine).0
    });
    let senders = [(senders[0], up[0]), (senders[1], up[1])];
    Scene { plan, senders, gpu_3, other }
}

fn run(settings: &Settings, line: BitRate) -> Result<Run, FabricError> {
    let Scene { plan, senders, gpu_3, other } = plan(line);
    let fabric = Fabric::build(plan, settings)?;
    let plan = fabric.plan();
    let started = fabric.start()?;
    let (mut load, mut flows) = (Load::default(), Vec::new());
    for (sender, up) in senders {
        let mut source_port = None;
        if fabric.keeps_flows() {
            let found = started.source_port(sender, gpu_3, up)?;
            let [from, by] = [plan.port_of(sender), up].map(|at| plan.port_name(at).to_owned());
            flows.push(Flow { from, by, source_port: found });
            source_port = Some(found);
        }
        let rate = percent_of(line, OFFERED_PERCENT);
        let stream = Stream { rate, source_port, duration: Some(SEND), ..lossless(gpu_3) };
        load.send(sender, Stream { via: plan.gateway(sender), ..stream });
    }
    let (from, _) = senders[0];
    let stream = other_class(other, percent_of(line, OTHER_PERCENT));
    load.send(from, Stream { via: plan.gateway(from), ..stream });
    let beside = Stream { rate: percent_of(line, BESIDE_PERCENT), duration: Some(SEND), ..lossless(from) };
    load.send(other, Stream { via: plan.gateway(other), ..beside });
    let run = watched(plan, started, &load, flows)?;
    let sent = |sender: HostId| -> u64 {
        run.account.host(sender).sent.iter().filter(is_lossless).map(|of| of.frames).sum()
    };
    let counted = senders.map(|(sender, up)| {
        let left = run.account.class(up, LOSSLESS).tx_frames.get();
        (plan.port_name(plan.port_of(sender)), plan.port_name(up), sent(sender), left)
    });
    let astray = counted.into_iter().filter_map(astray).collect();
    Ok(Run { astray, ..run })
}

fn is_lossless(stream: &&SentStream) -> bool {
    stream.class == LOSSLESS.get()
}

/// What is to be said where not all that a host sent, and nothing else, left the first switch as its flow was to.
fn astray((host, by, sent, left): (&str, &str, u64, u64)) -> Option<String> {
    let text =
        || format!("which way the flows took: {host} sent {sent} frames, and {left} left its leaf by {by}");
    (sent != left).then(text)
}

pub(super) fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    super::measure(&ROUTED, &STORY, run, request, tell)
}

pub(super) const STORY: Story = Story {
    title: "Cascade over routers: two GPUs send more than a third takes, each by a spine of its own; leaf, spine, leaf",
    steps: &STEPS,
    order: &ORDER,
    relay: &RELAY,
};

/// Steps of a sender's chain.
macro_rules! chain {
    ($gpu:literal, $spine:literal) => {
        [
            (
                "1-3",
                concat!("leaf-2: the queue to gpu-3 is full, ingress is over xOFF, ", $spine, " is paused"),
                "leaf-2",
                concat!("to-", $spine),
                Deed::Holds,
            ),
            ("4", concat!($spine, ": stops class 3 to leaf-2"), $spine, "to-leaf-2", Deed::Stops),
            (
                "5-7",
                concat!($spine, ": its queue to leaf-2 is full, leaf-1 is paused"),
                $spine,
                "to-leaf-1",
                Deed::Holds,
            ),
            (
                "8",
                concat!("leaf-1: stops class 3 to ", $spine),
                "leaf-1",
                concat!("to-", $spine),
                Deed::Stops,
            ),
            (
                "9",
                concat!("leaf-1: its queue to ", $spine, " is full, ", $gpu, " is paused"),
                "leaf-1",
                $gpu,
                Deed::Holds,
            ),
            (
                "10-12",
                concat!("leaf-2: below xON, ", $spine, " may go on (quanta 0)"),
                "leaf-2",
                concat!("to-", $spine),
                Deed::Releases,
            ),
            ("13", concat!($spine, ": sends class 3 to leaf-2 again"), $spine, "to-leaf-2", Deed::Resumes),
            ("14", concat!($spine, ": leaf-1 may go on"), $spine, "to-leaf-1", Deed::Releases),
            ("14", concat!("leaf-1: ", $gpu, " may go on"), "leaf-1", $gpu, Deed::Releases),
        ]
    };
}

const CHAINS: [[Step; 9]; 2] = [chain!("gpu-1", "spine-1"), chain!("gpu-2", "spine-2")];

/// Both chains, step by step: step n of chain c is at 2n + c.
const STEPS: [Step; 18] = {
    let mut steps = [CHAINS[0][0]; 18];
    let mut place = 0;
    while place < steps.len() {
        steps[place] = CHAINS[place % 2][place / 2];
        place += 1;
    }
    steps
};

const ORDER: [(usize, usize); 16] = {
    const OF_A_CHAIN: [(usize, usize); 8] = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (5, 6), (6, 7), (4, 8)];
    let mut order = [(0, 0); 16];
    let mut place = 0;
    while place < order.len() {
        let (before, after) = OF_A_CHAIN[place / 2];
        order[place] = (2 * before + place % 2, 2 * after + place % 2);
        place += 1;
    }
    order
};

const RELAY: [(usize, &str, bool); 6] = [
    (0, "gpu-3", false),
    (1, "gpu-3", false),
    (4, "to-leaf-2", true),
    (5, "to-leaf-2", true),
    (8, "to-spine-1", true),
    (9, "to-spine-2", true),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_left_its_way_is_told() {
        assert_eq!(astray(("gpu-1", "to-spine-1", 300, 300)), None);
        let said = astray(("gpu-1", "to-spine-1", 300, 299));
        assert!(
            said.is_some_and(
                |said| said.contains("gpu-1 sent 300 frames, and 299 left its leaf by to-spine-1")
            )
        );
    }
}
