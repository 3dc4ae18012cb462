use std::thread;
use std::time::Duration;

use xoff_netns_tests::{Config, Host, Traffic, frames, stream, unstalled};
use xoff_switch::control::status::{FlowStatus, Status};

use crate::{PATIENT, bed};

/// Settings with enough memory for the frames that arrive until the peer obeys a flow list (pause of single flows).
const THRESHOLDS: &str = "[class.3]\nxoff = \"600KB\"\nxon = \"50KB\"\n[policy.ofc]\nalpha = 0.25";

fn ofc(config: Config, ofc_ports: &[usize]) -> Config {
    let config = config.switch(PATIENT).switch("policy = \"ofc\"").more(THRESHOLDS);
    ofc_ports.iter().fold(config, |config, &port| config.port(port, "ofc_peer = true"))
}

fn pause(host: &Host, quanta: u16) {
    host.send(frames::pfc(host.mac(), &[(3, quanta)]));
}

fn flows(status: &Status, port: usize) -> FlowStatus {
    status.ports[port - 1].classes[3].flows.expect("the port has no OFC peer")
}

#[test] // proves: ofc-flows
fn ofc_pauses_congested_flow_while_uncongested_flow_continues() {
    unstalled(|| {
        let bed = bed(4).far(2).build();
        let near = bed.start(&ofc(bed.config("speed = \"200M\""), &[2, 3]));
        let far = bed.start_far(&ofc(bed.far_config("speed = \"200M\""), &[3]));
        let (a, b, free, stuck) = (bed.host(1), bed.host(2), bed.host(3), bed.host(4));
        pause(stuck, 65_535);
        let traffic = Traffic::at_mbps(200)
            .sink(free)
            .sink(stuck)
            .source(a, &[stream(free, 3, "50M", 3_000)])
            .source_of_flows(b, &[stream(stuck, 3, "50M", 1_500)])
            .start();
        let mut most = (0, 0);
        traffic.wait("the free flow", || {
            pause(stuck, 65_535);
            most.0 = most.0.max(flows(&near.status(), 3).paused);
            most.1 = most.1.max(flows(&near.status(), 2).requests.requested);
            thread::sleep(Duration::from_millis(5));
            traffic.received_at(free, 3) >= 3_000
        });
        let arrived = traffic.received_at(stuck, 3);
        assert!(arrived < 1_000, "the paused receiver got {arrived} frames");
        assert_eq!(most, (1, 1), "flows paused at the trunk and at their sender");
        pause(stuck, 0);
        let reports = traffic.finish();
        reports.assert_lossless(&[3]);
        assert!(reports.of(b).pauses.flow_frames > 0, "the sender received no flow lists");

        let near = bed.finish(near);
        let far = bed.finish(far);
        assert!(flows(&far, 3).pause_frames_sent > 0 && flows(&far, 3).resume_frames_sent > 0);
        assert!(flows(&near, 3).pause_frames_received > 0 && flows(&near, 3).resume_frames_received > 0);
        assert_eq!(
            far.ports[2].classes[3].pause_sent.xoff, 0,
            "the class was paused on the trunk as a whole"
        );
        assert_eq!(
            (flows(&far, 3).requests.requested, flows(&near, 3).paused, flows(&near, 3).fallbacks),
            (0, 0, 0)
        );
    });
}

#[test] // proves: ofc-flows
fn plain_pfc_peer_obeys_flow_list_as_pause_of_class() {
    unstalled(|| {
        let bed = bed(3).far(1).build();
        let near = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT));
        let config = ofc(bed.far_config("speed = \"200M\""), &[2]).port(1, "speed = \"40M\"");
        let far = bed.start_far(&config);
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "60M", 1_500)];
        let traffic = Traffic::at_mbps(200).sink(sink).source(a, &much).source(b, &much);
        traffic.run().assert_lossless(&[3]);
        let near = bed.finish(near);
        let far = bed.finish(far);
        assert!(flows(&far, 2).pause_frames_sent > 0, "no flow lists were sent");
        assert!(
            near.ports[2].classes[3].pause_received.xoff > 0,
            "the plain PFC peer did not pause its class"
        );
        assert_eq!(near.ports[2].classes[3].flows, None);
    });
}
