// Tests for SPECIFICATION.md: lab-links

use serde_json::Value;

use super::lab::{Workspace, run, text};

const NETWORK: &str = "[defaults]\nspeed = \"100M\"\n[[switch]]\nname = \"s1\"\nhosts = 2\n[[switch]]\nname = \"s2\"\nhosts = 1\n\
                       [[host]]\nname = \"h1\"\nloss = \"0%\"\n[[link]]\nbetween = [\"s1\", \"s2\"]\ndelay = \"20ms\"\n";

/// Test script; a failing step prints its number. Round-trip times have only lower bounds, because the machine may
/// be slow.
const SCRIPT: &str = "set -e
trap 'echo failed after step $step >&2' EXIT
rtt() { xoff lab exec h1 -- ping -c 1 -W 5 h3 | sed -n 's/.*time=\\([0-9]*\\).*/\\1/p'; }
carrier() { xoff lab exec $1 -- cat /sys/class/net/$2/carrier; }
reaches() { for n in $(seq 50); do xoff lab exec h1 -- ping -c 1 -W 1 $1 >/dev/null && return; done; return 1; }
step=delay; [ $(rtt) -ge 40 ]
step=less-delay; xoff lab link s1-s2 --delay 5ms; [ $(rtt) -ge 10 ]; until [ $(rtt) -lt 40 ]; do :; done
step=loss; xoff lab link h1 --loss 100% --from s1
xoff lab exec h1 -- ping -c 3 -i 0.1 -W 1 h2 | grep -q '100% packet loss'
xoff lab link h1 --loss 0%; reaches h2
step=no-line; xoff lab link h2 --delay 1ms 2>&1 | grep -q 'has no delay line'
port() { xoff lab exec $1 -- xoff status --json | python3 -c 'import json, sys
port = next(it for it in json.load(sys.stdin)[\"ports\"] if it[\"name\"] == sys.argv[1])
ingress = next(it for it in port[\"classes\"] if it[\"class\"] == 3)[\"ingress\"]
print(port[\"speed_bits_per_second\"] // 10**6, ingress[\"headroom_bytes\"])' $2; }
step=line-empties; full=$(port s2 s1); begin=$(date +%s%N); xoff lab link s1-s2 --speed 10M
[ $(($(date +%s%N) - begin)) -ge 20000000 ]
step=speed; set -- $full $(port s2 s1) $(port s1 s2)
[ \"$1 $3 $5\" = '100 10 10' ]; [ $4 -lt $2 ]; reaches h3
step=refused; if xoff lab link s1-s2 --speed 1G --delay 7ms; then false; fi; [ $(xoff lab link s1-s2 | grep -c 7ms) = 0 ]
step=one-way; xoff lab link s1-s2 --speed 100M --from s1; [ \"$(port s2 s1)\" = \"$full\" ]; xoff lab link s1-s2 | grep -q 'speed 10Mb/s'
step=too-fast; xoff lab link s1-s2 --speed 1G 2>&1 | grep -q 'have memory for 100Mb/s only'
step=fast; xoff lab link s1-s2 --speed 100M; [ $(xoff lab link s1-s2 | grep -c Mb/s) = 0 ]
xoff lab link s1-s2 --speed 50M
step=down; xoff lab link s1-s2 --down; [ $(carrier s2 s1)$(carrier s1 s2) = 00 ]
xoff lab link s1-s2 --up; [ $(carrier s2 s1)$(carrier s1 s2) = 11 ]; reaches h3
step=node-down; xoff lab exec s2 -- ip link set s1 down; until [ $(carrier s1 s2) = 0 ]; do sleep 0.01; done
xoff lab exec s2 -- ip link set s1 up; until [ $(carrier s1 s2) = 1 ]; do sleep 0.01; done
step=host-down; xoff lab link h2 --down; [ $(carrier h2 eth0) = 0 ]; xoff lab link h2 --up; [ $(carrier h2 eth0) = 1 ]; reaches h2
step=switch; xoff lab restart s1; reaches h3; [ $(port s1 s2 | cut -d' ' -f1) = 50 ]
step=host; xoff lab exec h2 -- sleep 1000 & sleeper=$!; until xoff lab exec h2 -- pgrep sleep >/dev/null; do sleep 0.05; done
xoff lab restart h2; ! wait $sleeper; reaches h2
step=agent; xoff lab restart h2 --agent; xoff lab status >/dev/null; reaches h2
trap - EXIT";

#[test]
fn links_and_nodes_of_running_lab_change_on_command() {
    let workspace = Workspace::new();
    let output = run(&workspace.file("links", NETWORK), &["--json"], SCRIPT);
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}\n{}", text(&output.stdout));
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(account["verdict"]["promise"], "kept", "{}", account["verdict"]);
    assert_eq!(account["verdict"]["line_dropped"], 0);
    let links = account["links"].as_array().unwrap();
    let from = |link: usize, node: &str| {
        let end = usize::from(links[link]["ends"][1]["node"] == node);
        &links[link]["line"][end]
    };
    let lost = |direction: &Value| direction["lost_on_purpose"]["lossy"].as_u64().unwrap();
    assert!(lost(from(0, "s1")) >= 3 && lost(from(0, "h1")) == 0, "{}", links[0]);
    let carried = |direction: &Value| direction["frames"].as_u64().unwrap();
    assert!(carried(from(3, "s1")) >= 4 && carried(from(3, "s2")) >= 4, "{}", links[3]);
    let downs: Vec<_> = links.iter().map(|link| link["downs"]["count"].as_u64().unwrap()).collect();
    assert_eq!(downs, [0, 1, 0, 1]);
    let restarts = account["restarts"].as_array().unwrap();
    let restarts: Vec<_> = restarts.iter().map(|it| (it["node"].as_str(), it["part"].as_str())).collect();
    let expected = [("s1", "switch"), ("h2", "host"), ("h2", "agent")];
    assert_eq!(restarts, expected.map(|(node, part)| (Some(node), Some(part))));
}
