//! Traffic of eight hosts, for each model of packet memory.

use xoff_netns_tests::{Host, Traffic, stream, unstalled, wait_for};

use crate::{PATIENT, bed};

const HOSTS: u8 = 8;
/// Frames of each lossless stream; a line carries seven.
const FRAMES: u64 = 300;

const MODELS: [&str; 4] = [
    "",
    "[memory]\nreceive_chunks = \"small\"\n",
    "[memory]\nlossy_pool = \"2MB\"\n",
    "[memory]\nmodel = \"shared\"\n",
];

/// Every host offers twice its line.
// proves: memory, lossless
#[test]
fn all_to_all_loses_nothing_in_any_memory() {
    for memory in MODELS {
        unstalled(|| {
            let bed = bed(HOSTS).build();
            let switch = bed.start(&bed.config("speed = \"50M\"").switch(PATIENT).more(memory));
            let hosts: Vec<&Host> = (1..=usize::from(HOSTS)).map(|number| bed.host(number)).collect();
            let mut traffic = Traffic::at_mbps(50);
            for &from in &hosts {
                let mut streams = Vec::new();
                for to in hosts.iter().filter(|to| to.number() != from.number()) {
                    let rate = if to.number() == 1 { "25M" } else { "12500k" }; // host 1 gets 1.75 times its line
                    streams.push(stream(to, 3, rate, FRAMES));
                }
                let next = hosts[usize::from(from.number() % HOSTS)];
                streams.push(stream(next, 1, "5M", FRAMES));
                traffic = traffic.source(from, &streams);
            }
            let reports = traffic.run();
            reports.assert_lossless(&[3]);
            wait_for("an empty switch", || (switch.status().ledger?.held == 0).then_some(()));
            let status = bed.finish(switch);
            for port in &status.ports {
                let class = &port.classes[3];
                assert_eq!((class.tx_frames, class.lost), (FRAMES * 7, 0), "{memory}{}", port.name);
                assert_eq!(class.pause_sent.xoff, class.pause_sent.xon, "{memory}{}", port.name);
            }
            let xoffs: u64 = status.ports.iter().map(|port| port.classes[3].pause_sent.xoff).sum();
            assert!(xoffs > 0, "{memory}no host was paused");
        });
    }
}
