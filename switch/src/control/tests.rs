//! The control thread over real HTTP, with counters filled by hand and a worker that only answers.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xoff_dataplane::counters::Counters;
use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::settings::{
    Accounting, ClassSettings, FdbSettings, FlowControl, HashSeed, Memory, PolicyKind, PortSettings,
    QueueKind, Service, SwitchSettings, Trust, WatchdogAction, WatchdogSettings, WhenFull,
};
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, PortId, Quanta};
use xoff_dataplane::wire::mac_control::MacControlError;
use xoff_ebpf::{EbpfError, Place};
use xoff_xdp::{DeviceDrops, Look, PortDriver, Unread, XdpStatistics};

use super::mailbox::{Address, Inbox, Mailbox, Request};
use super::status::{Promise, Status, WorkerState};
use super::*;

const CLASS_3: Class = Class::ALL[3];
const NOW: Nanos = Nanos(5_000_000_000);

struct FakeDriver;

impl PortDriver for FakeDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(XdpStatistics {
            rx_ring_full: 2,
            tx_ring_empty: 9,
            tx_failed_kicks: 7,
            tx_failed_errno: 22,
            ..XdpStatistics::default()
        })
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        let last = DeviceDrops { tx_errors: 1, ..DeviceDrops::default() };
        Err(Unread { last, why: io::Error::other("nobody knows") })
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

/// Of a port that has lost nothing.
struct SilentDriver;

impl PortDriver for SilentDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(XdpStatistics::default())
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

fn class_settings(class: usize) -> ClassSettings {
    let lossless = class == 3;
    ClassSettings {
        lossless,
        xoff: Bytes(20_000),
        xon: Bytes(10_000),
        headroom: if lossless { Bytes(30_000) } else { Bytes::ZERO },
        xoff_frames: u32::MAX,
        ingress_reserve: Bytes::ZERO,
        ingress_max: Bytes(40_000),
        egress_max: Bytes(40_000),
        egress_max_frames: u32::MAX,
        egress_reserve: Bytes::ZERO,
        egress_warn: Bytes(20_000),
        egress_xoff: Bytes(25_000),
        egress_xon: Bytes(20_000),
        queue: QueueKind::Fifo,
        service: Service::Strict,
        max_rate: None,
        ecn: None,
        watchdog: lossless.then_some(WatchdogSettings {
            action: WatchdogAction::Drop,
            detect: Nanos::from_millis(200),
            restore: Nanos::from_millis(200),
        }),
    }
}

fn port_settings(name: &str) -> PortSettings {
    PortSettings {
        name: name.into(),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        speed: BitRate::from_gbps(1),
        mtu_frame: 1514,
        trust: Trust::Both,
        default_class: Class::ALL[0],
        pcp_to_class: Class::ALL,
        dscp_to_class: [Class::ALL[0]; 64],
        rewrite_pcp: None,
        rewrite_dscp: None,
        pvid: Some(1),
        learning: true,
        learn_limit: None,
        storm_limit: Default::default(),
        loop_detection: Default::default(),
        flood_unknown: true,
        flood_group: true,
        isolated: false,
        flow_control: FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet(0b1000) },
        ofc_peer: false,
        gfc_peer: false,
        pause_time: Quanta(0xffff),
        refresh: Nanos::from_millis(10),
        burst: Bytes(3_000),
        commit: Bytes(3_000),
        classes: std::array::from_fn(class_settings),
    }
}

/// A switch of two ports and one worker, and that worker's inbox. The ports' devices are there: they are `lo`.
pub(crate) fn view() -> (Arc<SwitchView>, Inbox) {
    view_on([1; 2])
}

/// The same on devices of these indices.
pub(super) fn view_on(devices: [u32; 2]) -> (Arc<SwitchView>, Inbox) {
    let settings = SwitchSettings {
        ports: vec![port_settings("left"), port_settings("right")],
        accounting: Accounting::default(),
        memory: Memory::default(),
        when_full: WhenFull::default(),
        policies: Default::default(),
        shadows: vec![PolicyKind::CaPfcStopMax, PolicyKind::Ofc, PolicyKind::Gfc],
        policy: Default::default(),
        fdb: FdbSettings { capacity: 100, ageing: None, statics: vec![], seed: HashSeed::KNOWN },
        vlans: vec![],
        qcn: Default::default(),
    };
    let port = |(device, ifindex)| PortView::new(device, ifindex, Arc::new(FakeDriver));
    let ports = ["l0", "r0"].into_iter().zip(devices).map(port);
    let (mailbox, inbox) = Mailbox::new().unwrap();
    let view = SwitchView {
        name: "s1".into(),
        counters: Counters::with_shadows(2, settings.shadows.len()),
        policies: policy_cells::PolicyCells::new(settings.policies),
        settings,
        ports: ports.collect(),
        workers: vec![WorkerView { core: Some(1), facts: Arc::default(), mailbox }],
        stall_budget: Nanos::from_millis(10),
        clock: || NOW,
        started_at: Nanos(NOW.0 - 4_000_000_000),
        started: SystemTime::now(),
    };
    fill(&view);
    (Arc::new(view), inbox)
}

fn fill(view: &SwitchView) {
    let left = view.counters.port(PortId(0));
    left.malformed_control[MacControlError::Truncated.index()].add(4);
    let class = view.counters.class(PortId(0), CLASS_3);
    class.rx_frames.add(1000);
    class.rx_bytes.add(64_000);
    class.drops[DropReason::Hairpin.index()].add(3);
    class.drops[DropReason::HeadroomExhausted.index()].add(1);
    class.xoff_sent.add(2);
    class.xon_sent.add(1);
    class.held_nanos.add(250_000_000);
    class.held_since.set(NOW.0 - 1_000_000_000);
    class.held_durations.record(250_000_000);
    class.headroom_watermark.raise(12_345);
    class.held_cause.set(1 << 40 | 3 << 32 | 1 << 16 | 1 << 8 | 1); // class 3: the egress queue of port 1
    class.xoff_causes.own[1].add(2);
    view.counters.between(PortId(0), PortId(1), CLASS_3).add(7_000);
    let shadow = &view.counters.shadow(0)[0][3];
    shadow.xoff.add(1);
    shadow.held_nanos.add(500_000_000);
    shadow.lost.add(2);
    shadow.first_loss.set(NOW.0);
    let flows = &view.counters.shadow(1)[0][3].flows;
    let rate = &view.counters.shadow(2)[0][3].rate;
    for (counter, value) in [
        (&flows.pauses, 3),
        (&flows.flows, 12),
        (&flows.resumes, 2),
        (&flows.now, 4),
        (&rate.changes, 5),
        (&rate.now, 500_000_000),
        (&rate.lowest, 250_000_000),
    ] {
        counter.add(value);
    }
    let stormed = view.counters.class(PortId(1), CLASS_3);
    stormed.storms.add(2);
    stormed.storm_nanos.add(500_000_000);
    stormed.storm_since.set(NOW.0 - 2_000_000_000);
    stormed.drops[DropReason::PausedDiscard.index()].add(70);
    stormed.last_storm.began.set(NOW.0 - 2_000_000_000);
    stormed.last_storm.dropped_before.set(20);
    view.workers[0].facts.looped(Nanos::from_millis(11), view.stall_budget);
}

/// A worker that answers until it is told that a link is up.
fn answer(inbox: Inbox) -> JoinHandle<()> {
    let learned = Address { vid: 1, mac: MacAddr([2, 0, 0, 0, 0, 9]), port: PortId(1), fixed: false };
    answer_with(inbox, vec![learned])
}

/// The same with a table of these addresses.
fn answer_with(inbox: Inbox, table: Vec<Address>) -> JoinHandle<()> {
    let ledger = Ledger { received: 10, sent: 7, dropped: 3, ..Ledger::default() };
    std::thread::spawn(move || {
        loop {
            poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
            inbox.acknowledge();
            while let Some(request) = inbox.take() {
                match request {
                    Request::Ledger(answer) => answer.send(ledger).unwrap(),
                    Request::Addresses(request) => {
                        request.answer(table.len(), |places| places.map(|at| table[at]))
                    }
                    Request::Link { up, .. } if up => return,
                    Request::SetPolicy { successor, done } => done.send(successor).unwrap(),
                    Request::Link { .. } => {}
                }
            }
        }
    })
}

fn stop_worker(view: &SwitchView, worker: JoinHandle<()>) {
    view.workers[0].mailbox.send(Request::Link { port: PortId(0), up: true }).unwrap();
    worker.join().unwrap();
}

fn get(control: &ControlHandle, path: &str) -> (u16, String) {
    let url = format!("http://{}{path}", control.address().unwrap());
    let call = ureq::get(url).config().http_status_as_error(false).build().call();
    let mut response = call.unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

fn any_port() -> Http {
    listen(([127, 0, 0, 1], 0).into(), &[]).unwrap()
}

fn serve(view: &Arc<SwitchView>) -> ControlHandle {
    start(Arc::clone(view), Some(any_port()), ()).unwrap()
}

/// Samples by name and labels; fails where a line is not of the text format, a sample has no HELP and
/// TYPE before it, or one comes twice.
fn parse(text: &str) -> HashMap<&str, f64> {
    let (mut described, mut typed, mut samples) = (HashSet::new(), HashMap::new(), HashMap::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (family, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && described.insert(family), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (family, kind) = kind.split_once(' ').unwrap();
            assert!(described.contains(family) && typed.insert(family, kind).is_none(), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let family = family.filter(|family| typed.get(family) == Some(&"histogram")).unwrap_or(name);
            assert_eq!(typed[family] == "counter", family.ends_with("_total"), "{line}");
            assert!(samples.insert(sample, value.parse().unwrap()).is_none(), "{line} comes twice");
        }
    }
    samples
}

#[test]
fn metrics_are_read_without_the_worker() {
    let (view, inbox) = view();
    let control = serve(&view);
    let (code, text) = get(&control, "/metrics");
    assert_eq!(code, 200);
    let samples = parse(&text);
    let expected = [
        (r#"xoff_frames_received_total{port="left",class="3"}"#, 1000.0),
        (r#"xoff_frames_received_total{port="right",class="3"}"#, 0.0),
        (r#"xoff_bytes_received_total{port="left",class="3"}"#, 64_000.0),
        (r#"xoff_drops_total{port="left",class="3",reason="hairpin",kind="filtered"}"#, 3.0),
        (r#"xoff_drops_total{port="left",class="3",reason="headroom_exhausted",kind="lost"}"#, 1.0),
        (r#"xoff_pfc_pause_seconds_total{port="left",class="3",direction="sent"}"#, 1.25),
        (r#"xoff_pfc_pause_seconds_total{port="left",class="3",direction="received"}"#, 0.0),
        (r#"xoff_pfc_paused{port="left",class="3",direction="sent"}"#, 1.0),
        (r#"xoff_pfc_pause_duration_seconds_sum{port="left",class="3",direction="sent"}"#, 0.25),
        (r#"xoff_headroom_free_min_bytes{port="left",class="3"}"#, 17_655.0),
        (r#"xoff_headroom_least_free_bytes"#, 17_655.0),
        (r#"xoff_mac_control_malformed_total{port="left",reason="truncated"}"#, 4.0),
        (r#"xoff_xdp_drops_total{port="left",reason="rx_ring_full"}"#, 2.0),
        (r#"xoff_xdp_failed_kicks_total{port="left"}"#, 7.0),
        (r#"xoff_class_policy{class="3",policy="pfc"}"#, 1.0),
        (r#"xoff_pfc_xoff_causes_total{port="left",class="3",trigger="egress",relayed="false"}"#, 2.0),
        (r#"xoff_pfc_culprit_bytes{port="left",class="3",culprit="right"}"#, 7_000.0),
        (r#"xoff_shadow_xoff_total{port="left",class="3",policy="capfc-stop-max"}"#, 1.0),
        (r#"xoff_shadow_pause_seconds_total{port="left",class="3",policy="capfc-stop-max"}"#, 0.5),
        (r#"xoff_shadow_lost_total{port="left",class="3",policy="capfc-stop-max"}"#, 2.0),
        (r#"xoff_shadow_ofc_pauses_total{port="left",class="3",policy="ofc"}"#, 3.0),
        (r#"xoff_shadow_ofc_flow_pauses_total{port="left",class="3",policy="ofc"}"#, 12.0),
        (r#"xoff_shadow_ofc_resumes_total{port="left",class="3",policy="ofc"}"#, 2.0),
        (r#"xoff_shadow_ofc_flows_asked{port="left",class="3",policy="ofc"}"#, 4.0),
        (r#"xoff_shadow_rate_changes_total{port="left",class="3",policy="gfc"}"#, 5.0),
        (r#"xoff_shadow_rate_asked_bits_per_second{port="left",class="3",policy="gfc"}"#, 5e8),
        (r#"xoff_shadow_rate_asked_min_bits_per_second{port="left",class="3",policy="gfc"}"#, 2.5e8),
        (r#"xoff_worker_stalls_total{worker="0"}"#, 1.0),
        (r#"xoff_watchdog_storm{port="right",class="3"}"#, 1.0),
        (r#"xoff_watchdog_storm{port="left",class="3"}"#, 0.0),
        (r#"xoff_watchdog_storms_total{port="right",class="3"}"#, 2.0),
        (r#"xoff_watchdog_storm_seconds_total{port="right",class="3"}"#, 2.5),
        (r#"xoff_drops_total{port="right",class="3",reason="paused_discard",kind="lost"}"#, 70.0),
        (r#"xoff_port_speed_bytes_per_second{port="left"}"#, 125e6),
    ];
    for (sample, value) in expected {
        assert_eq!(samples.get(sample), Some(&value), "{sample}");
    }
    assert!(!samples.contains_key(r#"xoff_watchdog_storm{port="right",class="4"}"#), "it has no watchdog");
    assert!(!text.contains("xoff_device_drops_total{"), "a device that cannot be read has no drops");
    while let Some(request) = inbox.take() {
        assert!(matches!(request, Request::Link { .. }), "a scrape asked the worker: {request:?}");
    }
}

#[test]
fn status_says_everything_and_is_exact() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let (code, text) = get(&control, "/status");
    assert_eq!(code, 200);
    let status: Status = serde_json::from_str(&text).unwrap();
    let class = &status.ports[0].classes[3];
    assert_eq!((class.rx_frames, class.drops["hairpin"], class.lost), (1000, 3, 1));
    assert_eq!(
        (class.pause_sent.xoff, class.pause_sent.now, class.pause_sent.nanos),
        (2, true, 1_250_000_000)
    );
    assert_eq!(class.ingress.headroom_free_min_bytes, Some(17_655));
    let cause = class.cause.as_ref().unwrap();
    assert_eq!(
        (cause.trigger.as_str(), cause.culprit.as_deref(), cause.relayed),
        ("egress", Some("right"), false)
    );
    assert_eq!((class.causes["egress"].own, class.culprits[0].bytes), (2, 7_000));
    assert_eq!((class.shadows[0].xoff, class.shadows[0].lost), (1, 2));
    assert_eq!((class.shadows[0].flows, class.shadows[0].rate), (None, None), "CaPFC asks for neither");
    let flows = class.shadows[1].flows.unwrap();
    assert_eq!((flows.pauses, flows.flow_pauses, flows.resumes, flows.asked), (3, 12, 2, 4));
    let rate = class.shadows[2].rate.unwrap();
    assert_eq!(
        (rate.changes, rate.asked_bits_per_second, rate.asked_min_bits_per_second),
        (5, Some(500_000_000), Some(250_000_000))
    );
    assert_eq!(status.ports[0].classes[0].ingress.headroom_free_min_bytes, None);
    assert_eq!(status.ports[0].malformed_control["truncated"], 4);
    assert_eq!(status.ports[0].xdp_statistics.unwrap().tx_ring_empty, 9);
    assert_eq!(status.ports[0].device_drops, None);
    assert_eq!(status.uptime_nanos, 4_000_000_000, "by the workers' clock");
    assert_eq!(status.ports[0].classes[3].shadows[0].first_loss_nanos, Some(4_000_000_000));
    assert_eq!(
        status.ledger.map(|ledger| (ledger.received, ledger.missing, ledger.balanced)),
        Some((10, 0, true))
    );
    assert_eq!(
        (status.verdict.lossless, status.verdict.lossless_lost, status.verdict.unseen_lost),
        (false, 71, 6),
        "what the watchdog dropped is lost, and so is what the devices had counted when they were read last"
    );
    assert_eq!(status.verdict.promise, Promise::NotKept);
    let gap = |port| format!("{port}: its drop counters cannot be read: nobody knows");
    assert_eq!(status.verdict.unproved, [gap("left"), gap("right")]);
    let watchdog = status.ports[1].classes[3].watchdog.clone().unwrap();
    assert_eq!((watchdog.storm, watchdog.storms, watchdog.nanos), (true, 2, 2_500_000_000));
    assert_eq!((watchdog.dropped, watchdog.last.unwrap().dropped), (70, 50));
    assert_eq!(watchdog.last.unwrap().began_nanos_ago, 2_000_000_000);
    assert_eq!(status.ports[1].classes[4].watchdog, None);
    assert_eq!(status.workers[0].state, WorkerState::Running);
    assert_eq!((status.fdb[0].mac.as_str(), status.fdb[0].port.as_str()), ("02:00:00:00:00:09", "right"));
    stop_worker(&view, worker);
}

#[test]
fn a_promise_is_kept_not_kept_or_not_proved() {
    let answers = |missing: u64| {
        let ledger = Ledger { received: 5 + missing, sent: 5, ..Ledger::default() };
        vec![Answer::Given(ledger)]
    };
    let (view, _inbox) = view();
    let mut view = Arc::into_inner(view).unwrap();
    view.counters = Counters::with_shadows(2, 3);
    view.ports.iter_mut().for_each(|port| port.driver = Arc::new(SilentDriver));
    let promise = |view: &SwitchView, answers: &[Answer<Ledger>]| {
        let verdict = snapshot(view, answers).verdict;
        assert_eq!(verdict.lossless, verdict.promise == Promise::Kept);
        (verdict.promise, verdict.unproved)
    };
    assert_eq!(promise(&view, &answers(0)), (Promise::Kept, vec![]));
    assert_eq!(promise(&view, &answers(1)), (Promise::NotKept, vec![]));
    let silent = promise(&view, &[Answer::Silent]);
    assert_eq!(silent, (Promise::NotProved, vec!["worker 0 does not answer".into()]));
    view.ports[1].program_detached.add(1);
    view.ports[0].link.set(Link::Gone);
    let gaps = [
        "left: its device l0 is gone, with its last drop counters",
        "right: its XDP program was taken off once, and what came meanwhile is not counted",
    ];
    assert_eq!(promise(&view, &answers(0)), (Promise::NotProved, gaps.map(String::from).to_vec()));
    view.counters.class(PortId(0), CLASS_3).drops[DropReason::LinkDown.index()].add(1);
    assert_eq!(promise(&view, &answers(0)), (Promise::NotKept, gaps.map(String::from).to_vec()));
}

#[test]
fn health_is_that_of_the_workers_and_the_ports_devices() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    assert_eq!(get(&control, "/healthz"), (200, "ok\n".into()));
    let health = || health::faults(&view, &[]);
    for (state, fault) in [
        (ProgramState::Detached, "port right: its XDP program was taken off r0: it receives nothing"),
        (ProgramState::Replaced, "port right: another XDP program is on r0: it receives nothing"),
    ] {
        view.ports[1].program.replace(state);
        assert_eq!(health(), [fault]);
    }
    view.ports[1].program.replace(ProgramState::Attached);
    view.ports[1].link.set(Link::Down);
    assert_eq!(health(), [""; 0]);
    stop_worker(&view, worker);
    assert_eq!(get(&control, "/healthz"), (503, "worker 0 has ended\n".into()));
    let (_, text) = get(&control, "/status");
    let status: Status = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status.workers[0].state, status.ledger, status.verdict.lossless),
        (WorkerState::Ended, None, false)
    );
}

#[test]
fn a_policy_is_changed_for_one_class_or_all_and_bad_ones_are_refused() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let put = |body: &str| {
        let url = format!("http://{}/policy", control.address().unwrap());
        let call = ureq::put(url).config().http_status_as_error(false).build().send(body);
        let mut response = call.unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    let (code, text) = put(r#"{"policy": "capfc-stop-max", "class": 3}"#);
    let names: policy_cells::PolicyNames = serde_json::from_str(&text).unwrap();
    assert_eq!((code, names[2].as_str(), names[3].as_str()), (200, "pfc", "capfc-stop-max"));
    assert_eq!(get(&control, "/policy"), (200, text));
    assert!(
        get(&control, "/metrics").1.contains(r#"xoff_class_policy{class="3",policy="capfc-stop-max"} 1"#)
    );
    let (code, text) = put(r#"{"policy": "capfc-stop-calibrate"}"#);
    assert_eq!((code, text.matches("capfc-stop-calibrate").count()), (200, 8));
    for (body, expected) in [
        (r#"{"policy": "faster"}"#, "there is no policy \"faster\"; there are pfc, capfc-stop-max"),
        (r#"{"policy": "custom"}"#, "this one has none: build a program with a policy of its own"),
        (r#"{"policy": "pfc", "class": 8}"#, "there is no class 8; classes are 0 to 7"),
        (r#"{"class": 3}"#, "not a policy's name and a class; send for example {\"policy\""),
        (r#"{"policy": "pfc", "class": 300}"#, "with a class from 0 to 7 or none"),
        ("pfc", "send for example {\"policy\""),
    ] {
        let (code, text) = put(body);
        assert_eq!(code, 400, "{body}");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(view.policies.get(CLASS_3), PolicyKind::CaPfcStopCalibrate, "nothing changed by these");
    stop_worker(&view, worker);
    let (code, text) = put(r#"{"policy": "pfc"}"#);
    assert_eq!((code, text.as_str()), (503, "worker 0 has ended\n"));
}

/// What a PUT to `/policy` under the name `host` answers: its first line, and all of it.
fn put_under(control: &ControlHandle, host: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    let length = body.len();
    let head = format!("PUT /policy HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.lines().next().unwrap().to_owned(), answer)
}

#[test]
fn a_body_that_does_not_end_is_given_up_and_a_long_one_not_read() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let answer = |head: &str, body: &[u8]| {
        let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
            .write_all(format!("PUT /policy HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n").as_bytes())
            .unwrap();
        let _ = stream.write_all(body); // which may be refused before its end
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(answer("Content-Length: 100", b"{"), "408");
    assert_eq!(answer("Transfer-Encoding: chunked", b"1\r\n{\r\n"), "408");
    let body = |len: usize| format!("{{\"policy\": \"{}\"}}", "x".repeat(len - r#"{"policy": ""}"#.len()));
    assert_eq!(answer("Content-Length: 1024", body(1024).as_bytes()), "400", "read, and no policy");
    assert_eq!(answer("Content-Length: 1025", body(1025).as_bytes()), "413");
    let chunk = |len| format!("{len:x}\r\n{}\r\n0\r\n\r\n", body(len));
    assert_eq!(answer("Transfer-Encoding: chunked", chunk(1024).as_bytes()), "400");
    assert_eq!(answer("Transfer-Encoding: chunked", chunk(1025).as_bytes()), "413");
    assert_eq!(get(&control, "/healthz").0, 503, "others are served meanwhile and afterwards");
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the switch ends the connection");
}

#[test]
fn a_web_page_cannot_change_a_policy_under_a_name_of_its_own() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let body = r#"{"policy": "gfc", "class": 3}"#;
    let (code, text) = put_under(&control, "rebound.example:9464", body);
    assert_eq!(code, "HTTP/1.1 403 Forbidden");
    assert!(text.contains("this switch is not \"rebound.example:9464\"; call it localhost"), "{text}");
    assert_eq!(view.policies.get(CLASS_3), PolicyKind::Pfc);
    for host in ["localhost:9464", "[::1]:9464", &control.address().unwrap().to_string()] {
        assert_eq!(put_under(&control, host, body).0, "HTTP/1.1 200 OK", "{host}");
    }
    assert_eq!(view.policies.get(CLASS_3), PolicyKind::Gfc);
    stop_worker(&view, worker);
}

/// A worker that takes its time over the first policy, and tells of each whether it was G-PFC.
fn answer_slowly(inbox: Inbox) -> JoinHandle<Vec<bool>> {
    std::thread::spawn(move || {
        let mut given = Vec::new();
        while given.len() < 2 * CLASSES {
            poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
            inbox.acknowledge();
            while let Some(request) = inbox.take() {
                if let Request::SetPolicy { successor, done } = request {
                    if given.is_empty() {
                        std::thread::sleep(Duration::from_millis(300)); // the other request comes meanwhile
                    }
                    given.push(format!("{successor:?}").contains("kind: GPfc"));
                    done.send(successor).unwrap();
                }
            }
        }
        given
    })
}

#[test]
fn two_changes_at_once_are_made_one_after_the_other() {
    let (view, inbox) = view();
    let worker = answer_slowly(inbox);
    let control = serve(&view);
    std::thread::scope(|scope| {
        for name in ["gfc", "g-pfc"] {
            let control = &control;
            scope.spawn(move || {
                let (code, _) = put_under(control, "localhost", &format!("{{\"policy\": {name:?}}}"));
                assert_eq!(code, "HTTP/1.1 200 OK");
            });
        }
    });
    let given = worker.join().unwrap();
    let (first, second) = given.split_at(CLASSES);
    assert!(first.iter().all(|it| *it == first[0]), "{given:?}");
    assert!(second.iter().all(|it| *it != first[0]), "{given:?}");
    let last = if second[0] { PolicyKind::GPfc } else { PolicyKind::Gfc };
    assert_eq!(view.policies.get(CLASS_3), last);
}

#[test]
fn nobody_reads_anything_under_a_name_that_is_not_the_switchs() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let http = listen(([127, 0, 0, 1], 0).into(), &["leaf1.example".into()]).unwrap();
    let control = start(Arc::clone(&view), Some(http), ()).unwrap();
    let get_as = |host: &str, path: &str| {
        let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap_or_default().to_owned(), answer)
    };
    for path in ["/", "/metrics", "/status", "/addresses", "/healthz", "/policy", "/nowhere"] {
        let (code, text) = get_as("Host: rebound.example:9464\r\n", path);
        assert_eq!(code, "403", "{path}");
        assert!(text.contains("this switch is not \"rebound.example:9464\"; call it localhost"), "{text}");
        assert!(text.contains("add the name to `http_hosts`"), "{text}");
    }
    for host in ["Host: localhost:9464\r\n", "Host: 192.0.2.7\r\n", "Host: leaf1.example:9464\r\n", ""] {
        assert_eq!(get_as(host, "/healthz").0, "200", "{host}");
    }
    stop_worker(&view, worker);
}

/// `count` addresses in some order, in two VLANs.
fn table(count: u32) -> Vec<Address> {
    let address = |number: u32| {
        let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes(); // an odd number: none comes twice
        let (vid, port) = (1 + (number % 2) as u16, PortId((number % 2) as u8));
        Address { vid, mac: MacAddr([2, 0, a, b, c, d]), port, fixed: number.is_multiple_of(3) }
    };
    (0..count).map(address).collect()
}

#[test]
fn a_walk_over_pages_meets_every_address_once_in_order() {
    let (view, inbox) = view();
    let table = table(100_000);
    let worker = answer_with(inbox, table.clone());
    let control = serve(&view);
    let page = |query: &str| -> AddressPage {
        let (code, text) = get(&control, &format!("/addresses{query}"));
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(page("").addresses.len(), 1_000);
    let mut met = Vec::new();
    let mut next = Some(String::new());
    while let Some(after) = next {
        let after = if after.is_empty() { after } else { format!("&after={after}") };
        let page = page(&format!("?limit=9999{after}"));
        met.extend(page.addresses);
        next = page.next;
    }
    let name = |address: &Address| {
        let port = ["left", "right"][address.port.index()].to_owned();
        super::status::FdbEntry { vid: address.vid, mac: address.mac.to_string(), port, fixed: address.fixed }
    };
    let mut expected: Vec<_> = table.iter().map(name).collect();
    expected.sort();
    assert!(met == expected, "{} met, of {}", met.len(), expected.len());
    let last = page("?limit=1&after=2-ff:ff:ff:ff:ff:ff");
    assert_eq!((last.addresses.len(), last.next), (0, None));
    for (query, expected) in [
        ("?limit=0", "`limit` is 0, but has to be from 1 to 10000"),
        ("?limit=10001", "has to be from 1 to 10000"),
        ("?limit=x", "limit"),
        ("?after=x", "`after` is \"x\", but has to be what `next` of a page was"),
        ("?from=1", "unknown field"),
    ] {
        let (code, text) = get(&control, &format!("/addresses{query}"));
        assert_eq!(code, 400, "{query}");
        assert!(text.contains(expected), "{text}");
    }
    stop_worker(&view, worker);
    assert_eq!(get(&control, "/addresses"), (503, "worker 0 has ended\n".into()));
}

#[test]
fn a_status_names_the_first_addresses_and_says_how_many_there_are() {
    for (count, named, truncated) in [(1_000, 1_000, false), (1_001, 1_000, true)] {
        let (view, inbox) = view();
        let worker = answer_with(inbox, table(count));
        view.counters.port(PortId(0)).fdb_entries.set(count.into()); // as the worker would
        let control = serve(&view);
        let status: Status = serde_json::from_str(&get(&control, "/status").1).unwrap();
        assert_eq!(
            (status.fdb.len(), status.fdb_total, status.fdb_truncated),
            (named, count.into(), truncated)
        );
        assert!(status.fdb.is_sorted());
        stop_worker(&view, worker);
    }
}

/// The answer to what has been asked, as far as it comes: its code.
fn code_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer); // closed connections have none
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn who_comes_beyond_the_limit_is_told_so_and_served_when_others_have_been_given_up() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let connect = || TcpStream::connect(control.address().unwrap()).unwrap();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    };
    let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect()).collect();
    let mut beyond = connect();
    ask(&mut beyond);
    assert_eq!(code_of(beyond), "503");
    // Those who send no head are given up, and then there is room.
    silent.into_iter().for_each(|stream| assert_eq!(code_of(stream), ""));
    let mut next = connect();
    ask(&mut next);
    assert_eq!(code_of(next), "200");
    stop_worker(&view, worker);
}

#[test]
fn an_answer_that_is_not_taken_is_given_up() {
    let (view, inbox) = view();
    let worker = answer_with(inbox, table(10_000));
    let control = serve(&view);
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    // Much more than the kernel keeps for who does not read.
    for _ in 0..200 {
        stream.write_all(b"GET /addresses?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    // Its end is seen without reading.
    let mut ended = [PollFd::new(std::os::fd::AsFd::as_fd(&stream), PollFlags::POLLHUP)];
    assert_eq!(poll(&mut ended, PollTimeout::from(60_000u16)).unwrap(), 1);
    stop_worker(&view, worker);
}

#[test]
fn an_address_in_use_is_one_clear_message() {
    let first = any_port();
    let address = first.address;
    let error = listen(address, &[]).unwrap_err().to_string();
    let expected = format!("cannot serve metrics and status on {address}: Address already in use");
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_stopped_control_thread_serves_nobody() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let address = control.address().unwrap();
    assert_eq!(control.stop(), Ok(()));
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// Names of all metrics.
fn families(text: &str) -> HashSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

/// Names of metrics in a dashboard or in alerts.
fn named(file: &str) -> HashSet<&str> {
    let words = file.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("xoff_")).map(|word| word.trim_end_matches("_bucket")).collect()
}

const DASHBOARD: &str = include_str!("../../../dashboards/xoff.json");

#[test]
fn dashboards_and_alerts_name_only_metrics_that_exist() {
    let (view, _inbox) = view();
    let text = metrics::render(&view);
    for file in [include_str!("../../../dashboards/alerts.yml"), DASHBOARD] {
        let unknown: Vec<_> = named(file).difference(&families(&text)).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn what_shadow_policies_would_have_done_is_on_the_dashboard() {
    let (view, _inbox) = view();
    let text = metrics::render(&view);
    let mut missing: Vec<_> = families(&text).difference(&named(DASHBOARD)).copied().collect();
    missing
        .retain(|metric| metric.starts_with("xoff_shadow_") && *metric != "xoff_shadow_rate_changes_total");
    assert!(missing.is_empty(), "{missing:?}");
}
