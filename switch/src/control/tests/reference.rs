//! docs/reference.md is made of the code: a metric, a drop reason or a key of `/status` that is not there, or is no more, fails.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;
use xoff_config::shell::RouterInterface;
use xoff_dataplane::decision::CustomPolicy;
use xoff_dataplane::settings::{Custom, PolicyFactory, Spread};
use xoff_dataplane::units::{ClassSet, Site};

use super::*;
use crate::control::metrics::render;
use crate::control::schema::schema;
use crate::router::RouterView;
use crate::router::mirror::Mirror;

/// Set, the document is written instead of compared.
const WRITE: &str = "XOFF_WRITE_REFERENCE";

const HEAD: &str = "\
# Reference

Every metric, every reason of a drop and every key of `/status`, as the program has them: a test compares this document with the
code, and `XOFF_WRITE_REFERENCE=1 cargo nextest run --workspace -E 'test(reference)'` writes it. Keys of the configuration are in
[configuration.md](configuration.md), events of the log in [log.md](log.md), paths and codes of HTTP in [http.md](http.md); how
the figures are used is in [operations.md](operations.md).
";

const METRICS: &str = "
## Metrics

`/metrics` of a switch. Every sample has the label `switch`, the name of the switch (of `xoff nic`, its device); the other labels
are listed. `port` is the name of a port, `class` is 0 to 7. Histograms have the suffixes `_bucket` (label `le`), `_sum` and
`_count`. Some metrics are there only where there is something to tell: of congestion points (`xoff_qcn_*`), peers that understand
lists of flows (`xoff_ofc_*`), watchdogs (`xoff_watchdog_*`), shadow policies (`xoff_shadow_*`), a pipeline that halts
(`xoff_pipeline_halt*`), a router (`xoff_router_*`), a policy of the program's own (`xoff_policy_intents_refused_total`, `xoff_shadow_intents_refused_total`).
`xoff nic` serves those of one port that a host has, and its own (`xoff_nic_*`).

";

const REASONS: &str = "
## Reasons of drops

Label `reason` of `xoff_drops_total`, key of `drops` in `/status`, `--dropped` of `xoff capture`. Only what is lost counts against
the promise, and only in a lossless class. Among the metrics a reason appears with its first frame, `storm_limit` from the start.

";

const STATUS: &str = "
## Keys of /status

As the JSON Schema has them, which `xoff status schema` prints. `[]` is a list, `{}` a map by the name that stands for it. Keys
are only ever added. Counters count from the start of the switch.

";

/// Of an agent alone: name, kind, labels, meaning.
const NIC: [[&str; 4]; 10] = [
    [
        "xoff_nic_info",
        "gauge",
        "device, leaf, mac, port, real_time",
        "What a host's queues are made of; always 1.",
    ],
    ["xoff_nic_peer_response_seconds", "gauge", "port", "The peer_response that the switch's port needs."],
    ["xoff_nic_changes_refused_total", "counter", "port", "Changes of queues that the kernel refused."],
    ["xoff_nic_queue_repairs_total", "counter", "port", "Repairs of queues that somebody else had changed."],
    [
        "xoff_nic_queues_broken",
        "gauge",
        "port",
        "Missing or changed queues that could not be repaired: 1 while there are any.",
    ],
    [
        "xoff_nic_disobeyed_seconds_total",
        "counter",
        "class, port",
        "Time in which frames of a paused class may have left, because somebody had changed the queues.",
    ],
    [
        "xoff_nic_queues_deleted_total",
        "counter",
        "class, port",
        "Times that somebody else had deleted the queue of the class, with the frames in it.",
    ],
    [
        "xoff_nic_control_missed_total",
        "counter",
        "port",
        "MAC control frames and CNMs that came faster than they were read, and were lost.",
    ],
    [
        "xoff_nic_guards_lost_total",
        "counter",
        "port",
        "Times that the process had ended that guards the queues.",
    ],
    [
        "xoff_nic_receive_backlog_bytes",
        "gauge",
        "port",
        "What waits in the fullest UDP socket of the host, with `--pause-above`.",
    ],
];

#[derive(Debug)]
struct NoPolicy;

impl PolicyFactory for NoPolicy {
    fn policy(&self, _: Class, _: &SwitchSettings) -> Box<dyn CustomPolicy> {
        unreachable!("nothing runs here")
    }
}

/// `/metrics` of a switch in which there is everything.
pub(super) fn everything() -> String {
    let (view, _inbox) = view();
    let mut view = Arc::into_inner(view).expect("nobody else has it");
    let mut settings = SwitchSettings::clone(&view.settings());
    settings.policy.custom = Some(Custom::new(NoPolicy));
    settings.shadows[0] = PolicyKind::Custom;
    settings.ports[0].ofc_peer = true;
    settings.qcn.ingress = ClassSet(1 << 3);
    view.configured = current::Current::new(settings);
    let asker = Mirror::open(HashMap::new(), Spread::Flow).expect("netlink can be asked").1;
    let of_router = RouterInterface { name: "left".into(), site: Site::Port(PortId(0)), mtu: 1_500 };
    view.router = Some(RouterView::new([&of_router], &view.settings(), asker));
    view.counters.class(PortId(0), CLASS_3).queueing_delay.record(1_000);
    let port = |device_name: &str, name: &str| {
        PortView::new(device_name, 0, device(1, FickleDriver::default())).named(name)
    };
    view.ports = vec![port("l0", "left"), port("r0", "right")];
    render(&view)
}

#[derive(Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, rest)) = line.split_once('{') {
            let suffixes = ["_bucket", "_sum", "_count"];
            let of_histogram =
                suffixes.iter().find_map(|suffix| families.get(name.strip_suffix(suffix)?).map(|_| suffix));
            let name = of_histogram.map_or(name, |suffix| name.trim_end_matches(suffix));
            let labels = rest.split("=\"").filter_map(|part| part.rsplit([',', '{']).next());
            let labels = labels.filter(|label| label.chars().all(|c| c == '_' || c.is_ascii_lowercase()));
            let labels = labels.filter(|label| !["switch", "le"].contains(label)).map(str::to_owned);
            families.get_mut(name).expect("a sample has a family").labels.extend(labels);
        }
    }
    families
}

/// By the end of the name, as Prometheus has it.
fn unit(name: &str) -> &'static str {
    let name = name.trim_end_matches("_total");
    let units = [
        ("_bytes_per_second", "bytes/s"),
        ("_bytes", "bytes"),
        ("_seconds", "seconds"),
        ("_frames", "frames"),
        ("_frames_sent", "frames"),
        ("_frames_received", "frames"),
        ("_bytes_sent", "bytes"),
        ("_bytes_received", "bytes"),
        ("_frames_ignored", "frames"),
        ("_drops", "frames"),
    ];
    units.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

fn write_metrics(text: &mut String) {
    *text += METRICS;
    *text += "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
    for (name, Family { kind, help, labels }) in families(&everything()) {
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {labels} | {help} |", unit(&name));
    }
    for [name, kind, labels, help] in NIC {
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {labels} | {help} |", unit(name));
    }
}

/// What the source says of each variant, line by line.
fn remarks(source: &str) -> BTreeMap<String, String> {
    let (mut remarks, mut remark) = (BTreeMap::new(), String::new());
    for line in source.lines().map(str::trim).skip_while(|line| !line.starts_with("pub enum DropReason")) {
        match (line.strip_prefix("/// "), line.strip_suffix(',')) {
            (Some(more), _) => remark = format!("{remark} {more}").trim().to_owned(),
            (None, Some(variant)) => drop(remarks.insert(variant.to_owned(), std::mem::take(&mut remark))),
            (None, None) if line == "}" => break,
            (None, None) => remark.clear(),
        }
    }
    remarks
}

fn write_reasons(text: &mut String) {
    *text += REASONS;
    *text += "| reason | kind | meaning |\n|---|---|---|\n";
    let remarks = remarks(include_str!("../../../../dataplane/src/drop_reason.rs"));
    for reason in DropReason::ALL {
        let remark = remarks[&format!("{reason:?}")]
            .replace("[`crate::settings::FLOOD_COPIES_MAX`]", "`FLOOD_COPIES_MAX`");
        let _ = writeln!(text, "| `{}` | {} | {remark} |", reason.name(), reason.kind().name());
    }
}

/// What is referred to, and whether it may be null.
fn resolved<'a>(root: &'a Value, of: &'a Value) -> (&'a Value, bool) {
    if let Some(path) = of["$ref"].as_str() {
        let definition = &root["$defs"][path.trim_start_matches("#/$defs/")];
        return (definition, false);
    }
    match of["anyOf"].as_array() {
        Some(variants) => (resolved(root, &variants[0]).0, true),
        None => (of, of["type"].as_array().is_some_and(|types| types.iter().any(|it| it == "null"))),
    }
}

fn kind(of: &Value) -> String {
    let constants = |variants: &Vec<Value>| {
        let names = variants.iter().filter_map(|it| it["const"].as_str().map(|name| format!("`{name}`")));
        names.collect::<Vec<_>>().join(", ")
    };
    if let Some(variants) = of["oneOf"].as_array() {
        return constants(variants);
    }
    match &of["type"] {
        Value::Array(types) => types[0].as_str().unwrap_or_default().to_owned(),
        kind => kind.as_str().unwrap_or_default().to_owned(),
    }
}

fn write_keys(text: &mut String, root: &Value, of: &Value, path: &str) {
    for (key, value) in of["properties"].as_object().into_iter().flatten() {
        let (is, may_be_null) = resolved(root, value);
        let path = format!("{path}{key}");
        let remark = value["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let remark = remark.replace("`None`", "`null`");
        let null = if may_be_null { " or null" } else { "" };
        let _ = writeln!(text, "| `{path}` | {}{null} | {remark} |", kind(is));
        match (&is["items"], &is["additionalProperties"]) {
            (Value::Null, Value::Null) => write_keys(text, root, is, &format!("{path}.")),
            (Value::Null, of_map) => {
                write_keys(text, root, resolved(root, of_map).0, &format!("{path}{{}}."))
            }
            (items, _) => write_keys(text, root, resolved(root, items).0, &format!("{path}[].")),
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_reference_is_what_the_code_has() {
    let mut text = HEAD.to_owned();
    write_metrics(&mut text);
    write_reasons(&mut text);
    text += STATUS;
    text += "| key | type | meaning |\n|---|---|---|\n";
    let schema = schema();
    write_keys(&mut text, schema.as_value(), schema.as_value(), "");
    let path = root().join("docs/reference.md");
    if env::var_os(WRITE).is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    let [there, here] = [&written, &text].map(|text| text.lines().collect::<Vec<_>>());
    let differs =
        there.iter().find(|line| !here.contains(line)).or(here.iter().find(|line| !there.contains(line)));
    assert!(written == text, "docs/reference.md is not as the code has it; {WRITE}=1 writes it: {differs:?}");
}

/// Whatever is named in the source is in the document, also what only some switches have.
#[test]
fn no_metric_of_the_source_is_missing_from_the_reference() {
    let mut reference = String::new();
    write_metrics(&mut reference);
    let control = root().join("switch/src/control");
    let read = |path: &Path| fs::read_dir(path).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let sources = read(&control.join("metrics"))
        .into_iter()
        .chain([root().join("nic/src/serve/metrics.rs"), control.join("process.rs")]);
    let mut found = 0;
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let names = text.split('"').filter(|name| name.starts_with("xoff_") || name.starts_with("process_"));
        for name in names.filter(|name| name.chars().all(|c| c == '_' || c.is_ascii_lowercase())) {
            assert!(reference.contains(&format!("| `{name}` |")), "{name} of {}", source.display());
            found += 1;
        }
    }
    assert!(found > 90, "{found} names found");
}

#[test]
fn promtool_has_nothing_to_say_of_any_metric() {
    let check = |text: &str| {
        let mut promtool = Command::new("promtool");
        promtool
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut promtool =
            promtool.spawn().expect("promtool runs: scripts/install-deps.sh --tests installs it");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        output.status.success().then_some(()).ok_or(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let text = everything();
    assert_eq!(check(&text), Ok(()));
    check(&(text + "xoff_some_bits 1\n")).unwrap_err();
}
