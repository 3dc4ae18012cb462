use super::super::health::Health;
use super::*;
use crate::control::external_losses::ExternalLosses;
use crate::control::status::FlowStatus;

#[test] // proves: pipeline
fn status_has_exact_value_of_every_field() {
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
    assert_eq!((class.intents_refused, class.shadows[0].intents_refused), (6, 8));
    let looped = |port: usize| (status.ports[port].loops, status.ports[port].loop_with.as_deref());
    assert_eq!((looped(0), looped(1)), ((0, None), (2, Some("left"))));
    assert_eq!(class.ingress.headroom_free_min_bytes, Some(17_655));
    let cause = class.cause.as_ref().unwrap();
    assert_eq!(
        (cause.trigger.as_str(), cause.culprit.as_deref(), cause.relayed),
        ("egress", Some("right"), false)
    );
    assert_eq!((class.causes["egress"].own, class.culprits[0].bytes), (2, 7_000));
    assert_eq!((class.shadows[0].xoff, class.shadows[0].lost), (1, 2));
    assert_eq!(
        (class.shadows[0].flows, class.shadows[0].rate),
        (None, None),
        "CaPFC requests flows or rates"
    );
    let flows = class.shadows[1].flows.unwrap();
    assert_eq!((flows.pauses, flows.flow_pauses, flows.resumes, flows.requested), (3, 12, 2, 4));
    let rate = class.shadows[2].rate.unwrap();
    assert_eq!(
        (rate.changes, rate.requested_bits_per_second, rate.requested_min_bits_per_second),
        (5, Some(500_000_000), Some(250_000_000))
    );
    assert_eq!(status.ports[0].classes[0].ingress.headroom_free_min_bytes, None);
    assert_eq!(status.ports[0].malformed_control["truncated"], 4);
    assert_eq!(status.ports[0].xdp_statistics.unwrap().tx_ring_empty, 9);
    assert_eq!(status.ports[0].device_drops, None);
    assert_eq!(status.uptime_nanos, 4_000_000_000, "uptime is not that of the workers' clock");
    assert_eq!(status.ports[0].classes[3].shadows[0].first_loss_nanos, Some(4_000_000_000));
    assert_eq!(
        status.ledger.map(|ledger| (ledger.received, ledger.missing, ledger.balanced)),
        Some((10, 0, true))
    );
    assert_eq!(
        (status.verdict.lossless, status.verdict.lossless_lost, status.verdict.unseen_lost),
        (false, 71, 6),
        "drops of the watchdog, or last known drops of devices, are missing"
    );
    assert_eq!(status.verdict.promise, Promise::NotKept);
    let gap = |port| format!("{port}: the device's drop counters cannot be read: nobody knows");
    assert_eq!(status.verdict.unproved, [gap("left"), gap("right")]);
    let watchdog = status.ports[1].classes[3].watchdog.clone().unwrap();
    assert_eq!((watchdog.storm, watchdog.storms, watchdog.nanos), (true, 2, 2_500_000_000));
    assert_eq!((watchdog.dropped, watchdog.last.unwrap().dropped), (70, 50));
    assert_eq!(watchdog.last.unwrap().began_nanos_ago, 2_000_000_000);
    assert_eq!(status.ports[1].classes[4].watchdog, None);
    let halts = status.ports[1].classes[3].egress.halts;
    assert_eq!((halts.count, halts.now, halts.nanos), (3, true, 750_000_000));
    assert_eq!((&*status.pipeline.when_full, status.pipeline.delay_nanos), ("stop", 25_000));
    assert_eq!(status.workers[0].state, WorkerState::Running);
    assert_eq!((status.fdb[0].mac.as_str(), status.fdb[0].port.as_str()), ("02:00:00:00:00:09", "right"));
    stop_worker(&view, worker);
}

#[test]
fn status_still_has_sent_flow_lists_after_reload_ends_ofc() {
    let (view, _inbox) = view();
    let flows = || snapshot(&view, &[Answer::Silent]).ports[0].classes[3].flows;
    assert_eq!(flows(), None);
    let class = view.counters.class(PortId(0), CLASS_3);
    class.flows.pause_frames_sent.add(24);
    let sent = FlowStatus { pause_frames_sent: 24, ..FlowStatus::default() };
    assert_eq!(flows(), Some(sent), "flow lists sent before a reload must be shown");
}

#[test] // proves: verdict
fn loss_gives_verdict_not_kept_and_proof_gap_not_proved() {
    let answers = |missing: u64| {
        let ledger = Ledger { received: 5 + missing, sent: 5, ..Ledger::default() };
        vec![Answer::Given(ledger)]
    };
    let (view, _inbox) = view();
    let mut view = Arc::into_inner(view).unwrap();
    view.counters = Counters::with_shadows(2, 3);
    view.ports = [("l0", "left"), ("r0", "right")]
        .map(|(it, name)| PortView::new(it, 0, device(1, SilentDriver { takes: Arc::default() })).named(name))
        .into();
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
        "left: the device l0 is gone; its last drop counters are lost",
        "right: the XDP program was removed once; frames received meanwhile were not counted",
    ];
    assert_eq!(promise(&view, &answers(0)), (Promise::NotProved, gaps.map(String::from).to_vec()));
    view.counters.class(PortId(0), CLASS_3).drops[DropReason::LinkDown.index()].add(1);
    assert_eq!(promise(&view, &answers(0)), (Promise::NotKept, gaps.map(String::from).to_vec()));
}

#[test] // proves: verdict
fn only_past_gaps_in_proof_of_no_loss_can_be_acknowledged() {
    let (view, _inbox) = view();
    let mut view = Arc::into_inner(view).unwrap();
    view.counters = Counters::with_shadows(2, 3);
    view.ports = [("l0", "left"), ("r0", "right")]
        .map(|(it, name)| PortView::new(it, 0, device(1, SilentDriver { takes: Arc::default() })).named(name))
        .into();
    let verdict = || snapshot(&view, &[Answer::Given(Ledger::default())]).verdict;
    let device_gap =
        |times: &str| format!("left: the device was gone {times}; its last drop counters are lost");
    let off = |times: &str| {
        format!("right: the XDP program was removed {times}; frames received meanwhile were not counted")
    };
    assert_eq!(proof::acknowledge(&view), Vec::<String>::new());
    view.ports[0].returns.add(2);
    view.ports[1].program_detached.add(1);
    view.ports[1].program.replace(ProgramState::Replaced);
    let found = verdict();
    assert_eq!(
        (found.promise, found.unproved),
        (Promise::NotProved, vec![device_gap("2 times"), off("once")])
    );

    assert_eq!(proof::acknowledge(&view), [device_gap("2 times")], "gap that lasts was acknowledged");
    let found = verdict();
    assert_eq!((found.promise, found.unproved), (Promise::NotProved, vec![off("once")]));
    assert_eq!(found.acknowledged, [device_gap("2 times")]);
    let gaps = proof::gaps(&view, &[ExternalLosses::default(); 2]);
    assert_eq!(gaps.iter().map(Vec::is_empty).collect::<Vec<_>>(), [true, false]);

    view.ports[1].program.replace(ProgramState::Attached);
    assert_eq!(proof::acknowledge(&view), [off("once")]);
    let found = verdict();
    assert_eq!((found.promise, found.unproved), (Promise::Kept, vec![]), "acknowledged gap still counts");
    assert_eq!(found.acknowledged, [device_gap("2 times"), off("once")], "acknowledged gap is not reported");
    assert_eq!(proof::acknowledge(&view), Vec::<String>::new());

    view.ports[0].returns.add(1);
    let found = verdict();
    assert_eq!(
        (found.promise, found.unproved),
        (Promise::NotProved, vec![device_gap("once")]),
        "repeated gap counts as acknowledged"
    );
    proof::acknowledge(&view);
    view.counters.class(PortId(0), CLASS_3).drops[DropReason::LinkDown.index()].add(1);
    let found = verdict();
    assert_eq!(found.promise, Promise::NotKept, "acknowledgement changed the verdict on a loss");
    assert_eq!(found.acknowledged, [device_gap("3 times"), off("once")]);
}

#[test] // proves: devices, monitoring
fn healthz_names_ended_workers_and_faulty_devices_of_ports() {
    let (view, inbox) = view();
    let health = || Health::of(&view, &[]);
    for (state, fault) in [
        (
            ProgramState::Detached,
            "port right: not ready: the XDP program was removed from r0: the port receives nothing",
        ),
        (
            ProgramState::Replaced,
            "port right: not ready: another XDP program is on r0: the port receives nothing",
        ),
    ] {
        view.ports[1].program.replace(state);
        assert_eq!(
            (health().text(), health().ready),
            (format!("not ok\nport left: ready\n{fault}\n"), false)
        );
    }
    view.ports[1].program.replace(ProgramState::Attached);
    view.ports[1].link.set(Link::Down);
    assert_eq!(health().text(), "ok\nport left: ready\nport right: ready: link down\n");
    view.ports[1].link.set(Link::Up);
    let worker = answer(inbox);
    let control = serve(&view);
    let all = "ok\nport left: ready\nport right: ready\nworker 0: ready\n";
    assert_eq!(get(&control, "/healthz"), (200, all.into()));
    let url = format!("http://{}/healthz", control.address().unwrap());
    let json = ureq::get(url)
        .header("Accept", "application/json")
        .call()
        .unwrap()
        .body_mut()
        .read_to_string()
        .unwrap();
    let health: Health = serde_json::from_str(&json).unwrap();
    assert_eq!((health.ready, health.ports.len(), health.workers.len()), (true, 2, 1));
    stop_worker(&view, worker);
    while view.ports[0].device.get() != "lo" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    view.ports[0].link.set(Link::Gone);
    let (code, text) = get(&control, "/healthz");
    assert_eq!(code, 503);
    assert!(
        text.starts_with("not ok\nport left: not ready: the device lo is gone\nport right: ready\n"),
        "{text}"
    );
    assert!(text.contains("worker 0: not ready: worker 0 has ended"), "{text}");
    view.ports[0].refused.replace(Some("p1 is a port of this xoff already".into()));
    let reason = "the device lo is gone, and the device of the configured name cannot be opened: p1 is a port of this xoff already\n";
    assert!(get(&control, "/healthz").1.contains(reason));
    let (_, text) = get(&control, "/status");
    let status: Status = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status.workers[0].state, status.ledger, status.verdict.lossless),
        (WorkerState::Ended, None, false)
    );
}

#[test] // proves: http
fn status_lists_at_most_1000_addresses_but_counts_all() {
    for (count, named, truncated) in [(1_000, 1_000, false), (1_001, 1_000, true)] {
        let (view, inbox) = view();
        let worker = answer_with(inbox, table(count));
        view.counters.port(PortId(0)).fdb_entries.set(count.into());
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
