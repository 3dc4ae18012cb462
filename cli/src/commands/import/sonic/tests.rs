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
fn sonic_import_refuses_other_json_and_lists_unconverted_values() {
    for other in [json!([]), json!({}), json!({ "PORT": {} })] {
        converted(&other).unwrap_err();
    }
    let mut odd = db();
    odd["PORT"]["Ethernet0"] = json!({ "speed": "fast", "mtu": "12000", "admin_status": "up" });
    odd["DSCP_TO_TC_MAP"]["AZURE"]["9"] = json!("12");
    odd["BUFFER_PG"]["Ethernet0|0"] = json!({ "profile": "lossy" });
    odd["BUFFER_PROFILE"]["lossy"] = json!({ "size": "0", "dynamic_th": "3" });
    odd["PORT_QOS_MAP"]["Ethernet12"]["dscp_to_tc_map"] = json!("MISSING");
    odd["PORT_QOS_MAP"]["Ethernet12"]["tc_to_pg_map"] = json!("OTHER");
    odd["QUEUE"]["Ethernet4|3"] = json!({ "scheduler": "s9", "wred_profile": "[WRED_PROFILE|w9]" });
    odd["CABLE_LENGTH"]["AZURE"]["Ethernet4"] = json!("0m");
    odd["CABLE_LENGTH"]["A"] = json!({ "Ethernet0": "0m" });
    let text = converted(&odd).unwrap();
    for note in [
        "the speed of port Ethernet0",
        "mtu = 12000 of port Ethernet0",
        "9 -> 12 of",
        "dynamic_th = 3 of BUFFER_PROFILE lossy: only thresholds of lossless classes are converted",
        "DSCP_TO_TC_MAP MISSING, to which PORT_QOS_MAP refers",
        "TC_TO_PRIORITY_GROUP_MAP OTHER, to which PORT_QOS_MAP refers",
        "SCHEDULER s9, to which Ethernet4|3 refers",
        "WRED_PROFILE w9, to which Ethernet4|3 refers",
        "CABLE_LENGTH 0m of Ethernet4",
    ] {
        assert!(text.contains(&format!("# Not converted: {note}")), "{note} is not in\n{text}");
    }
}

#[test]
fn line_breaks_in_sonic_values_add_no_configuration_keys() {
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

#[test] // proves: sonic-import
fn sonic_import_lists_keys_and_values_that_no_port_can_have() {
    let mut odd = db();
    odd["DSCP_TO_TC_MAP"]["AZURE"]["33"] = json!("8");
    odd["DSCP_TO_TC_MAP"]["AZURE"]["0-7"] = json!("1");
    odd["DSCP_TO_TC_MAP"]["AZURE"]["64"] = json!("3");
    odd["BUFFER_PG"] = json!({
        "Ethernet0|3-4": { "profile": "lost" },
        "Ethernet0|9": { "profile": "NULL" },
        "Ethernet9|3": { "profile": "NULL" }
    });
    odd["WRED_PROFILE"]["w"]["green_drop_probability"] = json!("five");
    odd["PFC_WD"]["Ethernet77"] = json!({ "detection_time": "400" });
    let text = converted(&odd).unwrap();
    for note in [
        "33 -> 8 of DSCP_TO_TC_MAP AZURE: xoff has classes 0 to 7; 33 gets class 0",
        "\"0-7\" of DSCP_TO_TC_MAP AZURE, which is no number from 0 to 63",
        "\"64\" of DSCP_TO_TC_MAP AZURE",
        "BUFFER_PROFILE lost, to which Ethernet0|3 refers",
        "Ethernet0|9 of BUFFER_PG, which names a port missing in PORT",
        "Ethernet9|3 of BUFFER_PG",
        "Ethernet77 of PFC_WD",
        "green_drop_probability = five of WRED_PROFILE at Ethernet0|3",
    ] {
        assert!(text.contains(&format!("# Not converted: {note}")), "{note} is not in\n{text}");
    }
    let config = Config::from_toml("sonic.toml", &text, Machine::default()).unwrap();
    assert_eq!(config.switch.ports[0].dscp_to_class[33], Class::ALL[0], "DSCP 33 must not become lossless");
}
