// Tests for SPECIFICATION.md: host-guard

use std::process::Command;

use xoff_nic::egress::{Defects, Egress, Part, Repair};
use xoff_wire::units::{BitRate, Class, ClassSet};

use crate::bed::{
    Bed, DSCP_LOSSLESS, DSCP_LOSSY, LOSSLESS, LOSSY, nothing, of, peer_ipv4, received, settings,
};

const COUNT: usize = 20;

fn repair(egress: &mut Egress) -> Repair {
    let dump = egress.dump().unwrap();
    egress.repair(&dump, ClassSet::NONE, true)
}

fn parts(parts: &[Part]) -> Defects {
    parts.iter().copied().collect()
}

/// Runs `tc` with the arguments in `words`. In an argument, `_` stands for a space.
fn tc(bed: &Bed, words: &str) {
    let words = words.split(' ').map(|word| word.replace('_', " "));
    let output = bed.namespace().output(Command::new("tc").args(words.clone())).unwrap();
    assert!(
        output.status.success(),
        "{:?}: {}",
        words.collect::<Vec<_>>(),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn queues(bed: &Bed) -> String {
    let show = |what: &str| {
        let mut command = Command::new("tc");
        let output = bed.namespace().output(command.args(["-d", what, "show", "dev", "nic0"])).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let filters = show("filter");
    let filters = filters.lines().map(|line| line.split(" id ").next().unwrap()).collect::<String>();
    // Sort lines, because the kernel's order is arbitrary. Omit HTB's counter of direct packets, because it grows.
    let mut lines: Vec<String> = (show("qdisc") + &show("class"))
        .lines()
        .map(|line| line.split(" direct_packets_stat").next().unwrap().to_owned())
        .collect();
    lines.sort();
    lines.join("\n") + &filters
}

#[test]
fn agent_names_and_repairs_queues_changed_by_other_programs() {
    let leaf = parts(&[Part::Leaf(LOSSLESS)]);
    let all_classes = || Class::ALL.into_iter().flat_map(|class| [Part::Class(class), Part::Leaf(class)]);
    let all: Defects =
        [Part::Root, Part::Line, Part::Waker, Part::Classifier].into_iter().chain(all_classes()).collect();
    let empty: Defects =
        [Part::Line, Part::Waker, Part::Classifier].into_iter().chain(all_classes()).collect();
    let foreign = parts(&[Part::Foreign]);
    let u32_filter = "protocol all prio 2 u32 match u32 0 0 flowid 786e:17";
    let cases: [(&[&str], Defects); 16] = [
        (&["filter del dev nic0"], parts(&[Part::Waker, Part::Classifier])),
        (&["filter del dev nic0 parent 786e: prio 2"], parts(&[Part::Classifier])),
        (
            &[
                "filter replace dev nic0 parent 786e: protocol all prio 2 handle 1 bpf bytecode 1,6_0_0_2020474903",
            ],
            parts(&[Part::Classifier]),
        ),
        (
            &[
                "filter add dev nic0 parent 786e: protocol all prio 2 handle 2 bpf bytecode 1,6_0_0_2020474903",
            ],
            foreign,
        ),
        (
            &[
                "filter del dev nic0 parent 786e: prio 2",
                &format!("filter add dev nic0 parent 786e: {u32_filter}"),
            ],
            parts(&[Part::Classifier, Part::Foreign]),
        ),
        (&["qdisc replace dev nic0 parent 786e:13 handle 99: pfifo limit 10"], leaf),
        (&["qdisc del dev nic0 parent 786e:13"], leaf),
        (
            &["qdisc del dev nic0 parent 786e:13", "qdisc add dev nic0 parent 786e:13 handle 7873: pfifo"],
            leaf,
        ),
        (
            &["qdisc change dev nic0 parent 786e:13 handle 7873: tbf rate 1gbit burst 9000 limit 67108864"],
            leaf,
        ),
        (&["class del dev nic0 classid 786e:13"], parts(&[Part::Class(LOSSLESS), Part::Leaf(LOSSLESS)])),
        (
            &["class change dev nic0 parent 786e:1 classid 786e:13 htb rate 1gbit ceil 2gbit"],
            parts(&[Part::Class(LOSSLESS)]),
        ),
        (
            &[
                "class del dev nic0 classid 786e:13",
                "class add dev nic0 parent 786e: classid 786e:13 htb rate 1gbit",
            ],
            parts(&[Part::Class(LOSSLESS), Part::Leaf(LOSSLESS)]),
        ),
        (
            &["class add dev nic0 parent 786e:13 classid 786e:99 htb rate 1gbit"],
            parts(&[Part::Foreign, Part::Leaf(LOSSLESS)]),
        ),
        (&["class change dev nic0 classid 786e:1 htb rate 1gbit"], parts(&[Part::Line])),
        (&["qdisc del dev nic0 root"], all),
        (&["qdisc del dev nic0 root", "qdisc add dev nic0 root handle 786e: htb"], empty),
    ];
    let bed = Bed::new();
    let before = bed.description();
    let mut egress = bed.install(&settings());
    egress.limit(LOSSY, BitRate::from_mbps(50)).unwrap();
    let lossless = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    let lossy = bed.receive(DSCP_LOSSY, peer_ipv4());
    egress.stop(LOSSLESS).unwrap();
    let whole = queues(&bed);
    assert!(repair(&mut egress).found.is_empty(), "a change by the agent must not count as a defect");
    for (commands, found) in cases {
        commands.iter().for_each(|words| tc(&bed, words));
        let result = repair(&mut egress);
        assert!(result.refused.is_none() && result.left.is_empty(), "{commands:?}: {result:?}");
        assert_eq!(result.found, found, "after {commands:?} the defects are {}, not {found}", result.found);
        assert_eq!(queues(&bed), whole, "{commands:?}");
        let waiting = of(egress.counts().unwrap(), LOSSLESS).waiting_frames;
        bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
        bed.send(DSCP_LOSSY, peer_ipv4(), COUNT).join();
        assert_eq!(received(&lossy, COUNT).len(), COUNT);
        nothing(&lossless);
        assert_eq!(
            of(egress.counts().unwrap(), LOSSLESS).waiting_frames,
            waiting + COUNT as u64,
            "{commands:?}"
        );
    }
    egress.start(LOSSLESS).unwrap();
    assert!(repair(&mut egress).found.is_empty());
    assert_eq!(received(&lossless, COUNT).len(), COUNT);
    assert_eq!(egress.remove().warnings, [""; 0]);
    assert_eq!(bed.description(), before);
}

#[test]
fn queue_repair_ignores_additions_that_affect_no_pause() {
    let bed = Bed::new();
    let mut egress = bed.install(&settings());
    for words in [
        "filter add dev nic0 parent 786e: protocol ip u32 match u32 0 0 flowid 786e:17",
        "qdisc add dev nic0 clsact",
        "filter add dev nic0 egress protocol all prio 1 bpf direct-action bytecode 1,6_0_0_0",
        "class add dev nic0 parent 786e: classid 786e:99 htb rate 1mbit",
    ] {
        tc(&bed, words);
        assert!(repair(&mut egress).found.is_empty(), "{words}");
    }
}

#[test]
fn class_counters_continue_after_a_queue_repair() {
    let bed = Bed::new();
    let mut egress = bed.install(&settings());
    let lossless = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    for round in 1..=2 {
        bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT).join();
        assert_eq!(received(&lossless, COUNT).len(), COUNT);
        assert_eq!(of(egress.counts().unwrap(), LOSSLESS).frames, (round * COUNT) as u64);
        bed.run("tc", "class del dev nic0 classid 786e:13");
        assert!(repair(&mut egress).left.is_empty());
    }
    let counts = of(egress.counts().unwrap(), LOSSLESS);
    assert_eq!((counts.frames, counts.dropped), (2 * COUNT as u64, 0));
}

#[test]
fn queue_repair_does_not_apply_a_refused_rate_limit() {
    let bed = Bed::new();
    let mut egress = bed.install(&settings());
    let whole = queues(&bed);
    tc(&bed, "qdisc del dev nic0 root");
    egress.limit(LOSSLESS, BitRate::from_mbps(1)).unwrap_err();
    assert!(repair(&mut egress).left.is_empty());
    assert_eq!(queues(&bed), whole);
}

#[test]
fn mtu_refused_by_broken_queues_is_set_after_their_repair() {
    let (bed, settings) = (Bed::new(), settings());
    let mut egress = bed.install(&settings);
    tc(&bed, "qdisc del dev nic0 parent 786e:13");
    bed.run("ip", "link set nic0 mtu 9000");
    egress.follow_mtu().unwrap_err();
    assert_eq!(egress.overrun(), settings.overrun(1500));
    assert!(repair(&mut egress).left.is_empty());
    egress.follow_mtu().unwrap();
    assert_eq!(egress.overrun(), settings.overrun(9000));
    assert!(repair(&mut egress).found.is_empty());
}
