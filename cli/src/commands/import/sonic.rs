use std::collections::BTreeSet;

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
/// Keys that the import reads, by table. Other tables that it reads are maps.
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
/// Maps that must be the identity, because each class of xoff has its own queue, buffer and PFC
/// priority: key in PORT_QOS_MAP, table.
const IDENTITIES: [(&str, &str); 3] = [
    ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
    ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"),
    ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
];

/// Converts the tables to a configuration in TOML.
///
/// # Errors
/// If the document is no `config_db.json`.
pub(super) fn converted(db: &Value) -> Result<String, String> {
    let db = Db {
        tables: db.as_object().ok_or("the file has to be an object of tables")?,
        notes: BTreeSet::new(),
    };
    if db.table("PORT").is_none_or(Map::is_empty) {
        return Err("the table PORT is missing, so this is no config_db.json".into());
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

    fn of_port(&self, table: &str, port: &str) -> Option<&'a Table> {
        let is_of_port = |key: &str| key.split(',').any(|name| name == port);
        self.table(table)?.iter().find(|(key, _)| is_of_port(key))?.1.as_object()
    }

    fn of_class(&self, table: &str, port: &str, class: u8) -> Option<&'a Table> {
        let is_of_class = |key: &str| {
            let (ports, classes) = key.split_once('|')?;
            let (from, to) = classes.split_once('-').unwrap_or((classes, classes));
            let (from, to): (u8, u8) = from.parse().ok().zip(to.parse().ok())?;
            (ports.split(',').any(|name| name == port) && (from..=to).contains(&class)).then_some(())
        };
        self.table(table)?.iter().find(|(key, _)| is_of_class(key).is_some())?.1.as_object()
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
            self.note(format!("dynamic_th = {alpha} of BUFFER_PROFILE: all ports have the same alpha_log2"))
        });
        if let Some(poll) = self.entry("PFC_WD", "GLOBAL").and_then(|it| text(it, "POLL_INTERVAL")) {
            self.note(format!("POLL_INTERVAL = {poll} of PFC_WD: watchdogs of xoff do not poll"));
        }
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
        let cable = cables.filter_map(|lengths| text(lengths, name)).find(|length| *length != "0m");
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
                    let millis = self.number(watchdog, of, &format!("PFC_WD {name}"));
                    millis.into_iter().for_each(|millis| set(Some(class), key, format!("\"{millis}ms\"")));
                }
            }
            let profile =
                self.of_class("BUFFER_PG", name, class).and_then(|it| text(it, "profile")).map(reference);
            let profile = profile.and_then(|profile| Some((profile, self.entry("BUFFER_PROFILE", profile)?)));
            if let Some((profile, buffer)) = profile.filter(|_| is_lossless) {
                alphas.extend(text(buffer, "dynamic_th").and_then(|alpha| alpha.parse::<i8>().ok()));
                let place = format!("BUFFER_PROFILE {profile}");
                let [limit, xon] = ["static_th", "xon"].map(|key| self.number(buffer, key, &place));
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
                            "{key} = {given} of BUFFER_PROFILE {profile}: thresholds of lossy classes"
                        ))
                    });
                }
            }
            let queue = self.of_class("QUEUE", name, class);
            let tables = self.tables;
            let of_queue = |key: &str, table: &str| {
                tables.get(table)?.as_object()?.get(reference(text(queue?, key)?))?.as_object()
            };
            match of_queue("scheduler", "SCHEDULER").map(|it| (text(it, "type"), text(it, "weight"))) {
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
            let wred = of_queue("wred_profile", "WRED_PROFILE");
            if let Some(wred) = wred
                .filter(|it| text(it, "ecn").is_some_and(|ecn| ecn.contains("all") || ecn.contains("green")))
            {
                let limits = [("ecn_min", "green_min_threshold"), ("ecn_max", "green_max_threshold")];
                for (key, of) in limits {
                    let bytes = self.number(wred, of, &format!("WRED_PROFILE at {name}|{class}"));
                    bytes.into_iter().for_each(|bytes| set(Some(class), key, format!("\"{bytes}B\"")));
                }
                let percent = text(wred, "green_drop_probability").and_then(|it| it.parse::<f64>().ok());
                percent
                    .into_iter()
                    .for_each(|it| set(Some(class), "ecn_probability", format!("{:?}", it / 100.0)));
            } else if wred.is_some() {
                self.note(format!("the WRED_PROFILE of {name}|{class}, which marks no green packets by ECN"));
            }
        }
        settings
    }

    fn number(&mut self, entry: &Table, key: &str, place: &str) -> Option<u64> {
        let given = text(entry, key)?;
        let number = given.parse().ok();
        if number.is_none() {
            self.note(format!("{key} = {given} of {place}, which is no number"));
        }
        number
    }

    /// Returns the classes of a comma-separated list. Other entries become notes.
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

    /// Returns a map from codes to classes as TOML, without entries equal to `default`. SONiC gives
    /// class 0 to a code that the map lacks.
    fn classes(&mut self, table: &str, map: &str, default: fn(u8) -> u8, codes: u8) -> Option<String> {
        let entries = self.entry(table, map);
        if entries.is_none() {
            self.note(format!("{table} {map}, which PORT_QOS_MAP names, but the table does not have"));
        }
        let entries = entries?;
        let class =
            |code: u8| text(entries, &code.to_string()).map_or(Ok(0), |it| it.parse::<u8>().map_err(|_| it));
        let mut ranges: Vec<(u8, u8, u8)> = Vec::new();
        for code in 0..codes {
            match class(code) {
                Ok(class) if class >= CLASSES => {
                    self.note(format!("{code} -> {class} of {table} {map}: xoff has classes 0 to 7"))
                }
                Err(given) => self.note(format!("{code} -> {given:?} of {table} {map}, which is no number")),
                Ok(class) if class == default(code) => {}
                Ok(class) => match ranges.last_mut() {
                    Some((_, to, of)) if *of == class && *to + 1 == code => *to = code,
                    _ => ranges.push((code, code, class)),
                },
            }
        }
        let range = |(from, to, class)| {
            if from == to { format!("{from} = {class}") } else { format!("{from}-{to} = {class}") }
        };
        Some(ranges.into_iter().map(range).collect::<Vec<_>>().join(", "))
    }

    fn compare_identity(&mut self, table: &str, map: &str) {
        let entries = self.entry(table, map).into_iter().flatten();
        let different =
            entries.filter_map(|(from, to)| Some((from, to.as_str()?))).filter(|(from, to)| from != to);
        let different: Vec<String> = different.map(|(from, to)| format!("{from} -> {to}")).collect();
        if !different.is_empty() {
            self.note(format!(
                "{} of {table} {map}: each class of xoff has its own queue, buffer and priority",
                different.join(", ")
            ));
        }
    }
}

fn text<'a>(entry: &'a Table, key: &str) -> Option<&'a str> {
    entry.get(key)?.as_str()
}

fn reference(text: &str) -> &str {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    inner.rsplit_once('|').map_or(inner, |(_, name)| name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;
    use xoff_config::{Config, Machine};
    use xoff_flow_control::settings::{Memory, Service, Trust, WatchdogAction};
    use xoff_wire::units::{BitRate, Bytes, Class};

    use super::*;

    fn db() -> Value {
        let qos = json!({
            "dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE", "pfc_enable": "3,4",
            "pfcwd_sw_enable": "3"
        });
        let dscp: Table = (0..64)
            .map(|dscp: u8| {
                let class = match dscp {
                    3 => "3",
                    4 => "4",
                    _ => "1",
                };
                (dscp.to_string(), class.into())
            })
            .collect();
        json!({
            "DEVICE_METADATA": { "localhost": { "hostname": "leaf-1" } },
            "PORT": {
                "Ethernet0": { "speed": "100000", "mtu": "9100", "admin_status": "up" },
                "Ethernet12": { "speed": "40000", "mtu": "9100", "admin_status": "up", "pfc_asym": "on" },
                "Ethernet4": { "speed": "100000", "mtu": "9100", "admin_status": "up" },
                "Ethernet8": { "speed": "100000", "admin_status": "down" }
            },
            "PORT_QOS_MAP": { "Ethernet0,Ethernet4": qos, "Ethernet12": qos },
            "DSCP_TO_TC_MAP": { "AZURE": dscp },
            "TC_TO_QUEUE_MAP": { "AZURE": { "3": "3", "4": "4" } },
            "TC_TO_PRIORITY_GROUP_MAP": { "AZURE": { "1": "0", "3": "3" } },
            "CABLE_LENGTH": { "AZURE": { "Ethernet0": "5m", "Ethernet4": "300m", "Ethernet12": "0m" } },
            "PFC_WD": {
                "GLOBAL": { "POLL_INTERVAL": "200" },
                "Ethernet0": { "action": "forward", "detection_time": "400", "restoration_time": "2000" }
            },
            "BUFFER_PG": { "Ethernet0|3-4": { "profile": "[BUFFER_PROFILE|lossless]" }, "Ethernet4|0": { "profile": "NULL" } },
            "BUFFER_PROFILE": { "lossless": { "xon": "18432", "xoff": "165568", "dynamic_th": "-3" } },
            "QUEUE": { "Ethernet0|3": { "scheduler": "s1", "wred_profile": "w" }, "Ethernet0|6": { "scheduler": "s2" } },
            "SCHEDULER": { "s1": { "type": "DWRR", "weight": "15" }, "s2": { "type": "STRICT" } },
            "WRED_PROFILE": { "w": {
                "ecn": "ecn_all", "green_min_threshold": "250000", "green_max_threshold": "2097152", "green_drop_probability": "5"
            } },
            "BGP_NEIGHBOR": {}, "LOOPBACK_INTERFACE": {}
        })
    }

    #[test] // proves: sonic-import
    fn sonic_qos_tables_become_a_valid_configuration() {
        let text = converted(&db()).unwrap();
        let config = Config::from_toml("sonic.toml", &text, Machine::default()).unwrap();
        let ports = &config.switch.ports;
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(
            (config.shell.name.as_str(), names),
            ("leaf-1", vec!["Ethernet0", "Ethernet4", "Ethernet12"]),
            "{text}"
        );
        assert_eq!([0, 1, 2].map(|port| ports[port].speed), [100, 100, 40].map(BitRate::from_gbps));
        assert_eq!([0, 1, 2].map(|port| config.cables[port].0), [25, 1_500, 50], "{text}");
        let classes = |port: usize, dscp: usize| ports[port].dscp_to_class[dscp];
        assert_eq!(
            [3, 4, 0, 24, 46].map(|dscp| classes(2, dscp)),
            [3, 4, 1, 1, 1].map(|class| Class::new(class).unwrap())
        );
        assert_eq!(ports[0].trust, Trust::Dscp);
        let of = |port: usize, class: usize| &ports[port].classes[class];
        assert_eq!([2, 3, 4, 5].map(|class| of(1, class).lossless), [false, true, true, false]);
        let watchdog = of(0, 3).watchdog.as_ref().unwrap();
        assert_eq!(
            (watchdog.action, watchdog.detect.0, watchdog.restore.0),
            (WatchdogAction::Forward, 400_000_000, 2_000_000_000)
        );
        assert!(of(0, 4).watchdog.is_none() && of(1, 3).watchdog.is_none());
        assert_eq!((of(0, 3).service, of(0, 6).service), (Service::Weighted(15), Service::Strict));
        let ecn = of(0, 3).ecn.as_ref().unwrap();
        assert_eq!((ecn.min, ecn.max, ecn.probability), (Bytes(250_000), Bytes(2_097_152), 0.05));
        assert!(
            matches!(&config.switch.memory, Memory::Shared(shared) if shared.alpha_log2 == Some(-3)),
            "{text}"
        );
        for note in [
            "port Ethernet8",
            "1 -> 0 of TC_TO_PRIORITY_GROUP_MAP AZURE",
            "headroom xoff = 165568 of BUFFER_PROFILE lossless",
            "POLL_INTERVAL = 200",
            "the tables BGP_NEIGHBOR, LOOPBACK_INTERFACE",
        ] {
            assert!(text.contains(&format!("# Not converted: {note}")), "{note} is not in\n{text}");
        }
        assert_eq!(text.matches("dscp_map").count(), 1, "a shared map is written for each port\n{text}");
    }

    #[test]
    fn sonic_import_refuses_other_json_and_names_odd_values() {
        for other in [json!([]), json!({}), json!({ "PORT": {} })] {
            converted(&other).unwrap_err();
        }
        let mut odd = db();
        odd["PORT"]["Ethernet0"] = json!({ "speed": "fast", "mtu": "12000", "admin_status": "up" });
        odd["DSCP_TO_TC_MAP"]["AZURE"]["9"] = json!("12");
        odd["BUFFER_PG"]["Ethernet0|0"] = json!({ "profile": "lossy" });
        odd["BUFFER_PROFILE"]["lossy"] = json!({ "size": "0", "dynamic_th": "3" });
        odd["PORT_QOS_MAP"]["Ethernet12"]["dscp_to_tc_map"] = json!("MISSING");
        let text = converted(&odd).unwrap();
        for note in [
            "the speed of port Ethernet0",
            "mtu = 12000 of port Ethernet0",
            "9 -> 12 of",
            "dynamic_th = 3 of BUFFER_PROFILE lossy: thresholds of lossy classes",
            "DSCP_TO_TC_MAP MISSING",
        ] {
            assert!(text.contains(&format!("# Not converted: {note}")), "{note} is not in\n{text}");
        }
    }
    /// Line breaks and control characters in values must add no keys, and unknown keys must become
    /// comments.
    #[test]
    fn hostile_sonic_values_add_no_keys() {
        let mut odd = db();
        odd["SCHEDULER"]["s1"] = json!({ "type": "DWRR", "weight": "15\nlossless = [4]", "pir": "7" });
        odd["PORT"]["Ethernet0"]["mtu"] = json!("9100\nlossless = [5]");
        odd["PORT"]["Ethernet0"]["fec"] = json!("rs");
        odd["PORT_QOS_MAP"]["Ethernet12"]["pfc_enable"] = json!("3,x,9");
        odd["PFC_WD"]["Ethernet0"]["detection_time"] = json!("400ms\"\nx = \"1");
        let text = converted(&odd).unwrap();
        let config = Config::from_toml("sonic.toml", &text, Machine::default()).unwrap();
        let lossless = |class: usize| config.switch.ports[0].classes[class].lossless;
        assert_eq!([3, 4, 5].map(lossless), [true, true, false], "{text}");
        assert_eq!(quoted("a\u{7f}\n\"b"), r#""a\u007F\n\"b""#);
        for note in [
            "weight = 15 lossless = [4] of SCHEDULER",
            "pir of SCHEDULER",
            "fec of PORT",
            "x in pfc_enable of Ethernet12",
            "9 in pfc_enable of Ethernet12",
            "xon = 18432 of BUFFER_PROFILE lossless",
            "detection_time = 400ms",
        ] {
            assert!(text.contains(&format!("# Not converted: {note}")), "{note} is not in\n{text}");
        }
    }
}
