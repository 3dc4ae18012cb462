use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use xoff_netns_tests::wait_for;

use crate::{BINARY, bed, frame};

fn socket(name: &str) -> PathBuf {
    Path::new("/run/xoff").join(format!("test-{}-{name}.sock", std::process::id()))
}

fn xoff(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test] // proves: http, status, start-stop
fn client_reaches_switch_in_other_namespace_by_socket_file() {
    let bed = bed(2).build();
    let path = socket("near");
    let url = format!("unix:{}", path.display());
    let config = bed.config("speed = \"1G\"").switch(&format!("name = \"near\"\nhttp = \"{url}\""));
    let switch = bed.launch(&config);
    let query_status = || xoff(&["status", "--url", &url]);
    wait_for("it to answer", || query_status().status.success().then_some(()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let (a, b) = (bed.host(1), bed.host(2));
    a.send(frame(a, b, 3, 1));
    b.tap().numbered(1);
    assert!(text(&query_status().stdout).contains("near"));
    let changed = xoff(&["policy", "--url", &url, "--class", "3", "capfc-stop-max"]);
    assert!(text(&changed.stdout).contains("class 3  capfc-stop-max"), "{changed:?}");

    let dead = socket("dead");
    drop(UnixListener::bind(&dead).unwrap());
    let all = text(&xoff(&["status", "--all"]).stdout);
    assert!(all.contains(&format!("{url}\n")) && all.contains("near"), "{all}");
    assert!(all.contains(&format!("no switch answers at unix:{}", dead.display())), "{all}");
    let causes = xoff(&["status", "causes", "--url", &url, "--url", &format!("unix:{}", dead.display())]);
    let causes = text(&causes.stdout);
    assert!(causes.starts_with("no peer is paused\nNOT SEEN: no switch answers at unix:"), "{causes}");
    let json = xoff(&["status", "--all", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let near = json.as_array().unwrap().iter().find(|it| it["url"] == url.as_str()).unwrap();
    assert_eq!(near["status"]["name"], "near");
    fs::remove_file(&dead).unwrap();

    let again = bed.launch(&config).wait();
    assert_eq!(again.status.code(), Some(2), "{}", again.stderr);
    let refusal = format!("near is already running, pid {}", switch.pid());
    assert!(again.stderr.contains(&refusal), "{}", again.stderr);
    assert!(query_status().status.success(), "the first switch does not answer any more");
    switch.kill();
    assert!(path.exists(), "the killed switch removed its socket file");

    let switch = bed.launch(&config);
    wait_for("the next to answer", || query_status().status.success().then_some(()));
    let exit = switch.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert!(!path.exists());
    bed.assert_no_drops();
}

#[test] // proves: lab-lifecycle
fn error_about_stopped_switch_contains_id_of_its_process() {
    let bed = bed(2).build();
    let path = socket("stopped");
    let url = format!("unix:{}", path.display());
    let switch = bed.launch(&bed.config("speed = \"1G\"").switch(&format!("http = \"{url}\"")));
    wait_for("it to answer", || xoff(&["status", "--url", &url]).status.success().then_some(()));
    switch.halt();
    let commands: [&[&str]; 5] =
        [&["status"], &["reload"], &["policy"], &["acknowledge"], &["capture", "-w", "/dev/null"]];
    let outputs = commands.map(|command| (command, xoff(&[command, &["--url", &url]].concat())));
    switch.signal(Signal::SIGCONT);
    for (command, output) in outputs {
        let message = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        let stopped = format!("process {0} is stopped; continue it with `kill -CONT {0}`", switch.pid());
        assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
        assert!(message.contains(&stopped), "{command:?}: {message}");
    }
}

#[test] // proves: http
fn http_can_be_served_in_another_namespace() {
    let bed = bed(2).build();
    let (a, b) = (bed.host(1), bed.host(2));
    let mut there = a.start("sleep", &["1000"]);
    let netns = format!("http = \"127.0.0.1:9470\"\nhttp_netns = \"/proc/{}/ns/net\"", there.id());
    let switch = bed.launch(&bed.config("speed = \"1G\"").switch(&netns));
    let query_status =
        || a.namespace().output(Command::new(BINARY).args(["status", "--url", "127.0.0.1:9470"])).unwrap();
    wait_for("it to answer there", || query_status().status.success().then_some(()));
    there.kill().unwrap();
    there.wait().unwrap();
    a.send(frame(a, b, 3, 1));
    b.tap().numbered(1);
    let here =
        bed.namespace().output(Command::new(BINARY).args(["status", "--url", "127.0.0.1:9470"])).unwrap();
    assert!(!here.status.success(), "the switch also answers in its own namespace: {here:?}");
    let exit = switch.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    bed.assert_no_drops();
}
