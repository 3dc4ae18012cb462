use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::written::{Settings, Written, quoted};

type Table = Map<String, Value>;

const CLASSES: u8 = 8;
const READ: [&str; 15] = [
    "DEVICE_METADATA",
    "PORT",
    "PORT_QOS_MAP",
    "DSCP_TO_TC_MAP",
    "DOT1P_TO_TC_MAP",
    "TC_TO_QUEUE_MAP",
    "TC_TO_PRIORITY_GROUP_MAP",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "PFC_WD",
    "BUFFER_PG",
    "BUFFER_PROFILE",
    "CABLE_LENGTH",
    "QUEUE",
    "SCHEDULER",
    "WRED_PROFILE",
];
/// Tables whose keys are fixed, each with the keys that the import reads.
const KEYS: [(&str, &[&str]); 9] = [
    ("DEVICE_METADATA", &["hostname"]),
    ("PORT", &["admin_status", "mtu", "pfc_asym", "speed"]),
    (
        "PORT_QOS_MAP",
        &[
            "dot1p_to_tc_map",
            "dscp_to_tc_map",
            "pfc_enable",
            "pfc_to_queue_map",
            "pfcwd_sw_enable",
            "tc_to_pg_map",
            "tc_to_queue_map",
        ],
    ),
    ("PFC_WD", &["POLL_INTERVAL", "action", "detection_time", "restoration_time"]),
    ("BUFFER_PG", &["profile"]),
    ("BUFFER_PROFILE", &["dynamic_th", "static_th", "xoff", "xon"]),
    ("QUEUE", &["scheduler", "wred_profile"]),
    ("SCHEDULER", &["type", "weight"]),
    ("WRED_PROFILE", &["ecn", "green_drop_probability", "green_max_threshold", "green_min_threshold"]),
];
/// Kinds of maps: key in PORT_QOS_MAP, and table.
///
/// These maps must map every number to itself: xoff gives each class its own queue, buffer and PFC priority.
const IDENTITIES: [(&str, &str); 3] = [
    ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
    ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"),
    ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
];

/// Converts the tables to a configuration in TOML.
///
/// # Errors
/// Fails if the document is no `config_db.json`.
pub(super) fn converted(db: &Value) -> Result<String, String> {
    let db = Db {
        tables: db.as_object().ok_or("the file has to be a JSON object of tables")?,
        notes: BTreeSet::new(),
    };
    if db.table("PORT").is_none_or(Map::is_empty) {
        return Err(
            "the table PORT is missing, so this is no config_db.json; give the part of one ASIC if the switch has several"
                .into(),
        );
    }
    Ok(db.written().text())
}

struct Db<'a> {
    tables: &'a Table,
    notes: BTreeSet<String>,
}

impl<'a> Db<'a> {
    fn table(&self, table: &str) -> Option<&'a Table> {
        self.tables.get(table)?.as_object()
    }

    fn entry(&self, table: &str, key: &str) -> Option<&'a Table> {
        self.table(table)?.get(key)?.as_object()
    }

    /// Returns the entry `name`, to which `place` refers; adds a note if `table` lacks it.
    fn named(&mut self, table: &str, name: &str, place: &str) -> Option<&'a Table> {
        let entry = self.entry(table, name);
        if entry.is_none() {
            self.note(format!("{table} {name}, to which {place} refers: {table} has no such entry"));
        }
        entry
    }

    fn of_port(&self, table: &str, port: &str) -> Option<&'a Table> {
        let is_of_port = |key: &str| key.split(',').any(|name| name == port);
        self.table(table)?.iter().find(|(key, _)| is_of_port(key))?.1.as_object()
    }

    fn of_class(&self, table: &str, port: &str, class: u8) -> Option<&'a Table> {
        let is_of_class = |key: &str| {
            let (ports, classes) = ports_and_classes(key)?;
            (ports.split(',').any(|name| name == port) && classes.contains(&class)).then_some(())
        };
        self.table(table)?.iter().find(|(key, _)| is_of_class(key).is_some())?.1.as_object()
    }

    /// Adds a note for each key that names a port missing in table PORT, or lacks a class from 0 to 7.
    fn note_foreign_keys(&mut self) {
        let ports: BTreeSet<&str> =
            self.table("PORT").into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let are_ports = |names: &str| names.split(',').all(|name| ports.contains(name));
        for table in ["BUFFER_PG", "QUEUE"] {
            for key in self.table(table).into_iter().flat_map(Map::keys) {
                if !ports_and_classes(key).is_some_and(|(names, _)| are_ports(names)) {
                    self.note(format!(
                        "{key} of {table}, which names a port missing in PORT, or lacks a class from 0 to 7"
                    ));
                }
            }
        }
        for (table, of_all) in [("PORT_QOS_MAP", "global"), ("PFC_WD", "GLOBAL")] {
            for key in self.table(table).into_iter().flat_map(Map::keys) {
                if key != of_all && !are_ports(key) {
                    self.note(format!("{key} of {table}, which names a port missing in PORT"));
                }
            }
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.insert(note.into());
    }

    fn written(mut self) -> Written {
        let mut names: Vec<&String> = self.table("PORT").into_iter().flat_map(Map::keys).collect();
        names.sort_by_key(|name| {
            let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
            (&name[..digits], name[digits..].parse::<u32>().ok())
        });
        let mut written = Written::default();
        let mut alphas = BTreeSet::new();
        for name in names {
            let Some(port) = self.entry("PORT", name) else { continue };
            if text(port, "admin_status") != Some("up") {
                self.note(format!("port {name}, which is not \"up\""));
                continue;
            }
            let settings = self.port(name, port, &mut alphas);
            written.ports.push((name.clone(), settings));
        }
        written.name =
            self.entry("DEVICE_METADATA", "localhost").and_then(|it| text(it, "hostname")).map(str::to_owned);
        let mut alphas = alphas.into_iter();
        if let Some(alpha) = alphas.next() {
            written.memory = vec!["model = \"shared\"".into(), format!("alpha_log2 = {alpha}")];
        }
        alphas.for_each(|alpha| {
            self.note(format!(
                "dynamic_th = {alpha} of BUFFER_PROFILE: xoff has one alpha_log2 for all ports"
            ))
        });
        if let Some(poll) = self.entry("PFC_WD", "GLOBAL").and_then(|it| text(it, "POLL_INTERVAL")) {
            self.note(format!("POLL_INTERVAL = {poll} of PFC_WD: watchdogs of xoff do not poll"));
        }
        self.note_foreign_keys();
        for (table, read) in KEYS {
            let entries = self.table(table).into_iter().flat_map(Map::values).filter_map(Value::as_object);
            let keys: BTreeSet<&str> = entries.flat_map(Map::keys).map(String::as_str).collect();
            let unread: Vec<&str> = keys.into_iter().filter(|key| !read.contains(key)).collect();
            if !unread.is_empty() {
                self.note(format!("{} of {table}", unread.join(", ")));
            }
        }
        let others: Vec<&str> =
            self.tables.keys().map(String::as_str).filter(|table| !READ.contains(table)).collect();
        if !others.is_empty() {
            self.note(format!("the tables {}", others.join(", ")));
        }
        written.notes = self.notes.into_iter().collect();
        written
    }

    fn port(&mut self, name: &str, port: &Table, alphas: &mut BTreeSet<i8>) -> Settings {
        let mut settings = Settings::new();
        let mut set = |class, key, value: String| _ = settings.insert((class, key), value);
        match text(port, "speed").and_then(|speed| speed.parse::<u64>().ok()) {
            Some(mbps) if mbps % 1_000 == 0 => set(None, "speed", format!("\"{}G\"", mbps / 1_000)),
            Some(mbps) => set(None, "speed", format!("\"{mbps}M\"")),
            None => self.note(format!("the speed of port {name}, which PORT does not give in Mb/s")),
        }
        match text(port, "mtu").map(|mtu| (mtu, mtu.parse())) {
            Some((_, Ok(mtu @ 256..=9_216))) => set(None, "mtu", mtu.to_string()),
            Some((mtu, _)) => self.note(format!("mtu = {mtu} of port {name}: xoff allows 256 to 9216")),
            None => {}
        }
        let cables =
            self.table("CABLE_LENGTH").into_iter().flat_map(Map::values).filter_map(Value::as_object);
        let cables: Vec<&str> = cables.filter_map(|lengths| text(lengths, name)).collect();
        let cable = cables.iter().find(|length| **length != "0m");
        cable.into_iter().for_each(|cable| set(None, "cable", quoted(cable)));
        let qos = self.of_port("PORT_QOS_MAP", name);
        let global = self.entry("PORT_QOS_MAP", "global");
        let map_name =
            |key: &str| [qos, global].into_iter().flatten().find_map(|it| text(it, key)).map(reference);
        let dscp = map_name("dscp_to_tc_map")
            .and_then(|map| self.classes("DSCP_TO_TC_MAP", map, |dscp| dscp / 8, 64));
        let pcp =
            map_name("dot1p_to_tc_map").and_then(|map| self.classes("DOT1P_TO_TC_MAP", map, |pcp| pcp, 8));
        let trust = match (&dscp, &pcp) {
            (Some(_), Some(_)) => "both",
            (Some(_), None) => "dscp",
            (None, Some(_)) => "pcp",
            (None, None) => "port",
        };
        set(None, "trust", format!("{trust:?}"));
        dscp.filter(|map| !map.is_empty())
            .into_iter()
            .for_each(|map| set(None, "dscp_map", format!("{{ {map} }}")));
        pcp.filter(|map| !map.is_empty())
            .into_iter()
            .for_each(|map| set(None, "pcp_map", format!("{{ {map} }}")));
        for (key, table) in IDENTITIES {
            map_name(key).into_iter().for_each(|map| self.compare_identity(table, map));
        }
        let lossless =
            self.list(name, "pfc_enable", qos.and_then(|it| text(it, "pfc_enable")).unwrap_or_default());
        set(None, "lossless", format!("{lossless:?}"));
        if cable.is_none() && !cables.is_empty() && !lossless.is_empty() {
            self.note(format!(
                "CABLE_LENGTH 0m of {name}: SONiC reserves no headroom there, xoff reserves it for its default cable"
            ));
        }
        if text(port, "pfc_asym") == Some("on") {
            set(None, "pause", "\"asymmetric\"".into());
        }
        let guarded = qos.and_then(|it| text(it, "pfcwd_sw_enable"));
        let guarded =
            guarded.map_or_else(|| lossless.clone(), |text| self.list(name, "pfcwd_sw_enable", text));
        for class in 0..CLASSES {
            let is_lossless = lossless.contains(&class);
            if let Some(watchdog) =
                self.of_port("PFC_WD", name).filter(|_| is_lossless && guarded.contains(&class))
            {
                let action = text(watchdog, "action").unwrap_or("drop");
                set(Some(class), "watchdog", quoted(action));
                let times = [("watchdog_detect", "detection_time"), ("watchdog_restore", "restoration_time")];
                for (key, of) in times {
                    let millis = self.number::<u64>(watchdog, of, &format!("PFC_WD {name}"));
                    millis.into_iter().for_each(|millis| set(Some(class), key, format!("\"{millis}ms\"")));
                }
            }
            let profile =
                self.of_class("BUFFER_PG", name, class).and_then(|it| text(it, "profile")).map(reference);
            let place = format!("{name}|{class}");
            let profile = profile.filter(|profile| *profile != "NULL");
            let profile =
                profile.and_then(|profile| Some((profile, self.named("BUFFER_PROFILE", profile, &place)?)));
            if let Some((profile, buffer)) = profile.filter(|_| is_lossless) {
                let place = format!("BUFFER_PROFILE {profile}");
                alphas.extend(self.number::<i8>(buffer, "dynamic_th", &place));
                let [limit, xon] = ["static_th", "xon"].map(|key| self.number::<u64>(buffer, key, &place));
                limit.into_iter().for_each(|bytes| set(Some(class), "xoff", format!("\"{bytes}B\"")));
                match xon {
                    Some(bytes) if limit.is_some() => set(Some(class), "xon", format!("\"{bytes}B\"")),
                    Some(bytes) => self.note(format!("xon = {bytes} of {place}, which has no static_th")),
                    None => {}
                }
                if let Some(headroom) = text(buffer, "xoff") {
                    self.note(format!(
                        "headroom xoff = {headroom} of BUFFER_PROFILE {profile}: xoff computes it from speed, cable, mtu and stall_budget"
                    ));
                }
            } else if let Some((profile, buffer)) = profile {
                if buffer.contains_key("xoff") {
                    self.note(format!(
                        "BUFFER_PROFILE {profile} of {name}|{class}, a class without pfc_enable"
                    ));
                }
                for key in ["dynamic_th", "static_th"] {
                    text(buffer, key).into_iter().for_each(|given| {
                        self.note(format!(
                            "{key} = {given} of BUFFER_PROFILE {profile}: only thresholds of lossless classes are converted"
                        ))
                    });
                }
            }
            let queue = self.of_class("QUEUE", name, class);
            let [scheduler, wred] = [("scheduler", "SCHEDULER"), ("wred_profile", "WRED_PROFILE")]
                .map(|(key, table)| self.named(table, reference(text(queue?, key)?), &place));
            match scheduler.map(|it| (text(it, "type"), text(it, "weight"))) {
                Some((Some("STRICT"), _)) => set(Some(class), "weight", "\"strict\"".into()),
                Some((_, Some(weight))) => match weight.parse::<u32>() {
                    Ok(weight) => set(Some(class), "weight", weight.to_string()),
                    Err(_) => self.note(format!(
                        "weight = {weight} of SCHEDULER at {name}|{class}, which is no number"
                    )),
                },
                Some(_) => self.note(format!("the SCHEDULER of {name}|{class}, which has no weight")),
                None => {}
            }
            if let Some(wred) = wred
                .filter(|it| text(it, "ecn").is_some_and(|ecn| ecn.contains("all") || ecn.contains("green")))
            {
                let place = format!("WRED_PROFILE at {name}|{class}");
                let limits = [("ecn_min", "green_min_threshold"), ("ecn_max", "green_max_threshold")];
                for (key, of) in limits {
                    let bytes = self.number::<u64>(wred, of, &place);
                    bytes.into_iter().for_each(|bytes| set(Some(class), key, format!("\"{bytes}B\"")));
                }
                let percent = self.number::<u8>(wred, "green_drop_probability", &place).map(f64::from);
                percent
                    .into_iter()
                    .for_each(|it| set(Some(class), "ecn_probability", format!("{:?}", it / 100.0)));
            } else if wred.is_some() {
                self.note(format!("the WRED_PROFILE of {name}|{class}, which marks no green packets by ECN"));
            }
        }
        settings
    }

    fn number<N: FromStr>(&mut self, entry: &Table, key: &str, place: &str) -> Option<N> {
        let given = text(entry, key)?;
        let number = given.parse().ok();
        if number.is_none() {
            self.note(format!("{key} = {given} of {place}, which is no number that xoff accepts"));
        }
        number
    }

    fn list(&mut self, port: &str, key: &str, text: &str) -> Vec<u8> {
        let mut classes = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry.parse() {
                Ok(class) if class < CLASSES => classes.push(class),
                _ => self.note(format!("{entry} in {key} of {port}: xoff has classes 0 to 7")),
            }
        }
        classes
    }

    /// Returns a map from DSCP or PCP values to classes as TOML, without entries equal to `default`.
    ///
    /// Values without a valid class (0 to 7) get class 0, as missing values do in SONiC.
    fn classes(&mut self, table: &str, map: &str, default: fn(u8) -> u8, codes: u8) -> Option<String> {
        let entries = self.named(table, map, "PORT_QOS_MAP")?;
        for key in entries.keys().filter(|key| !is_code(key, codes)) {
            self.note(format!("{key:?} of {table} {map}, which is no number from 0 to {}", codes - 1));
        }
        let mut ranges: Vec<(u8, u8, u8)> = Vec::new();
        for code in 0..codes {
            let given = text(entries, &code.to_string());
            let class = given.map_or(Some(0), |it| it.parse().ok().filter(|class| *class < CLASSES));
            if let (Some(given), None) = (given, class) {
                self.note(format!(
                    "{code} -> {given} of {table} {map}: xoff has classes 0 to 7; {code} gets class 0"
                ));
            }
            let class = class.unwrap_or(0);
            match ranges.last_mut() {
                _ if class == default(code) => {}
                Some((_, to, of)) if *of == class && *to + 1 == code => *to = code,
                _ => ranges.push((code, code, class)),
            }
        }
        let range = |(from, to, class)| {
            if from == to { format!("{from} = {class}") } else { format!("{from}-{to} = {class}") }
        };
        Some(ranges.into_iter().map(range).collect::<Vec<_>>().join(", "))
    }

    fn compare_identity(&mut self, table: &str, map: &str) {
        let entries = self.named(table, map, "PORT_QOS_MAP").into_iter().flatten();
        let different =
            entries.filter_map(|(from, to)| Some((from, to.as_str()?))).filter(|(from, to)| from != to);
        let different: Vec<String> = different.map(|(from, to)| format!("{from} -> {to}")).collect();
        if !different.is_empty() {
            self.note(format!(
                "{} of {table} {map}: xoff gives each class its own queue, buffer and priority",
                different.join(", ")
            ));
        }
    }
}

/// Splits a key such as `Ethernet0,Ethernet4|3-4`.
fn ports_and_classes(key: &str) -> Option<(&str, RangeInclusive<u8>)> {
    let (ports, classes) = key.split_once('|')?;
    let (from, to) = classes.split_once('-').unwrap_or((classes, classes));
    let (from, to): (u8, u8) = from.parse().ok().zip(to.parse().ok())?;
    (from <= to && to < CLASSES).then_some((ports, from..=to))
}

fn text<'a>(entry: &'a Table, key: &str) -> Option<&'a str> {
    entry.get(key)?.as_str()
}

fn is_code(key: &str, codes: u8) -> bool {
    key.parse().is_ok_and(|code: u8| code < codes && code.to_string() == key)
}

fn reference(text: &str) -> &str {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    inner.rsplit_once('|').map_or(inner, |(_, name)| name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
