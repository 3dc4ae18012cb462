// Tests for SPECIFICATION.md: monitoring

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use xoff_config::shell::RouterInterface;
use xoff_flow_control::decision::CustomPolicy;
use xoff_flow_control::settings::{Custom, FrameRate, PolicyFactory, Spread};
use xoff_wire::units::{ClassSet, Site};

use super::*;
use crate::control::exposition::Format;
use crate::control::metrics::render;
use crate::control::schema::schema;
use crate::control::testing::group_with_lacp;
use crate::control::testing::reference::{WRITE, compare, metric_table};
use crate::router::RouterView;
use crate::router::mirror::Mirror;

const METRICS: &str = "\
## Metrics

A switch serves these metrics at `/metrics`. Every sample has the label `switch`, the name of the switch. A metric that is true or
false has the value 1 or 0. The name of a counter ends in `_total`; others are gauges, unless a type is given. Units are part of the
name, before `_total`; drops are frames. Some metrics exist only if the switch uses the feature: congestion points (`xoff_qcn_*`),
peers that understand flow lists (`xoff_ofc_*`), watchdogs (`xoff_watchdog_*`), shadow policies (`xoff_shadow_*`), a pipeline that
stops when full (`xoff_pipeline_halt*`), a router (`xoff_router_*`), groups with LACP (`xoff_lacp_*`), snooping (`xoff_multicast_*`),
a custom policy (`xoff_policy_intents_refused_total`, `xoff_shadow_intents_refused_total`).

";

const REASONS: &str = "\
## Reasons of drops

A reason is the label `reason` of `xoff_drops_total`, a key of `drops` in `/status`, and a value of `--dropped` of `xoff capture`.
Only drops of kind `lost` in a lossless class break the promise. In `/metrics` a reason appears with its first frame, `storm_limit`
from the start.

";

#[derive(Debug)]
struct NoPolicy;

impl PolicyFactory for NoPolicy {
    fn policy(&self, _: Class, _: &SwitchSettings) -> Box<dyn CustomPolicy> {
        unreachable!("nothing runs here")
    }
}

pub(super) fn everything() -> String {
    let (view, _inbox) = view();
    let mut view = Arc::into_inner(view).expect("nobody else has it");
    let mut settings = SwitchSettings::clone(&view.settings());
    settings.policy.custom = Some(Custom::new(NoPolicy));
    settings.shadows[0] = PolicyKind::Custom;
    settings.ports[0].ofc_peer = true;
    settings.multicast.vlans = vec![1];
    settings.qcn.ingress = ClassSet(1 << 3);
    settings.pipeline.rate = Some(FrameRate(NonZeroU32::MIN));
    settings.groups = vec![group_with_lacp()];
    view.configured = current::Current::new(settings);
    let handle = Mirror::open(HashMap::new(), Spread::Flow).expect("netlink can be asked").1;
    let of_router = RouterInterface { name: "left".into(), site: Site::Port(PortId(0)), mtu: 1_500 };
    view.router = Some(RouterView::new([&of_router], &view.settings(), handle));
    view.counters.class(PortId(0), CLASS_3).queueing_delay.record(1_000);
    let port = |device_name: &str, name: &str| {
        PortView::new(device_name, 0, device(1, FickleDriver::default())).named(name)
    };
    view.ports = vec![port("l0", "left"), port("r0", "right")];
    render(&view, Format::Prometheus, None)
}

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

fn reasons() -> String {
    let mut text = format!("{REASONS}| reason | kind | meaning |\n|---|---|---|\n");
    let remarks = remarks(include_str!("../../../../flow-control/src/drop_reason.rs"));
    for reason in DropReason::ALL {
        let remark = remarks[&format!("{reason:?}")]
            .replace("[`crate::settings::FLOOD_COPIES_MAX`]", "`FLOOD_COPIES_MAX`");
        let _ = writeln!(text, "| `{}` | {} | {remark} |", reason.name(), reason.kind().name());
    }
    text
}

#[test]
fn reference_document_matches_metrics_and_drop_reasons() {
    compare(&format!("{METRICS}{}", metric_table(&everything())));
    compare(&reasons());
}

#[test]
fn schema_document_matches_status() {
    let schema = format!("{:#}\n", schema().as_value());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/status.schema.json");
    if env::var_os(WRITE).is_some() {
        fs::write(&path, schema).unwrap();
        return;
    }
    assert_eq!(fs::read_to_string(path).unwrap(), schema, "write it again with {WRITE}=1");
}

#[test]
fn reference_document_lists_every_metric_in_the_source() {
    let reference = metric_table(&everything());
    let control = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control");
    let metrics = fs::read_dir(control.join("metrics")).unwrap().map(|it| it.unwrap().path());
    let mut found = 0;
    for source in metrics.chain([control.join("process.rs")]) {
        let text = fs::read_to_string(&source).unwrap();
        let in_tables =
            text.lines().filter(|line| line.contains("\" Counter ") || line.contains("\" Gauge "));
        let in_tables = in_tables.filter_map(|line| line.split('"').nth(1));
        let in_code =
            text.split('"').filter(|name| name.starts_with("xoff_") || name.starts_with("process_"));
        let is_name = |name: &&str| {
            name.len() > "xoff_".len() && name.chars().all(|c| c == '_' || c.is_ascii_lowercase())
        };
        for name in in_tables.chain(in_code).filter(is_name).filter(|name| *name != "xoff_shadow_") {
            assert!(reference.contains(&format!("{name}`")), "{name} of {}", source.display());
            found += 1;
        }
    }
    assert!(found > 120, "{found} names found");
}

#[test]
fn metrics_pass_promtool_lint() {
    let check = |text: &str| {
        let mut promtool = Command::new("promtool");
        promtool
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut promtool =
            promtool.spawn().expect("cannot run promtool, which scripts/install-deps.sh --tests installs");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        output.status.success().then_some(()).ok_or(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let text = everything();
    assert_eq!(check(&text), Ok(()));
    check(&(text + "xoff_some_bits 1\n")).unwrap_err();
}
