// Tests for SPECIFICATION.md: lldp

use xoff_flow_control::settings::{AutoPeer, ClassSettings, Dcbx, FlowControl, PortSettings, Service, Trust};
use xoff_wire::dcbx::{Application, PfcState, algorithm, selector};
use xoff_wire::lldp::{BRIDGE, Id, LEN_MAX, ROUTER, Tlv, Understands, Writer};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet};

use super::dcbx::Speaker;
use super::table::NEIGHBORS_MAX;
use super::timer::{INTERVAL, TTL};
use super::*;

const SECOND: Nanos = Nanos::from_secs(1);

pub(super) fn settings() -> PortSettings {
    let class = |class: usize| ClassSettings {
        lossless: class == 3 || class == 4,
        service: if class == 7 { Service::Strict } else { Service::Weighted(1) },
        ..ClassSettings::lossy(Bytes(40_000))
    };
    let classes = std::array::from_fn(class);
    PortSettings::plain("p1", MacAddr([2, 0, 0, 0, 0, 1]), BitRate::from_gbps(1), classes)
}

pub(super) fn speaker() -> Speaker<'static> {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    Speaker { chassis: mac, mac, system: "leaf1", device: "eth1", capabilities: BRIDGE }
}

pub(super) fn frame(number: u8, ttl: u16, more: &[Tlv<'_>]) -> Vec<u8> {
    let mut bytes = [0; LEN_MAX];
    let mut writer = Writer::new(&mut bytes, MacAddr([2, 0, 0, 0, 1, number]));
    let chassis = Tlv::ChassisId(Id { subtype: 4, value: &[2, 0, 0, 0, 1, number] });
    let port = Tlv::PortId(Id { subtype: 5, value: b"swp1" });
    let all = [chassis, port, Tlv::Ttl(ttl)];
    assert!(all.iter().chain(more).all(|tlv| writer.push(tlv)));
    writer.finish().to_vec()
}

pub(super) fn announcement(frame: &[u8]) -> Announcement {
    let mut port = Port::default();
    assert_eq!(port.receive(Nanos(0), frame), NeighborChange::New);
    assert_eq!(port.counts.discarded, [0; LldpError::COUNT]);
    port.table.all()[0].announced.clone()
}

fn sent(until: u64, mut happens: impl FnMut(u64, &mut Timer)) -> Vec<u64> {
    let mut timer = Timer::default();
    let mut sent = Vec::new();
    for second in 0..until {
        let now = Nanos::from_secs(second);
        happens(second, &mut timer);
        assert!(timer.next() > now || timer.is_on(), "an LLDP frame is due without link");
        while timer.sends(now) {
            sent.push(second);
        }
    }
    sent
}

#[test]
fn lldp_frame_is_sent_at_link_up_and_every_30_seconds() {
    let begin = |second, timer: &mut Timer| {
        if second == 5 {
            timer.begin(Nanos::from_secs(second));
        }
    };
    assert_eq!(sent(100, begin), [5, 35, 65, 95]);
    let mut timer = Timer::default();
    timer.begin(Nanos(7));
    assert!(timer.sends(Nanos(7)));
    assert_eq!(timer.next(), Nanos(7).after(INTERVAL));
    assert!(!timer.sends(Nanos(INTERVAL.0 + 6)) && timer.sends(Nanos(INTERVAL.0 + 7)), "interval is wrong");
    timer.end();
    assert!(!timer.sends(Nanos::from_secs(1_000)) && timer.next() == Nanos::NEVER);
}

#[test]
fn new_lldp_neighbor_gets_four_frames_one_second_apart() {
    let happens = |second, timer: &mut Timer| match second {
        0 => timer.begin(Nanos(0)),
        10 | 11 => timer.neighbor_came(Nanos::from_secs(second)), // the second arrives during fast frames
        _ => (),
    };
    assert_eq!(sent(60, happens), [0, 10, 11, 12, 13, 14, 44]);
}

#[test]
fn lldp_timer_sends_at_most_five_frames_at_once() {
    let mut timer = Timer::default();
    timer.begin(Nanos(0));
    let mut at_once = 0;
    for _ in 0..100 {
        timer.changed(Nanos(0));
        at_once += u32::from(timer.sends(Nanos(0)));
    }
    assert_eq!((at_once, timer.next()), (5, SECOND));
    timer.changed(Nanos(1));
    assert!(!timer.sends(Nanos(SECOND.0 - 1)) && timer.sends(SECOND));
    timer.changed(SECOND);
    assert!(!timer.sends(Nanos(2 * SECOND.0 - 1)) && timer.sends(Nanos(2 * SECOND.0)));
}

#[test]
fn unsent_lldp_frame_is_retried_after_a_second() {
    let mut timer = Timer::default();
    timer.begin(Nanos(0));
    assert!(timer.sends(Nanos(0)));
    timer.again(Nanos(3));
    assert_eq!(timer.next(), Nanos(SECOND.0 + 3));
    assert!(timer.sends(Nanos(SECOND.0 + 3)));
}

#[test]
fn lldp_neighbor_expires_exactly_after_its_ttl() {
    let mut port = Port::default();
    assert_eq!(port.receive(Nanos(5), &frame(1, 2, &[])), NeighborChange::New);
    assert_eq!(port.receive(SECOND, &frame(1, 2, &[])), NeighborChange::Refreshed);
    assert_eq!(port.receive(SECOND, &frame(1, 2, &[Tlv::SystemName(b"me")])), NeighborChange::Changed);
    assert_eq!(port.table.next_expiry(), Nanos::from_secs(3));
    assert!(port.age(Nanos(3 * SECOND.0 - 1)).is_empty());
    assert_eq!(port.age(Nanos(3 * SECOND.0))[0].announced.system_name, "me");
    assert_eq!((port.table.all().len(), port.counts.aged_out), (0, 1));
    assert_eq!(port.table.next_expiry(), Nanos::NEVER);
}

#[test]
fn shutdown_lldpdu_removes_only_its_neighbor() {
    let mut port = Port::default();
    assert_eq!(port.receive(Nanos(0), &frame(1, 0, &[])), NeighborChange::Nothing);
    port.receive(Nanos(0), &frame(1, 120, &[]));
    assert_eq!(port.receive(Nanos(0), &frame(2, 0, &[])), NeighborChange::Nothing);
    assert!(matches!(port.receive(Nanos(0), &frame(1, 0, &[])), NeighborChange::Removed(_)));
    assert!(port.table.all().is_empty() && port.counts.aged_out == 0);
    let mut other_cable = frame(1, 120, &[]);
    let at = other_cable.windows(4).position(|bytes| bytes == b"swp1").unwrap();
    other_cable[at + 3] = b'2';
    [frame(1, 120, &[]), other_cable, frame(1, 0, &[])]
        .iter()
        .for_each(|frame| _ = port.receive(Nanos(0), frame));
    assert_eq!(port.table.all().iter().map(|it| &it.port[..]).collect::<Vec<_>>(), ["swp2"]);
}

#[test]
fn flood_of_lldp_neighbors_evicts_no_earlier_neighbor() {
    let mut port = Port::default();
    for number in 0..100 {
        port.receive(Nanos(u64::from(number)), &frame(number, 120, &[]));
    }
    assert_eq!((port.table.all().len(), port.counts.too_many), (NEIGHBORS_MAX, 100 - NEIGHBORS_MAX as u64));
    assert_eq!(port.receive(Nanos(200), &frame(0, 120, &[])), NeighborChange::Refreshed);
    assert_eq!(port.receive(Nanos(200), &frame(8, 120, &[])), NeighborChange::TooMany);
    port.receive(Nanos(200), &frame(7, 0, &[]));
    assert_eq!(port.receive(Nanos(200), &frame(8, 120, &[])), NeighborChange::New);
}

#[test]
fn shortened_ttl_of_neighbor_applies_and_is_counted() {
    let mut port = Port::default();
    for ttl in [120, 60, 60, 3, 120] {
        port.receive(Nanos(0), &frame(1, ttl, &[]));
    }
    assert_eq!((port.counts.shortened, port.table.all()[0].ttl), (2, 120));
}

#[test]
fn malformed_lldp_frames_are_counted_and_remove_no_neighbor() {
    let mut port = Port::default();
    port.receive(Nanos(0), &frame(1, 120, &[]));
    let whole = frame(1, 120, &[Tlv::Other(7, b"bad"), Tlv::SystemName(b"a"), Tlv::SystemName(b"b")]);
    assert_eq!(port.receive(Nanos(0), &whole[..20]), NeighborChange::Nothing);
    assert_eq!(port.receive(Nanos(0), &whole[..13]), NeighborChange::Nothing);
    assert_eq!(port.receive(Nanos(0), &whole[..14]), NeighborChange::Nothing);
    assert_eq!(port.counts.malformed[LldpError::Truncated.index()], 2);
    assert_eq!(port.counts.malformed[LldpError::Mandatory.index()], 1);
    assert_eq!(port.receive(Nanos(0), &whole), NeighborChange::Changed);
    let left_out = [LldpError::Length, LldpError::Repeated].map(|it| port.counts.discarded[it.index()]);
    assert_eq!(left_out, [1, 1]);
    assert_eq!((port.table.all()[0].announced.system_name.as_str(), port.counts.frames_in), ("a", 5));
}

#[test] // proves: configuration
fn stored_texts_of_lldp_neighbor_have_no_control_characters() {
    let evil = "\x1b[2J\r\n\u{202e}evil\u{200b}".as_bytes();
    let text = announcement::harmless(&[evil, &[0xff, 0, 0x9b, 0xc2, 0x9b]].concat());
    assert!(text.chars().all(|c| !c.is_control()) && text.contains("evil"), "{text:?}");
    assert_eq!(text, "\\u{1b}[2J\\r\\n\\u{202e}evil\\u{200b}\\xff\\u{0}\\x9b\\u{9b}");
    assert_eq!(announcement::harmless("Schalter Ä".as_bytes()), "Schalter Ä");
    let id = |subtype, value| Id { subtype, value };
    assert_eq!(announcement::chassis(id(4, &[2, 0, 0, 0, 0, 9])), "02:00:00:00:00:09");
    assert_eq!(announcement::chassis(id(5, &[1, 10, 0, 0, 1])), "10.0.0.1");
    assert_eq!(announcement::chassis(id(5, &[9, 10, 255])), "0aff");
    assert_eq!(announcement::chassis(id(4, b"\x1b")), "\\u{1b}", "malformed address is not escaped");
    assert_eq!(announcement::port(id(3, &[2, 0, 0, 0, 0, 9])), "02:00:00:00:00:09");
    assert_eq!(announcement::port(id(5, b"swp\t1")), "swp\\t1");
}

#[test]
fn lldp_announcement_has_the_settings_of_the_port() {
    let mut port = settings();
    port.auto_peer.rates = true;
    let announced = announcement(&dcbx::frame(&speaker(), &port, TTL));
    assert_eq!((announced.system_name.as_str(), announced.port_description.as_str()), ("leaf1", "eth1"));
    assert_eq!((announced.capabilities(), announced.max_frame), (vec!["bridge"], Some(1518)));
    let of_router =
        announcement(&dcbx::frame(&Speaker { capabilities: BRIDGE | ROUTER, ..speaker() }, &port, TTL));
    assert_eq!(of_router.capabilities(), ["bridge", "router"]);
    let pfc = PfcState { willing: false, needs_macsec: false, capability: 8, classes: ClassSet(0b0001_1000) };
    assert_eq!(announced.pfc, Some(pfc));
    let ets = announced.ets.unwrap();
    assert_eq!(ets.bandwidth, [15, 15, 14, 14, 14, 14, 14, 0], "a hundred percent, in sevenths");
    assert_eq!((ets.algorithm[0], ets.algorithm[7]), (algorithm::ETS, algorithm::STRICT));
    assert_eq!(announced.recommendation.unwrap().bandwidth, ets.bandwidth);
    assert_eq!(announced.applications.len(), 64);
    assert_eq!(
        announced.applications[26],
        Application { class: Class::ALL[3], selector: selector::DSCP, protocol: 26 }
    );
    assert_eq!(announced.understands, Understands { flow_lists: false, rates: true });
}

#[test]
fn lldp_frame_omits_settings_that_the_port_does_not_use() {
    let of = |port: &PortSettings| announcement(&dcbx::frame(&speaker(), port, TTL));
    let off = of(&PortSettings { dcbx: Dcbx::Off, ..settings() });
    assert_eq!((off.pfc, off.ets, off.recommendation, off.applications), (None, None, None, vec![]));
    assert!(of(&PortSettings { trust: Trust::Pcp, ..settings() }).applications.is_empty());
    let whole = of(&PortSettings { flow_control: FlowControl::Pause8023x, ..settings() });
    assert_eq!(whole.pfc.unwrap().classes, ClassSet::NONE);
    let willing = of(&PortSettings { dcbx: Dcbx::Willing, ..settings() });
    assert!(willing.pfc.unwrap().willing && !willing.ets.unwrap().willing);
}

#[test]
fn lldp_frame_for_short_mtu_omits_least_important_tlvs() {
    let mut port = settings();
    port.dscp_to_class[26] = Class::ALL[5];
    let whole = dcbx::frame(&speaker(), &port, TTL).len();
    for (mtu_frame, dscps) in [(whole, 64), (whole - 1, 1), (270, 1)] {
        port.mtu_frame = u32::try_from(mtu_frame).unwrap();
        let frame = dcbx::frame(&speaker(), &port, TTL);
        assert!(frame.len() <= mtu_frame);
        assert_eq!(announcement(&frame).applications.len(), dscps);
    }
    let long = "x".repeat(300);
    let frame = dcbx::frame(&Speaker { system: &long, device: &long, ..speaker() }, &port, TTL);
    assert!(
        frame.len() <= 270
            && announcement(&frame).pfc.is_some()
            && announcement(&frame).system_name.is_empty()
    );
}

#[test]
fn shutdown_lldpdu_has_only_mandatory_tlvs() {
    let frame = dcbx::frame(&speaker(), &settings(), 0);
    let list = read(&frame).unwrap().1;
    assert_eq!((list.ttl, list.tlvs().count(), frame.len()), (0, 0, 60));
}

#[test]
fn lldp_neighbor_without_dcbx_is_not_compared_with_port() {
    let mut port = Port::default();
    let rates = Understands { flow_lists: false, rates: true };
    port.receive(Nanos(0), &frame(1, 120, &[Tlv::Understands(rates)]));
    assert_eq!(port.not_compared(&settings()).as_deref(), Some("no neighbor announces DCBX"));
    assert_eq!(port.table.followed().unwrap().understands, rates);
    port.receive(Nanos(0), &frame(2, 120, &[Tlv::Pfc(PfcState::default())]));
    assert_eq!(port.not_compared(&settings()), None);
    let followed = port.table.followed().unwrap();
    assert_eq!((followed.pfc, followed.understands), (Some(PfcState::default()), Understands::default()));
}

#[test] // proves: dcbx
fn willing_port_adopts_settings_of_its_lldp_neighbor() {
    let pfc = |willing, classes| Announcement {
        pfc: Some(PfcState { willing, classes: ClassSet(classes), ..PfcState::default() }),
        understands: Understands { flow_lists: true, rates: true },
        ..Announcement::default()
    };
    let follow = |port: &PortSettings, announced: Option<&Announcement>| {
        let mut port = port.clone();
        dcbx::follow(&mut port, announced);
        (port.flow_control, port.ofc_peer, port.gfc_peer)
    };
    let classes = |obey, send| FlowControl::Pfc { obey: ClassSet(obey), send: ClassSet(send) };
    let mut port = PortSettings { flow_control: classes(0b1_1000, 0b1_1000), ..settings() };
    assert!(!dcbx::follows(&port));
    assert_eq!(follow(&port, Some(&pfc(false, 0b1000))), (port.flow_control, false, false));
    port.auto_peer = AutoPeer { flow_lists: true, rates: false };
    assert_eq!(follow(&port, Some(&pfc(false, 0b1000))), (port.flow_control, true, false));
    port.ofc_peer = true;
    assert_eq!(follow(&port, None), (port.flow_control, false, false), "OFC stays after loss of neighbor");
    port.dcbx = Dcbx::Willing;
    assert!(dcbx::follows(&port));
    assert_eq!(follow(&port, None).0, port.flow_control);
    assert_eq!(follow(&port, Some(&pfc(true, 0b1000))).0, port.flow_control, "follows a willing neighbor");
    assert_eq!(follow(&port, Some(&pfc(false, 0b1110))).0, classes(0b1000, 0b1000), "unreserved class used");
    port.flow_control = classes(0xff, 0b1_1000);
    assert_eq!(follow(&port, Some(&pfc(false, 0b1_0000))).0, classes(0xff, 0b1_0000), "asymmetric");
}
