use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::BINARY;

/// Runs a script of the example fabric. Its namespaces have the same prefix in every run, so that a later run can remove leftovers.
fn script(name: &str) -> Output {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples/leaf-spine");
    let script: PathBuf = example.join(name);
    let mut hasher = DefaultHasher::new();
    BINARY.hash(&mut hasher);
    let prefix = format!("test{:x}-", hasher.finish());
    Command::new(script).env("XOFF", BINARY).env("PREFIX", prefix).env_remove("STATE").output().unwrap()
}

struct FabricGuard;

impl Drop for FabricGuard {
    fn drop(&mut self) {
        script("down.sh");
    }
}

#[test] // proves: route-mirror
fn frr_fabric_forwards_after_loss_of_a_link_and_of_daemons() {
    let _down = FabricGuard;
    for name in ["up.sh", "check.sh"] {
        let Output { status, stdout, stderr } = script(name);
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(status.success(), "{name}:\n{stdout}\n{stderr}");
        println!("{stdout}");
    }
}
