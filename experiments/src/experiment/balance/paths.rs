use crate::{Plan, PortOf, SwitchId};

#[derive(Clone, Copy, Debug)]
pub(super) struct SpreadCase {
    pub name: &'static str,
    pub reorders: bool,
}

pub(super) const FLOW: SpreadCase = SpreadCase { name: "flow", reorders: false };
pub(super) const FRAME: SpreadCase = SpreadCase { name: "frame", reorders: true };
pub(super) const ADAPTIVE: SpreadCase = SpreadCase { name: "adaptive", reorders: true };
pub(super) const SPREADS: [SpreadCase; 3] = [FLOW, FRAME, ADAPTIVE];
pub(super) const SPINES: usize = 4;
pub(super) const HOSTS: usize = 4;

pub(super) fn leaves(plan: &mut Plan) -> [SwitchId; 2] {
    ["leaf-1", "leaf-2"].map(|name| plan.switch(name))
}

pub(super) fn spread(plan: &mut Plan, leaves: [SwitchId; 2], by: &SpreadCase) -> Vec<PortOf> {
    let mut uplinks = [Vec::new(), Vec::new()];
    for number in 1..=SPINES {
        let spine = plan.switch(&format!("spine-{number}"));
        for (leaf, uplinks) in leaves.into_iter().zip(&mut uplinks) {
            uplinks.push(plan.trunk(leaf, spine).0);
        }
    }
    uplinks.iter().for_each(|ports| plan.group("up", ports, by.name));
    let [uplinks, _] = uplinks;
    uplinks
}
