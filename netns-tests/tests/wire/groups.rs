use std::collections::BTreeSet;

use xoff_netns_tests::frames::{BROADCAST, Frame, has_type};
use xoff_netns_tests::{Bed, Config, Host, Switch, Traffic, decode, stream, wait_for};
use xoff_switch::control::Link;
use xoff_switch::control::status::Status;
use xoff_wire::lacp::{End, Lacpdu, State};
use xoff_wire::units::MacAddr;

use crate::{PATIENT, bed};

const ARP: u16 = 0x0806;
const GROUP: &str = "[[group]]\nname = \"up\"\nports = [\"p3\", \"p4\"]\n";

fn pair() -> Bed {
    bed(4).far(2).trunks(2).build()
}

fn start(bed: &Bed, defaults: &str, group: &str) -> [Switch; 2] {
    let config = |config: Config| config.switch(PATIENT).more(&format!("{GROUP}{group}"));
    [bed.start(&config(bed.config(defaults))), bed.start_far(&config(bed.far_config(defaults)))]
}

fn sent(status: &Status) -> [u64; 2] {
    [0, 1].map(|member| status.groups[0].members[member].tx_frames)
}

fn datagram(from: &Host, to: &Host, port: u8) -> Vec<u8> {
    let mut frame = from.to(to).udp(24, &[b'g', port]).build();
    frame[35] = port;
    frame[40] = 0; // no checksum
    frame[41] = 0;
    frame
}

#[test] // proves: groups
fn port_group_spreads_flows_without_duplicate_frames() {
    let bed = pair();
    let switches = start(&bed, "speed = \"1G\"", "");
    let (a, b) = (bed.host(1), bed.host(3));
    a.run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &b.ipv4().to_string()]);
    bed.host(4).run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &bed.host(2).ipv4().to_string()]);
    let arp_requests = |host: &Host| {
        host.tap()
            .count(|bytes| has_type(bytes, ARP) && bytes[..12] == [&BROADCAST.0[..], &a.mac().0].concat())
    };
    assert_eq!([1, 2, 3, 4].map(|host| arp_requests(bed.host(host))), [0, 1, 1, 1]);
    for round in 0..3 {
        for port in 0..64 {
            a.send(datagram(a, b, port));
        }
        let received = b.tap().wait(64 * (round + 1), |bytes| bytes.get(42) == Some(&b'g'));
        let flows: BTreeSet<u8> = received.iter().map(|frame| frame.bytes[43]).collect();
        assert_eq!((received.len(), flows.len()), (64 * (round + 1), 64));
    }
    let status = switches[0].status();
    let [first, second] = sent(&status);
    assert!(first.min(second) >= 3 * 16, "{first} and {second} of 64 flows");
    let mac = status.fdb.iter().find(|entry| entry.mac == b.mac().to_string());
    assert_eq!(mac.and_then(|entry| entry.group.as_deref()), Some("up"));
    let mut server = b.start("/usr/bin/python3", &["-c", SERVER]);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(
        a.run("/usr/bin/python3", &["-c", &CLIENT.replace("HOST", &b.ipv4().to_string())]).trim(),
        "2000000"
    );
    server.wait().unwrap();
    let [near, far] = switches;
    bed.finish(near);
    bed.finish(far);
}

const SERVER: &str = "
import socket
server = socket.create_server(('', 7777))
print('ready', flush=True)
for _ in range(4):
    peer, _ = server.accept()
    count = 0
    while part := peer.recv(65536): count += len(part)
    peer.sendall(str(count).encode())
    peer.close()
";
const CLIENT: &str = "
import socket
total = 0
for _ in range(4):
    peer = socket.create_connection(('HOST', 7777))
    peer.sendall(bytes(500000))
    peer.shutdown(socket.SHUT_WR)
    total += int(peer.recv(100))
print(total)
";

#[test] // proves: group-changes
fn cut_wire_of_port_group_loses_only_its_own_frames() {
    const FRAMES: u64 = 500;
    for group in ["", "spread = \"adaptive\"\n"] {
        let bed = pair();
        let switches = start(&bed, "speed = \"100M\"", group);
        let streams = |to: &Host| vec![stream(to, 3, "10M", FRAMES); 4];
        let [a, b, c, d] = [1, 2, 3, 4].map(|number| bed.host(number));
        let run = || {
            let traffic = Traffic::at_mbps(100).source(a, &streams(c)).source(b, &streams(d));
            traffic.sink(c).sink(d).start()
        };
        let link = |up: bool| {
            bed.port(4).set_up(up).unwrap();
            let of = if up { Link::Up } else { Link::Down };
            for switch in &switches {
                wait_for("the link to change", || (switch.port(4).link == of).then_some(()));
            }
        };
        let at_dead = || {
            let status = switches[0].status();
            (sent(&status)[1], status.ports[3].classes[3].drops["link_down"])
        };
        let cut = run();
        cut.wait_received(FRAMES);
        link(false);
        let mut reports = vec![cut.finish()];
        let dead = at_dead();
        reports.push(run().finish());
        assert_eq!(at_dead(), dead, "frames were sent on the cut wire");
        link(true);
        reports.push(run().finish());
        let [near, far] = [0, 1].map(|switch: usize| switches[switch].status());
        assert!(sent(&near)[1] > dead.0, "the repaired wire is not used");
        let sinks = || reports.iter().flat_map(|reports| [c, d].map(|host| reports.of(host)));
        let received: Vec<u64> =
            sinks().map(|sink| sink.received.iter().map(|stream| stream.frames).sum()).collect();
        assert_eq!(
            received[2..],
            [4 * FRAMES; 4],
            "frames were lost beside the cut wire or after its repair"
        );
        assert_eq!(sinks().flat_map(|sink| &sink.received).map(|stream| stream.duplicated).sum::<u64>(), 0);
        for (port, at) in near.ports.iter().chain(&far.ports).zip([1, 2, 3, 4, 1, 2, 3, 4]) {
            let drops: Vec<_> = port.classes[3].drops.iter().filter(|(_, frames)| **frames > 0).collect();
            assert!(
                drops.iter().all(|(reason, _)| at == 4 && *reason == "link_down"),
                "{}: {drops:?}",
                port.name
            );
        }
        // Count at the far switch. After the repair, frames of the first run leave the cut wire's driver, but that run's sinks have ended.
        let to_hosts: u64 = far.ports[..2].iter().map(|port| port.classes[3].tx_frames).sum();
        let lost = 24 * FRAMES - to_hosts;
        let by_name = near.ports[3].classes[3].drops["link_down"];
        let on_wire = near.ports[3].classes[3].tx_frames - far.ports[3].classes[3].rx_frames;
        assert_eq!(
            lost,
            by_name + on_wire,
            "{by_name} frames queued for the cut wire and {on_wire} frames on it were lost; hosts lost {:?}, far end of the wire dropped {:?}",
            reports
                .iter()
                .flat_map(|reports| [a, b, c, d].map(|host| reports.of(host).drops.total))
                .collect::<Vec<_>>(),
            far.ports[3].classes[3].drops
        );
        assert_eq!([&near, &far].map(|status| status.verdict.ledger_balanced), [Some(true); 2]);
    }
}

#[test] // proves: group-changes
fn reload_changes_how_a_port_group_spreads_frames() {
    let bed = pair();
    let config = |more: &str| bed.config("speed = \"1G\"").more(more);
    let near = bed.start(&config(&format!("{GROUP}spread = \"frame\"\n")));
    let far = bed.start_far(&bed.far_config("speed = \"1G\"").more(GROUP));
    let (a, b) = (bed.host(1), bed.host(3));
    a.run("ping", &["-c", "2", "-i", "0.05", "-W", "5", &b.ipv4().to_string()]);
    assert_eq!(near.status().groups[0].spread, "frame");
    near.write(&config(&format!("{GROUP}spread = \"adaptive\"\nlow = \"20KB\"\n")));
    let (code, reply) = near.put("/reload", "").unwrap();
    assert_eq!(code, 200, "{reply}");
    assert!(reply.contains("spread adaptive, low 20KB, high 32KB"), "{reply}");
    let group = near.status().groups.swap_remove(0);
    assert_eq!(
        (group.spread.as_str(), group.low_bytes, group.high_bytes),
        ("adaptive", Some(20_000), Some(32_000))
    );
    a.run("ping", &["-c", "2", "-i", "0.05", "-W", "5", &b.ipv4().to_string()]);
    a.send(Frame::new(a.mac(), BROADCAST).numbered(1).build());
    b.tap().numbered(1);
    a.send(Frame::new(a.mac(), BROADCAST).numbered(2).build());
    b.tap().numbered(2);
    assert_eq!(b.tap().numbers(), [1, 2]);
    bed.finish(near);
    bed.finish(far);
}

#[test] // proves: lacp
fn port_leaves_and_joins_its_group_by_lacp_without_loss() {
    const FRAMES: u64 = 8_000;
    let bed = pair();
    let defaults = "speed = \"100M\"";
    let active = bed.config(defaults).switch(PATIENT);
    let passive = format!("{GROUP}lacp = \"passive\"\nlacp_timeout = \"short\"\n");
    let far = bed.start_far(&bed.far_config(defaults).switch(PATIENT).more(&passive));
    let near = bed.start(&active.clone().more(&format!("{GROUP}lacp = \"active\"\n")));
    let states = |switch: &Switch| {
        let group = switch.status().groups.swap_remove(0);
        group.members.into_iter().filter_map(|member| Some(member.lacp?.state)).collect::<Vec<_>>()
    };
    let wait = |of_near: &[&str], of_far: &[&str]| {
        wait_for("LACP", || (states(&near) == of_near && states(&far) == of_far).then_some(()));
    };
    wait(&["distributing"; 2], &["distributing"; 2]);
    let [a, c] = [1, 3].map(|number| bed.host(number));
    a.run("ping", &["-c", "2", "-i", "0.05", "-W", "5", &c.ipv4().to_string()]);
    let streams = vec![stream(c, 3, "10M", FRAMES); 4];
    let traffic = Traffic::at_mbps(100).source(a, &streams).sink(c).start();
    let reload = |config: &Config| {
        near.write(config);
        let (code, reply) = near.put("/reload", "").unwrap();
        assert_eq!(code, 200, "{reply}");
    };
    let only_first = GROUP.replace(", \"p4\"", "") + "lacp = \"active\"\n";
    reload(&active.clone().port(4, "pvid = 2\nuntagged = [2]").more(&only_first));
    let has_left = || matches!(&*states(&far)[1], "individual" | "other_partner" | "no_partner");
    wait_for("the member to leave", || has_left().then_some(()));
    let on_left = near.status().ports[3].classes[3].tx_frames;
    reload(&active.clone().more(&format!("{GROUP}lacp = \"active\"\n")));
    wait(&["distributing"; 2], &["distributing"; 2]);
    traffic.finish().assert_lossless(&[3]);
    let status = near.status();
    assert!(status.ports[3].classes[3].tx_frames > on_left, "the member that joined again is not used");
    let refused: u64 = far.status().ports[3].classes[3].drops["not_collecting"];
    assert_eq!(refused, 0, "data was refused by a member that left or joined");
    bed.assert_no_drops(); // before a switch ends, because the other one then sends LACP frames to nobody
    for switch in [near, far] {
        assert!(switch.status().verdict.lossless);
        assert!(switch.stop().status.success());
    }
}

#[test] // proves: lacp
fn tshark_decodes_lacp_frame() {
    let end = |key, state| End { system: (1, MacAddr([2; 6])), key, port: (2, 3), state };
    let pdu = Lacpdu { actor: end(7, State::COLLECTING), partner: end(8, State::SYNCHRONIZATION) };
    let fields = [
        "lacp.actor.key",
        "lacp.actor.state",
        "lacp.actor.port",
        "lacp.partner.sysid",
        "lacp.partner.key",
        "lacp.partner.state",
        "lacp.collector.max_delay",
        "_ws.malformed",
    ];
    let decoded = decode::tshark(&pdu.frame(MacAddr([4; 6])), &fields);
    assert_eq!(decoded, ["7", "0x10", "3", "02:02:02:02:02:02", "8", "0x08", "0", ""]);
}
