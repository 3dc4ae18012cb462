#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;

#[test] // proves: experiment-parity
fn simulated_experiment_refuses_unsupported_options() {
    let xoff = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_xoff")).arg("experiment").args(args).output().unwrap()
    };
    let output = xoff(&["incast", "--simulated", "--speed", "10G", "--policy", "pfc", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["simulated"], &json["line_mbps"]), (&true.into(), &10_000.0.into()));
    let tcp = "`ecn` cannot be simulated: its hosts use TCP of a kernel, and the simulator has no kernel";
    for (args, why) in [
        (&["ecn", "--simulated"][..], tcp),
        (&["ecn", "--simulated"], "omit --simulated, and run as root;"),
        (
            &["ecn", "--simulated"],
            "RoCE with DCQCN, which reacts to ECN marks, is available in scenarios of `xoff sim`",
        ),
        (&["incast", "--speed", "10G"], "the speed must be 5M to 1G, or up to 400G with --simulated"),
        (&["incast", "--simulated", "--stall", "0", "--speed", "10G"], "or up to 400G with --simulated"),
        (&["incast", "--stall", "2ms"], "--stall 2ms/1s requires --simulated"),
        (&["incast", "--simulated", "--stall", "2"], "LENGTH[/EVERY[/WAKE]]"),
    ] {
        let refused = xoff(args);
        let message = String::from_utf8(refused.stderr).unwrap();
        let message = message.replace('│', "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(refused.status.code() == Some(2) && message.contains(why), "{message}");
    }
}
