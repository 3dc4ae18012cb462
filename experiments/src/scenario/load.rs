use std::path::PathBuf;

use toml_span::Value;
use toml_span::value::ValueInner;
use xoff_config::reader::{Parsed, Problems, Table, parse, value};
use xoff_config::{Choice, Problem, quantity};
use xoff_sim::Picos;
use xoff_sim::flows::FLOW_BYTES_MAX;
use xoff_sim::load::{Between, Sizes, Times};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::keys::{HOST_MAX, TIME_MAX, file, hosts, kinds, positive};

xoff_config::keys! {
    struct LoadKeys {
        kind: LoadKind = parse::choice(LoadKind::WORDS);
        name: String = parse::name;
        class: Class = parse::class;
        hosts: Vec<u32> = hosts;
        load: f64 = offered;
        arrivals: f64 = positive;
        size: Size = size;
        between: Between = parse::choice(&Between::ALL.map(|between| (between.name(), between)));
        begin: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        jitter: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        end: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        askers: Vec<u32> = hosts;
        servers: Vec<u32> = hosts;
        fan_in: u32 = parse::integer(1..=65_536);
        question: Bytes = question;
        deadline: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        open: bool = parse::boolean;
        gap: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        gaps: GapDistribution = parse::choice(&GAPS);
        pairs: Vec<(u32, u32)> = pairs;
        ahead: u32 = parse::integer(1..=65_535);
        flows: u32 = parse::integer(1..=1_000_000);
        rate: BitRate = parse::rate;
        file: PathBuf = file;
    }
}

type GapDistribution = fn(Picos) -> Times;

const GAPS: [(&str, GapDistribution); 2] = [("fixed", Times::Fixed), ("random", Times::Mean)];

fn offered(value: &Value<'_>) -> Parsed<f64> {
    positive(value)
        .ok()
        .filter(|load| *load <= 10.0)
        .ok_or_else(|| "a share of a host's line, above 0 and up to 10, such as 0.6".into())
}

/// Parses a flow size: number, range, table name, or path (with `.` or `/`, and not beginning with a digit).
fn size(value: &Value<'_>) -> Parsed<Size> {
    let table = value.as_str().and_then(|text| Sizes::names().find(|name| *name == text));
    if let Some(name) = table {
        return Ok(Size::Table(name));
    }
    let is_path =
        |text: &str| text.contains(['.', '/']) && !text.starts_with(|first: char| first.is_ascii_digit());
    if value.as_str().is_some_and(is_path) {
        return file(value).map(Size::File);
    }
    if let Some((least, most)) = value.as_str().and_then(|text| text.split_once("..")) {
        let ends = quantity::parse_bytes(least.trim()).zip(quantity::parse_bytes(most.trim()));
        return ends
            .filter(|(least, most)| least < most && most.0 <= FLOW_BYTES_MAX)
            .map(|(least, most)| Size::Uniform(least.0, most.0))
            .ok_or_else(|| {
                "a range of sizes up to 128GiB, the smaller size first, such as \"1KB..150KB\"".into()
            });
    }
    let bytes = match value.as_ref() {
        ValueInner::Integer(bytes) => u64::try_from(*bytes).ok(),
        ValueInner::String(text) => quantity::parse_bytes(text).map(|bytes| bytes.0),
        _ => None,
    };
    bytes.filter(|bytes| (1..=FLOW_BYTES_MAX).contains(bytes)).map(Size::Fixed).ok_or_else(|| {
        let names = Sizes::names().collect::<Vec<_>>().join(", ");
        format!("a size up to 128GiB such as \"64KB\", a range such as \"1KB..150KB\", the name of a table of sizes ({names}), or a path such as \"./sizes.txt\"")
    })
}

fn question(value: &Value<'_>) -> Parsed<Bytes> {
    let bytes = parse::bytes(value)?;
    if bytes.0 <= FLOW_BYTES_MAX { Ok(bytes) } else { Err("a size up to 128GiB, such as \"2KB\"".into()) }
}

fn pairs(value: &Value<'_>) -> Parsed<Vec<(u32, u32)>> {
    let host = parse::integer(0..=HOST_MAX);
    let pair = |entry: &Value<'_>| match parse::list(entry, &host).as_deref() {
        Some(&[from, to]) if from != to => Ok((from, to)),
        _ => Err(String::new()),
    };
    parse::list(value, pair)
        .filter(|pairs| !pairs.is_empty())
        .ok_or_else(|| "a list of pairs of different hosts, such as [[0, 3], [1, 3]]".into())
}

kinds! {
    LoadKind {
        Poisson = "poisson", ["size"], ["load", "arrivals", "hosts", "between", "begin", "end"];
        Incast = "incast", ["fan_in", "size"],
            ["askers", "servers", "between", "question", "deadline", "open", "gap", "gaps", "begin", "end"];
        Permutation = "permutation", ["size"], ["begin"];
        Ring = "ring", ["size"], ["ahead", "begin"];
        OnOff = "on-off", ["pairs", "size", "gap"], ["between", "gaps", "begin", "end"];
        Draw = "draw", ["flows", "pairs", "size"], ["between", "begin"];
        Flows = "flows", ["file"], [];
        Hpcc = "hpcc", ["file"], [];
    }
}

impl LoadKind {
    const fn is_endless(self) -> bool {
        matches!(self, LoadKind::Poisson | LoadKind::Incast | LoadKind::OnOff)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    Fixed(u64),
    Uniform(u64, u64),
    Table(&'static str),
    File(PathBuf),
}

/// Settings of a `[[load]]`. Keys that the load's kind lacks have their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSettings {
    pub name: String,
    pub kind: LoadKind,
    pub class: Class,
    pub hosts: Option<Vec<u32>>,
    /// Offered load, as a share of each host's line.
    pub load: f64,
    /// Flows per second of all hosts together, in place of `load`.
    pub arrivals: Option<f64>,
    pub size: Size,
    pub between: Between,
    pub begin: Nanos,
    pub jitter: Nanos,
    /// Time from which on no flow begins; `None` means the end of the run.
    pub end: Option<Nanos>,
    /// Hosts that send queries; `None` means host 0.
    pub askers: Option<Vec<u32>>,
    pub servers: Option<Vec<u32>>,
    pub fan_in: u32,
    /// Bytes of the request to each server; with zero, servers answer at once, without a request.
    pub question: Bytes,
    pub deadline: Option<Nanos>,
    pub is_open: bool,
    pub gap: Times,
    pub flows: u32,
    /// Maximum rate of a flow, headers and gaps included.
    pub rate: Option<BitRate>,
    pub pairs: Vec<(u32, u32)>,
    pub ahead: u32,
    pub file: PathBuf,
}

pub(super) fn all(
    tables: &[Table<'_, '_>],
    times: (Option<Nanos>, Nanos),
    problems: &mut Problems,
) -> Vec<LoadSettings> {
    let mut loads: Vec<LoadSettings> = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let Some(load) = read(number, table, times, problems) else { continue };
        if loads.iter().any(|other| other.name == load.name) {
            problems.push(
                Problem::error(format!("two loads have the name `{}`", load.name))
                    .at(table.key_span("name"), "second load")
                    .help("give each load its own name: results identify loads by name"),
            );
        }
        loads.push(load);
    }
    loads
}

fn read(
    number: usize,
    table: &Table<'_, '_>,
    (duration, run_end): (Option<Nanos>, Nanos),
    problems: &mut Problems,
) -> Option<LoadSettings> {
    table.no_others(&[LoadKeys::KEYS], problems);
    let keys = LoadKeys::read(table, problems);
    let Some(kind) = keys.kind.as_ref() else {
        if table.value("kind").is_none() {
            problems.push(
                Problem::error("`kind` is missing in [[load]]")
                    .at(table.span, "load without `kind`")
                    .help("for example: kind = \"incast\""),
            );
        }
        return None;
    };
    let kind = kind.value;
    let (required, optional) = kind.keys();
    let optional = match kind {
        LoadKind::Hpcc => vec!["kind", "name", "rate"], // the file has classes and starts
        _ => [optional, &["kind", "name", "class", "jitter", "rate"]].concat(),
    };
    super::of_kind(table, "[[load]]", kind.word(), LoadKeys::KEYS, (required, &optional), problems);
    if kind == LoadKind::Poisson && table.value("load").is_some() == table.value("arrivals").is_some() {
        let both = table.value("load").is_some();
        let what = if both { "both `load` and `arrivals`" } else { "neither `load` nor `arrivals`" };
        problems.push(
            Problem::error(format!("a load of kind \"poisson\" has {what}"))
                .at(table.key_span("kind"), "needs one of the two")
                .help("set `load` to a share of each host's line, or `arrivals` to the flows per second of all hosts"),
        );
    }
    let once = kind == LoadKind::Incast && keys.gap.is_none() && keys.end.is_none();
    if kind.is_endless() && duration.is_none() && keys.end.is_none() && !once {
        problems.push(
            Problem::error(format!(
                "a load of kind \"{}\" has no end, so the run would never end",
                kind.word()
            ))
            .at(table.key_span("kind"), "load without end")
            .help("set `end` for the load, or `duration` in [scenario]"),
        );
    }
    let is_open = value(keys.open.as_ref(), false) && !once;
    let gap = value(keys.gap.as_ref(), Nanos::ZERO);
    let gaps = value(keys.gaps.as_ref(), Times::Mean);
    if let Some(open) = keys.open.as_ref().filter(|_| is_open && gap == Nanos::ZERO) {
        problems.push(
            Problem::error("`open` queries without a `gap` would all begin at the same time")
                .at(open.span, "endless queries at one time")
                .help("set a `gap` above 0, or remove `open` so that each query waits for the previous one"),
        );
    }
    let size = keys.size.as_ref().filter(|key| !matches!(key.value, Size::Fixed(_)));
    if let Some(key) = size.filter(|_| matches!(kind, LoadKind::Permutation | LoadKind::Ring)) {
        problems.push(
            Problem::error(format!("`size` of a load of kind \"{}\" has to be a single size", kind.word()))
                .at(key.span, "several sizes")
                .help("write one size for all flows, such as \"1MB\""),
        );
    }
    if let Some(between) = keys.between.as_ref()
        && keys.size.as_ref().is_some_and(|size| !matches!(size.value, Size::Table(_) | Size::File(_)))
    {
        problems.push(
            Problem::error("`between` has no effect: `size` is not a table of sizes")
                .at(between.span, "without effect"),
        );
    }
    if let (Some(end), true) =
        (&keys.end, keys.end.as_ref().map(|key| key.value) <= keys.begin.as_ref().map(|key| key.value))
    {
        problems.push(Problem::error("`end` is not after `begin`").at(end.span, "load without flows"));
    }
    super::in_time(keys.begin.as_ref(), ["`begin` of a [[load]]", "load without flows"], run_end, problems);
    let begin = value(keys.begin.as_ref(), Nanos::ZERO);
    let default_name = format!("{}-{number}", kind.word());
    Some(LoadSettings {
        name: value(keys.name.as_ref(), default_name),
        kind,
        class: value(keys.class.as_ref(), Class::ALL[3]),
        hosts: keys.hosts.map(|key| key.value),
        load: value(keys.load.as_ref(), 0.0),
        arrivals: keys.arrivals.map(|key| key.value),
        size: value(keys.size.as_ref(), Size::Fixed(1)),
        between: value(keys.between.as_ref(), Between::Linear),
        begin,
        jitter: value(keys.jitter.as_ref(), Nanos::ZERO),
        end: if once { Some(begin.after(Nanos(1))) } else { keys.end.map(|key| key.value) },
        askers: keys.askers.map(|key| key.value),
        servers: keys.servers.map(|key| key.value),
        fan_in: value(keys.fan_in.as_ref(), 0),
        question: value(keys.question.as_ref(), Bytes::ZERO),
        deadline: keys.deadline.map(|key| key.value),
        is_open,
        gap: if once { Times::Fixed(Picos::ZERO) } else { gaps(gap.into()) },
        flows: value(keys.flows.as_ref(), 0),
        rate: keys.rate.map(|key| key.value),
        pairs: value(keys.pairs.as_ref(), Vec::new()),
        ahead: value(keys.ahead.as_ref(), 1),
        file: value(keys.file.as_ref(), PathBuf::new()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Source;

    fn of(loads: &str) -> Result<Source, String> {
        let fabric =
            "[scenario]\nname = \"x\"\nduration = \"1ms\"\n[topology]\nkind = \"single\"\nhosts = 3\n";
        Source::from_toml("x", &format!("{fabric}{loads}"), &[]).map_err(|error| format!("{error:?}"))
    }

    #[test] // proves: scenarios
    fn repeated_open_queries_need_key_gap_above_zero() {
        let incast = |keys: &str| of(&format!("[[load]]\nkind = \"incast\"\nsize = 1\nfan_in = 1\n{keys}\n"));
        let is_open = |keys: &str| incast(keys).unwrap().point(0).unwrap().loads[0].is_open;
        assert!(!is_open("open = true"), "`open` must have no effect on a single query");
        assert!(is_open("open = true\ngap = \"1ns\""));
        assert!(!is_open("gap = \"0s\""));
        for keys in ["end = \"1us\"", "gap = \"0s\"", "gap = \"0s\"\nend = \"1us\""] {
            let error = incast(&format!("open = true\n{keys}")).unwrap_err();
            assert!(error.contains("`open` queries without a `gap`"), "{keys}: {error}");
        }
    }

    #[test] // proves: scenarios
    fn poisson_load_needs_either_key_load_or_key_arrivals() {
        let poisson = |keys: &str| of(&format!("[[load]]\nkind = \"poisson\"\nsize = 1\n{keys}\n"));
        assert_eq!(poisson("arrivals = 5000").unwrap().point(0).unwrap().loads[0].arrivals, Some(5_000.0));
        for (keys, expected) in [("", "neither `load` nor"), ("load = 0.5\narrivals = 9", "both `load` and")]
        {
            let error = poisson(keys).unwrap_err();
            assert!(error.contains(expected), "{keys}: {error}");
        }
    }

    #[test] // proves: scenarios
    fn duplicate_names_of_loads_are_refused() {
        let two = |one: &str, other: &str| {
            let load = |name: &str| format!("[[load]]\nkind = \"permutation\"\nsize = 1\n{name}\n");
            of(&(load(one) + &load(other)))
        };
        two("", "").unwrap();
        two("name = \"a\"", "name = \"b\"").unwrap();
        for (one, other) in [("", "name = \"permutation-0\""), ("name = \"b\"", "name = \"b\"")] {
            let error = two(one, other).unwrap_err();
            assert!(error.contains("two loads have the name"), "{error}");
        }
    }
}
