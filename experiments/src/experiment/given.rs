//! What a user says of the switches of an experiment: `--set class.3.xoff=80KB`, any key of the configuration.
//!
//! It is laid over what experiment and variant say, and what is wrong with it is said in the words of the
//! configuration: a key that there is not, a value that is not allowed, thresholds that contradict each other.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::Settings;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Tables and key: `class.3.xoff`.
    pub path: String,
    /// As it was typed.
    pub value: String,
}

/// The table for ports between switches.
const TRUNK: &str = "trunk";

/// What every port has from the experiment.
const OF_PORTS: &str = "ports, their names and their speeds are the experiment's; `--rate` sets the speed, `defaults.KEY` says \
                        something of all ports, and `trunk.KEY` of those between switches";

/// What results are named after.
const POLICY: &str =
    "the policy is what is compared, and what results are named after: `--policy NAME` chooses it";

/// What the fabric is.
const OF_FABRIC: &str = "whether switches route, and where their routes are, is the experiment's: `--routed` is how it is asked for";

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Given, String> {
        let pair = text.split_once('=').map(|(path, value)| (path.trim(), value.trim()));
        let (path, value) = pair.filter(|(path, value)| !path.is_empty() && !value.is_empty()).ok_or(
            "it has to be KEY=VALUE, the key with its table, as in class.3.xoff=80KB or policy.capfc.cut=0.5",
        )?;
        let is_name = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        let parts: Vec<&str> = path.split('.').collect();
        if parts.len() < 2 || !parts.iter().copied().all(is_name) {
            return Err(format!(
                "`{path}` is no key with its table, such as class.3.xoff or switch.accounting"
            ));
        }
        if value.chars().any(char::is_control) {
            return Err("a value stands in one line".into());
        }
        let is_of_ports =
            ["defaults", TRUNK].contains(&parts[0]) && ["speed", "name", "device"].contains(&parts[1]);
        if parts[0] == "port" || path.starts_with("fdb.static") || is_of_ports {
            return Err(OF_PORTS.into());
        }
        let is_of_fabric = ["defaults", TRUNK].contains(&parts[0]) && parts[1] == "routed";
        if is_of_fabric || path.starts_with("router.netns") {
            return Err(OF_FABRIC.into());
        }
        if path == "switch.policy" || path.starts_with("switch.policy.") {
            return Err(POLICY.into());
        }
        if parts[0] == TRUNK && parts.len() > 2 {
            return Err(format!(
                "`{path}` is none of a port's own keys: of those between switches `trunk.KEY` says something"
            ));
        }
        Ok(Given { path: path.to_owned(), value: value.to_owned() })
    }
}

impl Given {
    /// Whether it is said of the ports between switches.
    #[must_use]
    pub fn is_of_trunks(&self) -> bool {
        self.path.split('.').next() == Some(TRUNK)
    }

    /// Whether it says of frames which class they are of.
    #[must_use]
    pub fn is_of_classing(&self) -> bool {
        let parts: Vec<&str> = self.path.split('.').collect();
        ["defaults", TRUNK].contains(&parts[0]) && ["trust", "dscp_map", "rewrite_dscp"].contains(&parts[1])
    }

    /// As TOML: numbers, truth values, lists, tables and what is quoted as they stand, everything else as a text.
    fn toml(&self) -> String {
        let value = self.value.as_str();
        let is_number = value.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
            && value.parse::<f64>().is_ok();
        let stands =
            is_number || ["true", "false"].contains(&value) || value.starts_with(['[', '{', '"', '\'']);
        if stands {
            value.to_owned()
        } else {
            format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
        }
    }

    pub(super) fn lay_over(&self, settings: &mut Settings) {
        settings.lay_over(&self.path, self.toml());
    }
}

impl Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.path, self.value)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn toml(text: &str) -> String {
        text.parse::<Given>().unwrap().toml()
    }

    #[test]
    fn a_value_is_what_it_would_be_in_the_file_and_texts_need_no_quotes() {
        for (text, expected) in [
            ("class.3.xoff=80KB", "\"80KB\""),
            ("class.3.xoff = 80000", "80000"),
            ("policy.ofc.alpha=0.5", "0.5"),
            ("defaults.ofc_peer=true", "true"),
            ("qcn.egress=[3]", "[3]"),
            ("class.3={ xoff = 80000 }", "{ xoff = 80000 }"),
            ("switch.when_full=stop", "\"stop\""),
            ("switch.when_full=\"stop\"", "\"stop\""),
            ("switch.name=a\"b\\", "\"a\\\"b\\\\\""),
            ("pipeline.rate=1Mpps", "\"1Mpps\""),
        ] {
            assert_eq!(toml(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_key_with_its_table_and_a_value_is_refused() {
        for text in [
            "xoff=80KB",
            "trunk.class.3.xoff=1",
            "class.3.xoff",
            "=80KB",
            "class.3.xoff=",
            "class..xoff=1",
            "a]b.c=1",
            "a.b=1\n2",
        ] {
            assert!(text.parse::<Given>().is_err(), "{text}");
        }
        for text in ["switch.policy=capfc-stop-max", "switch.policy={ 3 = \"ofc\" }", "switch.policy.3=ofc"] {
            let message = text.parse::<Given>().unwrap_err();
            assert!(message.contains("--policy NAME"), "{message}");
        }
        for text in ["defaults.routed=false", "trunk.routed=true", "router.netns=other"] {
            let message = text.parse::<Given>().unwrap_err();
            assert!(message.contains("`--routed`"), "{message}");
        }
        for text in
            ["port.speed=1G", "port.class.3.xoff=1", "fdb.static=[]", "defaults.speed=1G", "trunk.name=x"]
        {
            let message = text.parse::<Given>().unwrap_err();
            assert!(message.contains("--rate") && message.contains("`trunk.KEY`"), "{message}");
        }
    }
}
