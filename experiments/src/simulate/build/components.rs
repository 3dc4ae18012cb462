//! Connected parts of a fabric. A flow from one part to another could never end, so it is an error.

use std::collections::BTreeSet;

use miette::miette;
use xoff_sim::{At, Plan};

use crate::scenario::LoadSettings;

pub(super) struct Components {
    hosts: Vec<BTreeSet<u32>>,
}

impl Components {
    pub fn of(plan: &Plan) -> Components {
        // Union-find: each entry is another switch of the same part, or its own index at the part's representative.
        let mut joined: Vec<u32> = (0..plan.switches()).collect();
        let mut hosts = vec![BTreeSet::new(); plan.hosts() as usize];
        for (a, b, _) in plan.links() {
            if let (At::Switch(a, _), At::Switch(b, _)) = (a, b) {
                let [a, b] = [a, b].map(|at| root(&mut joined, *at));
                joined[a as usize] = b;
            }
        }
        for (a, b, _) in plan.links() {
            if let (At::Host(host, _), At::Switch(switch, _)) | (At::Switch(switch, _), At::Host(host, _)) =
                (a, b)
            {
                hosts[*host as usize].insert(root(&mut joined, *switch));
            }
        }
        Components { hosts }
    }

    pub fn check(
        &self,
        load: &LoadSettings,
        pairs: impl IntoIterator<Item = (u32, u32)>,
    ) -> miette::Result<()> {
        // A hash chooses the links of frames and acknowledgements, so all links of both hosts must lead to the same
        // part.
        let is_apart = |(from, to): &(u32, u32)| self.hosts[*from as usize] != self.hosts[*to as usize];
        match pairs.into_iter().find(is_apart) {
            None => Ok(()),
            Some((from, to)) => Err(miette!(
                help = "connect the parts of the fabric, or remove flows between them",
                "load `{}`: no path leads from host {from} to host {to}",
                load.name
            )),
        }
    }
}

fn root(joined: &mut [u32], mut at: u32) -> u32 {
    while joined[at as usize] != at {
        joined[at as usize] = joined[joined[at as usize] as usize];
        at = joined[at as usize];
    }
    at
}
