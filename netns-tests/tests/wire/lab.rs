// Tests for SPECIFICATION.md: lab-account

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(super) const FIVE_LINES: &str = "[defaults]\nspeed = \"100M\"\n[[switch]]\nname = \"s1\"\nhosts = 2\n";

pub(super) struct Workspace {
    pub(super) directory: TempDir,
}

impl Workspace {
    pub(super) fn new() -> Workspace {
        Workspace { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(format!("{}.toml", named(name)));
        fs::write(&path, text).unwrap();
        path
    }
}

fn named(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

pub(super) fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(super::BINARY);
    command.arg("lab").args(arguments).env_remove("XOFF_LAB").stdin(Stdio::null());
    command
}

pub(super) fn run(file: &Path, options: &[&str], script: &str) -> Output {
    let script = script.replace("xoff ", &format!("{} ", super::BINARY));
    let mut command = lab(&["run", file.to_str().unwrap()]);
    command.args(options).args(["--", "sh", "-c", &script]).output().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

pub(super) fn first_line(child: &mut Child) -> (String, BufReader<ChildStdout>) {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    (line.trim().to_owned(), output)
}

pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn lab_of_a_five_line_file_accounts_for_every_frame() {
    let workspace = Workspace::new();
    let file = workspace.file("five", FIVE_LINES);
    let script = "xoff lab exec h1 -- ping -c 3 -i 0.1 h2 && xoff lab exec h2 -- ping -6 -c 2 -i 0.1 h1 && \
         xoff lab exec h1 -- ping -6 -c 1 h1 && xoff lab exec h1 -- ping -4 -c 1 h1 && env";
    let output = run(&file, &["--json"], script);
    let (stdout, commands) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{commands}");
    assert!(
        commands.contains("3 received, 0% packet loss") && commands.contains("2 received, 0% packet loss")
    );
    let name = format!("XOFF_LAB={}", named("five"));
    for variable in [name.as_str(), "XOFF_LAB_HOSTS=h1 h2", "XOFF_H2_IPV4=10.1.0.2", "XOFF_S1_NETNS=/proc/"] {
        assert!(commands.contains(variable), "{variable} is not in {commands}");
    }
    let account: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(account["verdict"]["promise"], "kept");
    let sent =
        |host: usize| account["hosts"][host]["interfaces"][0]["counters"]["tx_frames"].as_u64().unwrap();
    let ledger = &account["switches"][0]["ledger"];
    assert!(sent(0) >= 5 && sent(1) >= 5, "{account}");
    // The switch may receive more than the reported frames: the hosts' kernels may send after their report.
    assert!(ledger["received"].as_u64().unwrap() >= sent(0) + sent(1), "{account}");
    assert_eq!(ledger["balanced"], true);
}

/// Each host has more neighbours than the kernel's default `gc_thresh3` allows.
#[test] // proves: lab-file
fn all_hosts_of_a_lab_with_64_hosts_reach_each_other() {
    let workspace = Workspace::new();
    let network = "[defaults]\nspeed = \"100M\"\n[[switch]]\nname = \"s1\"\nhosts = 64\nstall_budget = \"5ms\"\nsmallest_frame = 1024\n";
    let file = workspace.file("many", network);
    let checked = succeed(&mut lab(&["check", file.to_str().unwrap()]));
    assert!(
        checked.contains(": 64 hosts, 1 switch, 64 links") && checked.contains("64 host agents"),
        "{checked}"
    );
    let script = "xoff lab exec h1 -- ping -c 1 h64 && xoff lab exec h64 -- ping -6 -c 1 h2 && xoff lab exec h33 -- ip neighbour";
    let output = run(&file, &["--json"], script);
    let (account, commands) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{account}\n{commands}");
    assert_eq!(commands.matches("1 received, 0% packet loss").count(), 2, "{commands}");
    assert_eq!(
        commands.lines().filter(|line| line.contains("lladdr 02:00:00:00:00:")).count(),
        2 * 63,
        "{commands}"
    );
    let account: Value = serde_json::from_str(&account).unwrap();
    assert_eq!(
        (account["verdict"]["promise"].as_str(), account["hosts"].as_array().unwrap().len()),
        (Some("kept"), 64)
    );
}

#[test] // proves: lab-file
fn error_about_too_large_lab_suggests_a_key_to_change() {
    let workspace = Workspace::new();
    let switch = |number: u8| format!("[[switch]]\nname = \"s{number}\"\nhosts = 64\n");
    let switches: String = (0..16).map(switch).collect();
    let lossless = "[defaults.switch.defaults]\nlossless = [0, 1, 2, 3, 4, 5, 6, 7]\n";
    let network = format!("[defaults]\nspeed = \"100G\"\n{lossless}{switches}");
    let file = workspace.file("large", &network);
    for command in [&["check"][..], &["up"], &["run"]] {
        let mut command = lab(&[command, &[file.to_str().unwrap()]].concat());
        if command.get_args().any(|argument| argument == "run") {
            command.args(["--", "true"]);
        }
        let output = command.output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("the network needs") && errors.contains("helps most"), "{errors}");
    }
}

#[test]
fn lab_run_exits_with_code_of_its_command() {
    let workspace = Workspace::new();
    let file = workspace.file("codes", FIVE_LINES);
    let code = |script: &str| {
        let output = run(&file, &[], script);
        assert!(text(&output.stderr).contains("nothing lossless was lost"), "{}", text(&output.stderr));
        output.status.code()
    };
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -9 $$"), Some(137));
    assert_eq!(code("xoff lab exec h1 -- no-such-program"), Some(127));
    assert_eq!(code("xoff lab exec h1 -- sh -c 'exit 9'"), Some(9));
    let on_h1 = lab(&["run", "--on", "h1", "--", "ping", "-c", "1", "h2"]).output().unwrap();
    assert_eq!(on_h1.status.code(), Some(0), "{}", text(&on_h1.stderr));
    let outside = lab(&["run", file.to_str().unwrap(), "--", "getent", "hosts", "h2"]).output().unwrap();
    assert_eq!(outside.status.code(), Some(2));
    assert!(text(&outside.stderr).contains("xoff lab run --on h1"), "{}", text(&outside.stderr));
    let unknown_node = lab(&["run", "--on", "h9", "--", "true"]).output().unwrap();
    assert!(
        text(&unknown_node.stderr).contains("nodes of this lab: h1, h2, s1"),
        "{}",
        text(&unknown_node.stderr)
    );
    let no_command = lab(&["run", file.to_str().unwrap(), "--", "/no/such/program"]).output().unwrap();
    assert_eq!(no_command.status.code(), Some(127));
    let wrong = workspace.file("wrong", &format!("{FIVE_LINES}stall_bugdet = 1\n"));
    let refused = lab(&["run", wrong.to_str().unwrap(), "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("stall_bugdet") && message.contains(".toml:6"), "{message}");
}

#[test] // proves: lab-page, lab-file
fn lab_serves_web_page_and_reloads_its_switches() {
    let workspace = Workspace::new();
    let name = "page";
    let file = workspace.file(name, FIVE_LINES);
    let up = lab(&["up", file.to_str().unwrap()]).output().unwrap();
    let messages = text(&up.stderr);
    let page = messages.lines().find_map(|line| line.strip_prefix("page: ")).expect(&messages);
    let get = |path: &str, options: &[&str]| {
        succeed(
            Command::new("curl")
                .args(["-s", "-w", "%{http_code}"])
                .args(options)
                .arg(format!("{page}{path}")),
        )
    };
    assert!(get("content", &[]).contains("10.1.0.2"));
    assert!(get("switch/s1/status", &["--compressed"]).contains("\"name\":\"s1\""));
    for path in ["switch/s1/capture", "switch/s2/status"] {
        assert!(get(path, &[]).ends_with("404"), "{path}");
    }
    for path in ["switch/s1/reload", "switch/s1/policy"] {
        assert!(get(path, &["-X", "PUT", "-d", "{\"policy\": \"pfc\"}"]).ends_with("405"), "{path}");
    }
    let reload = |text: &str, options: &[&str]| {
        workspace.file(name, text);
        lab(&[&["reload", "--lab", &named(name)][..], options].concat()).output().unwrap()
    };
    let threshold = format!("{FIVE_LINES}[switch.class.3]\nxoff = \"40KB\"\nxon = \"20KB\"\n");
    let planned = text(&reload(&threshold, &["--dry-run"]).stdout);
    assert!(planned.starts_with("s1: ") && planned.contains("would be made"), "{planned}");
    let changed = text(&reload(&threshold, &[]).stdout);
    assert!(changed.contains("were made") && changed.contains("40KB"), "{changed}");
    let refused = reload(&threshold.replace("hosts = 2", "hosts = 3"), &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("a reload cannot change hosts, links"),
        "{}",
        text(&refused.stderr)
    );
    succeed(&mut lab(&["down", "--lab", &named(name)]));
}

/// Senders ignore pauses, so the switch drops lossless frames (DSCP 24). `rx_dropped` counts h3's two frames of unknown EtherType, but no
/// CNMs at h1 and h2.
#[test]
fn lab_run_exits_with_1_if_lossless_frames_were_lost() {
    let workspace = Workspace::new();
    let network = "[defaults]\nspeed = \"10M\"\nnic = false\n[[switch]]\nname = \"s1\"\nhosts = 3\nstall_budget = \"1ms\"\n\
                   [switch.qcn]\negress = [3]\nset_point = 1000\nsample_every = 4000\nframes_per_cnm = 1\n";
    let file = workspace.file("lossy", network);
    let sender = "import socket\n\
                  unknown = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nunknown.bind((\"eth0\", 0))\n\
                  unknown.send(bytes.fromhex(\"020000000003 020000000009 88b5\") + bytes(46))\n\
                  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 24 << 2)\n\
                  for n in range(3000): s.sendto(bytes(1400), (\"h3\", 9))\n";
    fs::write(workspace.directory.path().join("sender.py"), sender).unwrap();
    let sender = workspace.directory.path().join("sender.py");
    let script =
        format!("xoff lab exec h1 -- python3 {0} & xoff lab exec h2 -- python3 {0}; wait", sender.display());
    let output = run(&file, &["--json"], &script);
    let account: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(output.status.code(), Some(1), "{account}");
    assert_eq!(account["verdict"]["promise"], "not-kept");
    let lost = account["verdict"]["lossless_lost"].as_u64().unwrap();
    assert!(lost > 0, "{account}");
    let port = |port: usize| &account["switches"][0]["ports"][port];
    let cnms = port(2)["classes"][3]["congestion_point"]["cnms_sent"].as_u64().unwrap();
    assert!(cnms > 0 && port(0)["pause_frames_sent"].as_u64().unwrap() > 0, "{account}");
    let lost_at =
        [0, 1, 2].map(|host| account["hosts"][host]["interfaces"][0]["counters"]["rx_dropped"].as_u64());
    assert_eq!(lost_at, [Some(0), Some(0), Some(2)], "{account}");
    assert_eq!(account["verdict"]["host_dropped"], 2, "{account}");
}

#[test] // proves: lab-lifecycle
fn two_labs_run_side_by_side_and_leave_nothing_behind() {
    let workspace = Workspace::new();
    let hosts_before = fs::read_to_string("/etc/hosts").unwrap();
    let devices = || succeed(Command::new("ip").args(["-brief", "link"]));
    let devices_before = devices();
    for name in ["side-a", "side-b"] {
        let file = workspace.file(name, FIVE_LINES);
        // Run `lab up` in a process group that ends at once, as when a terminal is closed.
        let output = succeed(Command::new("setsid").args([super::BINARY, "lab", "up"]).arg(&file));
        assert_eq!(output, format!("{}\n", named(name)));
    }
    let [a, b] = ["side-a", "side-b"].map(named);
    let up = || {
        let list = succeed(&mut lab(&["list"]));
        let names = list.lines().filter_map(|line| line.strip_suffix('/')?.split_once("  http://127.0.0.1:"));
        names.filter(|(name, _)| [&a, &b].contains(&&(*name).to_owned())).count()
    };
    assert_eq!(up(), 2);
    let again = lab(&["up", workspace.file("side-a", FIVE_LINES).to_str().unwrap()]).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains(&format!("a lab called {a} is up already")),
        "{}",
        text(&again.stderr)
    );
    let which = lab(&["exec", "h1", "--", "true"]).output().unwrap();
    assert!(text(&which.stderr).contains("several labs are up: "), "{}", text(&which.stderr));
    for name in [&a, &b] {
        succeed(&mut lab(&["exec", "--lab", name, "h1", "--", "ping", "-c", "1", "h2"]));
    }
    let mut there =
        lab(&["exec", "--lab", &a, "h1", "--", "sh", "-c", "pwd; echo $GREETING $XOFF_NODE; cat"]);
    let mut there = there
        .current_dir("/usr")
        .env("GREETING", "hello")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut there.stdin.take().unwrap(), b"from outside\n").unwrap();
    let mut output = String::new();
    there.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(there.wait().unwrap().success());
    assert_eq!(output, "/usr\nhello h1\nfrom outside\n");
    let stubborn = "trap '' TERM; echo started; exec sleep 1000";
    let mut stubborn =
        lab(&["exec", "--lab", &a, "h2", "--", "sh", "-c", stubborn]).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(first_line(&mut stubborn).0, "started");
    let account: Value = serde_json::from_str(&succeed(&mut lab(&["down", "--lab", &a, "--json"]))).unwrap();
    assert_eq!(account["verdict"]["promise"], "kept");
    assert!(!stubborn.wait().unwrap().success());
    assert_eq!(up(), 1);
    succeed(lab(&["exec", "h1", "--", "ping", "-c", "1", "h2"]).env("XOFF_LAB", &b));
    succeed(lab(&["down"]).env("XOFF_LAB", &b));
    let none = lab(&["down"]).env("XOFF_LAB", &b).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains(&format!("no lab called {b} is up")), "{}", text(&none.stderr));
    assert_eq!(fs::read_to_string("/etc/hosts").unwrap(), hosts_before);
    assert_eq!(devices(), devices_before);
    let left =
        fs::read_dir("/run/xoff/lab").unwrap().flatten().map(|file| file.file_name()).collect::<Vec<_>>();
    assert!(
        !left
            .iter()
            .any(|file| [&a, &b].iter().any(|name| file.to_string_lossy().starts_with(name.as_str()))),
        "{left:?}"
    );
}

#[test] // proves: lab-lifecycle
fn next_lab_removes_leftovers_of_a_killed_lab() {
    let workspace = Workspace::new();
    let file = workspace.file("killed", FIVE_LINES);
    // Read only the first line of output below: the sleeping program keeps the pipe open.
    let script = "xoff lab exec h1 -- sh -c 'echo $$; exec sleep 1000'";
    let script = script.replace("xoff lab", &format!("{} lab", super::BINARY));
    let mut victim = lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sleeper, _output) = first_line(&mut victim);
    let sleeper = PathBuf::from("/proc").join(sleeper);
    wait_until("the program has not started", || {
        fs::read_to_string(sleeper.join("comm")).is_ok_and(|name| name == "sleep\n")
    });
    victim.kill().unwrap();
    victim.wait().unwrap();
    let socket = PathBuf::from(format!("/run/xoff/lab/{}.sock", named("killed")));
    assert!(sleeper.exists(), "the program ended with the killed lab");
    assert!(socket.exists());
    assert!(!succeed(&mut lab(&["list"])).contains(&named("killed")), "and the network does not");
    let next = run(&file, &[], "true");
    assert!(next.status.success(), "{}", text(&next.stderr));
    assert!(
        text(&next.stderr).contains(&format!("removed leftovers of lab {}", named("killed"))),
        "{}",
        text(&next.stderr)
    );
    wait_until("the program of the killed lab still runs", || !sleeper.exists());
    assert!(!socket.exists());
}

#[test] // proves: lab-lifecycle
fn command_in_lab_ends_if_lab_is_killed_or_taken_down() {
    let workspace = Workspace::new();
    let file = workspace.file("ends", FIVE_LINES);
    let start = |trap: &str| {
        let script = format!("{trap}echo $$; exec sleep 1000");
        let mut run = lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", &script]);
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        let (pid, _) = first_line(&mut run);
        (run, PathBuf::from("/proc").join(pid))
    };
    let (mut killed, command) = start("trap '' TERM INT HUP; ");
    assert!(command.exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the command still runs", || !command.exists());
    let (mut ended, command) = start("");
    succeed(&mut lab(&["down", "--lab", &named("ends")]));
    assert_eq!(ended.wait().unwrap().code(), Some(128 + 15));
    assert!(!command.exists());
}

#[test]
fn agents_pause_unmodified_senders_at_hosts() {
    let workspace = Workspace::new();
    let network = "[defaults]\nspeed = \"20M\"\n[[switch]]\nname = \"s1\"\nhosts = 3\n";
    let file = workspace.file("obey", network);
    let sender = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 24 << 2)\n\
                  for n in range(6000): s.sendto(n.to_bytes(4, 'big') + bytes(1396), (\"h3\", 7777))\n";
    let receiver = "import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                    s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)\ns.bind(('', 7777)); s.settimeout(20)\n\
                    print('ready', flush=True)\ncame = {}\n\
                    while sum(map(len, came.values())) < 12000:\n\
                    \x20   data, at = s.recvfrom(2000)\n    came.setdefault(at, []).append(int.from_bytes(data[:4], 'big'))\n\
                    assert len(came) == 2 and all(all_of == list(range(6000)) for all_of in came.values())\n\
                    print('all came, in order')\n";
    let place = |name: &str, text: &str| {
        let path = workspace.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (sender, receiver) = (place("sender.py", sender), place("receiver.py", receiver));
    let at = |name: &str| workspace.directory.path().join(name).display().to_string();
    let script = format!(
        "set -e
         xoff lab exec h3 -- python3 {receiver} > {log} & receiver=$!
         until grep -q ready {log}; do sleep 0.05; done
         timeout 10 xoff lab capture h1 -w {pcap} -- -c 2000 2> /dev/null & pcap=$!
         for host in h1 h2; do xoff lab exec $host -- python3 {sender} & done
         until xoff lab status | grep -q 'obeys, class 3 held NOW'; do sleep 0.05; done
         xoff lab graph --out {svg}
         wait $receiver; wait $pcap || true; cat {log}",
        log = at("receiver.log"),
        pcap = at("h1.pcap"),
        svg = at("lab.svg"),
    );
    let output = run(&file, &["--json"], &script);
    let account: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert!(text(&output.stderr).contains("all came, in order"), "{}", text(&output.stderr));
    assert_eq!(
        (output.status.code(), &account["verdict"]["promise"]),
        (Some(0), &Value::from("kept")),
        "{account}"
    );
    assert!(
        account["hosts"][0]["interfaces"][0]["agent"]["pfc_frames_received"].as_u64().unwrap() > 0,
        "{account}"
    );
    let svg = fs::read_to_string(at("lab.svg")).unwrap();
    assert!(["h1", "h2", "h3", "s1", "10.1.0.3"].iter().all(|word| svg.contains(word)), "{svg}");
    let decoded = succeed(Command::new("tshark").args([
        "-r",
        &at("h1.pcap"),
        "-T",
        "fields",
        "-e",
        "eth.type",
        "-e",
        "ip.dsfield.dscp",
    ]));
    assert!(decoded.lines().any(|line| line.starts_with("0x8808")), "no pause in {decoded}");
    assert!(decoded.lines().any(|line| line.trim_end().ends_with("\t24")), "no data in {decoded}");
}

#[test]
fn lab_captures_a_link_and_reports_a_failed_agent() {
    let workspace = Workspace::new();
    let two = "[defaults]\nnic = false\nspeed = \"100M\"\n[[switch]]\nname = \"s1\"\nhosts = 1\n[[switch]]\nname = \"s2\"\nhosts = 1\n[[link]]\nbetween = [\"s1\", \"s2\"]\n";
    let file = workspace.directory.path().join("trunk.pcapng").display().to_string();
    let script = format!(
        "xoff lab capture s1-s2 -w {file} & pcap=$!
         until [ -s {file} ]; do sleep 0.05; done
         xoff lab exec h1 -- ping -4 -c 1 h2
         kill $pcap; wait $pcap"
    );
    let output = run(&workspace.file("two", two), &[], &script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 received"), "{}", text(&output.stdout));
    let fields = ["frame.interface_name", "frame.packet_flags_direction", "frame.comment", "icmp.type"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", &file, "-Y", "icmp", "-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| _ = tshark.args(["-e", field]));
    let decoded = succeed(&mut tshark);
    let decoded: Vec<Vec<&str>> = decoded.lines().map(|line| line.split('|').collect()).collect();
    let pings: Vec<[&str; 2]> = decoded.iter().map(|fields| [fields[0], fields[3]]).collect();
    assert_eq!(pings, [["s2", "8"], ["s2", "0"]], "{decoded:?}");
    assert!(decoded[0][2].starts_with("class=0 delay_ns=") && decoded[1][2] == "class=0", "{decoded:?}");
    let wrong = FIVE_LINES.replace("[defaults]", "[defaults]\nnic = { trust = \"colour\" }");
    let output = run(&workspace.file("agent", &wrong), &[], "true");
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("the agent of host h1 ended") && message.contains("colour"), "{message}");
}
