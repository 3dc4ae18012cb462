use super::*;
use crate::frame::tests::packet;

const LEN: u64 = 60;

fn switch(defects: &[Defect]) -> Switch {
    let settings = Settings {
        speed_bps: 1_000_000_000,
        lossless: 0b1_1000,
        thresholds: Thresholds { xoff: 10 * LEN, xon: 5 * LEN, headroom: 10 * LEN },
        quanta: 40_000,
        lossy_max: 8 * LEN,
        ecn: [u64::MAX; 2],
        ecn_probability: 1.0,
        weights: [1; CLASSES],
        watchdog: None,
        defects: [Defect::LldpSilent].iter().chain(defects).copied().collect(),
    };
    let mut switch =
        Switch::new(settings, (1..=3).map(|number| (format!("p{number}"), [2, 0, 0, 0, 1, number])));
    for host in 1..=3 {
        switch.receive(usize::from(host) - 1, packet(host, host, 0, None), 0); // learned, not forwarded
    }
    switch
}

fn drain(switch: &mut Switch, at: usize, end: u64) -> Vec<Vec<u8>> {
    (0..end).step_by(500).filter_map(|now| switch.transmit(at, now)).collect()
}

fn pfc(class: usize, time: u16) -> Vec<u8> {
    let mut pfc = pfc::Pfc::default();
    pfc.set(class, time);
    pfc::build(&pfc, [2, 0, 0, 0, 0, 3], Defects::default())
}

#[test]
fn reference_switch_forwards_frame_unchanged_to_learned_port() {
    let mut it = switch(&[]);
    let to_3 = packet(1, 3, 26 << 2, Some(3));
    let unknown = packet(1, 9, 0, None);
    it.receive(0, to_3.clone(), 0);
    it.receive(0, unknown.clone(), 0);
    it.receive(0, pfc(3, 100), 0);
    it.receive(0, lldp::build("h1", [2, 0, 0, 0, 0, 1], 0x08, Defects::default()).unwrap(), 0);
    let sent = [0, 1, 2].map(|at| drain(&mut it, at, 10_000));
    assert_eq!(sent, [vec![], vec![unknown.clone()], vec![to_3, unknown]]);
    assert!(!it.has_frames());
}

#[test]
fn reference_switch_sends_xoff_before_loss_and_xon_when_empty() {
    let mut it = switch(&[]);
    it.receive(2, pfc(3, 65_535), 0);
    for _ in 0..20 {
        it.receive(0, packet(1, 3, 26 << 2, None), 0);
    }
    let counters = |it: &Switch, at: usize| it.ports[at].counters.classes[3];
    let xoff = it.transmit(0, 0).unwrap();
    assert_eq!(&xoff[12..18], &[0x88, 8, 1, 1, 0, 8]);
    assert_eq!(counters(&it, 0).dropped_headroom, 0);
    it.receive(0, packet(1, 3, 26 << 2, None), 0);
    assert_eq!(counters(&it, 0).dropped_headroom, 1);
    it.receive(2, pfc(3, 0), 1_000);
    assert_eq!(drain(&mut it, 2, 100_000).len(), 20);
    assert_eq!(it.transmit(0, 100_000).unwrap()[24..26], [0, 0]);
    assert_eq!((counters(&it, 0).xoff_sent, counters(&it, 0).xon_sent), (1, 1));
}

#[test]
fn ingress_map_defect_pauses_other_class_than_egress() {
    for (defects, class) in [(&[][..], 3), (&[Defect::IngressMapDiffers], 4)] {
        let mut it = switch(defects);
        it.receive(2, pfc(3, 65_535), 0);
        for _ in 0..11 {
            it.receive(0, packet(1, 3, 27 << 2, None), 0);
        }
        let xoff = it.transmit(0, 0).unwrap();
        assert_eq!(xoff[17], 1 << class, "{defects:?}");
        assert_eq!(it.transmit(2, 0), None, "class 3 is paused at egress");
    }
}

#[test]
fn reference_switch_marks_share_of_packets_between_thresholds() {
    let mut it = switch(&[]);
    (it.settings.ecn, it.settings.ecn_probability) = ([1_000, 2_000], 0.5);
    let mut marked = |queued| (0..1_000).filter(|_| it.is_congested(queued)).count();
    assert_eq!([1_000, 2_001].map(&mut marked), [0, 1_000]);
    assert!((200..300).contains(&marked(1_500)));
}

#[test]
fn paused_class_of_reference_port_blocks_no_other_class() {
    for (defects, at_2, at_3) in [
        (&[][..], 1, 1),
        (&[Defect::HeadOfLine], 0, 0),
        (&[Defect::PauseStopsSwitch], 0, 1),
        (&[Defect::OneEgressQueue], 1, 0),
        (&[Defect::PausesAll], 1, 0),
    ] {
        let mut it = switch(defects);
        it.receive(2, pfc(3, 65_535), 0);
        it.receive(0, packet(1, 3, 26 << 2, None), 0); // paused
        it.receive(0, packet(1, 3, 34 << 2, None), 0); // another class
        it.receive(0, packet(1, 2, 26 << 2, None), 0); // another port
        assert_eq!(drain(&mut it, 1, 10_000).len(), at_2, "{defects:?}");
        assert_eq!(drain(&mut it, 2, 10_000).len(), at_3, "{defects:?}");
    }
}

#[test]
fn link_loss_ends_received_pauses_and_drops_queued_frames() {
    for (defects, left) in [(&[][..], 1), (&[Defect::FlapKeepsPause], 0), (&[Defect::FlapDuplicates], 2)] {
        let mut it = switch(defects);
        it.receive(2, pfc(3, 65_535), 0);
        it.receive(0, packet(1, 3, 26 << 2, None), 0);
        it.set_link(2, false, 0);
        assert_eq!(it.ports[0].counters.classes[3].dropped_link_down, 1);
        it.set_link(2, true, 0);
        it.receive(2, packet(3, 3, 0, None), 0);
        it.receive(0, packet(1, 3, 26 << 2, None), 0);
        assert_eq!(drain(&mut it, 2, 10_000).len(), left, "{defects:?}");
    }
}

#[test]
fn full_lossy_queue_drops_frames_and_sends_no_pause() {
    let mut it = switch(&[]);
    for _ in 0..9 {
        it.receive(0, packet(1, 3, 0, None), 0);
    }
    assert_eq!(it.ports[0].counters.classes[0].dropped_full, 1);
    assert_eq!(it.transmit(0, 0), None);
}
