// Tests for SPECIFICATION.md: ecn

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{EcnSettings, FlowControl, VlanSettings};
use xoff_wire::ecn::{self, Ecn};
use xoff_wire::header::{Header, Tci};
use xoff_wire::units::{Bytes, Class, ClassSet, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Star, SwitchPlan};
use crate::{C0, C3, resume, stop};

const SIZE: u64 = 1_004;
const ECT: u8 = 0b10;
const NOT_ECT: u8 = 0b00;

fn plan(threshold: u64, wred: bool) -> SwitchPlan {
    let (min, max) = (Bytes(threshold), Bytes(threshold));
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| {
        port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: plan::LOSSLESS };
        for class in &mut port.classes {
            class.ecn = Some(EcnSettings { min, max, probability: 0.1, wred });
        }
    });
    plan
}

fn packet(star: &Star, class: Class, bits: u8, number: u8) -> Vec<u8> {
    let mut bytes = [star.mac(0).0, star.mac(1).0].concat();
    bytes.extend([0x81, 0x00]);
    bytes.extend(Tci::new(class, false, 0).0.to_be_bytes());
    bytes.extend([0x08, 0x00, 0x45, bits]);
    bytes.resize(999, 0);
    bytes.push(number);
    bytes
}

fn held_up(star: &mut Star, class: Class, frames: impl IntoIterator<Item = u8>) -> Vec<(u8, Ecn)> {
    star.pause(0, stop(class, 0xffff));
    star.run_for(Nanos(2_000));
    for (number, bits) in (0..).zip(frames) {
        let bytes = packet(star, class, bits, number);
        star.inject(1, &bytes);
    }
    star.run_for(Nanos::from_millis(1));
    star.pause(0, resume(class));
    star.run_to_rest();
    let read = |bytes: &Vec<u8>| {
        let header = Header::parse(bytes).expect("sent frame has no valid header");
        (bytes[999], ecn::get(bytes, &header))
    };
    star.at(0).strange.iter().map(read).collect()
}

#[test]
fn frames_leaving_queue_at_or_above_threshold_are_ecn_marked() {
    // When frame k (from 0) of 20 leaves, 20 - k frames are queued, itself included.
    for (threshold, marked) in [(5 * SIZE, 16), (5 * SIZE + 1, 15), (21 * SIZE, 0), (1, 20)] {
        let mut star = Star::new(plan(threshold, false));
        let arrived = held_up(&mut star, C3, [ECT; 20]);
        let expected = |k| (k, if k < marked { Ecn::Congested } else { Ecn::Capable });
        assert_eq!(
            arrived,
            (0..20).map(expected).collect::<Vec<_>>(),
            "wrong marks with threshold {threshold}"
        );
        let class = star.switch().counters.class(PortId(0), C3);
        let counted = (class.ecn_marked_frames.get(), class.ecn_marked_bytes.get());
        assert_eq!(counted, (marked.into(), u64::from(marked) * SIZE));
    }
}

#[test]
fn frames_that_cannot_carry_ecn_mark_leave_unchanged() {
    let mut star = Star::new(plan(1, false));
    let arrived = held_up(&mut star, C0, [NOT_ECT, 0b01, 0b11]);
    assert_eq!(arrived, [(0, Ecn::NotCapable), (1, Ecn::Congested), (2, Ecn::Congested)]);
    assert_eq!(
        star.switch().counters.class(PortId(0), C0).ecn_marked_frames.get(),
        1,
        "a frame marked on arrival was counted"
    );
}

#[test] // proves: lossy-classes, ecn
fn wred_drops_lossy_frames_without_ecn_at_threshold() {
    let kinds = [NOT_ECT, NOT_ECT, NOT_ECT, NOT_ECT, ECT, NOT_ECT, ECT];
    for (threshold, dropped) in [(3 * SIZE, 2), (3 * SIZE + 1, 1)] {
        let mut star = Star::new(plan(threshold, true));
        let arrived = held_up(&mut star, C0, kinds);
        assert_eq!(star.switch().counters.dropped(DropReason::EarlyDrop), dropped);
        assert_eq!(arrived.len() as u64, 7 - dropped);
        let capable = arrived.iter().filter(|(_, says)| *says != Ecn::NotCapable);
        assert_eq!(
            capable.map(|&(number, _)| number).collect::<Vec<_>>(),
            [4, 6],
            "a markable frame was dropped"
        );
    }
    for lossy_at_egress in [false, true] {
        let mut plan = plan(3 * SIZE, true);
        plan.settings.ports[0].classes[C3.index()].lossless &= !lossy_at_egress;
        let mut star = Star::new(plan);
        assert_eq!(
            held_up(&mut star, C3, kinds).len(),
            7,
            "WRED dropped frames of a class that is lossless on some port"
        );
    }
}

/// Bytes behind the first tag are payload for the switch, until egress removes that tag.
#[test]
fn truncated_second_tag_leaves_frame_unmarked() {
    for inner in [&[0x81, 0x00][..], &[0x81, 0x00, 0, 1, 0x22, 0xe9], &[0x81, 0x00, 0]] {
        let mut plan = plan(1, false);
        let ids = |port| vec![PortId(port)];
        plan.settings.vlans = vec![VlanSettings { vid: 5, tagged: ids(1), untagged: ids(0) }];
        plan.settings.ports[0].pvid = Some(5);
        let mut star = Star::new(plan);
        let addresses = [star.mac(0).0, star.mac(1).0].concat();
        let tag = [[0x81, 0x00], Tci::new(C3, false, 5).0.to_be_bytes()].concat();
        star.inject(1, &[&addresses[..], &tag, inner].concat());
        star.run_to_rest();
        assert_eq!(star.at(0).strange, [[&addresses[..], inner].concat()]);
    }
}
