//! The shortest ways to a host, for plans that do not say which way frames go.

use std::collections::VecDeque;

use xoff_dataplane::units::PortId;

use crate::plan::{At, Plan};

impl Plan {
    /// By switch, the port by which a shortest way leads to a host: the lowest where there are several. `None` where no way does.
    #[must_use]
    pub fn ways_to(&self, host: u32) -> Vec<Option<PortId>> {
        let switches = self.switches() as usize;
        let mut neighbors = vec![Vec::new(); switches];
        let mut first = None;
        for (a, b, _) in self.links() {
            for (from, to) in [(*a, *b), (*b, *a)] {
                match (from, to) {
                    (At::Switch(from, port), At::Switch(to, _)) => {
                        neighbors[from as usize].push((port, to as usize))
                    }
                    (At::Host(from), At::Switch(to, port)) if from == host => {
                        first = Some((to as usize, port))
                    }
                    _ => (),
                }
            }
        }
        let mut ways = vec![None; switches];
        let Some((nearest, port)) = first else { return ways };
        let mut distances = vec![usize::MAX; switches];
        distances[nearest] = 0;
        let mut open = VecDeque::from([nearest]);
        while let Some(switch) = open.pop_front() {
            for &(_, neighbor) in &neighbors[switch] {
                if distances[neighbor] == usize::MAX {
                    distances[neighbor] = distances[switch] + 1;
                    open.push_back(neighbor);
                }
            }
        }
        for (switch, way) in ways.iter_mut().enumerate().filter(|(switch, _)| distances[*switch] < usize::MAX)
        {
            let nearer = |(_, to): &&(u8, usize)| distances[*to].checked_add(1) == Some(distances[switch]);
            let by = neighbors[switch].iter().filter(nearer).map(|(port, _)| *port).min();
            *way = if switch == nearest { Some(PortId(port)) } else { by.map(PortId) };
        }
        ways
    }
}
