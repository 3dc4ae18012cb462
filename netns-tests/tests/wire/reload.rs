// Tests for SPECIFICATION.md: reload

use std::process::Command;

use nix::sys::signal::Signal;
use xoff_netns_tests::{Bed, Config, Switch, Traffic, stream, unstalled, wait_for};

use crate::{BINARY, PATIENT, bed, frame};

fn lossless(xoff: &str, xon: &str) -> String {
    format!("[class.3]\nxoff = \"{xoff}\"\nxon = \"{xon}\"")
}

pub fn reload(bed: &Bed, args: &[&str]) -> (bool, String) {
    let output = bed.namespace().output(Command::new(BINARY).arg("reload").args(args)).unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn config(bed: &Bed) -> Config {
    bed.config("speed = \"100M\"").switch(PATIENT)
}

#[test]
fn switch_loses_no_frame_if_reloaded_under_load() {
    for workers in ["workers = 1", "workers = 2"] {
        unstalled(|| {
            let bed = bed(3).build();
            let first = config(&bed).switch(workers).more(&lossless("900KB", "700KB"));
            let switch = bed.start(&first);
            let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
            let much = [stream(sink, 3, "90M", 6_000)];
            let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much).start();
            for round in 1..=9 {
                traffic.wait_received(round * 1_000);
                let (xoff, xon) =
                    [("100KB", "60KB"), ("900KB", "100KB"), ("30KB", "10KB")][round as usize % 3];
                let weight = format!("{}\nweight = {}", lossless(xoff, xon), 100 + round);
                switch.write(&config(&bed).switch(workers).port(1, "dscp_map = { 8 = 3 }").more(&weight));
                let (done, text) = reload(&bed, &[]);
                assert!(done && text.contains("port \"p1\": class 3: weight: "), "{text}");
                assert!(text.contains("port \"p2\": class 3: xon: "), "{text}");
                assert_eq!(text.contains("port \"p1\": dscp_map: "), round == 1, "{text}");
            }
            traffic.finish().assert_lossless(&[3]);
            let status = bed.finish(switch);
            let class = &status.ports[0].classes[3];
            assert!(
                class.pause_sent.xoff > 0 && !class.pause_sent.now,
                "the sender was not paused and resumed"
            );
            assert_eq!(class.ingress.xoff_bytes, 100_000, "the status shows settings that do not apply");
        });
    }
}

fn visible_state(switch: &Switch) -> String {
    let status = switch.status();
    let class = &status.ports[0].classes[3];
    format!("{:?} {:?} {} {}", class.ingress, status.policies, class.lossless, status.ports.len())
}

#[test]
fn refused_reload_lists_all_reasons_for_a_restart() {
    let bed = bed(2).build();
    let thresholds = lossless("100KB", "60KB");
    let switch = bed.start(&config(&bed).more(&thresholds));
    let before = visible_state(&switch);
    let other = lossless("90KB", "50KB");
    let restart = config(&bed)
        .switch("name = \"other\"\nhttp = \"127.0.0.1:9470\"")
        .port(2, "mode = \"generic\"")
        .more(&other);
    for args in [&["--dry-run"][..], &[]] {
        switch.write(&restart);
        let (done, text) = reload(&bed, args);
        assert!(
            !done && text.contains("nothing was changed, because these changes need a restart:"),
            "{text}"
        );
        for line in [
            "switch.name: xoff -> other",
            "switch.http: 127.0.0.1:9464 -> 127.0.0.1:9470",
            "port \"p2\": mode: auto -> generic",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(visible_state(&switch), before);
    }
    switch.write(&config(&bed).more("[class.3]\nxof = 7\n[class.9]\nxon = 1"));
    let (done, text) = reload(&bed, &[]);
    assert!(!done && text.contains("switch.toml is not valid:") && text.contains("`xof`"), "{text}");
    assert!(text.contains("line "), "{text}");
    assert_eq!(visible_state(&switch), before);
    // The new headroom needs more memory than the switch has reserved.
    switch.write(&config(&bed).more(&lossless("300MB", "50KB")));
    let (done, text) = reload(&bed, &[]);
    assert!(!done && text.contains("buffer memory of worker 0"), "{text}");
    assert_eq!(visible_state(&switch), before);
    switch.write(&config(&bed).more(&other));
    let (done, text) = reload(&bed, &["--dry-run"]);
    assert!(
        done && text.contains("changes would be made") && text.contains("class 3: xoff: 100KB -> 90KB"),
        "{text}"
    );
    assert_eq!(visible_state(&switch), before);
    let (done, text) = reload(&bed, &[]);
    assert!(done && text.contains("changes were made"), "{text}");
    assert_eq!(switch.class(1, 3).ingress.xoff_bytes, 90_000);
    let (done, text) = reload(&bed, &[]);
    assert!(done && text.contains("no changes in the configuration"), "{text}");
    assert!(switch.stderr().contains("need a restart"), "{}", switch.stderr());
    bed.finish(switch);
}

#[test]
fn sighup_reloads_the_switch_if_so_configured() {
    let bed = bed(3).build();
    let reloads = |more: &str| config(&bed).switch("sighup = \"reload\"").more(more);
    let switch = bed.start(&reloads(&lossless("100KB", "60KB")));
    let (a, b) = (bed.host(1), bed.host(2));
    a.send(frame(a, b, 3, 0));
    b.tap().numbered(0);
    switch.write(&reloads(&lossless("90KB", "60KB")).switch("log = \"debug\"\nworkers = 2"));
    switch.signal(Signal::SIGHUP);
    wait_for("the refusal", || switch.stderr().contains("switch.workers: 1 -> 2").then_some(()));
    assert_eq!(switch.class(1, 3).ingress.xoff_bytes, 100_000);
    let fixed = "[[fdb.static]]\nmac = \"02:00:00:00:99:01\"\nport = \"p3\"";
    switch.write(
        &reloads(&lossless("90KB", "60KB"))
            .switch("log = \"debug\"\npolicy = { 3 = \"capfc-stop-max\" }")
            .port(3, "isolated = true")
            .more(fixed),
    );
    switch.signal(Signal::SIGHUP);
    wait_for("the reload", || {
        switch.stderr().contains("the configuration was reloaded and applies now").then_some(())
    });
    wait_for("the new threshold to apply", || {
        (switch.class(1, 3).ingress.xoff_bytes == 90_000).then_some(())
    });
    let status = switch.status();
    assert_eq!((status.policies[3].as_str(), status.policies[4].as_str()), ("capfc-stop-max", "pfc"));
    assert_eq!(status.fdb_total, 2, "number of learned and static addresses");
    a.send(frame(a, b, 3, 1));
    b.tap().numbered(1);
    bed.finish(switch);
}
