//! Recognises a file of another command of xoff by its tables, to name that command in the error.

use toml_span::{Span, Value};

use super::problem::{Problem, Problems};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Switch,
    Network,
    Host,
    Scenario,
}

impl Purpose {
    const ALL: [Purpose; 4] = [Purpose::Scenario, Purpose::Network, Purpose::Host, Purpose::Switch];

    fn tables(self) -> &'static [&'static str] {
        match self {
            Purpose::Switch => &[
                "port",
                "class",
                "memory",
                "fdb",
                "pipeline",
                "policy",
                "group",
                "router",
                "punt",
                "vlan",
                "multicast",
            ],
            Purpose::Network => &["link", "host"],
            Purpose::Host => &["nic"],
            Purpose::Scenario => &["scenario", "topology", "hosts", "load", "receiver", "sweep"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Purpose::Switch => "the file of a switch",
            Purpose::Network => "the file of a network for `xoff lab`",
            Purpose::Host => "the file of a host's agent",
            Purpose::Scenario => "a scenario of the simulator",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Purpose::Switch => "validate it by `xoff check FILE`, run it by `xoff run FILE`",
            Purpose::Network => {
                "validate it by `xoff lab check FILE`, run it by `xoff lab run FILE -- COMMAND`"
            }
            Purpose::Host => "run it by `xoff nic FILE`",
            Purpose::Scenario => "run it by `xoff sim FILE`",
        }
    }

    fn sign(self, root: &Value<'_>) -> Option<Span> {
        let table = root.as_table()?;
        let own = self.tables().iter().find_map(|name| Some(table.get_key_value(*name)?.0.span));
        let list = || table.get_key_value("switch").filter(|(_, value)| value.as_array().is_some());
        own.or_else(|| list().filter(|_| self == Purpose::Network).map(|(key, _)| key.span))
    }

    /// Returns false, and reports an error, for a file of another command.
    pub fn is_possible(self, root: &Value<'_>, problems: &mut Problems) -> bool {
        if self.sign(root).is_some() {
            return true;
        }
        let found = Purpose::ALL.into_iter().find_map(|other| Some((other, other.sign(root)?)));
        if let Some((other, span)) = found {
            let problem =
                Problem::error(format!("this is {}, but {} is needed here", other.name(), self.name()));
            problems
                .push(problem.at(span, format!("this table belongs to {}", other.name())).help(other.help()));
        }
        found.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::read;

    #[test] // proves: configuration
    fn file_of_another_command_is_recognised() {
        let files = [
            (Purpose::Switch, "[switch]\nname = \"s\"\n[[port]]\nname = \"a\"\n"),
            (Purpose::Switch, "[multicast]\nsnooping = true\n"),
            (Purpose::Network, "[defaults]\nspeed = \"1G\"\n[[switch]]\nname = \"s1\"\nhosts = 2\n"),
            (Purpose::Host, "[nic]\ndevice = \"eth0\"\n"),
            (Purpose::Scenario, "[scenario]\nname = \"a\"\n[switch]\nstall_budget = \"1ms\"\n"),
        ];
        for (kind, text) in files {
            for needed in Purpose::ALL {
                let outcome = read("file.toml", text, |root, problems| {
                    needed.is_possible(&root, problems).then_some(())
                });
                let Err(error) = outcome else {
                    assert_eq!(kind, needed);
                    continue;
                };
                let problem = &error.problems()[0];
                assert!(problem.message.contains(kind.name()), "{problem}");
                assert_eq!(problem.help.as_deref(), Some(kind.help()));
            }
        }
        let json = read("config_db.json", "{ \"PORT\": {} }", |_, _| Some(())).map(drop);
        let help = json.map_err(|error| error.problems()[0].help.clone().unwrap_or_default());
        assert!(help.is_err_and(|help| help.contains("xoff import sonic")));
        for doubtful in ["", "[switch]\nname = \"s\"\n", "x = 1\n", "[qcn]\n"] {
            for needed in Purpose::ALL {
                let outcome = read("file.toml", doubtful, |root, problems| {
                    needed.is_possible(&root, problems).then_some(())
                });
                assert!(outcome.is_ok(), "{doubtful}: {needed:?}");
            }
        }
    }
}
