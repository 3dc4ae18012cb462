//! What is told before an experiment runs: what the keys do that a user gives, and what they make doubtful.

use xoff_config::Config;

use super::{Request, Variant};

/// Lines for people, each with the names of the policies that it is said of.
#[derive(Default)]
pub(super) struct ByPolicy(Vec<(String, Vec<&'static str>)>);

impl ByPolicy {
    pub(super) fn add(&mut self, line: String, variant: &Variant) {
        match self.0.iter_mut().find(|(other, _)| *other == line) {
            Some((_, names)) if names.contains(&variant.name) => (),
            Some((_, names)) => names.push(variant.name),
            None => self.0.push((line, vec![variant.name])),
        }
    }

    /// Names stand where it is not all of the request's.
    pub(super) fn lines(&self, request: &Request) -> Vec<String> {
        let line = |(line, names): &(String, Vec<&str>)| {
            if names.len() == request.policies.len() {
                line.clone()
            } else {
                format!("{}: {line}", names.join(", "))
            }
        };
        self.0.iter().map(line).collect()
    }
}

/// What is doubtful about these switches, and what to do about it.
pub(super) fn warnings(configs: &[Config]) -> Vec<String> {
    let all = configs.iter().flat_map(|config| &config.warnings);
    all.map(|warning| {
        let help = warning.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
        format!("{}{help}", warning.message)
    })
    .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;

    #[test]
    fn a_line_names_those_whom_it_concerns_unless_these_are_all() {
        let policies: Vec<_> = ["pfc", "pfc-wdrop"].map(|name| Variant::find(name).unwrap()).into();
        let mut lines = ByPolicy::default();
        lines.add("a".into(), policies[0]);
        lines.add("b".into(), policies[1]);
        lines.add("a".into(), policies[1]);
        lines.add("b".into(), policies[1]);
        let request = Request::new(policies, BitRate::from_mbps(100));
        assert_eq!(lines.lines(&request), ["a", "pfc-wdrop: b"]);
    }
}
