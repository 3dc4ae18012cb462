use xoff_config::memory::{PROCESS, Plan};
use xoff_config::written::{grouped, mebibytes};
use xoff_config::{Machine, Problem, Remedy};
use xoff_wire::units::Bytes;

use super::Network;

/// Memory budgeted for an agent and its guard; 4.5 MiB were measured.
pub const AGENT: Bytes = Bytes(5 << 20);

/// Setting that memory errors may advise to reduce. In a lab with delay lines, they name `delay` instead, from which the lab computes
/// `cable`.
const CABLE: &str = "the default `cable` of each port";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    pub switches: Vec<(String, Plan)>,
    pub agents: u64,
    pub lines: (u64, Bytes),
}

impl Needs {
    #[must_use]
    pub fn of_agents(&self) -> Bytes {
        Bytes(self.agents.saturating_mul(AGENT.0))
    }

    #[must_use]
    pub fn total(&self) -> Bytes {
        let sum =
            self.switches.iter().fold(self.of_agents(), |sum, (_, plan)| sum.saturating_add(plan.needed()));
        let sum = sum.saturating_add(self.lines.1);
        let beyond_one = self.switches.len().saturating_sub(1) as u64;
        sum.saturating_sub(Bytes(beyond_one * PROCESS)) // all switches are threads of one process
    }

    pub(super) fn shortage(
        &self,
        machine: &Machine,
        remedies: impl FnOnce() -> Vec<Remedy>,
    ) -> Option<Problem> {
        let (needed, available) = (self.total(), machine.memory.as_ref()?);
        if needed <= available.bytes {
            return None;
        }
        let problem = Problem::error(format!(
            "the network needs {} MiB of memory ({} MiB for switches, {} MiB for delay lines, {} MiB for agents of hosts), more than \
             the {available}",
            grouped(mebibytes(needed)),
            grouped(mebibytes(Bytes(needed.0 - self.of_agents().0 - self.lines.1.0))),
            grouped(mebibytes(self.lines.1)),
            grouped(mebibytes(self.of_agents())),
        ));
        Some(match remedies().first() {
            Some(remedy) => {
                let is_delay = remedy.change == CABLE && self.lines.0 > 0;
                let change = if is_delay { "a smaller `delay` of the links" } else { remedy.change };
                let remedy = Remedy { change, ..*remedy };
                problem.help(format!("for every switch, {}", remedy.advice(needed, available.bytes)))
            }
            None => problem.help("reduce the number of hosts, or end other programs"),
        })
    }
}

impl Network {
    #[must_use]
    pub fn needs(&self, machine: &Machine) -> Needs {
        let switches =
            self.switches.iter().map(|switch| (switch.name.clone(), switch.config.plan(machine))).collect();
        let agents =
            self.hosts.iter().filter(|host| host.nic.is_some()).map(|host| host.interfaces.len() as u64);
        Needs { switches, agents: agents.sum(), lines: self.lines(machine) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_config::ConfigError;

    const TWO: &str = "[defaults]\nspeed = \"1G\"\n[[switch]]\nname = \"s1\"\nhosts = 4\n\
                       [[switch]]\nname = \"s2\"\nhosts = 4\n[[link]]\nbetween = [\"s1\", \"s2\"]\n";

    fn read(text: &str, memory: Option<u64>) -> Result<Network, ConfigError> {
        let machine = Machine { memory: memory.map(|bytes| Bytes(bytes).into()), ..Machine::default() };
        Network::from_toml("lab.toml", text, "lab", &machine)
    }

    fn total(text: &str) -> u64 {
        read(text, None).unwrap().needs(&Machine::default()).total().0
    }

    #[test] // proves: lab-file
    fn lab_memory_estimate_is_sum_over_switches_and_agents() {
        let needs = read(TWO, None).unwrap().needs(&Machine::default());
        assert_eq!((needs.switches.len(), needs.agents), (2, 8));
        let switches: u64 = needs.switches.iter().map(|(_, plan)| plan.needed().0).sum();
        assert_eq!(
            needs.total().0,
            switches - PROCESS + 8 * AGENT.0,
            "the fixed memory of the common process of both switches must be counted once"
        );
        assert!(read(TWO, Some(needs.total().0)).unwrap().warnings.is_empty());
        assert!(read(TWO, Some(needs.total().0 - 1)).is_err());
        assert_eq!(
            read(&TWO.replace("1G\"", "1G\"\nnic = false"), None).unwrap().needs(&Machine::default()).agents,
            0
        );
    }

    #[test] // proves: lab-file
    fn lab_memory_error_shows_setting_that_saves_most_memory() {
        let problem = |memory: u64| match read(TWO, Some(memory)) {
            Err(ConfigError::Invalid(invalid)) => invalid.problems().to_vec(),
            other => panic!("{other:?}"),
        };
        let changes = ["smallest_frame = 1024", "stall_budget = \"5ms\"", "stall_budget = \"1ms\""];
        let after = |change: &str| total(&format!("{TWO}[defaults.switch]\n{change}\n"));
        let best = changes.into_iter().min_by_key(|change| after(change)).unwrap();
        let saved = (total(TWO) - after(best)) >> 20;
        for (memory, fit) in [(after(best) - 1, "does not suffice alone"), (after(best), "suffices")] {
            let [problem] = &problem(memory)[..] else { panic!("one error") };
            assert!(problem.message.starts_with("the network needs "), "{problem}");
            let help = format!("for every switch, {best} helps most: it saves {saved} MiB, and {fit}");
            assert_eq!(problem.help, Some(help));
        }
    }
}
