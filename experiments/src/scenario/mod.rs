mod changes;
#[cfg(test)]
mod documentation;
mod edits;
mod faults;
mod hosts;
mod keys;
mod load;
mod receivers;
mod scheduled;
mod switches;
mod tcp;
#[cfg(test)]
mod tests;
mod topology;

use std::path::{Path, PathBuf};

use toml_span::Spanned;
use xoff_config::file::{FileKind, WRITTEN_MAX, read_text};
use xoff_config::reader::parse::{self, OrOff};
use xoff_config::reader::{self, Problems, Purpose, Table, value};
use xoff_config::{Config, ConfigError, Problem, quantity};
use xoff_sim::flows::HostSettings;
use xoff_wire::units::{Bytes, Class, Nanos};

use edits::Axis;
use keys::{TIME_MAX, line};

use crate::set::{self, Given};

pub(crate) use changes::{Change, ChangeTarget};
pub use edits::given;
pub(crate) use faults::{Fault, Impairment, LinkFault, SwitchFault};
pub use keys::SEED_MAX;
pub(crate) use load::{LoadKind, LoadSettings, Size};
use receivers::Receiver;
pub(crate) use topology::{PortLine, Topology, TopologyKind};

xoff_config::keys! {
    struct ScenarioKeys {
        name: String = parse::name;
        about: String = line;
        duration: OrOff<Nanos> = parse::or_word("until-done", parse::time(Nanos(1)..=TIME_MAX));
        limit: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        warm_up: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        seed: u64 = parse::integer(0..=SEED_MAX);
    }
}

xoff_config::keys! {
    struct OutputKeys {
        begin: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        sample: OrOff<Nanos> = parse::or_word("off", parse::time(Nanos(100)..=TIME_MAX));
        pauses: bool = parse::boolean;
        throughput_flows: u32 = parse::integer(0..=10_000);
    }
}

#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    axes: Vec<Axis>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    pub name: String,
    pub about: String,
    pub point: Vec<(String, String)>,
    /// Duration of a run; `None` means until the last flow has ended.
    pub duration: Option<Nanos>,
    pub limit: Nanos,
    /// Duration of a run's first part; flows that begin in this part are not counted.
    pub warm_up: Nanos,
    pub seed: u64,
    pub topology: Topology,
    pub hosts: HostSettings,
    pub receivers: Vec<Receiver>,
    pub loads: Vec<LoadSettings>,
    pub faults: Vec<Fault>,
    pub changes: Vec<Change>,
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Output {
    pub begin: Nanos,
    /// Interval between samples; `None` means one sample at the end.
    pub sample: Option<Nanos>,
    pub pauses: bool,
    pub throughput_flows: u32,
}

const SCENARIO: FileKind = FileKind {
    name: "the scenario",
    help: "give the path of a TOML file; sim/scenarios contains examples",
    bytes_max: WRITTEN_MAX,
};
const LIMIT: Nanos = Nanos::from_secs(1);
const THROUGHPUT_FLOWS: u32 = 16;
const TABLES: &[&str] =
    &["scenario", "topology", "switch", "hosts", "receiver", "load", "fault", "change", "output", "sweep"];

impl Source {
    pub fn load(path: &Path, given: &[Given]) -> Result<Source, ConfigError> {
        Source::from_toml(&path.display().to_string(), &read_text(path, SCENARIO)?, given)
    }

    /// Reads the scenario file `path`, or else the text in `alone`, and adds topology and flows imported from HPCC's
    /// ns-3 simulator.
    pub(crate) fn importing(
        path: Option<&Path>,
        alone: &str,
        [topology, flows]: [&Path; 2],
        given: &[Given],
    ) -> Result<Source, ConfigError> {
        let text = match path {
            Some(path) => read_text(path, SCENARIO)?,
            None => alone.to_owned(),
        };
        let name = path.map_or_else(|| "--import".to_owned(), |path| path.display().to_string());
        reader::read(&name, &text, |root, problems| {
            if let Some((key, _)) = root.as_table().and_then(|table| table.get_key_value("topology")) {
                problems.push(
                    Problem::error("the scenario has a [topology], but --import brings another one")
                        .at(key.span, "conflicts with --import")
                        .help("remove [topology]; the import also adds a [[load]]"),
                );
            }
            Some(())
        })?;
        let quoted = |path: &Path| format!("{:?}", path.to_string_lossy());
        let imported = format!(
            "\n# Imported:\n[topology]\nkind = \"hpcc\"\nfile = {}\n[[load]]\nkind = \"hpcc\"\nname = \"flows\"\nfile = {}\n",
            quoted(topology),
            quoted(flows)
        );
        Source::from_toml(&name, &(text + &imported), given)
    }

    /// Reads a scenario from `text`, and checks all points of its sweep. Errors give `name` as the file.
    ///
    /// # Errors
    /// Returns all errors, or the first syntax error.
    pub fn from_toml(name: &str, text: &str, given: &[Given]) -> Result<Source, ConfigError> {
        let text = set::written(text, given);
        let (axes, _) = reader::read(name, &text, |root, problems| {
            Purpose::Scenario.is_possible(&root, problems).then(|| edits::axes(&root, problems))
        })?;
        let source = Source { name: name.to_owned(), text, axes };
        for point in 0..source.points() {
            source.point(point)?;
        }
        Ok(source)
    }

    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub(crate) fn points(&self) -> usize {
        self.axes.iter().map(Axis::len).product()
    }

    pub(crate) fn point(&self, point: usize) -> Result<Scenario, ConfigError> {
        self.read_with(|root, problems| read(root, edits::labels(&self.axes, point), problems), point)
    }

    pub(crate) fn switch(&self, point: usize, kind: &str, ports: &[PortLine]) -> Result<Config, ConfigError> {
        self.read_with(|root, problems| switches::config(root, kind, ports, problems), point)
    }

    pub(crate) fn changed(
        &self,
        point: usize,
        kind: &str,
        ports: &[PortLine],
        changes: &[usize],
    ) -> Result<Config, ConfigError> {
        self.read_with(|root, problems| switches::changed(root, kind, ports, changes, problems), point)
    }

    fn read_with<T>(
        &self,
        read: impl FnOnce(&mut toml_span::Value<'_>, &mut Problems) -> Option<T>,
        point: usize,
    ) -> Result<T, ConfigError> {
        let (made, _) = reader::read(&self.name, &self.text, |mut root, problems| {
            edits::apply(&mut root, &self.axes, point, problems);
            read(&mut root, problems)
        })?;
        Ok(made)
    }
}

fn read(
    root: &mut toml_span::Value<'_>,
    point: Vec<(String, String)>,
    problems: &mut Problems,
) -> Option<Scenario> {
    let table = Table::of("", root, problems)?;
    table.no_others(&[TABLES], problems);
    for key in ["scenario", "topology"].iter().filter(|key| table.value(key).is_none()) {
        problems.push(Problem::error(format!("table [{key}] is missing")).help(match *key {
            "scenario" => "for example:\n[scenario]\nname = \"incast\"",
            _ => "for example:\n[topology]\nkind = \"single\"\nhosts = 9\nrate = \"100G\"",
        }));
    }
    let mut scenario = ScenarioKeys::default();
    if let Some(table) = table.table("scenario", problems) {
        table.no_others(&[ScenarioKeys::KEYS], problems);
        if table.value("name").is_none() {
            problems.push(Problem::missing("[scenario]", "name", "name = \"incast\"", table.span));
        }
        scenario = ScenarioKeys::read(&table, problems);
    }
    let topology = table.table("topology", problems).and_then(|table| topology::read(&table, problems));
    let hosts = table.table("hosts", problems).map(|table| hosts::read(&table, problems)).unwrap_or_default();
    let duration = value(scenario.duration.as_ref(), OrOff::Off).into_option();
    let limit = duration.unwrap_or_else(|| value(scenario.limit.as_ref(), LIMIT));
    let longest =
        Class::ALL.map(|class| hosts.framing(class).longest()).into_iter().max().unwrap_or_default();
    let frame_max = Bytes::of_frame(longest);
    let receivers = receivers::read(&table.tables("receiver", problems), (frame_max, limit), problems);
    let loads = load::all(&table.tables("load", problems), (duration, limit), problems);
    if table.value("load").is_none() {
        problems.push(
            Problem::error("the scenario has no [[load]], so no host sends anything")
                .help("for example:\n[[load]]\nkind = \"permutation\"\nsize = \"1MB\""),
        );
    }
    let mut output = OutputKeys::default();
    if let Some(table) = table.table("output", problems) {
        table.no_others(&[OutputKeys::KEYS], problems);
        output = OutputKeys::read(&table, problems);
    }
    times(&scenario, duration, problems);
    let faults = faults::read(&table.tables("fault", problems), limit, problems);
    let changes: Vec<Change> = table
        .tables("change", problems)
        .iter()
        .filter_map(|table| changes::read(table, limit, topology.as_ref(), problems))
        .collect();
    if let Some(topology) = &topology {
        scheduled::check(root, topology, longest, problems);
        switches::check(root, (topology, &hosts), &changes, problems);
    }
    let warm_up = value(scenario.warm_up.as_ref(), Nanos::ZERO);
    (!problems.has_errors()).then_some(Scenario {
        name: value(scenario.name.as_ref(), String::new()),
        about: value(scenario.about.as_ref(), String::new()),
        point,
        duration,
        limit,
        warm_up,
        seed: value(scenario.seed.as_ref(), 1),
        topology: topology?,
        hosts,
        receivers,
        loads,
        faults,
        changes,
        output: Output {
            begin: value(output.begin.as_ref(), Nanos::ZERO),
            sample: value(output.sample.as_ref(), OrOff::Off).into_option(),
            pauses: value(output.pauses.as_ref(), true),
            throughput_flows: value(output.throughput_flows.as_ref(), THROUGHPUT_FLOWS),
        },
    })
}

fn times(keys: &ScenarioKeys, duration: Option<Nanos>, problems: &mut Problems) {
    if let (Some(limit), Some(_)) = (&keys.limit, duration) {
        problems.push(
            Problem::error("`limit` has no effect if `duration` is a time")
                .at(limit.span, "limit without effect")
                .help(
                    "remove one of the two keys: `limit` applies to runs that end when all flows have ended",
                ),
        );
    }
    let end = duration.unwrap_or_else(|| value(keys.limit.as_ref(), LIMIT));
    in_time(keys.warm_up.as_ref(), ["`warm_up`", "no flow would be counted"], end, problems);
}

fn in_time(key: Option<&Spanned<Nanos>>, [what, wrong]: [&str; 2], run_end: Nanos, problems: &mut Problems) {
    if let Some(late) = key.filter(|key| key.value >= run_end) {
        let [time, end] = [late.value, run_end].map(quantity::time);
        problems.push(
            Problem::error(format!("{what} is {time}, but the run ends at {end} at the latest"))
                .at(late.span, wrong)
                .help(
                    "set an earlier time, or a later end of the run by `duration` or `limit` in [scenario]",
                ),
        );
    }
}

fn of_kind(
    table: &Table<'_, '_>,
    name: &str,
    kind: &str,
    all: &[&'static str],
    (required, optional): (&[&'static str], &[&'static str]),
    problems: &mut Problems,
) {
    for key in all.iter().filter(|key| table.value(key).is_some()) {
        if !required.contains(key) && !optional.contains(key) {
            let allowed = [required, optional].concat();
            problems.push(
                Problem::error(format!("`{key}` is not a key of {name} of kind \"{kind}\""))
                    .at(table.key_span(key), "unknown key")
                    .help(format!("keys of this kind: {}", allowed.join(", "))),
            );
        }
    }
    for key in required.iter().filter(|key| table.value(key).is_none()) {
        let span = table.value("kind").map_or(table.span, |kind| kind.span);
        problems.push(
            Problem::error(format!("`{key}` is missing in {name} of kind \"{kind}\""))
                .at(span, format!("needs `{key}`")),
        );
    }
}

#[cfg(test)]
fn documented() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("### `[scenario]`", ScenarioKeys::KEYS.to_vec()),
        ("### `[topology]`", topology::TopologyKeys::KEYS.to_vec()),
        ("### `[hosts]`", hosts::HostKeys::KEYS.to_vec()),
        ("### `[hosts.dcqcn]`", hosts::DcqcnKeys::KEYS.to_vec()),
        ("### `[hosts.swift]`", hosts::SwiftKeys::KEYS.to_vec()),
        ("### `[hosts.timely]`", hosts::TimelyKeys::KEYS.to_vec()),
        ("### `[hosts.qcn]`", hosts::QcnKeys::KEYS.to_vec()),
        ("### `[hosts.tcp]`", [tcp::TcpHostKeys::KEYS, tcp::TcpKeys::KEYS].concat()),
        ("### `[[receiver]]`", receivers::ReceiverKeys::KEYS.to_vec()),
        ("### `[[load]]`", load::LoadKeys::KEYS.to_vec()),
        ("### `[[fault]]`", faults::FaultKeys::KEYS.to_vec()),
        ("### `[[change]]`", changes::ChangeKeys::KEYS.to_vec()),
        ("### `[output]`", OutputKeys::KEYS.to_vec()),
    ]
}

#[must_use]
pub(crate) fn relative_to(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}
