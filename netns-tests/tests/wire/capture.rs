// Tests for SPECIFICATION.md: capture

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use xoff_netns_tests::frames::Frame;
use xoff_netns_tests::{Bed, Config, Host, Switch, decode, frames, wait_for};
use xoff_switch::control::status::PortStatus;
use xoff_wire::units::MacAddr;

use crate::{BINARY, bed, frame};

const FIELDS: [&str; 9] = [
    "frame.interface_name",
    "frame.packet_flags_direction",
    "frame.comment",
    "macc.cbfc.pause_time.c3",
    "frame.time_epoch",
    "frame.len",
    "eth.type",
    "xoff_gfc.step",
    "xoff_ofc.operation",
];

#[derive(Clone, Debug)]
struct DecodedFrame {
    port: String,
    direction: &'static str,
    comment: String,
    pause: String,
    at: f64,
    len: usize,
    /// Decoded fields: EtherType, rate step (GFC), operation of a flow list (OFC).
    control: [String; 3],
}

impl DecodedFrame {
    fn read(line: &str) -> DecodedFrame {
        let fields: Vec<&str> = line.split('|').collect();
        let direction = match u32::from_str_radix(fields[1].trim_start_matches("0x"), 16).unwrap() {
            1 => "in",
            2 => "out",
            _ => "",
        };
        let [port, comment, pause] = [0, 2, 3].map(|at| fields[at].to_owned());
        DecodedFrame {
            port,
            direction,
            comment,
            pause,
            at: fields[4].parse().unwrap(),
            len: fields[5].parse().unwrap(),
            control: [6, 7, 8].map(|at| fields[at].to_owned()),
        }
    }

    fn control_kind(&self) -> String {
        match &self.control {
            [_, step, _] if !step.is_empty() => format!("rate {step}"),
            [_, _, operation] if !operation.is_empty() => format!("flows {operation}"),
            [ether_type, ..] if ether_type == "0x88cc" => "LLDP".into(),
            _ => format!("pause {}", self.pause),
        }
    }

    fn event(&self) -> (&str, &str, String) {
        let words = self.comment.split(' ').filter(|word| !word.starts_with("delay_ns="));
        (&self.port, self.direction, words.collect::<Vec<_>>().join(" "))
    }
}

fn capture(bed: &Bed, arguments: &[&str]) -> Child {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", BINARY, "capture"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    bed.namespace().spawn(command).unwrap()
}

fn interrupt(child: &Child) {
    signal::kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
}

struct LiveCapture {
    capture: Child,
    tshark: Child,
    lines: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl LiveCapture {
    fn start(bed: &Bed, switch: &Switch, arguments: &[&str]) -> LiveCapture {
        let before = captures_begun(switch);
        let mut capture = capture(bed, &[&["-w", "-"], arguments].concat());
        let mut tshark = decode::tshark_of_ours();
        tshark.args(["-l", "-r", "-", "-T", "fields", "-E", "separator=|"]);
        FIELDS.iter().for_each(|field| _ = tshark.args(["-e", field]));
        tshark.stdin(capture.stdout.take().unwrap()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut tshark = tshark.spawn().unwrap();
        let lines = std::sync::Arc::default();
        let reader = read_lines(tshark.stdout.take().unwrap(), std::sync::Arc::clone(&lines));
        wait_for("the capture to begin", || (captures_begun(switch) > before).then_some(()));
        LiveCapture { capture, tshark, lines, reader }
    }

    fn wait(&self, count: usize) -> Vec<DecodedFrame> {
        wait_for(&format!("{count} frames"), || {
            let lines = self.lines.lock().unwrap();
            (lines.len() >= count).then(|| lines.iter().map(|line| DecodedFrame::read(line)).collect())
        })
    }

    fn end(mut self) -> (Vec<DecodedFrame>, String) {
        interrupt(&self.capture);
        let output = self.capture.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(self.tshark.wait().unwrap().success());
        self.reader.join().unwrap();
        let lines = self.lines.lock().unwrap().iter().map(|line| DecodedFrame::read(line)).collect();
        (lines, String::from_utf8(output.stderr).unwrap())
    }
}

fn read_lines(from: ChildStdout, to: std::sync::Arc<std::sync::Mutex<Vec<String>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        BufReader::new(from).lines().for_each(|line| to.lock().unwrap().push(line.unwrap()));
    })
}

fn captures_begun(switch: &Switch) -> usize {
    switch.stderr().matches("the capture has begun").count()
}

fn captures_ended(switch: &Switch) -> usize {
    switch.stderr().matches("the capture has ended").count()
}

fn start(bed: &Bed, config: &Config) -> Switch {
    let switch = bed.start(&config.clone().switch("log = \"info\""));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0)); // learned
    a.tap().numbered(0);
    switch
}

fn counted(port: &PortStatus) -> [u64; 3] {
    let sum = |of: fn(&xoff_switch::control::status::ClassStatus) -> u64| port.classes.iter().map(of).sum();
    [sum(|class| class.rx_frames), sum(|class| class.tx_frames), sum(|class| class.drops.values().sum())]
}

fn pauses_in_both_directions(config: &str) {
    let bed = bed(2).build();
    let defaults = "speed = \"1M\"\nlossless = [3]";
    let thresholds = "[class.3]\nxoff = 4000\nxon = 2000\n";
    let switch = start(&bed, &bed.config(defaults).switch(config).more(thresholds));
    let (a, b) = (bed.host(1), bed.host(2));
    let before = [1, 2].map(|port| counted(&switch.port(port)));
    let live = LiveCapture::start(&bed, &switch, &["p1", "p2"]);
    b.send(frames::pfc(b.mac(), &[(3, u16::MAX)]));
    live.wait(1);
    (1..=3).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1_500)));
    live.wait(5);
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    b.tap().numbered(3);
    a.tap().wait(1, |bytes| frames::pfc_time(bytes, 3) == Some(0));
    let (lines, summary) = live.end();
    assert_eq!(summary, "10 frames captured, 0 missed\n");

    // The capture keeps the order of frames only within each port.
    let of = |port: &str| {
        lines.iter().filter(|line| line.port == port).map(DecodedFrame::event).collect::<Vec<_>>()
    };
    let [data, control] = ["class=3", "control"].map(str::to_owned);
    let at = |port, direction, what: &String| (port, direction, what.clone());
    let (p1, p2) = (of("p1"), of("p2"));
    assert_eq!(
        p1,
        [[0; 3].map(|_| at("p1", "in", &data)).to_vec(), [0; 2].map(|_| at("p1", "out", &control)).to_vec()]
            .concat()
    );
    let sent = at("p2", "out", &data);
    assert_eq!(p2, [at("p2", "in", &control), at("p2", "in", &control), sent.clone(), sent.clone(), sent]);
    let pauses = lines.iter().filter(|line| !line.pause.is_empty());
    let pauses: Vec<_> = pauses.map(|line| (line.port.as_str(), line.pause.as_str())).collect();
    assert_eq!(pauses, [("p2", "65535"), ("p1", "65535"), ("p2", "0"), ("p1", "0")]);

    let [first_in, first_out] = ["in", "out"].map(|direction| {
        lines
            .iter()
            .find(|line| line.direction == direction && line.comment.starts_with("class=3"))
            .unwrap()
            .clone()
    });
    let delay: f64 = first_out.comment.split_once("delay_ns=").unwrap().1.parse().unwrap();
    assert!((first_out.at - first_in.at - delay / 1e9).abs() < 1e-6, "{first_in:?} {first_out:?}");
    assert_eq!((first_in.len, first_out.len), (1_500, 1_500));

    for (number, (before, name)) in (1..).zip(before.into_iter().zip(["p1", "p2"])) {
        let after = wait_for("the frames to have left", || {
            let port = counted(&switch.port(number));
            (number == 1 || port[1] == before[1] + 3).then_some(port)
        });
        let captured =
            |direction: &str| of(name).iter().filter(|it| it.1 == direction && it.2 == data).count() as u64;
        assert_eq!([after[0] - before[0], after[1] - before[1]], ["in", "out"].map(captured), "{name}");
    }
    bed.finish(switch);
}

#[test]
fn tshark_reads_a_growing_capture() {
    pauses_in_both_directions("");
}

#[test]
fn capture_contains_frames_of_ports_of_two_workers() {
    pauses_in_both_directions("workers = [{ ports = [\"p1\"] }, { ports = [\"p2\"] }]");
}

#[test]
fn capture_of_drops_contains_frames_with_drop_reasons() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"10M\"\nlossless = []").port(2, "lossless = [3]");
    let switch = start(&bed, &config.more("[class.3]\negress_max = 3001\n"));
    let (a, b) = (bed.host(1), bed.host(2));
    let all = LiveCapture::start(&bed, &switch, &["--dropped"]);
    let full = LiveCapture::start(&bed, &switch, &["p2", "--dropped=egress_full", "--snap", "64"]);
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    a.send(a.to(a).tag(5, 0).numbered(9).build());
    all.wait(1); // or it might be forwarded after frames of a higher class
    a.send(a.to(b).tag(6, 4_095).numbered(9).build()); // of no VLAN
    (1..=5).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(996)));
    let lines = all.wait(4);
    let what: Vec<_> = lines.iter().map(DecodedFrame::event).collect();
    let at = |port, direction, comment: &str| (port, direction, comment.to_owned());
    let no_room = at("p2", "", "class=3 drop=egress_full");
    let filtered = [at("p1", "", "class=5 drop=hairpin"), at("p1", "", "class=6 drop=reserved_vid")];
    assert_eq!(what, [&filtered[..], &[no_room.clone(), no_room.clone()]].concat());
    assert_eq!(full.wait(2).iter().map(DecodedFrame::event).collect::<Vec<_>>(), [no_room.clone(), no_room]);
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    b.tap().numbered(3);
    let [port1, port2] = [1, 2].map(|port| counted(&switch.port(port))[2]);
    assert_eq!([port1, port2], [2, 2], "captured frames and the switch's counters");
    assert_eq!(all.end().1, "4 frames captured, 0 missed\n");
    assert_eq!(full.end().1, "2 frames captured, 0 missed\n");
    switch.stop();
    bed.assert_no_drops();
}

#[test]
fn capture_options_class_control_and_count_select_frames() {
    let bed = bed(2).build();
    let switch = start(&bed, &bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    let of_class = LiveCapture::start(&bed, &switch, &["p2", "--class", "4"]);
    let control = LiveCapture::start(&bed, &switch, &["--control"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let three = capture(&bed, &["p1", "-c", "3", "-w", file.path().to_str().unwrap()]);
    wait_for("the third", || (captures_begun(&switch) == 3).then_some(()));
    for number in 1..=3 {
        [3, 4, 5].into_iter().for_each(|class| a.send(frame(a, b, class, number * 10 + u32::from(class))));
    }
    a.send(frames::pfc(a.mac(), &[(0, 9)]));
    let output = three.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "3 frames captured, 0 missed\n");
    let second =
        capture(&bed, &["p2", "--class", "7", "--duration", "1s", "-w", "-"]).wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&second.stderr),
        "0 frames captured, 0 missed\n",
        "the capture did not end by itself"
    );
    of_class.wait(3);
    let line = control.wait(1).swap_remove(0);
    assert_eq!(line.event(), ("p1", "in", "control".into()));
    let (lines, summary) = of_class.end();
    assert!(lines.iter().all(|line| line.event() == ("p2", "out", "class=4".into())), "{lines:?}");
    assert_eq!((lines.len(), summary.as_str()), (3, "3 frames captured, 0 missed\n"));
    assert_eq!(control.end().1, "1 frames captured, 0 missed\n");
    let Output { stdout, .. } =
        Command::new("capinfos").args(["-c", "-M"]).arg(file.path()).output().unwrap();
    let printed = String::from_utf8(stdout).unwrap();
    assert!(
        printed.lines().any(|line| line.starts_with("Number of packets") && line.ends_with(" 3")),
        "{printed}"
    );
    bed.finish(switch);
}

fn pause_of_a_flow(host: &Host) -> Vec<u8> {
    let mut bytes = frames::pfc(host.mac(), &[(4, u16::MAX)]);
    bytes.truncate(34);
    bytes.extend(b"OFC1\x01\x04\x00\x01");
    bytes.extend([0, 0, 0x88, 0xb5, 0, 0, 2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8]);
    bytes
}

#[test]
fn capture_of_control_frames_has_flow_lists_rates_and_lldp() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"1M\"\nlossless = [3, 4]\ngfc_peer = true\nofc_peer = true");
    let config = config.switch("policy = { 3 = \"gfc\", 4 = \"ofc\" }");
    let thresholds = "[class.3]\nxoff = 4000\nxon = 3000\n[class.4]\nxoff = 8000\nxon = 1000\n";
    let switch = start(&bed, &config.more(&format!("{thresholds}[policy.ofc]\nalpha = 0.5\n")));
    let (a, b) = (bed.host(1), bed.host(2));
    let live = LiveCapture::start(&bed, &switch, &["--control"]);
    b.send(frames::pfc(b.mac(), &[(3, u16::MAX), (4, u16::MAX)]));
    b.send(frames::rate(b.mac(), 3, 2));
    b.send(pause_of_a_flow(b));
    live.wait(3);
    a.send(Frame::new(a.mac(), MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e])).payload(0x88cc, &[0, 0]).build());
    live.wait(4);
    // Two frames (3,008 bytes) exceed three quarters of class 3's XOFF threshold: the switch requests a rate. Three frames (4,512 bytes)
    // exceed half of class 4's: it sends a flow list.
    (1..=2).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1_500)));
    live.wait(5);
    (3..=5).for_each(|number| a.send(a.to(b).tag(4, 0).numbered(number).build_len(1_500)));
    live.wait(6);
    b.send(frames::pfc(b.mac(), &[(3, 0), (4, 0)]));
    b.tap().wait(5, |bytes| frames::sequence(bytes).is_some_and(|number| number > 0));
    a.tap().wait(1, |bytes| bytes.get(34..39) == Some(b"GFC1\x08") && bytes[43] == 0);
    a.tap().wait(1, |bytes| bytes.get(34..39) == Some(b"OFC1\x02"));
    let (lines, summary) = live.end();
    assert!(summary.ends_with(" 0 missed\n"), "{summary}");

    assert!(lines.iter().all(|line| line.event().2 == "control"), "{lines:?}");
    let of = |port: &str, direction: &str| -> Vec<String> {
        let lines = lines.iter().filter(|line| line.port == port && line.direction == direction);
        lines.map(DecodedFrame::control_kind).collect()
    };
    assert_eq!(of("p1", "in"), ["LLDP"]);
    assert_eq!(of("p2", "in"), ["pause 65535", "rate 2", "flows 1", "pause 0"]);
    assert!(of("p2", "out").is_empty());
    let requested = of("p1", "out");
    assert!(requested[0] == "rate 2" && requested.contains(&"flows 1".to_owned()), "{requested:?}");
    let [rates, flows] = ["rate ", "flows "]
        .map(|kind| requested.iter().filter_map(|frame| frame.strip_prefix(kind)).collect());
    let (rates, flows): (Vec<_>, Vec<_>) = (rates, flows);
    assert_eq!(
        (rates.last(), flows.last()),
        (Some(&"0"), Some(&"2")),
        "a limit or pause did not end: {requested:?}"
    );
    let status = switch.status();
    let [port1, port2] = [0, 1].map(|port| &status.ports[port]);
    let lists = port1.classes[4].flows.unwrap();
    assert_eq!(rates.len() as u64, port1.rate_frames_sent);
    assert_eq!(flows.len() as u64, lists.pause_frames_sent + lists.resume_frames_sent);
    assert_eq!([port1.reserved_frames, port2.rate_frames_received], [1, 1]);
    assert_eq!(port2.classes[4].flows.unwrap().pause_frames_received, 1);
    bed.finish(switch);
}

fn missed_in(file: &Path) -> u64 {
    let dropped = "pcapng.options.option.data.interface.dropped";
    let mut tshark = Command::new("tshark");
    tshark.args(["-X", "read_format:MIME Files Format", "-T", "fields", "-e", dropped, "-r"]).arg(file);
    let printed = String::from_utf8(tshark.output().unwrap().stdout).unwrap();
    printed
        .split([',', '\n'])
        .filter(|text| !text.is_empty())
        .map(|text| text.trim().parse::<u64>().unwrap())
        .sum()
}

#[test]
fn switch_loses_no_frame_to_a_slow_capture_reader() {
    const FRAMES: u32 = 16_000;
    let bed = bed(2).build();
    let switch = start(&bed, &bed.config("speed = \"10G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    let mut capture = capture(&bed, &["-w", "-"]);
    wait_for("the capture", || (captures_begun(&switch) == 1).then_some(()));
    for number in 1..=FRAMES {
        a.send(a.to(b).tag(0, 0).numbered(number).build_len(1_500));
        if number % 200 == 0 {
            b.tap().numbered(number);
        }
    }
    b.tap().numbered(FRAMES);
    assert_eq!(b.tap().count(|bytes| bytes.len() == 1_500), FRAMES as usize, "all are forwarded");
    interrupt(&capture);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let bytes = std::io::copy(&mut capture.stdout.take().unwrap(), &mut file).unwrap();
    let summary = String::from_utf8(capture.wait_with_output().unwrap().stderr).unwrap();
    let numbers: Vec<u64> = summary.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [captured, missed] = numbers[..] else { panic!("{summary}") };
    assert_eq!(captured + missed, 2 * u64::from(FRAMES), "number of captured frames, in and out");
    assert!(captured > 0 && missed > 0, "{summary}");
    assert!(bytes > captured * 1_500);
    assert_eq!(missed_in(file.path()), missed);
    assert_eq!(switch.status().ports.iter().map(|port| counted(port)[2]).sum::<u64>(), 0);
    bed.finish(switch);
}

#[test]
fn at_most_four_captures_run_at_once() {
    let bed = bed(2).build();
    let switch = start(&bed, &bed.config("speed = \"1G\""));
    let mut running: Vec<Child> = (0..4).map(|_| capture(&bed, &["-w", "-"])).collect();
    wait_for("all four", || (captures_begun(&switch) == 4).then_some(()));
    let Output { status, stderr, .. } = capture(&bed, &["-w", "-"]).wait_with_output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{message}");
    assert!(message.contains("4 captures are running, which is the maximum"), "{message}");
    running[0].kill().unwrap();
    running[0].wait().unwrap();
    wait_for("the end of it", || (captures_ended(&switch) == 1).then_some(()));
    running.push(capture(&bed, &["-w", "-"]));
    wait_for("another", || (captures_begun(&switch) == 5).then_some(()));
    for child in &mut running[1..] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_for("all ends", || (captures_ended(&switch) == 5).then_some(()));
    let (a, b) = (bed.host(1), bed.host(2));
    (1..=20).for_each(|number| a.send(frame(a, b, 3, number)));
    b.tap().numbered(20);
    let last = capture(&bed, &["-w", "-"]);
    wait_for("the last", || (captures_begun(&switch) == 6).then_some(()));
    bed.finish(switch);
    let Output { status, stderr, .. } = last.wait_with_output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), message.contains("the switch ended")), (Some(1), true), "{message}");
}

#[test]
fn capture_is_refused_to_other_users_and_browsers() {
    let bed = bed(2).build();
    let switch = start(&bed, &bed.config("speed = \"1G\""));
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "curl",
            "--silent",
            "--max-time",
            "10",
        ]);
        let output = bed.namespace().output(command.args(arguments)).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let health = nobody(&["http://127.0.0.1:9464/healthz"]);
    assert!(health.starts_with("ok\n"), "{health}");
    let reply = nobody(&["http://127.0.0.1:9464/capture?count=1"]);
    assert!(reply.contains("(uid 0), not to uid 65534"), "{reply}");
    let reply = nobody(&["--request", "DELETE", "http://127.0.0.1:9464/capture/1"]);
    assert!(reply.contains("not to uid 65534"), "{reply}");
    for header in ["Origin: http://127.0.0.1:1", "Sec-Fetch-Mode: no-cors"] {
        let page = ["--silent", "--header", header, "http://127.0.0.1:9464/capture?count=1"];
        let reply = bed.namespace().output(Command::new("curl").args(page)).unwrap().stdout;
        let refused = "captures are for programs, and not for web pages; use `xoff capture`\n";
        assert_eq!(String::from_utf8(reply).unwrap(), refused, "{header}");
    }
    bed.finish(switch);
}

#[test]
fn capture_through_socket_file_needs_root() {
    let bed = bed(2).build();
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("s1.sock");
    let url = format!("unix:{}", path.display());
    let switch =
        bed.launch(&bed.config("speed = \"1G\"").switch(&format!("log = \"info\"\nhttp = \"{url}\"")));
    let its_mode = || fs::metadata(&path).ok().filter(|file| file.mode() & 0o777 == 0o660);
    wait_for("the socket", its_mode);
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let one = capture(&bed, &["p1", "-c", "1", "-w", "-", "--url", &url]);
    wait_for("the capture", || (captures_begun(&switch) == 1).then_some(()));
    let (a, b) = (bed.host(1), bed.host(2));
    a.send(frame(a, b, 3, 1));
    let output = one.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "1 frames captured, 0 missed\n");
    let long = capture(&bed, &["-w", "-", "--url", &url]);
    wait_for("the next", || (captures_begun(&switch) == 2).then_some(()));
    interrupt(&long);
    assert!(long.wait_with_output().unwrap().status.success(), "the capture could not be ended");
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "--silent", "--max-time", "10"]);
    nobody.arg("--unix-socket").args([path.to_str().unwrap(), "http://127.0.0.1/capture?count=1"]);
    let reply = String::from_utf8(nobody.output().unwrap().stdout).unwrap();
    assert!(reply.contains("not to uid 65534"), "{reply}");
    assert!(switch.stop().status.success());
    bed.assert_no_drops();
}
