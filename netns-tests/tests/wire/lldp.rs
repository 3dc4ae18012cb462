// Tests for SPECIFICATION.md: lldp

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use xoff_lab::Namespace;
use xoff_netns_tests::{Bed, Switch, decode, wait_for};
use xoff_switch::control::status::{LldpStatus, NeighborStatus};
use xoff_wire::lldp::{Id, LEN_MAX, NEAREST_BRIDGE, Tlv, Writer};
use xoff_wire::units::MacAddr;

use crate::{BINARY, bed};

pub(crate) fn is_lldp(frame: &[u8]) -> bool {
    frame.starts_with(&NEAREST_BRIDGE.0) && frame[12..14] == [0x88, 0xcc]
}

fn lldp(switch: &Switch, port: usize) -> LldpStatus {
    switch.port(port).lldp
}

fn neighbor(switch: &Switch, port: usize) -> NeighborStatus {
    wait_for("a neighbor", || {
        let neighbors = lldp(switch, port).neighbors;
        (neighbors.len() == 1).then(|| neighbors[0].clone())
    })
}

pub(crate) fn frame(number: u8, ttl: u16, more: &[Tlv<'_>]) -> Vec<u8> {
    let mut bytes = [0; LEN_MAX];
    let mut writer = Writer::new(&mut bytes, MacAddr([2, 0, 0, 0, 7, number]));
    let chassis = Tlv::ChassisId(Id { subtype: 4, value: &[2, 0, 0, 0, 7, number] });
    let port = Tlv::PortId(Id { subtype: 5, value: b"swp1" });
    assert!([chassis, port, Tlv::Ttl(ttl)].iter().chain(more).all(|tlv| writer.push(tlv)));
    writer.finish().to_vec()
}

struct Lldpd {
    process: Child,
    directory: tempfile::TempDir,
}

impl Lldpd {
    fn start(namespace: &Namespace, interface: &str) -> Lldpd {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "lldpd", "-d", "-I", interface, "-u"]).arg(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = namespace.spawn(command).unwrap();
        let lldpd = Lldpd { process, directory };
        wait_for("lldpd", || socket.exists().then_some(()));
        lldpd
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn query(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("lldpcli");
        let output = command.arg("-u").arg(self.socket()).args(["-f", "json0"]).args(arguments).output();
        let output = output
            .expect("lldpcli cannot be run; install package lldpd with scripts/install-deps.sh --tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn neighbor(&self) -> Value {
        wait_for("lldpd's neighbor", || self.one_neighbor())
    }

    fn one_neighbor(&self) -> Option<Value> {
        let text = self.query(&["show", "neighbors", "details"]);
        let all: Value = serde_json::from_str(&text).unwrap();
        let interface = &all["lldp"][0]["interface"];
        interface.as_array().filter(|all| all.len() == 1).map(|all| all[0].clone())
    }
}

impl Drop for Lldpd {
    fn drop(&mut self) {
        // Kill lldpd's monitor process, which ends lldpd's other processes.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

#[test]
fn lldpd_and_switch_list_each_other_as_neighbors() {
    let bed = bed(1).build();
    let more = "name = \"leaf1\"";
    let config = bed.config("lldp = true\nspeed = \"100M\"\nlossless = [3, 4]").switch(more);
    let lldpd = Lldpd::start(bed.host(1).namespace(), "eth0");
    let pfc = ["configure", "lldp", "custom-tlv", "oui", "00,80,c2", "subtype", "11", "oui-info", "08,18"];
    lldpd.query(&pfc);
    lldpd.query(&["configure", "lldp", "tx-interval", "1"]);
    let switch = bed.start(&config);
    let theirs = lldpd.neighbor();
    let mac = bed.port(1).mac().to_string();
    assert_eq!(theirs["chassis"][0]["id"][0]["value"], mac.as_str(), "{theirs:#}");
    assert_eq!(theirs["chassis"][0]["name"][0]["value"], "leaf1");
    assert_eq!(theirs["port"][0]["id"][0]["value"], "p1");
    assert_eq!(theirs["port"][0]["ttl"][0]["value"], "121");
    let capabilities = theirs["chassis"][0]["capability"].as_array().unwrap();
    assert!(capabilities.iter().any(|it| it["type"] == "Bridge" && it["enabled"] == true), "{theirs:#}");
    let unknown = theirs["unknown-tlvs"][0]["unknown-tlv"].as_array().unwrap();
    let of_802_1: Vec<&str> = unknown
        .iter()
        .filter(|tlv| tlv["oui"] == "00,80,C2")
        .map(|tlv| tlv["subtype"].as_str().unwrap())
        .collect();
    assert_eq!(of_802_1, ["9", "10", "11", "12"], "ETS, its recommendation, PFC, applications");
    let pfc = unknown.iter().find(|tlv| tlv["oui"] == "00,80,C2" && tlv["subtype"] == "11").unwrap();
    assert_eq!(pfc["value"], "08,18", "classes 3 and 4");
    let ours = neighbor(&switch, 1);
    assert_eq!(ours.chassis, bed.host(1).mac().to_string());
    assert!(ours.system_description.contains("Linux") && ours.capabilities.contains(&"station".into()));
    let pfc = wait_for("its classes", || neighbor(&switch, 1).pfc);
    assert_eq!(pfc.classes, [3, 4]);
    assert_eq!(lldp(&switch, 1).mismatches, [], "the switch reports a mismatch with lldpd");
    let printed = String::from_utf8(status_of(&bed, &["neighbors"]).stdout).unwrap();
    assert!(printed.contains("p1") && printed.contains("station"), "{printed}");
    let counters = lldp(&switch, 1);
    assert!(counters.frames_received > 0 && counters.malformed.values().all(|count| *count == 0));
    assert!(switch.stop().status.success());
    let is_listed = || lldpd.query(&["show", "neighbors"]).contains("leaf1");
    wait_for("the shutdown LLDPDU to take effect", || (!is_listed()).then_some(()));
}

#[test]
fn lldpd_on_router_interface_and_neighbor_list_each_other() {
    let bed = bed(1).build();
    let kernel = bed.far_namespace();
    let netns = kernel.entrance().join("net");
    let router = format!("[router]\nnetns = {:?}\n", netns.to_str().unwrap());
    let config = bed.config("lldp = \"kernel\"\nrouted = true\nspeed = \"100M\"").more(&router);
    let switch = bed.start(&config);
    let begin = |place| match place {
        0 => Lldpd::start(bed.host(1).namespace(), "eth0"),
        _ => Lldpd::start(kernel, "p1"),
    };
    let mut daemons = [0, 1].map(begin);
    // Restart an lldpd without neighbor: on an interface that has just come up it may neither send nor receive.
    let mut round = 0;
    wait_for("both to know each other", || {
        daemons.iter().for_each(|lldpd| _ = lldpd.query(&["update"]));
        round += 1;
        for (place, lldpd) in daemons.iter_mut().enumerate().filter(|_| round % 50 == 0) {
            if lldpd.one_neighbor().is_none() {
                *lldpd = begin(place);
            }
        }
        daemons.iter().all(|lldpd| lldpd.one_neighbor().is_some()).then_some(())
    });
    let described = |lldpd: &Lldpd| lldpd.neighbor()["port"][0]["descr"][0]["value"].clone();
    assert_eq!(daemons.each_ref().map(described), ["p1", "eth0"]);
    let ours = lldp(&switch, 1);
    assert!(!ours.enabled && ours.frames_sent == 0 && ours.frames_received == 0, "{ours:?}");
    assert!(switch.stop().status.success());
}

fn status_of(bed: &Bed, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(BINARY);
    bed.namespace().output(command.arg("status").args(arguments)).unwrap()
}

#[test]
fn tshark_and_scapy_read_all_fields_of_lldpdus() {
    let bed = bed(1).build();
    let config = bed
        .config("lldp = true\ndcbx = \"willing\"\nofc_peer = true\nspeed = \"100M\"")
        .more("[class.0]\nweight = 300\n[class.7]\nweight = \"strict\"")
        .port(1, "dscp_map = { 26 = 4 }");
    let switch = bed.start(&config);
    let captured = bed.host(1).tap().wait(1, is_lldp);
    let sent = &captured[0].bytes;
    let mac = bed.port(1).mac().to_string();
    let expected = [
        ("lldp.chassis.id.mac", mac.as_str()),
        ("lldp.port.id", "p1"),
        ("lldp.time_to_live", "121"),
        ("lldp.tlv.system.name", "xoff"),
        ("lldp.tlv.enable_system_cap.bridge", "1"),
        ("lldp.dcbx.ieee.willing", "0,1"),  // ETS, PFC
        ("lldp.dcbx.ieee.ets.tsa0", "2,2"), // in use, recommended
        ("lldp.dcbx.ieee.ets.tsa7", "0,0"),
        ("lldp.dcbx.feature.pg.pgid_prio6", "6,6"),
        ("lldp.dcbx.ieee.pfc.numtcs", "8"),
        ("lldp.dcbx.feature.pfc.prio3", "1"),
        ("lldp.dcbx.feature.pfc.prio5", "0"),
        ("_ws.malformed", ""),
    ];
    let read = decode::tshark(sent, &expected.map(|(field, _)| field));
    let plain = |value: &str| value.replace("True", "1").replace("False", "0"); // depends on tshark's version
    for ((field, expected), read) in expected.into_iter().zip(&read) {
        assert_eq!(plain(read), expected, "{field}");
    }
    let applications = decode::tshark(sent, &["lldp.dcbx.ieee.app.prio"]);
    let classes: Vec<&str> = applications[0].split(',').collect();
    assert_eq!((classes.len(), classes[26], classes[25], classes[63]), (64, "4", "3", "7"));
    let shares = decode::tshark(sent, &["lldp.dcbx.feature.pg.per0", "lldp.dcbx.feature.pg.per7"]);
    assert_eq!(shares, ["83,83", "0,0"], "300 of 360");
    let layers = decode::scapy(sent);
    assert_eq!(layers["LLDPDUChassisID"]["id"], mac.as_str(), "{layers:#}");
    assert_eq!(layers["LLDPDUTimeToLive"]["ttl"], 121);
    assert!(
        layers.get("LLDPDUEndOfLLDPDU").is_some() && layers.get("LLDPDUSystemName").is_some(),
        "{layers:#}"
    );
    assert!(switch.stop().status.success());
    let captured = bed.host(1).tap().wait(2, is_lldp);
    let last = &captured.last().unwrap().bytes;
    assert_eq!(
        decode::tshark(last, &["lldp.time_to_live"]),
        ["0"],
        "the last frame is not a shutdown LLDPDU"
    );
}

#[test] // proves: dcbx
fn both_switches_of_a_link_report_a_pfc_mismatch() {
    let bed = bed(2).far(1).build();
    let near = bed.start(&bed.config("lldp = true\nspeed = \"100M\"").port(2, "lossless = [3]"));
    let far = bed.start_far(&bed.far_config("lldp = true\nspeed = \"100M\"").port(2, "lossless = [3, 4]"));
    let there = neighbor(&near, 2);
    assert_eq!((there.port.as_str(), there.capabilities), ("p2", vec!["bridge".to_owned()]));
    for switch in [&near, &far] {
        let found = wait_for("the mismatch", || {
            let found = lldp(switch, 2).mismatches;
            (!found.is_empty()).then_some(found)
        });
        assert_eq!(found[0].kind, "pfc", "{found:?}");
        assert!(found[0].detail.contains("class 3") && found[0].detail.contains("classes 3, 4"), "{found:?}");
        let line = "xoff_lldp_dcbx_mismatch{switch=\"xoff\",port=\"p2\",kind=\"pfc\"} 1";
        assert!(switch.metrics().contains(line), "{}", switch.metrics());
        wait_for("the log", || switch.stderr().contains("event=dcbx-mismatch").then_some(()));
        assert!(switch.stderr().contains("event=\"neighbor-new\""), "{}", switch.stderr());
    }
    assert!(near.status().ongoing.iter().any(|it| it.event == "dcbx-mismatch"));
    assert!(far.stop().status.success());
    wait_for("the neighbor to be gone", || lldp(&near, 2).neighbors.is_empty().then_some(()));
    assert_eq!(lldp(&near, 2).mismatches, []);
    assert!(near.stop().status.success());
}

#[test] // proves: dcbx
fn automatic_ofc_and_gfc_settings_follow_lldp_neighbor() {
    let bed = bed(2).far(1).build();
    let auto = "lldp = true\nspeed = \"100M\"\nofc_peer = \"auto\"\ngfc_peer = \"auto\"";
    let near = bed.start(&bed.config(auto));
    let understands_flows = |switch: &Switch| switch.class(2, 3).flows.is_some();
    assert!(!understands_flows(&near));
    let far = bed.start_far(&bed.far_config(auto));
    for switch in [&near, &far] {
        let there = neighbor(switch, 2);
        assert!(there.flow_lists && there.rates);
        wait_for("settings to follow", || understands_flows(switch).then_some(()));
    }
    assert!(near.class(1, 3).flows.is_none(), "features were enabled at the other port, too");
    assert!(far.stop().status.success());
    wait_for("the features of the peer to be forgotten", || (!understands_flows(&near)).then_some(()));
    assert!(near.stop().status.success());
}

#[test] // proves: dcbx
fn willing_port_adopts_pfc_classes_of_its_neighbor() {
    let bed = bed(2).far(1).build();
    let willing = "lldp = true\nspeed = \"100M\"";
    let near = bed.start(&bed.config(willing).port(2, "lossless = [3, 4]\ndcbx = \"willing\""));
    let far = bed.start_far(&bed.far_config(willing).port(2, "lossless = [4, 5]"));
    let classes = |switch: &Switch| neighbor(switch, 2).pfc.map(|pfc| pfc.classes);
    wait_for("the port to follow", || (classes(&far) == Some(vec![4])).then_some(()));
    assert_eq!(classes(&near), Some(vec![4, 5]), "a port that is not willing changed its classes");
    let found = wait_for("what is left", || lldp(&far, 2).mismatches.first().cloned());
    assert!(found.detail.contains("classes 4, 5 here, for class 4 at the neighbor"), "{found:?}");
    assert!(far.stop().status.success());
    assert!(near.stop().status.success());
}

#[test] // proves: lldp, configuration
fn flood_of_lldp_neighbors_is_limited_and_counted() {
    let bed = bed(1).build();
    let switch = bed.start(&bed.config("lldp = true\nspeed = \"100M\""));
    let host = bed.host(1);
    let evil = [Tlv::SystemName(b"\x1b]0;owned\x07"), Tlv::Other(7, b"odd")];
    (0..20).for_each(|number| host.send(frame(number, 120, &evil)));
    host.send(&frame(1, 120, &evil)[..30]);
    let counted = wait_for("all of them", || {
        let counted = lldp(&switch, 1);
        (counted.frames_received == 21).then_some(counted)
    });
    assert_eq!((counted.neighbors.len(), counted.too_many), (8, 12));
    assert_eq!(
        (counted.malformed["mandatory"] + counted.malformed["truncated"], counted.discarded["length"]),
        (1, 8)
    );
    let metrics = switch.metrics();
    let all = |family: &str| {
        let samples = metrics.lines().filter(|line| line.starts_with(family) && line.contains("port=\"p1\""));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
    };
    let counts = ["xoff_lldp_malformed_total{", "xoff_lldp_discarded_total{"].map(all);
    assert_eq!(counts, [1.0, 8.0], "frames and parts of frames are counted apart");
    let printed = String::from_utf8(status_of(&bed, &["neighbors"]).stdout).unwrap();
    assert!(
        printed.contains("owned") && !printed.contains('\x1b') && !printed.contains('\x07'),
        "{printed:?}"
    );
    assert!(!switch.stderr().contains("\x1b]0;"), "the log contains a sender's text");
    let many: Vec<u8> = frame(1, 120, &[]);
    for round in 1..=10 {
        (0..100).for_each(|_| host.send(&many)); // within the kernel's buffer
        wait_for("the flood", || {
            let punts = switch.port(1).punts["lldp"].clone();
            (punts.punted + punts.over_rate + punts.no_room == 21 + 100 * round).then_some(())
        });
    }
    let status = switch.status();
    assert!(status.verdict.ledger_balanced == Some(true), "{:?}", status.verdict);
    host.send(frame(3, 0, &[]));
    assert!(switch.stop().status.success());
}

#[test]
fn port_with_disabled_lldp_sends_and_receives_no_lldpdu() {
    let bed = bed(2).build();
    let config = bed.config("lldp = true\nspeed = \"100M\"").port(1, "lldp = false");
    let switch = bed.start(&config);
    bed.host(2).tap().wait(1, is_lldp);
    bed.host(1).send(frame(1, 120, &[]));
    wait_for("the frame", || (switch.port(1).reserved_frames == 1).then_some(()));
    let not_compared = Some("no neighbor announces itself".into());
    let silent = LldpStatus { dcbx: "compare".into(), not_compared, ..lldp_without_neighbors(&switch) };
    assert_eq!(lldp(&switch, 1), silent);
    assert_eq!(switch.port(1).punts["lldp"], Default::default());
    switch.write(&bed.config("lldp = true\nspeed = \"100M\"").port(2, "lldp = false"));
    let (done, text) = super::reload::reload(&bed, &[]);
    assert!(done && text.contains("port \"p1\": lldp: false -> true"), "{text}");
    bed.host(1).tap().wait(1, is_lldp);
    let before = bed.host(2).tap().count(is_lldp);
    bed.host(1).send(frame(1, 120, &[]));
    neighbor(&switch, 1);
    assert!(switch.stop().status.success());
    assert_eq!(bed.host(2).tap().count(is_lldp), before, "a shutdown LLDPDU was sent at a port without LLDP");
}

fn lldp_without_neighbors(switch: &Switch) -> LldpStatus {
    let LldpStatus { malformed, discarded, .. } = lldp(switch, 2);
    let none =
        |counts: std::collections::BTreeMap<String, u64>| counts.into_keys().map(|key| (key, 0)).collect();
    LldpStatus { malformed: none(malformed), discarded: none(discarded), ..LldpStatus::default() }
}

#[test]
fn capture_contains_lldp_frames() {
    let bed = bed(1).build();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lldp.pcapng");
    let switch = bed.start(&bed.config("lldp = true\nspeed = \"100M\""));
    bed.host(1).tap().wait(1, is_lldp);
    let mut command = Command::new(BINARY);
    command.args(["capture", "--control", "--count", "1", "-w"]).arg(&file);
    bed.watched_by(command, |_| bed.host(1).send(frame(1, 120, &[])));
    assert!(has_lldp(&file), "the captured LLDP frame differs from the sent one");
    assert!(switch.stop().status.success());
}

fn has_lldp(file: &Path) -> bool {
    fs::read(file).unwrap().windows(14).any(is_lldp)
}
