// Tests for SPECIFICATION.md: host-dcbx

use nix::sys::signal::Signal;
use xoff_netns_tests::nic::{Agent, Wire};
use xoff_netns_tests::{frames, wait_for};
use xoff_wire::dcbx::{Application, Applications, PfcState, selector};
use xoff_wire::lldp::{Lldpdu, Tlv};
use xoff_wire::units::{Class, ClassSet};

use crate::BINARY;
use crate::lldp::{frame, is_lldp};

const SINK: u16 = 5_003;
const DSCP: u8 = 26;
const CLASS_4: ClassSet = ClassSet(0b1_0000);

fn lossless(agent: &Agent) -> Vec<u8> {
    agent.status().classes.iter().filter(|class| class.lossless).map(|class| class.class).collect()
}

#[test]
fn willing_agent_takes_lossless_classes_of_its_switch() {
    let wire = Wire::build(BINARY);
    let _sink = wire.listen(SINK);
    let agent = wire.start("--speed 2M --dcbx willing");
    assert_eq!(lossless(&agent), [3]);
    let dscp =
        Application { class: Class::ALL[4], selector: selector::DSCP, protocol: DSCP.into() }.to_bytes();
    let pfc = Tlv::Pfc(PfcState { classes: CLASS_4, ..PfcState::default() });
    let announce = |number, ttl| {
        wire.peer().send(frame(number, ttl, &[pfc, Tlv::Applications(Applications::new(&[dscp]))]));
    };
    announce(1, 120);
    wait_for("the switch's classes", || (lossless(&agent) == [4]).then_some(()));
    let status = agent.status();
    assert!(
        status.dcbx_followed && status.dscp_classes[26] == 4 && status.dscp_classes[24] == 3,
        "{status:?}"
    );
    assert!(
        agent.get("/metrics").unwrap().contains("xoff_nic_dcbx_followed{switch=\"eth0\",port=\"eth0\"} 1")
    );
    let announced = |frame: &[u8]| {
        let of_host = is_lldp(frame) && frame[6..12] == wire.mac().0;
        let list = Lldpdu::parse(frame.get(14..)?).ok().filter(|_| of_host)?;
        list.tlvs().flatten().find_map(|tlv| if let Tlv::Pfc(pfc) = tlv { Some(pfc) } else { None })
    };
    let taken = |frame: &[u8]| announced(frame).is_some_and(|pfc| pfc.willing && pfc.classes == CLASS_4);
    wire.peer().tap().wait(1, taken);

    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535), (4, 65_535)]));
    agent.await_pause(4, true);
    assert!(!agent.class(3).pause_received.now, "a class that is lossy at the switch is paused");
    let stopped = wire.send(SINK, DSCP, 100);
    wait_for("queued frames", || (agent.class(4).waiting_frames > 0).then_some(()));
    assert!(wire.arrived(SINK).is_empty(), "a frame of the paused class was sent");
    announce(2, 120);
    wait_for("the fallback", || (lossless(&agent) == [3]).then_some(()));
    let mut arrived = wire.await_arrival(SINK, 100);
    arrived.sort_unstable(); // those queued before the fallback may be overtaken
    assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    stopped.finish();
    announce(2, 0);
    wait_for("the switch's classes again", || (lossless(&agent) == [4]).then_some(()));
    announce(1, 0);
    wait_for("the configured classes", || (lossless(&agent) == [3]).then_some(()));
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
    let lines =
        ["event=\"dcbx-ambiguous\"", "event=\"dcbx-followed\""].map(|event| log.matches(event).count());
    assert_eq!(lines, [1, 4], "{log}");
    wire.assert_nothing_dropped();
}
