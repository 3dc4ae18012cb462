// Tests for SPECIFICATION.md: reload

use proptest::prelude::*;
use xoff_explore::explore;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::headroom::{Headroom, Link};
use xoff_flow_control::settings::{
    ClassSettings, FlowControl, LoopDetection, PolicyKind, PortSettings, Service, SwitchSettings,
    VlanSettings, WatchdogAction, WatchdogSettings,
};
use xoff_wire::units::{BitRate, Bytes, ClassSet, Nanos, PortId, Quanta};

use crate::bed::plan::{self, LINK};
use crate::bed::{Star, Stream};
use crate::{C0, C3, C4, resume, stop};

const PORTS: usize = 4;
const ROOMY: Bytes = Bytes(10_000_000);

fn star() -> Star {
    let mut plan = plan::switch(&[LINK; PORTS]);
    plan.each_lossless(|class| class.egress_max = ROOMY);
    let mut star = Star::new(plan);
    star.run_for(Nanos(1));
    star
}

fn bound_egress(settings: &mut SwitchSettings) {
    let lossless = |port: &PortSettings| port.classes.into_iter().filter(|class| class.lossless);
    let all: u64 =
        settings.ports.iter().flat_map(lossless).map(|class| (class.xoff + class.headroom).0).sum();
    let classes = settings.ports.iter_mut().flat_map(|port| &mut port.classes);
    classes.filter(|class| class.lossless).for_each(|class| class.egress_max = Bytes(all + 1));
}

fn changed(star: &Star, change: impl FnOnce(&mut SwitchSettings)) -> SwitchSettings {
    let mut settings = star.switch().settings.clone();
    change(&mut settings);
    settings
}

#[derive(Clone, Debug)]
struct RandomRevision {
    xoff: u64,
    xon: u64,
    more_headroom: u64,
    service: Service,
    max_rate: Option<BitRate>,
    port_rate: Option<BitRate>,
    commit: u64,
    pause_time: u16,
    kinds: [PolicyKind; 2],
    watchdog: Option<WatchdogSettings>,
    loop_detection: LoopDetection,
}

impl RandomRevision {
    fn apply(&self, settings: &mut SwitchSettings, only: Option<usize>) {
        (settings.policies[3], settings.policies[4]) = (self.kinds[0], self.kinds[1]);
        let ports = settings.ports.iter_mut().enumerate();
        for (_, port) in ports.filter(|(index, _)| only.is_none_or(|only| only == *index)) {
            port.commit = Bytes(self.commit);
            port.max_rate = self.port_rate;
            port.pause_time = Quanta(self.pause_time);
            port.refresh = Nanos(port.speed.time_of_quanta(port.pause_time).0 / 2);
            port.loop_detection = self.loop_detection;
            let needed = Headroom::of(&Link { commit: Bytes(8_000), ..LINK }).total();
            for class in port.classes.iter_mut().filter(|class| class.lossless) {
                (class.xoff, class.xon) = (Bytes(self.xoff), Bytes(self.xoff * self.xon / 100));
                class.headroom = needed + Bytes(self.more_headroom);
                (class.service, class.max_rate) = (self.service, self.max_rate);
                class.watchdog = self.watchdog;
            }
        }
        bound_egress(settings);
    }
}

fn any_other() -> impl Strategy<Value = (RandomRevision, Option<usize>)> {
    let service = prop_oneof![1 => Just(Service::Strict), 2 => (1..10u32).prop_map(Service::Weighted)];
    let rates = prop::option::of((50..900u64).prop_map(BitRate::from_mbps));
    let kind = prop_oneof![
        4 => Just(PolicyKind::Pfc),
        1 => Just(PolicyKind::CaPfcStopMax),
        1 => Just(PolicyKind::GPfc),
        1 => Just(PolicyKind::PPfc),
    ];
    let watchdog = prop::option::of((1..200u64).prop_map(|micros| WatchdogSettings {
        action: WatchdogAction::Alert,
        detect: Nanos::from_micros(micros),
        restore: Nanos::from_micros(micros),
        share: WatchdogSettings::UNBROKEN,
    }));
    let detection =
        prop::sample::select(vec![LoopDetection::Off, LoopDetection::Alert, LoopDetection::Block]);
    let thresholds = (3_000..60_000u64, 10..100u64, 0..20_000u64);
    let of_port = (1..8_000u64, 200..2_000u16, detection);
    (
        thresholds,
        service,
        [rates.clone(), rates],
        of_port,
        [kind.clone(), kind],
        watchdog,
        prop::option::of(0..PORTS),
    )
        .prop_map(
            |(
                (xoff, xon, more_headroom),
                service,
                [max_rate, port_rate],
                (commit, pause_time, loop_detection),
                kinds,
                watchdog,
                only,
            )| {
                let other = RandomRevision {
                    xoff,
                    xon,
                    more_headroom,
                    service,
                    max_rate,
                    port_rate,
                    commit,
                    pause_time,
                    kinds,
                    watchdog,
                    loop_detection,
                };
                (other, only)
            },
        )
}

explore! {
    cases = 30;

    #[test]
    fn random_changes_of_settings_lose_no_lossless_frame(
        changes in prop::collection::vec((any_other(), 1..400u64, prop::option::of(1..0xffffu16)), 1..12),
    ) {
        let link = Link { commit: Bytes(8_000), ..LINK };
        let mut star = Star::new(plan::switch(&[link; PORTS]));
        let frames = 300;
        let flows: Vec<_> = [(1, C3), (2, C3), (2, C4), (3, C4)]
            .into_iter()
            .map(|(from, class)| {
                let stream = star.stream(0, class, frames);
                star.start(from, 0, stream)
            })
            .collect();
        for ((other, only), micros, pause) in changes {
            star.run_for(Nanos::from_micros(micros));
            if let Some(quanta) = pause {
                star.pause(0, stop(C3, quanta));
            }
            let settings = changed(&star, |settings| other.apply(settings, only));
            star.revise(settings);
        }
        star.run_to_rest();
        flows.iter().for_each(|flow| star.assert_whole(*flow, frames));
    }
}

fn filled(star: &mut Star, frames: u64) {
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    let stream = Stream { len: 996, ..star.stream(0, C3, frames) };
    star.start(1, 0, stream);
    star.run_for(Nanos::from_millis(1));
}

#[test]
fn new_thresholds_pause_or_resume_peer_at_once() {
    let mut star = star();
    filled(&mut star, 10);
    assert!(!star.holds(1, C3), "peer is paused at 10,000 bytes");
    for (xoff, xon, held) in
        [(10_000, 9_000, true), (20_000, 19_000, false), (9_000, 500, true), (10_001, 500, false)]
    {
        let settings = changed(&star, |settings| {
            (settings.ports[1].classes[3].xoff, settings.ports[1].classes[3].xon) = (Bytes(xoff), Bytes(xon));
        });
        star.revise(settings);
        star.run_for(Nanos::from_micros(5));
        assert_eq!(star.holds(1, C3), held, "wrong pause state with XOFF at {xoff}");
        assert_eq!(star.at(1).paused(star.now()).contains(C3), held, "wrong state of the peer");
    }
    star.pause(0, resume(C3));
    star.run_to_rest();
}

/// A peer paused under the old settings may still fill the old headroom.
#[test]
fn reduced_headroom_applies_only_when_headroom_is_empty() {
    let mut plan = plan::switch(&[LINK; PORTS]);
    plan.may_lose = true;
    plan.each_lossless(|class| {
        (class.xoff, class.xon, class.headroom) = (Bytes(5_000), Bytes(4_000), Bytes(8_000));
        class.egress_max = ROOMY;
    });
    let never = |port| if port == 1 { crate::bed::Obeys::Never } else { crate::bed::Obeys::AtOnce };
    let mut star = Star::with(plan, never);
    filled(&mut star, 7); // 2,000 bytes in the headroom
    let less = changed(&star, |settings| settings.ports[1].classes[3].headroom = Bytes(2_000));
    star.revise(less);
    let lost = |star: &Star| star.switch().counters.dropped(DropReason::HeadroomExhausted);
    let more = |star: &mut Star, frames| {
        let stream = Stream { len: 996, ..star.stream(0, C3, frames) };
        star.start(1, 0, stream);
        star.run_for(Nanos::from_millis(1));
    };
    more(&mut star, 6);
    assert_eq!(lost(&star), 0, "frames within the promised headroom were lost");
    star.pause(0, resume(C3));
    star.run_for(Nanos::from_millis(1));
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    more(&mut star, 8);
    assert_eq!(lost(&star), 1, "the new headroom does not apply to an emptied queue");
}

#[test]
fn headroom_gauge_follows_changed_xoff_thresholds() {
    for owners in [vec![], vec![1, 0, 1, 0]] {
        let mut plan = plan::switch(&[LINK; PORTS]);
        plan.owners = owners;
        plan.each_lossless(|class| {
            (class.xoff, class.xon, class.headroom) = (Bytes(5_000), Bytes(4_000), Bytes(8_000));
            class.egress_max = ROOMY;
        });
        let never = |port| if port == 1 { crate::bed::Obeys::Never } else { crate::bed::Obeys::AtOnce };
        let mut star = Star::with(plan, never);
        filled(&mut star, 7);
        let headroom = |star: &Star| {
            let counters = star.switch().counters.class(PortId(1), C3);
            (counters.ingress_bytes.get(), counters.headroom_bytes.get())
        };
        assert_eq!(headroom(&star), (7_000, 2_000));
        for (xoff, used) in [(6_000, 1_000), (10_000, 0), (9_000, 0)] {
            let settings = changed(&star, |settings| settings.ports[1].classes[3].xoff = Bytes(xoff));
            star.revise(settings);
            assert_eq!(headroom(&star), (7_000, used), "gauge did not follow XOFF at {xoff}");
        }
        star.pause(0, resume(C3));
        star.run_to_rest();
    }
}

#[test]
fn switch_resumes_peer_when_paused_class_becomes_lossy() {
    let mut star = star();
    let small = changed(&star, |settings| {
        (settings.ports[1].classes[3].xoff, settings.ports[1].classes[3].xon) = (Bytes(5_000), Bytes(4_000));
    });
    star.revise(small.clone());
    filled(&mut star, 10);
    assert!(star.at(1).paused(star.now()).contains(C3));
    let mut lossy = small.clone();
    for port in &mut lossy.ports {
        (port.classes[3].lossless, port.classes[3].headroom) = (false, Bytes::ZERO);
    }
    star.revise(lossy);
    star.run_for(Nanos::from_micros(5));
    assert!(!star.holds(1, C3) && !star.at(1).paused(star.now()).contains(C3), "no XON was sent");
    star.revise(small);
    star.run_for(Nanos::from_micros(5));
    assert!(
        star.holds(1, C3) && star.at(1).paused(star.now()).contains(C3),
        "the peer is not paused above XOFF"
    );
    star.pause(0, resume(C3));
    star.run_to_rest();
}

#[test]
fn received_pause_ends_when_settings_stop_obeying_pauses() {
    let mut star = star();
    filled(&mut star, 10);
    let settings = changed(&star, |settings| {
        let FlowControl::Pfc { obey, .. } = &mut settings.ports[0].flow_control else {
            panic!("the port does not use PFC")
        };
        *obey = ClassSet::NONE;
    });
    star.revise(settings);
    star.run_to_rest();
    assert!(star.switch().worker(PortId(0)).paused(PortId(0)).classes().is_empty());
    assert_eq!(star.switch().counters.class(PortId(0), C3).tx_frames.get(), 10);
}

#[test]
fn changed_vlans_and_static_addresses_redirect_frames() {
    let mut star = star();
    let to_2 = star.mac(2);
    let send = |star: &mut Star| {
        let stream = star.stream(2, C0, 1);
        star.start(1, 2, stream);
        star.run_to_rest();
        [0, 2, 3].map(|port| star.switch().counters.class(PortId(port), C0).tx_frames.get())
    };
    assert_eq!(send(&mut star), [0, 1, 0]);
    let members = |ports: &[u8]| {
        vec![VlanSettings {
            vid: 1,
            tagged: Vec::new(),
            untagged: ports.iter().copied().map(PortId).collect(),
        }]
    };
    let apart = changed(&star, |settings| settings.vlans = members(&[0, 1, 3]));
    star.revise(apart);
    send(&mut star);
    assert_eq!(
        star.switch().counters.class(PortId(2), C0).tx_frames.get(),
        1,
        "a port without VLAN sent a frame"
    );
    let moved = changed(&star, |settings| {
        settings.vlans = members(&[0, 1, 2, 3]);
        settings.fdb.statics.retain(|(_, mac, _)| *mac != to_2);
        settings.fdb.statics.push((1, to_2, PortId(3)));
    });
    star.revise(moved.clone());
    let before = star.switch().counters.class(PortId(3), C0).tx_frames.get();
    assert_eq!(send(&mut star)[2], before + 1, "the new static address did not direct the frame");
    let removed = changed(&star, |settings| settings.fdb.statics.retain(|(_, mac, _)| *mac != to_2));
    star.revise(removed);
    let places = star.switch().worker(PortId(0)).bridge().fdb().lookup(star.now(), 1, to_2);
    assert_eq!(places, None, "the removed static address is still known");
}

fn ids() -> [PortId; PORTS] {
    [0, 1, 2, 3].map(PortId)
}

fn vacate(settings: &mut SwitchSettings, port: usize) {
    let classes = settings.ports[port]
        .classes
        .map(|class| ClassSettings { queue: class.queue, ..ClassSettings::lossy(Bytes::ZERO) });
    let PortSettings { name, mac, speed, mtu_frame, .. } = settings.ports[port].clone();
    let FlowControl::Pfc { obey, .. } = settings.ports[port].flow_control else {
        panic!("the port does not use PFC")
    };
    let flow_control = FlowControl::Pfc { obey, send: ClassSet::NONE };
    let plain = PortSettings::plain(name, mac, speed, classes);
    settings.ports[port] = PortSettings { mtu_frame, flow_control, pvid: None, ..plain };
    let id = ids()[port];
    settings.fdb.statics.retain(|(_, _, other)| *other != id);
    for vlan in &mut settings.vlans {
        vlan.tagged.retain(|other| *other != id);
        vlan.untagged.retain(|other| *other != id);
    }
}

#[test]
fn removed_port_resumes_peer_and_sends_its_queued_frames() {
    let mut star = star();
    let small = changed(&star, |settings| {
        (settings.ports[1].classes[3].xoff, settings.ports[1].classes[3].xon) = (Bytes(5_000), Bytes(4_000));
        settings.vlans = vec![VlanSettings { vid: 1, tagged: Vec::new(), untagged: ids().to_vec() }];
    });
    star.revise(small.clone());
    filled(&mut star, 10); // from port 1, which is held, to port 0, which is paused
    let back = Stream { len: 996, ..star.stream(1, C3, 3) };
    star.pause(1, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    star.start(2, 1, back);
    star.run_for(Nanos::from_millis(1));
    let worker = |star: &Star| star.switch().worker(PortId(1)).is_drained(PortId(1));
    assert!(!worker(&star), "a port with queued frames counts as drained");
    let sent = |star: &Star| star.switch().counters.class(PortId(1), C3).tx_frames.get();
    let before = sent(&star);
    let mut without = small.clone();
    vacate(&mut without, 1);
    star.revise(without);
    star.run_for(Nanos::from_micros(5));
    assert!(!star.holds(1, C3) && !star.at(1).paused(star.now()).contains(C3), "no XON was sent");
    star.run_for(Nanos::from_millis(1));
    assert!(sent(&star) == before && !worker(&star), "the removed port ignored its peer's pause");
    star.pause(1, resume(C3));
    star.run_for(Nanos::from_millis(1));
    assert!(sent(&star) == before + 3 && worker(&star));
    let more = Stream { len: 996, ..star.stream(1, C3, 2) };
    star.start(2, 1, more);
    star.run_for(Nanos::from_millis(1));
    assert_eq!(sent(&star), before + 3);
    star.revise(small);
    star.pause(0, resume(C3));
    star.run_to_rest();
    let again = Stream { len: 996, ..star.stream(1, C3, 2) };
    star.start(2, 1, again);
    star.run_to_rest();
    assert_eq!(sent(&star), before + 5, "the port restored by the settings does not send");
}

#[test] // proves: dcbx
fn changing_ofc_and_gfc_support_of_peers_loses_no_frame() {
    let (mut lists, mut rates) = (0, 0);
    for seed in xoff_explore::seeds(0..8) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut star = star();
        star.keep_rates(1);
        star.revise(changed(&star, |settings| {
            (settings.policies[3], settings.policies[4]) = (PolicyKind::Ofc, PolicyKind::Gfc);
            settings.policy.ofc.alpha = 0.9;
        }));
        let mut flows = Vec::new();
        for (from, class) in [(1, C3), (2, C3), (1, C4), (2, C4)] {
            let stream = star.stream(0, class, 150);
            flows.push(star.start(from, 0, stream));
        }
        for _ in 0..40 {
            star.run_for(Nanos::from_micros(rng.u64(20..400)));
            let port = rng.usize(1..3);
            let (ofc_peer, gfc_peer) = (rng.bool(), rng.bool() && port == 1);
            star.revise(changed(&star, |settings| {
                (settings.ports[port].ofc_peer, settings.ports[port].gfc_peer) = (ofc_peer, gfc_peer);
            }));
        }
        star.run_to_rest();
        flows.iter().for_each(|&flow| star.assert_whole(flow, 150));
        let counters = &star.switch().counters;
        assert_eq!(counters.dropped(DropReason::HeadroomExhausted), 0);
        for port in [1, 2].map(PortId) {
            lists += counters.class(port, C3).flows.pause_frames_sent.get();
            rates += counters.port(port).rate_frames_sent.get();
        }
    }
    assert!(lists > 10 && rates > 10, "{lists} lists, {rates} rates");
}
