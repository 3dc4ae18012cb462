use std::process::Command;

use xoff_netns_tests::{Traffic, frames, stream, unstalled, wait_for};
use xoff_switch::causes::Causes;

use crate::{BINARY, PATIENT, bed};

const ONE_WORKER: &str = "workers = 1";
const FAR: &str = "[class.3]\nxoff = \"4MB\"\nxon = \"3MB\"";

fn xoff(bed: &xoff_netns_tests::Bed, args: &[&str]) -> (bool, String) {
    let output = bed.namespace().output(Command::new(BINARY).args(args)).unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// PFC would pause only above 4 MB at ingress; CaPFC pauses at 25 KB at egress.
#[test] // proves: capfc
fn capfc_pauses_only_ports_that_fill_the_congested_queue() {
    for policy in ["capfc-stop-max", "capfc-stop-calibrate"] {
        unstalled(|| {
            let bed = bed(4).build();
            let config = bed.config("speed = \"100M\"").switch(PATIENT).switch(ONE_WORKER).more(FAR);
            let switch = bed.start(&config.switch(&format!("policy = \"{policy}\"\nshadow = [\"pfc\"]")));
            let (a, b, light, sink) = (bed.host(1), bed.host(2), bed.host(3), bed.host(4));
            let much = [stream(sink, 3, "90M", 3_000)];
            let reports = Traffic::at_mbps(100)
                .sink(sink)
                .source(a, &much)
                .source(b, &much)
                .source(light, &[stream(a, 3, "5M", 200)])
                .run();
            reports.assert_lossless(&[3]);
            let status = bed.finish(switch);
            let class = |port: usize| &status.ports[port].classes[3];
            let blamed = class(0).causes["egress"].own + class(1).causes["egress"].own;
            assert!(blamed > 0, "no port was blamed");
            assert_eq!(class(2).pause_sent.xoff, 0, "a sender to another port was paused");
            assert_eq!((class(0).pause_sent.now, class(1).pause_sent.now), (false, false));
            let cause = class(0).cause.as_ref().or(class(1).cause.as_ref()).expect("no sender was paused");
            assert_eq!((cause.trigger.as_str(), cause.culprit.as_deref()), ("egress", Some("p4")));
            let shadow = &class(0).shadows[0];
            assert_eq!(
                (shadow.policy.as_str(), shadow.xoff),
                ("pfc", 0),
                "the shadow policy PFC counted pauses"
            );
        });
    }
}

#[test] // proves: policy-swap
fn change_of_policy_under_load_loses_nothing() {
    unstalled(|| {
        let bed = bed(3).build();
        let switch = bed.start(&bed.config("speed = \"100M\"").switch(PATIENT).switch("workers = 1"));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "90M", 6_000)];
        let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much).start();
        for round in 1..=10 {
            traffic.wait_received(round * 1_000);
            let policy = ["capfc-stop-max", "pfc", "capfc-stop-calibrate"][round as usize % 3];
            let (done, text) = xoff(&bed, &["policy", policy, "--class", "3"]);
            assert!(done && text.contains(&format!("class 3  {policy}\n")), "{text}");
        }
        traffic.finish().assert_lossless(&[3]);
        let status = bed.finish(switch);
        assert_eq!(status.policies[3], "pfc", "the tenth");
        assert!(status.policies.iter().enumerate().all(|(class, name)| class == 3 || name == "pfc"));
        let class = &status.ports[0].classes[3];
        assert!(
            class.causes["egress"].own > 0 && class.causes["ingress"].own > 0,
            "one of both policies sent no pause"
        );
        assert!(!class.pause_sent.now);
    });
}

#[test] // proves: policy-swap
fn two_worker_switch_refuses_unknown_and_one_worker_policies() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\"").switch("workers = 2"));
    let (done, text) = xoff(&bed, &["policy", "capfc"]);
    assert!(
        !done && text.contains("there is no policy \"capfc\"; policies are pfc, capfc-stop-max"),
        "{text}"
    );
    let (done, text) = xoff(&bed, &["policy", "capfc-stop-max"]);
    assert!(!done && text.contains("needs one worker, this switch has 2"), "{text}");
    assert!(switch.status().policies.iter().all(|name| name == "pfc"));
    bed.finish(switch);
}

#[test] // proves: causes
fn status_causes_command_shows_whole_chain_of_pauses() {
    let bed = bed(3).far(1).build();
    let near = bed.start(&bed.config("speed = \"100M\"").switch("name = \"near\""));
    let far = bed.start_far(&bed.far_config("speed = \"100M\"").switch("name = \"far\""));
    let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
    let stop = |quanta| sink.send(frames::pfc(sink.mac(), &[(3, quanta)]));
    let much = [stream(sink, 3, "90M", 2_000)];
    stop(65535);
    let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much).start();
    let chain = wait_for("the pause to reach both senders", || {
        stop(65535);
        let text = Causes::of(&[near.status(), far.status()]).text();
        let both = ["near pauses the peer of p1", "near pauses the peer of p2"];
        both.iter().all(|words| text.contains(words)).then_some(text)
    });
    let order = [
        "near pauses the peer of p1, class 3",
        "egress queue near p3, class 3",
        "paused by: far pauses the peer of p2, class 3",
        "egress queue far p1, class 3",
        &format!("paused by: station {}", sink.mac()),
    ];
    let mut rest = chain.as_str();
    for step in order {
        rest = rest
            .split_once(step)
            .unwrap_or_else(|| panic!("the step {step:?} is missing or misplaced in the chain\n{chain}"))
            .1;
    }
    let (_, alone) = xoff(&bed, &["status", "causes"]);
    let unknown = format!("paused by: station {}", far.port(2).mac);
    assert!(alone.contains(&unknown), "a switch that was not queried is not shown as a station:\n{alone}");
    let (_, dot) = xoff(&bed, &["status", "causes", "--dot"]);
    assert!(dot.starts_with("digraph {"), "{dot}");
    stop(0);
    let _ = traffic.finish();
    bed.finish(near);
    bed.finish(far);
}
