use std::fmt::{self, Debug};
use std::ops::RangeInclusive;
use std::sync::Arc;

use toml_span::{Span, Value};
use xoff_flow_control::settings::{Custom, PolicyFactory, PolicyKind, SwitchSettings};
use xoff_wire::units::{Bytes, Class, Nanos};

use crate::reader::problem::{Problem, Problems};
use crate::reader::{Parsed, Table, parse};

const BRING_ONE: &str = "build a program with its own policy, as docs/policies/own.md describes";

/// Flow-control policy of the calling program, named `"custom"` in configurations.
#[derive(Clone)]
pub struct OwnPolicy {
    name: &'static str,
    make: Arc<dyn Fn(&mut Parameters<'_>) -> Custom + Send + Sync>,
}

impl OwnPolicy {
    pub fn new<P: PolicyFactory + 'static>(
        name: &'static str,
        read: impl Fn(&mut Parameters<'_>) -> P + Send + Sync + 'static,
    ) -> OwnPolicy {
        OwnPolicy { name, make: Arc::new(move |parameters| Custom::new(read(parameters))) }
    }

    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn make(&self, value: Option<&Value<'_>>, problems: &mut Problems) -> Custom {
        let table = value.and_then(|value| Table::of(TABLE, value, problems));
        let mut parameters = Parameters { table, keys: Vec::new(), problems };
        let custom = (self.make)(&mut parameters);
        parameters.end();
        custom
    }
}

impl Debug for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnPolicy").field(&self.name).finish()
    }
}

impl PartialEq for OwnPolicy {
    fn eq(&self, other: &OwnPolicy) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl Eq for OwnPolicy {}

const TABLE: &str = "policy.custom";

/// Parameters in `[policy.custom]`. Methods return `None` for a missing or invalid value. Invalid values and keys that no
/// method has read are errors.
pub struct Parameters<'a> {
    table: Option<Table<'a, 'a>>,
    keys: Vec<&'static str>,
    problems: &'a mut Problems,
}

impl Parameters<'_> {
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        self.read(key, |value| {
            let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
            let allowed = || format!("a number from {} to {}", range.start(), range.end());
            number.filter(|number| range.contains(number)).ok_or_else(allowed)
        })
    }

    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        self.read(key, parse::integer(range))
    }

    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, parse::boolean)
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.read(key, |value| value.as_str().map(str::to_owned).ok_or_else(|| "a text in quotes".into()))
    }

    pub fn bytes(&mut self, key: &'static str) -> Option<Bytes> {
        self.read(key, parse::bytes)
    }

    pub fn time(&mut self, key: &'static str, range: RangeInclusive<Nanos>) -> Option<Nanos> {
        self.read(key, parse::time(range))
    }

    /// Reports the value of `key` as an error. `allowed` completes the message "has to be ..".
    pub fn refuse(&mut self, key: &'static str, allowed: &str) {
        self.read::<()>(key, |_| Err(allowed.to_owned()));
    }

    fn read<T>(&mut self, key: &'static str, parse: impl FnOnce(&Value<'_>) -> Parsed<T>) -> Option<T> {
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
        self.table?.read(key, parse, self.problems).map(|found| found.value)
    }

    fn end(self) {
        if let Some(table) = self.table {
            table.no_others(&[&self.keys], self.problems);
        }
    }
}

impl Debug for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameters").field("keys", &self.keys).finish_non_exhaustive()
    }
}

pub(crate) fn refuse_table(span: Span, problems: &mut Problems) {
    let problem = Problem::error(
        "[policy.custom] has parameters of the program's own policy, but this program has none",
    );
    problems.push(problem.at(span, "not used").help(format!("leave the table out, or {BRING_ONE}")));
}

pub(crate) fn check([chosen, watching]: [Option<Span>; 2], switch: &SwitchSettings, problems: &mut Problems) {
    let classes = Class::ALL.into_iter().filter(|class| switch.policies[class.index()] == PolicyKind::Custom);
    let classes: Vec<Class> = classes.collect();
    let acts = chosen.filter(|_| !classes.is_empty());
    let watches = watching.filter(|_| switch.shadows.contains(&PolicyKind::Custom));
    if switch.policy.custom.is_none() {
        for span in acts.into_iter().chain(watches) {
            let names = PolicyKind::ALL.map(|kind| format!("\"{}\"", kind.name())).join(", ");
            problems.push(
                Problem::error("\"custom\" is the program's own policy, but this program has none")
                    .at(span, "not here")
                    .help(format!("write one of {names}, or {BRING_ONE}")),
            );
        }
    }
    for class in classes {
        if let (Some(span), Some(needed)) = (acts, PolicyKind::Custom.misfit(class, switch)) {
            problems.push(
                Problem::error(format!("`policy = \"custom\"` needs {needed} in class {class}"))
                    .at(span, "the policy does not work with these settings"),
            );
        }
    }
}

/// Returns the error for a command that names the policy `"custom"` in a program that has none.
#[must_use]
pub fn no_own_policy() -> String {
    format!("\"custom\" is the program's own policy, but this program has none: {BRING_ONE}")
}
