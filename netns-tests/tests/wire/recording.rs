// Tests for SPECIFICATION.md: recording

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use xoff_netns_tests::frames::{self, PAUSE_ADDRESS};
use xoff_netns_tests::{Bed, Config, LaunchOptions, Switch, wait_for};
use xoff_recording::{Ending, Outcome, replay};

use crate::reload::reload;
use crate::{bed, frame};

const CLASS: &str = "[class.3]\nxoff = 4000\nxon = 2000\n";

fn recorded(bed: &Bed, config: &Config, into: &TempDir) -> (Switch, PathBuf) {
    let file = into.path().join("run.pcapng");
    let arguments = ["--record".into(), file.clone().into()].into();
    let switch = bed.launch_with(LaunchOptions { arguments, ..LaunchOptions::default() }, config);
    (switch, file)
}

fn tshark(file: &Path, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn recording_of_pfc_run_replays_identically() {
    let (bed, directory) = (bed(3).build(), TempDir::new().unwrap());
    let config = bed.config("speed = \"1M\"\n").more(CLASS);
    let (switch, file) = recorded(&bed, &config, &directory);
    let switch = switch.ready();
    let [one, two] = [1, 2].map(|host| bed.host(host));
    let send_pfc = |time| {
        let before = switch.port(2).pfc_frames_received;
        two.send(frames::pfc(two.mac(), &[(3, time)]));
        wait_for("the pause", || (switch.port(2).pfc_frames_received > before).then_some(()));
    };
    two.send(frame(two, one, 0, 0)); // learned, and flooded to the third port
    one.tap().numbered(0);
    send_pfc(0xffff);
    for number in 1..6 {
        one.send(one.to(two).tag(3, 0).numbered(number).build_len(1_500));
    }
    wait_for("the switch to pause host 1", || (switch.class(1, 3).pause_sent.xoff > 0).then_some(()));
    send_pfc(0);
    two.tap().numbered(5);
    wait_for("the switch to send XON to host 1", || (switch.class(1, 3).pause_sent.xon > 0).then_some(()));
    bed.host(3).device().set_up(false).unwrap();
    wait_for("the link to be down", || {
        (switch.port(3).link == xoff_switch::control::Link::Down).then_some(())
    });
    one.send(frame(one, two, 0, 9));
    two.tap().numbered(9);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert!(exit.stderr.contains("the recording is complete"), "{}", exit.stderr);

    let replayed = replay(&file, None).unwrap();
    assert!(replayed.is_identical() && replayed.has_books, "{replayed:#?}");
    assert_eq!(replayed.ended, Ending::Stopped);
    let lines =
        tshark(&file, &["frame.interface_name", "frame.packet_flags_direction", "eth.dst", "frame.len"]);
    let Outcome::Identical { frames, .. } = replayed.outcome else {
        unreachable!("the replay differs from the recording")
    };
    assert_eq!(lines.len() as u64, frames);
    let count = |port: &str, direction: &str, what: &str| {
        let of = |line: &&String| {
            let [name, way, rest] = line.splitn(3, '|').collect::<Vec<_>>().try_into().unwrap();
            let way = if way.ends_with('1') { "in" } else { "out" };
            (name, way) == (port, direction) && rest.contains(what)
        };
        lines.iter().filter(of).count()
    };
    let pause = PAUSE_ADDRESS.to_string();
    assert_eq!((count("p1", "in", "|1500"), count("p2", "out", "|1500")), (5, 5), "{lines:#?}");
    assert_eq!(count("p2", "in", &pause), 2);
    assert!(count("p1", "out", &pause) >= 2, "XOFF and XON: {lines:#?}");
    assert!(std::fs::metadata(&file).unwrap().len() < 200_000);
}

#[test]
fn reload_of_switch_ends_its_recording() {
    let (bed, directory) = (bed(2).build(), TempDir::new().unwrap());
    let config = bed.config("speed = \"1M\"\n").more(CLASS);
    let (switch, file) = recorded(&bed, &config, &directory);
    let switch = switch.ready();
    let [one, two] = [1, 2].map(|host| bed.host(host));
    one.send(frame(one, two, 0, 1));
    two.tap().numbered(1);
    switch.write(&bed.config("speed = \"1M\"\n").more("[class.3]\nxoff = 3500\nxon = 2000\n"));
    let (done, message) = reload(&bed, &[]);
    assert!(done, "{message}");
    one.send(frame(one, two, 0, 2));
    two.tap().numbered(2);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert!(
        exit.stderr.contains("the recording ended earlier than the switch: the switch's settings changed"),
        "{}",
        exit.stderr
    );
    let replayed = replay(&file, None).unwrap();
    assert!(replayed.is_identical() && !replayed.has_books, "{replayed:#?}");
    assert_eq!(replayed.ended, Ending::Settings);
    assert!(tshark(&file, &["eth.dst"]).len() >= 2);
}

#[test]
fn recording_of_switch_with_two_workers_is_refused() {
    let (bed, directory) = (bed(2).build(), TempDir::new().unwrap());
    let config = bed.config("speed = \"1M\"\n").switch("workers = 2");
    let (switch, _) = recorded(&bed, &config, &directory);
    let exit = switch.wait();
    assert_eq!(exit.status.code(), Some(2), "{}", exit.stderr);
    assert!(
        exit.stderr.contains("--record needs a switch with one worker, and this switch has 2"),
        "{}",
        exit.stderr
    );
}
