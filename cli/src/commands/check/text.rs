use std::collections::BTreeSet;

use comfy_table::presets::{NOTHING, UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use xoff_config::written::{counted, folded, mebibytes, ranges};
use xoff_wire::units::Bytes;

use super::table::Rows;
use crate::cli::wrapped;

const WIDTH: usize = 80;
/// Maximum lines of the table of ports without `--verbose`, so that all output fits 24 lines.
const PORT_LINES_MAX: usize = 17;

/// Tables with a row per port and class: title, JSON key that an object needs to get a row, and
/// columns.
const OF_PORTS: [(&str, &str, &str); 9] = [
    ("Ports", "port", "port device speed_bps mtu queues sockets trust routed pvid tagged untagged"),
    (
        "Ring sizes (entries), and receive chunks needed in a stall",
        "port",
        "port fill_ring rx_ring tx_ring completion_ring stall_chunks burst_bytes commit_bytes",
    ),
    ("Pauses", "port", "port pause obeys sends pause_time_us refresh_us"),
    (
        "Classes",
        "port",
        "port class lossless xoff_bytes xon_bytes headroom_bytes xoff_frames ingress_max_bytes egress_max_bytes \
         egress_max_frames queue weight max_rate_bps policy",
    ),
    (
        "Policy thresholds other than XOFF and XON (bytes)",
        "policy_thresholds",
        "port class policy policy_thresholds",
    ),
    ("ECN", "ecn", "port class ecn"),
    ("Watchdog", "watchdog", "port class watchdog"),
    (
        "A congested line (us): how long it stays busy after XON, and how long a frame waits below XOFF,\n\
         if one port or all ports send to it; how long a stall of its worker it makes up for",
        "congested",
        "port class congested",
    ),
    (
        "Headroom for frames that arrive after XOFF was due (bytes)",
        "headroom_terms",
        "port class headroom_terms headroom_bytes",
    ),
];

const OF_SWITCH: [(&str, &str); 5] = [
    ("Workers", "workers"),
    ("Pipeline", "pipeline"),
    ("Router", "router"),
    ("Congestion points", "qcn"),
    ("Memory", "memory"),
];

#[must_use]
pub fn text(view: &Value, verbose: bool) -> String {
    let classes = classes(view);
    let mut sections = vec![head(view, &classes), ports(&classes), totals(view)];
    if verbose {
        sections.extend(tables(view, &classes));
    }
    for (title, key) in [("Warnings", "warnings"), ("Notes", "notes")] {
        let lines = remarks(&view["file"], list(&view[key]));
        if !lines.is_empty() {
            sections.push(format!("{title}\n{}", lines.join("\n")));
        }
    }
    sections.join("\n\n") + "\n"
}

fn classes(view: &Value) -> Vec<Value> {
    let of_port = |port: &Value| -> Vec<Value> {
        let class = |class: &Value| {
            let name = json!({ "port": port["name"] });
            let fields = [&name, port, class].into_iter().filter_map(Value::as_object).cloned();
            fields.flatten().collect()
        };
        list(&port["classes"]).iter().map(class).collect()
    };
    list(&view["ports"]).iter().flat_map(of_port).collect()
}

fn head(view: &Value, classes: &[Value]) -> String {
    let lossless = classes.iter().filter(is_lossless);
    let policies: BTreeSet<&str> = lossless.map(|class| word(&class["policy"])).collect();
    let millis = view["stall_budget_us"].as_f64().unwrap_or_default().round() / 1_000.0;
    paragraph(&format!(
        "{file}: valid; switch {name}, {ports}, {memory} memory, {policies}, stall budget {millis} ms if frames average {smallest}+ bytes",
        file = word(&view["file"]),
        name = word(&view["name"]),
        ports = counted(list(&view["ports"]).len(), "port", "ports"),
        memory = word(&view["memory_model"]),
        policies = if policies.is_empty() {
            "no lossless class".into()
        } else {
            format!("policy {}", Vec::from_iter(policies).join(", "))
        },
        smallest = view["smallest_frame_bytes"],
    ))
}

fn is_lossless(class: &&Value) -> bool {
    class["lossless"] == true
}

fn ports(classes: &[Value]) -> String {
    let lossless = |class: &Value| {
        let mut class = class.clone();
        class["lossless"] = class["class"].take();
        class
    };
    let lossy_port = |class: &Value| {
        let all = classes.iter().filter(|other| other["port"] == class["port"]);
        (all.filter(is_lossless).count() == 0).then(
            || json!({ "port": class["port"], "device": class["device"], "speed_bps": class["speed_bps"] }),
        )
    };
    let rows: Vec<Value> = classes
        .iter()
        .filter_map(|class| if is_lossless(&class) { Some(lossless(class)) } else { lossy_port(class) })
        .collect();
    let table = |keys: &str| Rows::of(keys, &rows).fold("lossless").text(NOTHING, Some(WIDTH));
    let every_device = table("port device speed_bps lossless xoff_bytes xon_bytes headroom_bytes");
    if every_device.lines().count() <= PORT_LINES_MAX {
        return every_device;
    }
    let text = table("port speed_bps lossless xoff_bytes xon_bytes headroom_bytes");
    if text.lines().count() <= PORT_LINES_MAX {
        return text;
    }
    let lines: Vec<&str> = text.lines().take(PORT_LINES_MAX - 1).collect();
    lines.join("\n") + "\n and others: --verbose prints every port"
}

fn totals(view: &Value) -> String {
    let mebibytes = |key: &str| mebibytes(Bytes(view[key].as_u64().unwrap_or_default()));
    let assumed = list(&view["ports"]).iter().any(|port| port["sockets"].is_null());
    let spare = match mebibytes("spare_memory_bytes") {
        0 => String::new(),
        spare => format!(" ({spare} MiB of it only when spare ports are in use)"),
    };
    paragraph(&format!(
        "memory {process} MiB{spare}, and {kernel} MiB in the kernel{note}; workers: {workers}; http: {http}",
        process = mebibytes("memory_total_bytes"),
        kernel = mebibytes("kernel_memory_bytes"),
        note = if assumed { " (one queue assumed for devices that were not checked)" } else { "" },
        workers = workers(list(&view["workers"])),
        http = view["http"].as_str().unwrap_or("off"),
    ))
}

fn workers(workers: &[Value]) -> String {
    let core = |worker: &Value| worker["core"].as_u64().and_then(|core| u16::try_from(core).ok());
    let mut groups: Vec<(usize, Vec<Option<u16>>)> = Vec::new();
    for worker in workers {
        let (ports, core) = (list(&worker["ports"]).len(), core(worker));
        match groups.iter_mut().find(|(of, cores)| *of == ports && cores[0].is_some() == core.is_some()) {
            Some((_, cores)) => cores.push(core),
            None => groups.push((ports, vec![core])),
        }
    }
    let phrase = |(ports, cores): (usize, Vec<Option<u16>>)| {
        let ports = counted(ports, "port", "ports");
        let mut numbers: Vec<u16> = cores.iter().flatten().copied().collect();
        numbers.sort_unstable();
        match (cores.len(), numbers.is_empty()) {
            (1, true) => format!("{ports} on any core"),
            (count, true) => format!("{count} with {ports} each on any core"),
            (1, false) => format!("{ports} on core {}", numbers[0]),
            (count, false) => format!("{count} with {ports} each on cores {}", ranges(&numbers)),
        }
    };
    groups.into_iter().map(phrase).collect::<Vec<_>>().join(", ")
}

fn tables(view: &Value, classes: &[Value]) -> Vec<String> {
    let switch = "poll stall_budget_us smallest_frame_bytes accounting memory_model when_full chunk_bytes receive_chunks multi_buffer";
    let table = |title: &str, keys: &str, rows: &[Value]| {
        let rows = Rows::of(keys, rows).fold("class");
        (!rows.is_empty()).then(|| format!("{title}\n{}", rows.text(UTF8_FULL_CONDENSED, None)))
    };
    let of_ports = OF_PORTS.iter().filter_map(|(title, needed, keys)| {
        let is_there = |class: &&Value| !class[*needed].is_null() && class[*needed] != json!({});
        table(title, keys, &classes.iter().filter(is_there).cloned().collect::<Vec<_>>())
    });
    let of_switch = OF_SWITCH.iter().filter_map(|(title, key)| {
        let objects = match &view[*key] {
            Value::Null => &[],
            Value::Array(list) => list.as_slice(),
            object => std::slice::from_ref(object),
        };
        table(title, key, &objects.iter().map(|object| json!({ *key: object })).collect::<Vec<_>>())
    });
    table("Switch", switch, std::slice::from_ref(view)).into_iter().chain(of_ports).chain(of_switch).collect()
}

fn remarks(file: &Value, problems: &[Value]) -> Vec<String> {
    let text = |problem: &Value| format!("{} \n {}", word(&problem["message"]), word(&problem["help"]));
    let entry = |(first, text): (usize, String)| {
        let (message, help) = text.split_once(" \n ").unwrap_or((&text, ""));
        let place = match (problems[first]["line"].as_u64(), problems[first]["column"].as_u64()) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}: ", word(file)),
            _ => String::new(),
        };
        let indented = |indent: usize, text: &str| {
            wrapped(text, WIDTH - indent).into_iter().map(move |line| " ".repeat(indent) + &line)
        };
        let help = (!help.is_empty()).then_some(help);
        let lines =
            indented(2, &(place + message)).chain(help.into_iter().flat_map(|help| indented(4, help)));
        lines.collect::<Vec<String>>()
    };
    folded(problems.iter().map(text)).into_iter().flat_map(entry).collect()
}

fn paragraph(text: &str) -> String {
    wrapped(text, WIDTH).join("\n")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
