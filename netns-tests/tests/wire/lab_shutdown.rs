// Tests for SPECIFICATION.md: lab-lifecycle

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use super::lab::{FIVE_LINES, Workspace, first_line, lab, run, succeed, text, wait_until};
use super::lab_foreign_hosts::holder;

fn name_of(file: &Path) -> &str {
    file.file_stem().unwrap().to_str().unwrap()
}

fn is_up(file: &Path) -> bool {
    succeed(&mut lab(&["list"])).lines().any(|line| line.split("  ").next() == Some(name_of(file)))
}

#[test]
fn agents_are_outside_process_group_of_lab_run() {
    let workspace = Workspace::new();
    let script = "ps -o pgid= -p $PPID; ps -o pgid=,args= --ppid $PPID";
    let output = run(&workspace.file("groups", FIVE_LINES), &[], script);
    let processes = text(&output.stdout);
    let group = processes.lines().next().unwrap().trim();
    let agents: Vec<&str> = processes.lines().filter(|line| line.contains(" nic --device")).collect();
    assert_eq!(agents.len(), 2, "{processes}");
    assert!(agents.iter().all(|line| line.split_whitespace().next() != Some(group)), "{processes}");
}

#[test]
fn hangup_ends_lab_run_unless_nohup_started_it() {
    let workspace = Workspace::new();
    let file = workspace.file("hangup", FIVE_LINES);
    for (starter, rest, code) in [("env", "exec sleep 1000", 128 + 1), ("nohup", "sleep 1; exit 7", 7)] {
        let script = format!("kill -HUP $PPID; {rest}");
        let mut run = Command::new(starter);
        run.arg(super::BINARY).args(["lab", "run", file.to_str().unwrap(), "--", "sh", "-c", &script]);
        let output = run.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{starter}: {}", text(&output.stderr));
    }
}

#[test]
fn lab_down_kills_command_that_ignores_signals() {
    let workspace = Workspace::new();
    let file = workspace.file("stubborn", FIVE_LINES);
    // With `exec`, `sleep` replaces the shell, so that killing the command leaves no child process.
    let script = "trap '' TERM; echo started; exec sleep 1000";
    let mut run = lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", script]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(first_line(&mut run).0, "started");
    succeed(&mut lab(&["down", "--lab", name_of(&file)]));
    assert_eq!(run.wait().unwrap().code(), Some(128 + 9));
    assert!(!is_up(&file));
}

/// Host b pauses host a for half a minute (65,535 quanta at 1 Mb/s). Meanwhile, a's classifier is deleted.
#[test] // proves: host-guard
fn lab_fails_if_queues_of_an_agent_were_tampered_with() {
    let workspace = Workspace::new();
    let network = "[defaults]\nspeed = \"1M\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n";
    let pause = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind((\"eth0\", 0))\n\
                 s.send(bytes.fromhex(\"0180c2000001 020000000099 8808 0101 0008\") + bytes(6) + b\"\\xff\\xff\" + bytes(34))\n";
    let sender = workspace.directory.path().join("pause.py");
    fs::write(&sender, pause).unwrap();
    let script = format!(
        "set -e
         status() {{ xoff lab exec a -- {} nic status --json; }}
         xoff lab exec b -- python3 {}
         until status | grep -q '\"now\": *true'; do sleep 0.05; done
         xoff lab exec a -- tc filter del dev eth0
         until status | grep -q 'pauses were not enforced: class 3'; do sleep 0.05; done",
        super::BINARY,
        sender.display()
    );
    let output = run(&workspace.file("tampered", network), &["--json"], &script);
    let account: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(output.status.code(), Some(1), "{account}");
    let failed = "a: the agent lost lossless frames or may not have obeyed pauses; see the agent's log";
    assert_eq!(account["verdict"]["failed"], serde_json::json!([failed]), "{account}");
}

#[test]
fn error_about_stopped_lab_contains_id_of_its_process() {
    let workspace = Workspace::new();
    let file = workspace.file("halted", FIVE_LINES);
    let mut run = lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", "echo; exec sleep 1000"]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    first_line(&mut run);
    let (name, holder) = (name_of(&file), run.id().to_string());
    let signal = |signal: &str| succeed(Command::new("kill").args([signal, &holder]));
    signal("-STOP");
    let commands: [&[&str]; 4] = [
        &["status", "--lab", name],
        &["exec", "--lab", name, "h1", "--", "true"],
        &["graph", "--lab", name],
        &["down", "--lab", name],
    ];
    let outputs = commands.map(|command| (command, lab(command).output().unwrap()));
    let listed = is_up(&file);
    signal("-CONT");
    succeed(&mut lab(&["down", "--lab", name]));
    run.wait().unwrap();
    assert!(listed, "a stopped lab is one that is up");
    for (command, output) in outputs {
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
        let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("its process {holder} is stopped")), "{command:?}: {words}");
    }
}

#[test]
fn second_interrupt_ends_the_lab_at_once() {
    let workspace = Workspace::new();
    let file = workspace.file("twice", FIVE_LINES);
    let script = format!(
        "trap '' INT TERM; {} lab exec h1 -- sh -c 'echo $$; exec sleep 1000' & echo $!; exec sleep 1000",
        super::BINARY
    );
    let mut run = lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", &script]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let (program, _output) = first_line(&mut run);
    let program = Path::new("/proc").join(program);
    wait_until("the program has not started", || {
        fs::read_to_string(program.join("comm")).is_ok_and(|name| name == "sleep\n")
    });
    let pid = run.id().to_string();
    let interrupt = || succeed(Command::new("kill").args(["-INT", &pid]));
    interrupt();
    thread::sleep(Duration::from_millis(100)); // earlier, a second signal would merge with the first
    assert!(run.try_wait().unwrap().is_none(), "the command ended at the signal that it ignores");
    wait_until("the lab still runs", || {
        interrupt();
        run.try_wait().unwrap().is_some()
    });
    assert_eq!(run.wait().unwrap().code(), Some(128 + 9));
    assert!(!is_up(&file));
    wait_until("the program still runs", || !program.exists());
}

#[test]
fn signal_during_startup_ends_the_lab() {
    let workspace = Workspace::new();
    let mut holder = holder();
    let docker = |does: &str| {
        let path = workspace.directory.path().join("docker");
        fs::write(&path, format!("#!/bin/sh\n{does}\necho {}\n", holder.id())).unwrap();
        succeed(Command::new("chmod").arg("+x").arg(&path));
        format!("{}:{}", workspace.directory.path().display(), std::env::var("PATH").unwrap())
    };
    let file =
        workspace.file("early", &format!("{FIVE_LINES}[[host]]\nname = \"h2\"\ncontainer = \"box\"\n"));
    let marker = workspace.directory.path().join("ran");
    let mut run = lab(&["run", file.to_str().unwrap(), "--", "touch", marker.to_str().unwrap()]);
    let output = run.env("PATH", docker("kill -INT $PPID")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("was stopped during its start"), "{}", text(&output.stderr));
    assert!(!marker.exists(), "the command of the lab was started");
    // Kill the lab before it announces its network, so that no later command finds it.
    let path = docker("kill -KILL $(ps -o ppid= $PPID)");
    let killed = lab(&["up", file.to_str().unwrap()]).env("PATH", path).output().unwrap();
    assert_eq!(killed.status.code(), None);
    wait_until("the network still exists", || !is_up(&file));
    let log = Path::new("/run/xoff/lab").join(format!("{}.log", name_of(&file)));
    wait_until("the log of the lab still exists", || !log.exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// The agents never start, because their configuration is a pipe without a writer.
#[test]
fn signal_ends_lab_that_waits_for_its_agents() {
    let workspace = Workspace::new();
    mkfifo(&workspace.directory.path().join("nic.toml"), Mode::S_IRWXU).unwrap();
    let network = FIVE_LINES.replace("[defaults]", "[defaults]\nnic = { file = \"nic.toml\" }");
    let [first, second] = ["slow-1", "slow-2"].map(|name| workspace.file(name, &network));
    let children = |pid: &str| {
        let listed = Command::new("ps").args(["-o", "pid=,args=", "--ppid", pid]).output().unwrap();
        text(&listed.stdout).lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let has_agents =
        |pid: &str| children(pid).iter().filter(|line| line.contains(" nic --device")).count() == 2;
    let terminate = |child: &Child| succeed(Command::new("kill").arg(child.id().to_string()));
    let mut run = lab(&["run", first.to_str().unwrap(), "--", "true"]);
    let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the agents of the first", || has_agents(&run.id().to_string()));
    let mut up = lab(&["up", second.to_str().unwrap()]).spawn().unwrap();
    wait_until("the agents of the second", || {
        let holders = children(&up.id().to_string());
        holders.iter().any(|line| has_agents(line.split(' ').next().unwrap()))
    });
    terminate(&up);
    assert_eq!(up.wait().unwrap().signal(), Some(15));
    wait_until("the end of the second", || !is_up(&second));
    assert!(run.try_wait().unwrap().is_none(), "the second lab did not wait for its agents");
    terminate(&run);
    let ended = run.wait_with_output().unwrap();
    let message = text(&ended.stderr);
    assert!(ended.status.code() == Some(2) && message.contains("was stopped during its start"), "{message}");
}

#[test]
fn lab_status_reports_host_without_agent() {
    let workspace = Workspace::new();
    let script = "ps -o pid=,args= --ppid $PPID | awk '/ nic --device/ { print $1; exit }' | xargs kill -KILL
                  for look in $(seq 400); do xoff lab status > /dev/null || break; sleep 0.05; done
                  xoff lab status; echo code $?";
    let output = run(&workspace.file("agentless", FIVE_LINES), &[], script);
    let printed = text(&output.stdout);
    assert!(printed.contains("AGENT GONE OR SILENT") && printed.ends_with("code 2\n"), "{printed}");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn failed_lab_leaves_no_device_in_existing_namespace() {
    let workspace = Workspace::new();
    let [red, green] = ["red", "green"].map(|name| format!("xoff-{name}-{}", std::process::id()));
    let names = [&red, &green];
    for name in names {
        succeed(Command::new("ip").args(["netns", "add", name]));
    }
    let left = || {
        names.map(|name| succeed(Command::new("ip").args(["-n", name, "-brief", "link"])).contains("xoff0"))
    };
    let network = format!(
        "[[host]]\nname = \"a\"\nnetns = \"{red}\"\n[[host]]\nname = \"b\"\nnetns = \"{green}\"\n\
                   [[link]]\nbetween = [\"a\", \"b\"]\n"
    );
    let file = workspace.file("between", &network);
    let wrong = workspace.file("wrong", &format!("[defaults]\nnic = {{ trust = \"colour\" }}\n{network}"));
    let failed = run(&wrong, &[], "true");
    let after_failure = left();
    let mut victim = lab(&["run", file.to_str().unwrap(), "--", "sh", "-c", "echo; exec sleep 1000"]);
    let mut victim = victim.stdout(Stdio::piped()).spawn().unwrap();
    first_line(&mut victim);
    victim.kill().unwrap();
    victim.wait().unwrap();
    let after_kill = left();
    let next = run(&file, &[], "xoff lab exec a -- ping -c 1 b");
    let after_all = left();
    for name in names {
        succeed(Command::new("ip").args(["netns", "del", name]));
    }
    assert_eq!(failed.status.code(), Some(2), "{}", text(&failed.stderr));
    assert_eq!((after_failure, after_kill, after_all), ([false; 2], [true; 2], [false; 2]));
    assert!(next.status.success(), "{}{}", text(&next.stdout), text(&next.stderr));
}

/// The lab stops waiting before the slow line has carried all queued frames.
#[test] // proves: lab-account
fn frames_queued_at_end_of_lab_leave_losslessness_unproved() {
    let workspace = Workspace::new();
    let file = workspace.file("waiting", &FIVE_LINES.replace("100M", "1M"));
    let sender = workspace.directory.path().join("sender.py");
    let program = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                   s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 24 << 2)\n\
                   s.setsockopt(socket.SOL_SOCKET, 32, 1 << 24)\n\
                   for n in range(600): s.sendto(bytes(1400), (\"h2\", 9))\n";
    fs::write(&sender, program).unwrap();
    let output = run(&file, &["--json"], &format!("xoff lab exec h1 -- python3 {}", sender.display()));
    let account: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let unproved = account["verdict"]["unproved"].as_array().unwrap();
    let names_waiting_host = |line: &Value| {
        line.as_str().unwrap().starts_with("h1: ") && line.as_str().unwrap().contains("still queued")
    };
    assert!(unproved.iter().any(names_waiting_host), "{}", account["verdict"]);
    assert!([Some(1), Some(3)].contains(&output.status.code()), "{:?}", output.status);
}

#[test]
fn lab_status_watch_ends_when_its_output_pipe_closes() {
    let workspace = Workspace::new();
    let output =
        run(&workspace.file("watched", FIVE_LINES), &[], "xoff lab status --watch=100ms | head -n 1");
    assert!(output.status.success() && !output.stdout.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn lab_starts_no_program_after_its_own_process_ended() {
    let workspace = Workspace::new();
    let marker = workspace.directory.path().join("ran");
    let child = |parent: u32| {
        let mut command = lab(&["child", "--parent", &parent.to_string(), "--", "touch"]);
        let code = command.arg(&marker).status().unwrap().code();
        (code, marker.exists())
    };
    assert_eq!(child(1), (Some(2), false));
    assert_eq!(child(std::process::id()), (Some(0), true));
}
