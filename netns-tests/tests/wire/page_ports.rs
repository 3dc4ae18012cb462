use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use xoff_lab::{Device, Lab, VethOptions};
use xoff_netns_tests::frames::Frame;
use xoff_netns_tests::{Bed, Config, Switch, Tap, note_switch, unstalled, wait_for};
use xoff_switch::Promise;
use xoff_switch::control::status::Status;
use xoff_traffic::emit::Link;
use xoff_wire::units::MacAddr;

use crate::{PATIENT, bed};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/page_ports.py");
const PORTS: u8 = 64;
const TOO_MANY: u32 = 10_000;

fn half_open(bed: &Bed, config: &Config) -> Switch {
    loop {
        let switch = bed.launch(config);
        wait_for("the first port", || switch.stderr().contains("port open").then_some(()));
        switch.halt();
        if switch.stderr().matches("port open").count() < usize::from(PORTS) / 2 {
            return switch;
        }
    }
}

/// Polls the switch as its web page does. Replies must show all ports and no loss; only before the first reply may errors occur.
fn page(switch: &Switch, answers: &AtomicU32, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let status = switch.get("/status?addresses=0");
        let log = switch.get("/log");
        if answers.load(Ordering::Relaxed) == 0 && status.is_err() {
            continue; // the server is not up yet
        }
        let status: Status = serde_json::from_str(&status.unwrap()).unwrap();
        assert_eq!(status.ports.len(), usize::from(PORTS));
        assert_eq!(
            (status.verdict.lossless_lost, status.verdict.unseen_lost),
            (0, 0),
            "{:#?}",
            status.verdict
        );
        assert!(log.unwrap().contains("port open"));
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

#[test] // proves: http
fn switch_with_64_ports_starts_under_load_without_loss() {
    unstalled(|| {
        let bed = bed(2).build();
        let mut lab = Lab::new();
        let crowd = lab.namespace("crowd").unwrap();
        let crowd: Vec<Device> = (3..=PORTS)
            .map(|number| {
                let (port, peer) = (format!("p{number}"), format!("e{number}"));
                lab.veth(bed.namespace().end(&port), crowd.end(&peer), &VethOptions::default()).unwrap().1
            })
            .collect();
        let [.., from, to] = &crowd[..] else { unreachable!() };
        // With GRO on, a veth keeps the order of frames when their sender moves to another CPU.
        let gro = to.namespace().output(Command::new("ethtool").args(["-K", to.name(), "gro", "on"]));
        assert!(gro.unwrap().status.success());
        let (last, tap) = (from.namespace().run(|| Link::open(from.name())).unwrap(), Tap::on(to));
        let (a, b) = (bed.host(1), bed.host(2));
        let entry = |at: MacAddr, port| format!("[[fdb.static]]\nmac = \"{at}\"\nport = \"p{port}\"\n");
        let entries = entry(b.mac(), 2) + &entry(to.mac(), PORTS);
        let config = Config::new(PORTS, "speed = \"100M\"").switch(PATIENT).more(&entries);
        let switch = half_open(&bed, &config);

        let mut number = 0;
        let mut send = |count| {
            for _ in 0..count {
                a.send(a.to(b).tag(3, 0).numbered(number).build_len(1000));
                let frame = Frame::new(from.mac(), to.mac()).tag(3, 0).numbered(number).build_len(1000);
                last.send(&frame).unwrap();
                number += 1;
            }
            number
        };
        let early = send(TOO_MANY);
        let (answers, is_over) = ([const { AtomicU32::new(0) }; 2], AtomicBool::new(false));
        thread::scope(|scope| {
            let over = StopOnDrop(&is_over);
            for answers in &answers {
                scope.spawn(|| page(&switch, answers, &is_over));
            }
            switch.signal(Signal::SIGCONT);
            let mut load = || {
                thread::sleep(Duration::from_millis(1));
                send(1)
            };
            let mut running = None;
            while running.is_none() {
                let open = switch.stderr().matches("port open").count();
                wait_for("another port to be open, or the workers to run", || {
                    let (next, log) = (load(), switch.stderr());
                    running = log.contains("running").then_some(next);
                    (running.is_some() || log.matches("port open").count() > open).then_some(())
                });
            }
            let running = running.unwrap();
            let directory = tempfile::tempdir().unwrap();
            let mut command = Command::new("/usr/bin/python3");
            command.args(["-B", SCRIPT, "http://127.0.0.1:9464"]).arg(directory.path());
            bed.watched_by(command, |_| (0..25).for_each(|_| _ = load()));
            wait_for("both pages", || {
                load();
                answers.iter().all(|it| it.load(Ordering::Relaxed) >= 10).then_some(())
            });
            drop(over);
            let end = load();
            for tap in [b.tap(), &tap] {
                tap.numbered(end - 1);
                let received = tap.numbers();
                let late: Vec<u32> = received.iter().copied().filter(|&number| number >= running).collect();
                assert_eq!(
                    late,
                    (running..end).collect::<Vec<u32>>(),
                    "frames sent since the workers run are missing or out of order"
                );
                assert!(
                    received.is_sorted_by(|a, b| a < b),
                    "frames sent before the workers run are out of order"
                );
                let before = received.iter().filter(|&&number| number < early).count();
                assert_eq!(before, 0, "frames that no worker could receive count as lost");
            }
        });
        let status = switch.status();
        note_switch(&status);
        let verdict = &status.verdict;
        assert_eq!(verdict.promise, Promise::Kept, "{verdict:#?}");
        assert_eq!((verdict.lossless_lost, verdict.unseen_lost, verdict.ledger_balanced), (0, 0, Some(true)));
        for first in [0, usize::from(PORTS) - 2] {
            let [from, to] = [first, first + 1].map(|port| &status.ports[port].classes[3]);
            assert!(from.rx_frames > 0);
            assert_eq!(from.rx_frames, to.tx_frames);
            assert!(from.drops.values().chain(to.drops.values()).all(|&drops| drops == 0), "{status:#?}");
        }
        let exit = switch.stop();
        assert!(exit.status.success(), "{}", exit.stderr);
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
