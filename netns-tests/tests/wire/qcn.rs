// Tests for SPECIFICATION.md: qcn

use xoff_host::report::SentStream;
use xoff_netns_tests::{Switch, Traffic, decode, frames, stream, unstalled, wait_for};
use xoff_wire::cnm::{Cnm, CongestionPointId};
use xoff_wire::units::{Class, MacAddr};
use xoff_wire::{CnTag, Header, Tci};

use crate::{PATIENT, bed, frame};

/// Settings of congestion points whose set point is far below XOFF.
const POINTS: &str = "set_point = \"30KB\"\nsample_every = \"40KB\"\nframes_per_cnm = 20\n";
const XOFF: &str = "[class.3]\nxoff = \"600KB\"\nxon = \"300KB\"";
const FRAMES: u64 = 12_000;

fn is_cnm(bytes: &[u8]) -> bool {
    Header::parse(bytes).is_ok_and(|header| Cnm::is_cnm(&header))
}

fn limiter(sent: &SentStream) -> (u64, f64) {
    let qcn = sent.qcn.as_ref().expect("the stream has no rate limiter");
    let least = qcn.rates.iter().map(|sample| sample.mbps).fold(f64::MAX, f64::min);
    (qcn.cnms, least)
}

fn fan_in(points: &str) {
    let bed = bed(3).build();
    let config =
        bed.config("speed = \"200M\"").switch(PATIENT).more(XOFF).more(&format!("[qcn]\n{points}{POINTS}"));
    let switch: Switch = bed.start(&config);
    let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
    let reports = Traffic::at_mbps(200)
        .rate_limited()
        .sink(sink)
        .source(a, &[stream(sink, 3, "line", FRAMES)])
        .source(b, &[stream(sink, 3, "line", FRAMES)])
        .run();
    reports.assert_lossless(&[3]);
    let status = bed.finish(switch);
    let points: Vec<_> = status.ports.iter().filter_map(|port| port.classes[3].congestion_point).collect();
    let sent: u64 = points.iter().map(|point| point.cnms_sent).sum();
    let received: u64 = [a, b].map(|host| reports.of(host).cnms.received).iter().sum();
    assert_eq!((points.len(), sent), (3, received), "every CNM came");
    assert!(points.iter().any(|point| point.feedback_mean.is_some_and(|mean| (1.0..=63.0).contains(&mean))));
    for host in [a, b] {
        let (cnms, least) = limiter(&reports.of(host).sent[0]);
        assert!(cnms > 3 && least < 150.0, "{cnms} CNMs lowered the rate to {least} Mb/s");
    }
}

#[test]
fn congestion_points_at_ingress_slow_senders_without_loss() {
    unstalled(|| fan_in("ingress = [3]\nculprit = \"occupancy-random\"\n"));
}

#[test]
fn congestion_points_at_egress_slow_senders_without_loss() {
    unstalled(|| fan_in("egress = [3]\n"));
}

#[test]
fn cnm_quotes_the_sampled_frame() {
    for (place, point) in [("ingress", 1), ("egress", 2)] {
        let bed = bed(2).build();
        let qcn = "set_point = 1000\nsample_every = 4000\njitter = 0\nframes_per_cnm = 1\n";
        let qcn = format!("[qcn]\n{place} = [3]\n{qcn}[class.3]\nxoff = 20000\nxon = 2000\n");
        let switch = bed.start(&bed.config("speed = \"10M\"").more(&qcn));
        let (a, b) = (bed.host(1), bed.host(2));
        b.send(frame(b, a, 0, 0)); // learned
        a.tap().numbered(0);
        b.send(frames::pfc(b.mac(), &[(3, 65535)]));
        wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
        for number in 1..=3 {
            let mut bytes = a.to(b).tag(3, 0).numbered(number).build_len(1_500);
            bytes.splice(16..16, [0x22, 0xe9, 0x12, 0x34]);
            a.send(bytes);
        }
        let bytes = a.tap().wait(1, is_cnm).swap_remove(0).bytes;
        let port: MacAddr = MacAddr::parse(&switch.port(point).mac).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let cnm = Cnm::parse(&header, &bytes).unwrap();
        assert_eq!((header.dst, header.src), (a.mac(), port));
        assert_eq!(
            (header.tag, header.cn_tag),
            (Some(Tci::new(Class::ALL[3], false, 0)), Some(CnTag(0x1234)))
        );
        assert_eq!(cnm.congestion_point, CongestionPointId::new(port, Class::ALL[3]));
        assert_eq!((cnm.destination, cnm.priority, cnm.feedback), (b.mac(), Class::ALL[3], 63));
        assert_eq!(cnm.msdu.as_bytes().len(), 64);
        assert_tshark_reads(&bytes, &cnm, &header);
        b.send(frames::pfc(b.mac(), &[(3, 0)]));
        let with_cn_tag =
            |bytes: &[u8]| Header::parse(bytes).is_ok_and(|header| header.cn_tag == Some(CnTag(0x1234)));
        b.tap().wait(3, with_cn_tag);
        // Do not call `finish`: it would fail, because the hosts' kernels drop tagged frames of unknown protocols.
        assert!(switch.status().verdict.lossless);
        assert!(switch.stop().status.success());
    }
}

fn assert_tshark_reads(bytes: &[u8], cnm: &Cnm, header: &Header) {
    let fields = [
        "xoff_cntag.rpid",
        "xoff_cnm.feedback",
        "xoff_cnm.cpid.port",
        "xoff_cnm.cpid.class",
        "xoff_cnm.qoffset",
        "xoff_cnm.qdelta",
        "xoff_cnm.priority",
        "xoff_cnm.destination",
        "xoff_cnm.msdu_len",
        "xoff_cnm.malformed",
    ];
    let expected = [
        header.cn_tag.unwrap().0.to_string(),
        cnm.feedback.to_string(),
        header.src.to_string(),
        "3".to_owned(),
        cnm.q_offset.to_string(),
        cnm.q_delta.to_string(),
        "3".to_owned(),
        cnm.destination.to_string(),
        "64".to_owned(),
        String::new(),
    ];
    assert_eq!(decode::tshark_with_ours(bytes, &fields), expected);
}

#[test] // proves: capture
fn wireshark_dissector_flags_malformed_cnms_and_flow_lists() {
    let head = |rest: &[u8]| [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], rest].concat();
    let mut cnm = head(&[0x22, 0xe7, 0x10, 9]);
    cnm.resize(60, 0);
    assert_eq!(
        decode::tshark_with_ours(&cnm, &["xoff_cnm.feedback", "_ws.col.Info"])[1],
        "CNM, malformed: a version other than 0"
    );
    let cut = head(&[0x22, 0xe9, 0, 1, 0x08]);
    assert_eq!(decode::tshark_with_ours(&cut, &["xoff_cntag.truncated"]), ["1"]);

    let mut list = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x08, 0x01, 0x01, 0, 8];
    list.resize(34, 0);
    list[24..26].copy_from_slice(&[0xff, 0xff]);
    list.extend(b"OFC1\x01\x03\x00\x02");
    list.extend([4, 17, 0, 5, 0, 6, 10, 0, 0, 1, 10, 0, 0, 2]);
    list.extend([0, 0, 0x88, 0xb5, 0, 0, 2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8]);
    let fields = [
        "macc.cbfc.enbv",
        "xoff_ofc.operation",
        "xoff_ofc.class",
        "xoff_ofc.count",
        "xoff_ofc.flow.src",
        "xoff_ofc.flow.dstport",
        "xoff_ofc.flow.type",
        "xoff_ofc.flow.eth_dst",
        "xoff_ofc.malformed",
    ];
    let read = decode::tshark_with_ours(&list, &fields);
    assert_eq!(read, ["0x0008", "1", "3", "2", "10.0.0.1", "6", "0x88b5", "02:00:00:00:00:08", ""]);
    let info = |list: &[u8]| decode::tshark_with_ours(list, &["_ws.col.Info"]).swap_remove(0);
    assert!(info(&list).ends_with("OFC: pause 2 flows of class 3"), "{}", info(&list));
    let with = |at: usize, byte: u8| {
        let mut changed = list.clone();
        changed[at] = byte;
        changed
    };
    assert!(info(&with(41, 1)).ends_with("OFC: pause 1 flow of class 3"));
    let cut = list[..list.len() - 1].to_vec();
    // Malformed flow lists of class 3: one byte short; class-enable vector (byte 17) without class 3, or with class 4 too; no flows (byte
    // 41); a resume (byte 38) whose vector enables class 3.
    for malformed in [cut, with(17, 0), with(17, 0x18), with(41, 0), with(38, 2)] {
        assert_eq!(decode::tshark_with_ours(&malformed, &["xoff_ofc.malformed"]), ["1"]);
        assert!(info(&malformed).contains("OFC, malformed: the list "), "{}", info(&malformed));
    }
}
