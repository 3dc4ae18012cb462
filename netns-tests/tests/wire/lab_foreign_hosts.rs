// Tests for SPECIFICATION.md: lab-account

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::BINARY;
use super::lab::{FIVE_LINES, Workspace, first_line, lab, run, succeed, text};

pub(super) fn holder() -> Child {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "echo; exec sleep 1000"]).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    first_line(&mut holder);
    holder
}

#[test]
fn lab_leaves_existing_namespace_and_process_unchanged() {
    let workspace = Workspace::new();
    let (mut holder, mut mortal) = (holder(), holder());
    let blue = format!("xoff-{}", std::process::id());
    succeed(Command::new("ip").args(["netns", "add", &blue]));
    let network = format!(
        "[defaults]\nspeed = \"100M\"\n[[switch]]\nname = \"s1\"\nhosts = [\"h1\", \"blue\", \"box\"]\n\
         [[host]]\nname = \"blue\"\nnetns = \"{blue}\"\n[[host]]\nname = \"box\"\npid = {}\n[[host]]\nname = \"gone\"\npid = {}\nswitch = \"s1\"\n",
        holder.id(),
        mortal.id()
    );
    let file = workspace.file("others", &network);
    let sockets = Path::new("/run/xoff/lab").join(file.file_stem().unwrap());
    let json = workspace.directory.path().join("status.json");
    let json = json.to_str().unwrap();
    // When the process of the host called `gone` is killed, its namespace ends, so `xoff lab exec gone` fails.
    let script = format!("xoff lab exec h1 -- ping -c 1 blue && xoff lab exec h1 -- ping -c 1 box && xoff lab exec box -- ping -c 1 10.1.0.2 &&
                  xoff lab exec blue -- ping -c 1 h1 && ip -n {blue} -brief link && kill {} &&
                  for try in $(seq 100); do xoff lab exec gone -- true || break; sleep 0.1; done &&
                  ! xoff lab exec gone -- true && ! xoff lab restart --agent gone &&
                  {BINARY} nic status --url unix:/run/xoff/lab/$XOFF_LAB/blue-0 &&
                  {{ xoff lab status --json >{json}; test $? -eq 2; }}", mortal.id());
    let output = run(&file, &[], &script);
    mortal.wait().unwrap();
    let devices = || succeed(Command::new("ip").args(["-n", &blue, "-brief", "link"]));
    let left = devices();
    let alive = holder.try_wait().unwrap().is_none();
    succeed(Command::new("ip").args(["netns", "del", &blue]));
    holder.kill().unwrap();
    holder.wait().unwrap();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{}\n{log}", text(&output.stdout));
    assert!(log.contains("NOT PROVED: the namespace of host gone (pid"), "{log}");
    assert!(text(&output.stdout).contains("xoff0 ("), "{}", text(&output.stdout));
    let status: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    for host in status["hosts"].as_array().unwrap() {
        assert_eq!(host["interfaces"][0]["agent"]["mac"], host["interfaces"][0]["mac"], "{host}");
        assert_eq!(host["lost_namespace"].is_string(), host["name"] == "gone", "{host}");
    }
    assert!(!sockets.exists(), "the lab left sockets of agents behind");
    assert!(alive, "the lab ended a process that existed before");
    assert!(!left.contains("xoff0"), "{left}");
}

#[test]
fn existing_namespace_with_overlapping_network_is_refused() {
    let workspace = Workspace::new();
    let blue = format!("xoff-o{}", std::process::id());
    let ip = |arguments: &str| succeed(Command::new("ip").args(arguments.split(' ')));
    ip(&format!("netns add {blue}"));
    ip(&format!("-n {blue} link add mgmt type veth peer name far"));
    ip(&format!("-n {blue} address add 10.1.0.9/16 dev mgmt"));
    ip(&format!("-n {blue} link set far up"));
    ip(&format!("-n {blue} link set mgmt up"));
    let network = format!("{FIVE_LINES}[[host]]\nname = \"h1\"\nnetns = \"{blue}\"\n");
    let refused = run(&workspace.file("overlap", &network), &[], "true");
    let elsewhere =
        format!("{network}ipv4 = \"192.0.2.1/24\"\n[[host]]\nname = \"h2\"\nipv4 = \"192.0.2.2/24\"\n");
    let second = workspace.file("second", &elsewhere);
    let script = format!(
        "xoff lab exec h1 -- ping -4 -c 1 h2 && ! env -u XOFF_LAB {BINARY} lab run {} -- true",
        second.display()
    );
    let accepted = run(&workspace.file("first", &elsewhere), &[], &script);
    ip(&format!("netns del {blue}"));
    assert_eq!(refused.status.code(), Some(2));
    let words = |bytes: &[u8]| text(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    let message = words(&refused.stderr);
    assert!(message.contains(&format!("host h1 (netns {blue}): its namespace has a route")), "{message}");
    let log = words(&accepted.stderr);
    assert!(accepted.status.success(), "{}{log}", text(&accepted.stdout));
    let first = format!("xoff lab down --lab first-{}", std::process::id());
    assert!(log.contains("the device xoff0 exists") && log.contains(&first), "{log}");
}

#[test]
fn lab_finds_container_by_name() {
    let workspace = Workspace::new();
    let mut holder = holder();
    let docker = workspace.directory.path().join("docker");
    let answer = format!(
        "#!/bin/sh\n[ \"$*\" = 'inspect --format {{{{.State.Pid}}}} box' ] && echo {} && exit\n\
         echo \"Error: No such object: $4\" >&2; exit 1\n",
        holder.id()
    );
    fs::write(&docker, answer).unwrap();
    succeed(Command::new("chmod").arg("+x").arg(&docker));
    let path = format!("{}:{}", workspace.directory.path().display(), std::env::var("PATH").unwrap());
    let run = |container: &str, script: &str| {
        let file = workspace.file(
            "containers",
            &format!("{FIVE_LINES}[[host]]\nname = \"h2\"\ncontainer = \"{container}\"\n"),
        );
        let script = script.replace("xoff lab", &format!("{} lab", super::BINARY));
        lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", &script]).env("PATH", &path).output().unwrap()
    };
    let found =
        run("box", "xoff lab exec h1 -- ping -c 1 h2 && xoff lab exec h2 -- readlink /proc/self/ns/net");
    let unknown = run("barrel", "true");
    let namespace = fs::read_link(format!("/proc/{}/ns/net", holder.id())).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(found.status.success(), "{}{}", text(&found.stdout), text(&found.stderr));
    assert!(text(&found.stdout).ends_with(&format!("{}\n", namespace.display())), "{}", text(&found.stdout));
    assert_eq!(unknown.status.code(), Some(2));
    let message = text(&unknown.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("host h2: container barrel cannot be found"), "{message}");
    assert!(message.contains("No such object: barrel"), "{message}");
}

const BEFORE: &str = r#"
import socket, sys
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
receiver.bind(("127.0.0.1", 7))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(100):
    sender.sendto(bytes(1000), ("127.0.0.1", 7))
sys.exit("RcvbufErrors 0" if open("/proc/thread-self/net/snmp").read().split("Udp: ")[2].split()[4] == "0" else 0)
"#;

const UNREAD: &str = r#"
import fcntl, os, socket, struct, sys
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH", b"NAME", 0x0002 | 0x1000))
os.system("ip link set NAME up")
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("NAME", 0))
for number in range(10):
    sender.send(bytes(12) + b"\x88\xb5" + bytes(50))
print("full", flush=True)
sys.stdin.read()
"#;

#[test]
fn device_drops_before_lab_start_count_as_no_loss() {
    let workspace = Workspace::new();
    let [blue, tap] = ["xoff-b", "xb"].map(|name| format!("{name}{}", std::process::id()));
    succeed(Command::new("ip").args(["netns", "add", &blue]));
    succeed(Command::new("ip").args(["-n", &blue, "link", "set", "lo", "up"]));
    succeed(Command::new("ip").args(["netns", "exec", &blue, "python3", "-c", BEFORE]));
    succeed(Command::new("ip").args(["tuntap", "add", &tap, "mode", "tap"]));
    succeed(Command::new("ip").args(["link", "set", &tap, "txqueuelen", "2"]));
    let full = UNREAD.replace("NAME", &tap);
    let mut guest = Command::new("python3");
    let mut guest = guest.args(["-c", &full]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(first_line(&mut guest).0, "full");
    // Give the tap a queue of 500 frames, so that it drops none of the lab's own frames.
    succeed(Command::new("ip").args(["link", "set", &tap, "txqueuelen", "500"]));
    let dropped_at_tap = fs::read_to_string(format!("/sys/class/net/{tap}/statistics/tx_dropped")).unwrap();
    let network = format!(
        "{FIVE_LINES}[[host]]\nname = \"h1\"\nnetns = \"{blue}\"\n[[host]]\nname = \"h2\"\ntap = \"{tap}\"\n"
    );
    let output = run(&workspace.file("before", &network), &["--json"], "true");
    guest.kill().unwrap();
    guest.wait().unwrap();
    succeed(Command::new("ip").args(["netns", "del", &blue]));
    succeed(Command::new("ip").args(["link", "del", &tap]));
    assert_ne!(dropped_at_tap, "0\n");
    let account: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert!(output.status.success(), "{account}");
    assert_eq!(account["hosts"][0]["socket_drops"], 0, "{account}");
    assert_eq!(account["hosts"][1]["interfaces"][0]["counters"]["rx_dropped"], 0, "{account}");
}

const GUEST: &str = r#"
import fcntl, os, select, socket, struct, sys, time
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH", b"NAME", 0x0002 | 0x1000))  # TUNSETIFF: IFF_TAP, IFF_NO_PI
def udp(number):
    data = number.to_bytes(4, "big") + bytes(1396)
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 24 << 2, 28 + len(data), 0, 0, 64, 17, 0,
                               socket.inet_aton("10.1.0.3"), socket.inet_aton("10.1.0.1")))
    total = sum(struct.unpack("!10H", ip)); total = (total & 0xffff) + (total >> 16); total += total >> 16
    ip[10:12] = struct.pack("!H", ~total & 0xffff)
    return bytes.fromhex("020000000001 020000000003 0800") + ip + struct.pack("!HHHH", 7, 7777, 8 + len(data), 0) + data
print("ready", flush=True)
sys.stdin.readline()
for number in range(400):
    os.write(tap, udp(number))
pauses, came = 0, 0
while came < 20:
    if not select.select([tap], [], [], 20)[0]:
        sys.exit(f"only {came} frames came to the guest")
    frame = os.read(tap, 2000)
    pauses += frame[12:14] == b"\x88\x08" and frame[:6] == bytes.fromhex("0180c2000001")
    came += frame[12:14] == b"\x08\x00"
print("pauses" if pauses else "no pause", "came", came, flush=True)
sys.stdin.read()  # a guest that goes lets fall what still comes
"#;

const AT_H1: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
s.bind(("", 7777)); s.settimeout(20)
print("ready", flush=True)
came, end = {"10.1.0.2": [], "10.1.0.3": []}, False
while not end:
    data, (at, _) = s.recvfrom(2000)
    if data:
        came[at].append(int.from_bytes(data[:4], "big"))
    end = not data
    if len(came["10.1.0.3"]) == 400:
        open(sys.argv[1], "w").close()
assert all(of == list(range(len(of))) for of in came.values()) and len(came["10.1.0.3"]) == 400, came
for _ in range(20): s.sendto(b"back", ("10.1.0.3", 7))
print("all came")
"#;

const AT_H2: &str = r#"
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 24 << 2)
s.setsockopt(socket.SOL_SOCKET, 32, 1 << 22)
number = 0
while not os.path.exists(sys.argv[1]):
    s.sendto(number.to_bytes(4, "big") + bytes(1396), ("h1", 7777))
    number += 1
    if number == 1000:
        print("sends", flush=True)
s.sendto(b"", ("h1", 7777))
"#;

#[test]
fn guest_behind_tap_is_paused_without_loss() {
    let workspace = Workspace::new();
    let tap = format!("xt{}", std::process::id());
    let guest = GUEST.replace("NAME", &tap);
    let place = |name: &str, text: &str| {
        let path = workspace.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let scripts = [("guest.py", guest.as_str()), ("h1.py", AT_H1), ("h2.py", AT_H2)]
        .map(|(name, text)| place(name, text));
    let network = format!(
        "[defaults]\nspeed = \"20M\"\n[[switch]]\nname = \"s1\"\nhosts = [\"h1\", \"h2\", \"guest\"]\n\
         [[host]]\nname = \"guest\"\ntap = \"{tap}\"\n"
    );
    let file = workspace.file("guests", &network);
    let missing = run(&file, &[], "true");
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains(&tap), "{}", text(&missing.stderr));
    succeed(Command::new("ip").args(["tuntap", "add", &tap, "mode", "tap"]));
    let mut guest = Command::new("python3")
        .arg(&scripts[0])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (ready, mut guest_output) = first_line(&mut guest);
    let go = format!("/proc/{}/fd/0", guest.id());
    let at = |name: &str| workspace.directory.path().join(name).display().to_string();
    // Give ping the guest's MAC address, because the guest does not answer ARP.
    let script = format!(
        "set -e
         xoff lab exec h1 -- ip neigh replace 10.1.0.3 lladdr 02:00:00:00:00:03 dev eth0
         xoff lab exec h1 -- python3 {h1} {done} > {log} & h1=$!
         until grep -q ready {log}; do sleep 0.05; done
         xoff lab exec h2 -- python3 {h2} {done} > {sends} &
         until grep -q sends {sends}; do sleep 0.05; done
         echo > {go}; wait $h1; cat {log}
         ! xoff lab exec guest -- true",
        h1 = scripts[1],
        h2 = scripts[2],
        log = at("h1.log"),
        sends = at("sends"),
        done = at("done"),
    );
    let output = run(&file, &[], &script);
    drop(guest.stdin.take());
    let mut counts = String::new();
    std::io::Read::read_to_string(&mut guest_output, &mut counts).unwrap();
    let ended = guest.wait().unwrap();
    let left = succeed(Command::new("tc").args(["qdisc", "show", "dev", &tap]));
    succeed(Command::new("ip").args(["link", "del", &tap]));
    assert_eq!(ready, "ready");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("all came"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("is a virtual machine"), "{}", text(&output.stderr));
    assert!(ended.success() && counts.contains("pauses came 20"), "{counts}");
    assert!(!left.contains("clsact"), "{left}");
}
