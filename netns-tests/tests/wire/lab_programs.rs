// Tests for SPECIFICATION.md: lab-account

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::lab::{Workspace, lab, text};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/examples").join(name)
}

/// Runs HTTP, Redis, datagrams like soft-RoCE's and an MPI all-to-all, and asserts that no lossless frame is lost.
fn assert_programs_lossless(policy: &str) {
    let workspace = Workspace::new();
    let network = example(&format!("{policy}.toml"));
    let mut command = lab(&["run", "--json", network.to_str().unwrap(), "--", "sh"]);
    command.arg(example("programs.sh")).current_dir(&workspace.directory).env("XOFF", super::BINARY);
    let output = command.output().unwrap();
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    for line in [
        "http: three downloads equal the file",
        "redis: the value read equals the value set",
        "udp: 9000 datagrams arrived once and in order",
        "mpi: four ranks received what the others sent",
    ] {
        assert!(log.contains(line), "{line:?} is not in {log}");
    }
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(account["verdict"]["promise"], "kept");
    let pauses =
        account["switches"].as_array().unwrap().iter().flat_map(|switch| switch["ports"].as_array().unwrap());
    let pauses = pauses.map(|port| port["classes"][0]["pause_sent"]["xoff"].as_u64().unwrap());
    assert!(pauses.sum::<u64>() > 0, "no port was congested");
}

#[test]
fn traffic_of_debian_programs_is_lossless_under_pfc() {
    assert_programs_lossless("pfc");
}

#[test]
fn traffic_of_debian_programs_is_lossless_under_capfc() {
    assert_programs_lossless("capfc");
}

#[test]
fn traffic_of_debian_programs_is_lossless_under_ofc() {
    assert_programs_lossless("ofc");
}
