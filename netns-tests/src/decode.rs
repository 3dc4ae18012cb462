use std::path::Path;
use std::process::{Command, Stdio};

use pcap::{Capture, Linktype, Packet, PacketHeader};
use serde_json::Value;
use tempfile::NamedTempFile;

#[must_use]
pub fn tshark(frame: &[u8], fields: &[&str]) -> Vec<String> {
    read(Command::new("tshark"), frame, fields)
}

#[must_use]
pub fn tshark_with_ours(frame: &[u8], fields: &[&str]) -> Vec<String> {
    read(tshark_of_ours(), frame, fields)
}

#[must_use]
pub fn tshark_of_ours() -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/wireshark/xoff.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command
}

fn read(mut command: Command, frame: &[u8], fields: &[&str]) -> Vec<String> {
    let file = NamedTempFile::new().unwrap();
    save(file.path(), [frame]);
    command.arg("-r").arg(file.path()).args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let line = output(command.stdin(Stdio::null()));
    line.trim_end_matches('\n').split('|').map(str::to_owned).collect()
}

/// Returns a frame's layers and fields as scapy decodes them: `{"Ether": {"dst": ..}, "IP": {..}, ..}`.
#[must_use]
pub fn scapy(frame: &[u8]) -> Value {
    const SCRIPT: &str = r#"
import json, sys
from scapy.all import Ether, load_contrib
load_contrib("mac_control"); load_contrib("lldp")
layers, layer = {}, Ether(bytes.fromhex(sys.argv[1]))
while layer:
    layers[type(layer).__name__] = {
        name: value if isinstance(value, int) else str(value) for name, value in layer.fields.items()
    }
    layer = layer.payload
print(json.dumps(layers))
"#;
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let printed = output(Command::new("/usr/bin/python3").args(["-c", SCRIPT, &hex]));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error} in {printed}"))
}

pub fn save<'a>(path: &Path, frames: impl IntoIterator<Item = &'a [u8]>) {
    let mut file = Capture::dead(Linktype::ETHERNET).unwrap().savefile(path).unwrap();
    for frame in frames {
        let len = u32::try_from(frame.len()).unwrap();
        let ts = nix::libc::timeval { tv_sec: 0, tv_usec: 0 };
        file.write(&Packet::new(&PacketHeader { ts, caplen: len, len }, frame));
    }
    file.flush().unwrap();
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {command:?}: {error}; install the program with scripts/install-deps.sh --tests")
    });
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}
