use std::process::Command;

use xoff_lab::{Lab, VethOptions};
use xoff_netns_tests::{Config, Traffic, frames, stream};

use crate::bed;

const SCRIPT: &str = include_str!("prometheus.py");
const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards/xoff.json");
const NEAR: [u8; 4] = [10, 99, 0, 1];
const FAR: [u8; 4] = [10, 99, 0, 2];

fn everything(config: Config, name: &str) -> Config {
    let switch = format!(
        "name = \"{name}\"\nhttp = \"0.0.0.0:9464\"\nshadow = [\"capfc-stop-max\", \"ofc\", \"gfc\"]"
    );
    let more = "[qcn]\ningress = [3]\n[class.3]\nwatchdog = \"alert\"\nwatchdog_detect = \"1ms\"\n";
    config.switch(&switch).more(more).port(1, "ofc_peer = true")
}

#[test] // proves: monitoring
fn all_dashboard_queries_return_data() {
    let bed = bed(3).far(1).build();
    let mut lab = Lab::new();
    let ends =
        (bed.namespace().end("look").address(NEAR, 24), bed.far_namespace().end("look").address(FAR, 24));
    lab.veth(ends.0, ends.1, &VethOptions::default()).unwrap();
    let near = bed.start(&everything(bed.config("speed = \"100M\""), "near"));
    let far = bed.start_far(&everything(bed.far_config("speed = \"100M\""), "far"));
    let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
    let stop = |quanta| sink.send(frames::pfc(sink.mac(), &[(3, quanta)]));
    let much = [stream(sink, 3, "10M", 12_000)];
    let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much).start();
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", SCRIPT, DASHBOARD]).arg(directory.path()).args(["127.0.0.1:9464", "10.99.0.2:9464"]);
    bed.watched_by(command, |round| stop(if round % 4 == 3 { 0 } else { 65535 }));
    stop(0);
    let _ = traffic.finish();
    bed.finish(near);
    bed.finish(far);
}
