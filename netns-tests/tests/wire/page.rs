use std::process::Command;

use xoff_lab::{Lab, VethOptions};
use xoff_netns_tests::{Bed, Traffic, frames, stream};

use crate::bed;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/page.py");
const NEAR: [u8; 4] = [10, 99, 0, 1];
const FAR: [u8; 4] = [10, 99, 0, 2];

fn get(bed: &Bed, arguments: &[&str]) -> String {
    let output = bed.namespace().output(Command::new("curl").args(["-sS"]).args(arguments)).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test] // proves: http, log
fn browser_gets_live_page_and_curl_gets_list_of_paths() {
    let bed = bed(1).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let at = "http://127.0.0.1:9464";
    assert!(get(&bed, &[at]).starts_with("xoff\n/ "));
    let page = get(&bed, &["-i", "-H", "Accept: text/html,application/xhtml+xml,*/*;q=0.8", at]);
    assert!(
        page.contains("<!doctype html>") && page.contains("\r\ncontent-security-policy: default-src 'none';"),
        "{page}"
    );
    let own = page.split('"').filter(|it| it.starts_with("/page/"));
    own.for_each(|path| assert!(!get(&bed, &["--fail", &format!("{at}{path}")]).is_empty(), "{path}"));
    assert!(
        !page.contains("//") || page.matches("//").count() == page.matches("http://127.0.0.1:9465").count(),
        "{page}"
    );
    assert!(get(&bed, &[&format!("{at}/log")]).contains("running"));
    let status = get(&bed, &[&format!("{at}/status?addresses=0")]);
    assert!(status.contains("\"fdb\":[]"), "{status}");
    let refused = get(&bed, &[&format!("{at}/status?addresses=many")]);
    assert_eq!(refused, "`addresses` is \"many\", but has to be a whole number from 0 to 10000\n");
    bed.finish(switch);
}

#[test] // proves: http
fn live_page_shows_pause_chain_on_keyboard_input() {
    let bed = bed(3).far(1).build();
    let mut lab = Lab::new();
    let ends =
        (bed.namespace().end("look").address(NEAR, 24), bed.far_namespace().end("look").address(FAR, 24));
    lab.veth(ends.0, ends.1, &VethOptions::default()).unwrap();
    let near = bed.start(&bed.config("speed = \"100M\"").switch("name = \"near\"\nhttp = \"0.0.0.0:9464\""));
    let of_far = "name = \"far\"\nhttp = \"0.0.0.0:9464\"\nhttp_hosts = [\"10.99.0.1\"]";
    let far = bed.start_far(&bed.far_config("speed = \"100M\"").switch(of_far));
    let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
    let stop = |quanta| sink.send(frames::pfc(sink.mac(), &[(3, quanta)]));
    stop(65535);
    let much = [stream(sink, 3, "90M", 2_000)];
    let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much).start();
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-B", SCRIPT, "http://10.99.0.1:9464", "http://10.99.0.2:9464"]).arg(directory.path());
    bed.watched_by(command, |_| stop(65535)); // refreshed before it ends
    stop(0);
    let _ = traffic.finish();
    bed.finish(near);
    bed.finish(far);
}
