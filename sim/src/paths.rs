use xoff_wire::units::PortId;

use crate::plan::{At, Plan};

impl Plan {
    /// Returns, for each switch, its lowest-numbered port on a shortest path to a host; `None` without a path.
    #[must_use]
    pub fn ways_to(&self, host: u32) -> Vec<Option<PortId>> {
        let switches = self.switches() as usize;
        let mut neighbors = vec![Vec::new(); switches];
        let mut last = Vec::new();
        for (a, b, _) in self.links() {
            for (from, to) in [(*a, *b), (*b, *a)] {
                match (from, to) {
                    (At::Switch(from, port), At::Switch(to, _)) => {
                        neighbors[from as usize].push((port, to as usize))
                    }
                    (At::Host(from, _), At::Switch(to, port)) if from == host => {
                        last.push((to as usize, port))
                    }
                    _ => (),
                }
            }
        }
        let mut ways = vec![None; switches];
        let nearest = last.iter().map(|(switch, _)| *switch);
        let distances = distances(switches, nearest, |switch| neighbors[switch].iter().map(|(_, to)| *to));
        for (switch, way) in ways.iter_mut().enumerate().filter(|(switch, _)| distances[*switch] < u32::MAX) {
            let nearer = |(_, to): &&(u8, usize)| distances[*to] < distances[switch];
            let direct = last.iter().filter(|(at, _)| *at == switch).map(|(_, port)| *port).min();
            let by = neighbors[switch].iter().filter(nearer).map(|(port, _)| *port).min();
            *way = direct.or(by).map(PortId);
        }
        ways
    }
}

pub(crate) fn distances<I: Iterator<Item = usize>>(
    switches: usize,
    to: impl Iterator<Item = usize>,
    neighbors: impl Fn(usize) -> I,
) -> Vec<u32> {
    let mut distances = vec![u32::MAX; switches];
    let mut reached: Vec<usize> = to.collect();
    reached.iter().for_each(|at| distances[*at] = 0);
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for other in neighbors(at) {
            if distances[other] == u32::MAX {
                distances[other] = distances[at] + 1;
                reached.push(other);
            }
        }
    }
    distances
}
