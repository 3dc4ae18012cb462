// Tests for SPECIFICATION.md: log

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::sync::Arc;

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::ClassSettings;
use xoff_wire::MacControlError;
use xoff_wire::units::{Class, PortId};

use super::*;
use crate::control::start;
use crate::control::testing::{group_with_lacp, view};
use crate::lacp::member::Standing;

const CLASS: Class = Class::ALL[3];

fn read(log: &mut File) -> String {
    let mut text = String::new();
    log.rewind().unwrap();
    log.read_to_string(&mut text).unwrap();
    text
}

fn logged(happens: impl FnOnce(&mut dyn FnMut(u64), &SwitchView)) -> Vec<String> {
    let mut view = Arc::into_inner(view().0).unwrap();
    view.clock = || Nanos::from_secs(20);
    let mut watch = ConditionMonitor::new(&view);
    watch.kernel_losses.read_kernel(&view);
    let begin = (view.clock)();
    watch.look(&view, begin);
    view.counters.port(PortId(1)).looped.set(0);
    view.counters.class(PortId(1), CLASS).storm_since.set(0);
    watch.look(&view, begin.after(OVER_AFTER));
    let start = begin.after(Nanos::from_secs(100));
    watch.look(&view, start);
    let mut log = tempfile::tempfile().unwrap();
    let lines = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_target(false)
        .with_writer(log.try_clone().unwrap())
        .finish();
    tracing::subscriber::with_default(lines, || {
        let mut look = |seconds: u64| watch.look(&view, start.after(Nanos::from_secs(seconds)));
        happens(&mut look, &view);
    });
    read(&mut log).lines().map(str::to_owned).collect()
}

fn lose(view: &SwitchView, frames: u64) {
    view.counters.class(PortId(0), CLASS).drops[DropReason::HeadroomExhausted.index()].add(frames);
}

fn has(line: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(line.contains(word), "no {word:?} in {line}"));
}

#[test]
fn loss_is_logged_at_its_begin_while_it_lasts_and_at_its_end() {
    let lines = logged(|look, view| {
        for second in 1..=100 {
            lose(view, 10);
            look(second);
        }
        (101..=120).for_each(look);
    });
    assert_eq!(lines.len(), 5, "{lines:#?}"); // after 10, 30 and 70 s
    let place = ["event=loss", "port=left", "class=3", "cause=headroom_exhausted"];
    lines.iter().for_each(|line| has(line, &place));
    has(&lines[0], &["ERROR lossless frames are lost; frames: 10", "phase=began", "count=10"]);
    has(&lines[1], &["still being lost; frames: 110 in 10.0 s", "phase=goes_on", "count=110"]);
    has(&lines[3], &["frames: 710 in 70.0 s"]);
    has(&lines[4], &["lossless frames are no longer lost; frames: 1,000 in 99.0 s", "phase=over"]);
}

#[test]
fn log_reports_each_new_lossless_loss_but_no_lossy_loss() {
    let lines = logged(|look, view| {
        lose(view, 1);
        look(1);
        look(5);
        look(6);
        lose(view, 2);
        look(20);
        view.counters.class(PortId(0), Class::ALL[0]).drops[DropReason::EgressFull.index()].add(9);
        look(21);
    });
    assert_eq!(lines.len(), 3, "{lines:#?}");
    has(&lines[1], &["lossless frames are no longer lost; frames: 1"]);
    has(&lines[2], &["lossless frames are lost; frames: 2", "count=2"]);
}

#[test] // proves: floods, log
fn stalls_storms_loops_and_faulty_peers_are_logged() {
    let lines = logged(|look, view| {
        view.workers[0].facts.looped(Nanos::from_millis(1_640), view.stall_budget);
        look(1);
        view.ports[0].overspeed_bytes.add(5_000_000);
        look(2);
        view.counters.class(PortId(0), CLASS).late_frames.add(12);
        look(3);
        view.counters.port(PortId(0)).pause_frames_ignored.add(4);
        look(4);
        view.counters.port(PortId(1)).loops.add(1);
        view.counters.port(PortId(1)).loop_macs[0].set(0x02_00_00_00_00_0a);
        view.counters.port(PortId(1)).looped.set(1);
        view.counters.port(PortId(1)).duplicates.set(1);
        view.counters.port(PortId(1)).duplicate_with.set(1);
        view.counters.port(PortId(1)).duplicate_macs[0].set(0x02_00_00_00_00_0b);
        view.counters.class(PortId(1), CLASS).storms.add(1);
        view.counters.class(PortId(1), CLASS).storm_since.set(1);
        look(5);
    });
    has(
        &lines[0],
        &[
            "WARN",
            "a worker was not scheduled",
            "the longest stall took 1.64 s; stalls of up to 10.0 ms cause no loss",
            "worker=0",
        ],
    );
    has(
        &lines[1],
        &["the peer sends faster than the configured `speed`", "bytes too many: 5,000,000", "port=left"],
    );
    has(&lines[2], &["the peer still sends while it is paused", "frames too late: 12", "class=3"]);
    has(
        &lines[3],
        &["pause frames that the port does not obey", "pause frames: 4", "PAUSE (802.3x) at a port with PFC"],
    );
    let line = |word: &str| lines.iter().find(|line| line.contains(word)).unwrap();
    has(
        line("event=loop"),
        &["between two ports", "the other port is left, moving: 02:00:00:00:00:0a", "port=right"],
    );
    has(
        line("event=duplicate-address"),
        &["two hosts with one address?", "; 02:00:00:00:00:0b at right and left "],
    );
    has(
        line("event=storm"),
        &[
            "pause storm: the peer keeps the class paused",
            "the watchdog takes its action `drop` after a pause of 200.0 ms",
        ],
    );
    for line in &lines {
        assert!(!line.contains("Some(") && !line.contains("None") && !line.contains(" { "), "{line}");
    }
}

#[test]
fn storm_end_is_logged_as_soon_as_it_ends() {
    let lines = logged(|look, view| {
        let class = view.counters.class(PortId(0), CLASS);
        class.begin_storm(Nanos(1));
        look(1);
        look(2);
        class.end_storm(Nanos(412_000_001));
        look(3);
        for _ in 0..2 {
            class.begin_storm(Nanos(1));
            class.end_storm(Nanos(200_000_001));
        }
        look(3);
        look(3);
        look(4);
    });
    let [began, over, again, over_again] = &lines[..] else { panic!("{lines:#?}") };
    has(began, &["event=storm", "phase=began"]);
    has(over, &["phase=over", "the pause storm is over; storms: 1", "the last storm took 412.0 ms"]);
    has(again, &["phase=began", "storms: 2"]);
    has(over_again, &["phase=over", "storms: 2", "the last storm took 200.0 ms"]);
}

#[test]
fn peer_that_pauses_nearly_all_the_time_is_logged() {
    let lines = logged(|look, view| {
        let class = view.counters.class(PortId(0), CLASS);
        for second in 1..=40 {
            let percent = if second <= 20 { 97 } else { 90 };
            class.paused_nanos.add(percent * 10_000_000);
            look(second);
        }
    });
    let [began, goes_on, over] = &lines[..] else { panic!("{lines:#?}") };
    has(began, &["WARN", "event=long-pauses", "port=left", "class=3", "paused for 97 % of the last 5.00 s"]);
    has(goes_on, &["phase=goes_on"]);
    has(over, &["no longer pauses the class nearly all the time", "paused for 90 %"]);
}

#[test] // proves: own-stack
fn missing_egress_filter_is_logged_until_it_is_back() {
    let lines = logged(|look, view| {
        view.ports[1].unfiltered.replace(Some("cannot attach the egress filter again for r0".into()));
        (1..=3).for_each(&mut *look);
        view.ports[1].unfiltered.replace(None);
        look(4);
    });
    let [began, over] = &lines[..] else { panic!("{lines:#?}") };
    has(
        began,
        &["cannot be attached again", "; cannot attach the egress filter again for r0 ", "port=right"],
    );
    has(over, &["event=filter-detached", "phase=over"]);
}

#[test] // proves: log
fn ignored_pauses_are_logged_with_their_lossy_classes() {
    let lines = logged(|look, view| {
        let port = view.counters.port(PortId(0));
        for (second, classes) in [(1, 1 << 4), (30, 1 << 4 | 1 << 5)] {
            port.pfc_frames_received.add(7);
            port.pfc_classes_ignored.set(classes);
            port.pause_frames_ignored.add(7);
            (second..second + 20).for_each(&mut *look);
        }
        port.pfc_frames_received.add(9); // a lossless class as well
        look(60);
    });
    let [began, over, began_again, _] = &lines[..] else { panic!("{lines:#?}") };
    let one = "PFC for class 4, which is lossy here";
    has(began, &["WARN", "pause frames: 7", one, "event=pause-mismatch", "port=left"]);
    has(over, &["phase=over", one]);
    has(began_again, &["phase=began", "PFC for classes 4, 5, which are lossy here"]);
}

#[test] // proves: log
fn malformed_mac_control_frames_are_logged_once_per_reason() {
    let lines = logged(|look, view| {
        let malformed = &view.counters.port(PortId(1)).malformed_control;
        malformed[MacControlError::WrongDestination.index()].add(3);
        look(1);
        malformed[MacControlError::Truncated.index()].add(1);
        (2..=30).for_each(look);
    });
    assert_eq!(lines.iter().filter(|line| line.contains("phase=began")).count(), 2, "{lines:#?}");
    has(&lines[0], &["another destination than 01:80:c2:00:00:01", "frames: 3", "cause=wrong_destination"]);
    has(&lines[1], &["ends before its last field", "event=malformed-control", "cause=truncated"]);
}

#[test] // proves: lacp
fn lacp_group_without_joined_port_is_logged_until_one_joins() {
    let lines = logged(|look, view| {
        let mut settings = SwitchSettings::clone(&view.settings());
        settings.groups = vec![group_with_lacp()];
        view.configured.set(settings);
        look(1);
        view.lacp.lock()[0].standing = Standing::NoPartner;
        view.lacp.lock()[0].idle_since = Some(Nanos::ZERO);
        look(2);
        let is_it = |it: &OngoingStatus| it.event == "lacp-idle" && it.group.as_deref() == Some("up");
        assert!(view.ongoing.get(Nanos::ZERO).iter().any(is_it));
        (3..=5).for_each(&mut *look);
        view.lacp.lock()[0].idle_since = None;
        look(6);
    });
    let [began, over] = &lines[..] else { panic!("{lines:#?}") };
    has(
        began,
        &["WARN the group carries no data", "no LACP partner at port left", "phase=began", "group=up"],
    );
    has(over, &["phase=over"]);
}

#[test] // proves: lacp
fn lacp_member_that_stays_out_is_logged_until_it_joins() {
    let lines = logged(|look, view| {
        let mut settings = SwitchSettings::clone(&view.settings());
        let mut group = group_with_lacp();
        group.members.push(xoff_flow_control::settings::Member { port: PortId(1), ..group.members[0] });
        settings.groups = vec![group];
        view.configured.set(settings);
        view.lacp.lock()[0].standing = Standing::Distributing;
        look(1);
        view.lacp.lock()[1].standing = Standing::Individual;
        view.lacp.lock()[1].out_since = Some(Nanos::ZERO);
        (2..=5).for_each(&mut *look);
        let is_it = |it: &OngoingStatus| it.event == "lacp-out" && it.port.as_deref() == Some("right");
        assert!(view.ongoing.get(Nanos::ZERO).iter().any(is_it));
        view.lacp.lock()[1].out_since = None;
        look(6);
    });
    let [began, over] = &lines[..] else { panic!("{lines:#?}") };
    let words = [
        "WARN the port has a link, but carries no data",
        "(individual) at port right",
        "with key 0",
        "port=right",
        "group=up",
    ];
    has(began, &words);
    has(over, &["phase=over", "event=lacp-out"]);
}

#[test]
fn unusual_but_harmless_frames_are_logged_only_once() {
    let lines = logged(|look, view| {
        let port = view.counters.port(PortId(1));
        for second in 1..=3_600 {
            port.malformed_control[MacControlError::UnknownOpcode.index()].add(1);
            port.pcp_overruled.add(2);
            look(second);
            assert!(view.ongoing.get(Nanos::ZERO).iter().all(|it| it.port.as_deref() != Some("right")));
        }
    });
    let [control, overruled] = &lines[..] else { panic!("{lines:#?}") };
    has(control, &["neither PFC nor PAUSE", "frames: 1", "event=other-control", "port=right"]);
    has(overruled, &["lossy class by DSCP", "flows: 2", "event=pcp-overruled", "port=right"]);
}

#[test] // proves: reload
fn fault_is_logged_as_over_if_reload_ends_checks_for_it() {
    let lines = logged(|look, view| {
        let change = |change: &dyn Fn(&mut ClassSettings)| {
            let mut settings = (*view.settings()).clone();
            settings.ports.iter_mut().for_each(|port| change(&mut port.classes[CLASS.index()]));
            view.configured.set(settings);
        };
        lose(view, 10);
        view.workers[0].facts.looped(Nanos::from_millis(1_640), view.stall_budget);
        view.counters.class(PortId(1), CLASS).storms.add(1);
        view.counters.class(PortId(1), CLASS).storm_since.set(1);
        look(1);
        lose(view, 2);
        change(&|class| (class.lossless, class.watchdog) = (false, None));
        look(3);
        assert!(
            view.ongoing.get(Nanos::ZERO).iter().all(|it| it.event == "stall"),
            "a fault that is no longer checked for must not be listed"
        );
        view.counters.class(PortId(1), CLASS).storm_since.set(0);
        change(&|class| class.lossless = true);
        (4..=20).for_each(look);
    });
    let over: Vec<&String> = lines.iter().filter(|line| line.contains("phase=over")).collect();
    assert_eq!((lines.len(), over.len()), (6, 3), "each fault must end exactly once: {lines:#?}");
    let [loss, storm, stall] = over[..] else { panic!() };
    has(
        loss,
        &[
            "with the new settings the switch does not check for this fault: lossless frames are lost; frames: 12",
            "event=loss",
            "port=left",
        ],
    );
    has(
        storm,
        &[
            "with the new settings the switch does not check for this fault: pause storm: the peer keeps the class paused",
            "event=storm",
        ],
    );
    has(stall, &["the worker is scheduled in time again"]);
}

#[test]
fn status_lists_fault_until_it_is_over() {
    let (view, _inbox) = view();
    let mut watch = ConditionMonitor::new(&view);
    let begin = (view.clock)();
    lose(&view, 7);
    watch.look(&view, begin);
    let now = view.ongoing.get(begin.after(Nanos(50)));
    let loss = now.iter().find(|it| it.cause.as_deref() == Some("headroom_exhausted")).unwrap();
    assert_eq!((loss.event.as_str(), loss.port.as_deref(), loss.class), ("loss", Some("left"), Some(3)));
    assert_eq!((loss.count, loss.began_nanos_ago), (8, 50), "losses before the first check must count");
    watch.look(&view, begin.after(OVER_AFTER));
    assert!(view.ongoing.get(begin).iter().all(|it| it.event != "loss"));
}

#[test] // proves: floods
fn faults_counted_just_before_shutdown_are_logged() {
    let (view, _inbox) = view();
    let counters = view.counters.port(PortId(1));
    counters.loops.set(0);
    counters.looped.set(0);
    let mut log = tempfile::tempfile().unwrap();
    let lines = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_target(false)
        .with_writer(log.try_clone().unwrap())
        .finish();
    tracing::subscriber::set_global_default(lines).unwrap(); // for the control thread
    let control = start(Arc::clone(&view), None, None, None, &Default::default(), ()).unwrap();
    counters.loops.set(7);
    control.stop().unwrap();
    assert!(read(&mut log).contains("event=loop"), "the loop must be logged");
}

#[test]
fn log_document_lists_every_logged_event() {
    let document = include_str!("../../../../docs/log.md");
    let rows: Vec<&str> =
        document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let events: Vec<&str> =
        conditions::KINDS.iter().chain(&[&lacp::IDLE, &lacp::OUT]).map(|kind| kind.event).collect();
    assert_eq!(rows, events);
}

#[test]
fn fault_of_late_peer_is_over_only_after_a_further_xoff() {
    let lines = logged(|look, view| {
        let class = view.counters.class(PortId(0), CLASS);
        class.xoff_sent.add(1);
        class.late_frames.add(7);
        (1..=60).for_each(&mut *look);
        class.late_frames.add(1);
        (61..=120).for_each(&mut *look);
        class.xoff_sent.add(1);
        (121..=124).for_each(&mut *look);
        class.late_frames.add(1); // late frames arrive after the XOFF
        (125..=180).for_each(&mut *look);
        class.xoff_sent.add(1);
        (181..=186).for_each(look);
    });
    let [began, goes_on, _, over] = &lines[..] else { panic!("{lines:#?}") };
    has(began, &["event=peer-late", "phase=began", "run `xoff nic` there if it is a Linux host"]);
    has(goes_on, &["phase=goes_on", "frames too late: 8"]);
    has(over, &["phase=over", "frames too late: 9"]);
}
