// Tests for SPECIFICATION.md: host-guard

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Lines};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use xoff_nic::egress::{Egress, index_of};
use xoff_nic::guard::{Guard, now, run_guard};
use xoff_wire::units::Nanos;

use crate::bed::{Bed, DEVICE, DSCP_LOSSLESS, LOSSLESS, install, peer_ipv4, received, settings, wait_for};

const ROLE: &str = "XOFF_NIC_ROLE";
const COUNT: usize = 50;
const HOUR: Nanos = Nanos::from_secs(3600);

fn role() -> Option<String> {
    env::var(ROLE).ok()
}

fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("guard::{test}"), "--nocapture"]).env(ROLE, role);
    command
}

fn agent(bed: &Bed, test: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = again(test, "agent");
    command.stdout(Stdio::piped());
    let mut child = bed.namespace().spawn(command).unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn await_line(lines: &mut Lines<BufReader<ChildStdout>>, begin: &str) -> String {
    lines.map_while(Result::ok).find_map(|line| line.strip_prefix(begin).map(str::to_owned)).unwrap()
}

const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

fn await_guarding(guard: Pid) {
    wait_for("the guard's signal handlers", || {
        let status = fs::read_to_string(format!("/proc/{guard}/status")).ok()?;
        let taken = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let taken = u64::from_str_radix(taken.trim(), 16).ok()?;
        ENDING.iter().all(|&signal| taken >> (signal as i32 - 1) & 1 == 1).then_some(())
    });
}

fn stopped(test: &str, time: Nanos) -> (Egress, Guard) {
    let mut egress = install(&settings()).unwrap();
    let mut guard = Guard::start(again(test, "guard")).unwrap();
    guard.send_deadline(LOSSLESS, now().after(time));
    egress.stop(LOSSLESS).unwrap();
    (egress, guard)
}

#[test]
fn guard_restores_device_after_its_agent_is_killed() {
    const THIS: &str = "guard_restores_device_after_its_agent_is_killed";
    match role().as_deref() {
        Some("guard") => return run_guard(DEVICE, index_of(DEVICE).unwrap()).unwrap(),
        Some(_) => {
            let (_egress, guard) = stopped(THIS, HOUR);
            println!("\nguard {}", guard.id());
            loop {
                thread::park();
            }
        }
        None => {}
    }
    let bed = Bed::new();
    let before = bed.description();
    let (mut agent, mut lines) = agent(&bed, THIS);
    let guard = await_line(&mut lines, "guard ").parse().map(Pid::from_raw).unwrap();
    let receiver = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
    await_guarding(guard);
    ENDING.iter().for_each(|&signal| kill(guard, signal).unwrap());
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert_eq!(received(&receiver, COUNT), (0..COUNT).collect::<Vec<_>>());
    wait_for("the restoration of the device", || (bed.description() == before).then_some(()));
}

#[test]
fn guard_opens_overdue_class_and_notifies_stalled_agent() {
    const THIS: &str = "guard_opens_overdue_class_and_notifies_stalled_agent";
    match role().as_deref() {
        Some("guard") => return run_guard(DEVICE, index_of(DEVICE).unwrap()).unwrap(),
        Some(_) => {
            let (egress, mut guard) = stopped(THIS, Nanos::from_millis(100));
            println!("\nstopped");
            raise(Signal::SIGSTOP).unwrap();
            let opened = wait_for("the guard's message", || {
                let opened = guard.check(now()).opened;
                (!opened.is_empty()).then_some(opened)
            });
            println!("\nopened {opened:?}");
            assert_eq!(egress.remove().warnings, [""; 0]);
            return guard.dismiss().unwrap();
        }
        None => {}
    }
    let bed = Bed::new();
    let before = bed.description();
    let (mut agent, mut lines) = agent(&bed, THIS);
    await_line(&mut lines, "stopped");
    let receiver = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
    assert_eq!(
        received(&receiver, COUNT),
        (0..COUNT).collect::<Vec<_>>(),
        "frames were lost while the agent was stopped"
    );
    let id = Pid::from_raw(i32::try_from(agent.id()).unwrap());
    kill(id, Signal::SIGCONT).unwrap();
    assert_eq!(
        await_line(&mut lines, "opened "),
        format!("{:?}", [LOSSLESS].into_iter().collect::<xoff_wire::units::ClassSet>())
    );
    assert!(agent.wait().unwrap().success());
    assert_eq!(bed.description(), before);
}

#[test]
fn new_guard_opens_overdue_class_of_killed_guard() {
    const THIS: &str = "new_guard_opens_overdue_class_of_killed_guard";
    if role().is_some() {
        return run_guard(DEVICE, index_of(DEVICE).unwrap()).unwrap();
    }
    let bed = Bed::new();
    let before = bed.description();
    let receiver = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    bed.namespace().run(|| {
        let (egress, mut guard) = stopped(THIS, Nanos::from_millis(500));
        bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
        let first = guard.id();
        kill(Pid::from_raw(i32::try_from(first).unwrap()), Signal::SIGKILL).unwrap();
        wait_for("the replacement of the guard", || guard.check(now()).replaced.and_then(Result::ok));
        assert_ne!(guard.id(), first);
        assert_eq!(
            received(&receiver, COUNT),
            (0..COUNT).collect::<Vec<_>>(),
            "the second guard did not open the class"
        );
        let opened = wait_for("the guard's message", || {
            Some(guard.check(now()).opened).filter(|opened| !opened.is_empty())
        });
        assert!(opened.contains(LOSSLESS));
        assert_eq!(egress.remove().warnings, [""; 0]);
        guard.dismiss().unwrap();
    });
    assert_eq!(bed.description(), before);
}

#[test]
fn delayed_guard_of_killed_agent_spares_next_agents_queues() {
    const THIS: &str = "delayed_guard_of_killed_agent_spares_next_agents_queues";
    match role().as_deref() {
        Some("guard") => return run_guard(DEVICE, index_of(DEVICE).unwrap()).unwrap(),
        Some(_) => {
            let (_egress, guard) = stopped(THIS, HOUR);
            println!("\nguard {}", guard.id());
            loop {
                thread::park();
            }
        }
        None => {}
    }
    let bed = Bed::new();
    let before = bed.description();
    // Adopt the guard when its agent dies. Otherwise the kernel would wake the stopped guard, because its process group is orphaned.
    set_child_subreaper(true).unwrap();
    let (mut agent, mut lines) = agent(&bed, THIS);
    let guard = await_line(&mut lines, "guard ").parse().map(Pid::from_raw).unwrap();
    kill(guard, Signal::SIGSTOP).unwrap(); // delays the guard
    agent.kill().unwrap();
    agent.wait().unwrap();
    let mut egress = bed.install(&settings());
    let during = bed.description();
    egress.stop(LOSSLESS).unwrap();
    kill(guard, Signal::SIGCONT).unwrap();
    wait_for("the end of the guard", || {
        let state = fs::read_to_string(format!("/proc/{guard}/stat"));
        let has_ended = state.map_or(true, |state| state.contains(") Z "));
        has_ended.then_some(())
    });
    let receiver = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
    assert_eq!(
        egress.counts().unwrap()[LOSSLESS.index()].waiting_frames,
        COUNT as u64,
        "the old guard opened the class"
    );
    egress.start(LOSSLESS).unwrap();
    assert_eq!(received(&receiver, COUNT).len(), COUNT);
    assert_eq!(bed.description(), during);
    assert_eq!(egress.remove().warnings, [""; 0]);
    assert_eq!(bed.description(), before);
}

#[test]
fn failing_guard_is_restarted_once_a_second() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("guard");
    symlink("/bin/true", &program).unwrap(); // a guard that ends at once
    let mut guard = Guard::start(Command::new(&program)).unwrap();
    let await_death = |guard: &mut Guard, at| {
        wait_for("the death of the guard", || {
            assert!(guard.check(at).replaced.is_none());
            guard.fd().is_none().then_some(())
        });
    };
    await_death(&mut guard, Nanos::ZERO);
    let first = guard.id();
    let second = now().after(Guard::START_EVERY);
    assert!(matches!(guard.check(second).replaced, Some(Ok(()))));
    assert_ne!(guard.id(), first);
    await_death(&mut guard, second);
    fs::remove_file(&program).unwrap();
    let third = second.after(Guard::START_EVERY);
    let refused = guard.check(third).replaced.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(guard.check(third).replaced.is_none());
    symlink("/bin/true", &program).unwrap();
    assert!(matches!(guard.check(third.after(Guard::START_EVERY)).replaced, Some(Ok(()))));
    guard.dismiss().unwrap();
}

#[test]
fn agent_kills_a_guard_that_hangs_when_dismissed() {
    let mut command = Command::new("sleep");
    command.arg("infinity");
    let guard = Guard::start(command).unwrap();
    let process = format!("/proc/{}", guard.id());
    guard.dismiss().unwrap();
    assert!(!Path::new(&process).exists());
}
