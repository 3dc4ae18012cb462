use xoff_netns_tests::{Host, Traffic, stream, unstalled, wait_for};

use crate::{PATIENT, bed};

const HOSTS: u8 = 8;

const FRAMES: [u64; 2] = [1_000, 300];

const MODELS: [&str; 4] = [
    "",
    "[memory]\nreceive_chunks = \"small\"\n",
    "[memory]\nlossy_pool = \"2MB\"\n",
    "[memory]\nmodel = \"shared\"\n",
];

#[test] // proves: memory, lossless
fn all_to_all_traffic_is_lossless_in_each_memory_model() {
    for memory in MODELS {
        unstalled(|| {
            let bed = bed(HOSTS).build();
            let switch = bed.start(&bed.config("speed = \"50M\"").switch(PATIENT).more(memory));
            let hosts: Vec<&Host> = (1..=usize::from(HOSTS)).map(|number| bed.host(number)).collect();
            let mut traffic = Traffic::at_mbps(50);
            for &from in &hosts {
                let mut streams = Vec::new();
                for to in hosts.iter().filter(|to| to.number() != from.number()) {
                    let (rate, count) = if to.number() == 1 { ("10M", FRAMES[0]) } else { ("3M", FRAMES[1]) };
                    streams.push(stream(to, 3, rate, count));
                }
                let next = hosts[usize::from(from.number() % HOSTS)];
                streams.push(stream(next, 1, "5M", FRAMES[1]));
                traffic = traffic.source(from, &streams);
            }
            let reports = traffic.run();
            reports.assert_lossless(&[3]);
            wait_for("an empty switch", || (switch.status().ledger?.held == 0).then_some(()));
            let status = bed.finish(switch);
            for (index, port) in status.ports.iter().enumerate() {
                let (class, frames) = (&port.classes[3], FRAMES[usize::from(index > 0)] * 7);
                assert_eq!((class.tx_frames, class.lost), (frames, 0), "{memory}{}", port.name);
                assert_eq!(class.pause_sent.xoff, class.pause_sent.xon, "{memory}{}", port.name);
            }
            let xoffs: u64 = status.ports.iter().map(|port| port.classes[3].pause_sent.xoff).sum();
            assert!(xoffs > 0, "no host was paused with memory settings {memory:?}");
        });
    }
}
