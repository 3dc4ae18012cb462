//! QCN as in "Unbiased Quantized Congestion Notification for Scalable Server Fabrics", at 1 instead of 10 Gb/s.

use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::settings::{Culprit, QcnSettings, QueueKind};
use xoff_wire::CnTag;
use xoff_wire::cnm::{Cnm, CnmError, CongestionPointId};
use xoff_wire::header::Tci;
use xoff_wire::units::{BitRate, Bytes, ClassSet, MacAddr, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Flow, Star, Stream, SwitchPlan};
use crate::{C3, C4, stop};

const INGRESS: QcnSettings = QcnSettings { ingress: ClassSet(1 << 3), ..QcnSettings::PAPER };
const EGRESS: QcnSettings = QcnSettings { egress: ClassSet(1 << 3), ..QcnSettings::PAPER };
const MS: u64 = 1_000_000;

/// Creates a switch with the thresholds of the QCN paper, section III: Qhigh is 110 KB, Qlow 44 KB.
fn switch(ports: usize, qcn: QcnSettings) -> SwitchPlan {
    let mut plan = plan::switch(&vec![LINK; ports]);
    plan.each_lossless(|class| (class.xoff, class.xon) = (Bytes(110_000), Bytes(44_000)));
    plan.each_lossless(|class| class.egress_max = Bytes(2_000_000));
    plan.settings.qcn = qcn;
    plan
}

fn limited(star: &Star, to: usize) -> Stream {
    Stream { qcn: Some(ReactionSettings::STANDARD), ..star.stream(to, C3, u64::MAX) }
}

fn millis(n: u64) -> Nanos {
    Nanos(n * MS)
}

fn rate(star: &Star, flow: Flow, from: u64, to: u64) -> f64 {
    let within = |at: &Nanos| (from * MS..to * MS).contains(&at.0);
    let frames = star.arrivals(flow).iter().filter(|at| within(at)).count() as f64;
    frames * Bytes::on_line(plan::MTU_FRAME).0 as f64 * 8.0 / (to - from) as f64 / 1_000.0
}

fn cnms_received(star: &Star, flow: Flow) -> usize {
    let cnms = star.at(flow.from).cnms();
    cnms.iter().filter(|(header, _)| header.cn_tag.map(|tag| u32::from(tag.0)) == Some(flow.id)).count()
}

fn sum(star: &Star, count: impl Fn(&xoff_flow_control::counters::ClassCounters) -> u64) -> u64 {
    star.switch().ports().map(|port| count(star.switch().counters.class(port, C3))).sum()
}

#[test] // proves: qcn
fn cnm_is_sent_to_blamed_sender_and_describes_sampled_frame() {
    for (qcn, point) in [(INGRESS, 1), (EGRESS, 0)] {
        let mut star = Star::new(switch(3, qcn));
        let (crowd, culprit) = (star.stream(0, C3, u64::MAX), limited(&star, 0));
        star.start(2, 0, crowd);
        let flow = star.start(1, 0, culprit);
        star.run_for(millis(20));
        let (header, cnm) = star.at(1).cnms()[0];
        let mac = |port: usize| star.switch().settings.ports[port].mac;
        assert_eq!((header.dst, header.src), (star.mac(1), mac(point)));
        assert_eq!(header.tag, Some(Tci::new(C3, false, 0)));
        assert_eq!(header.cn_tag, Some(CnTag(u16::try_from(flow.id).expect("few"))));
        assert_eq!(cnm.congestion_point, CongestionPointId::new(mac(point), C3));
        assert_eq!((cnm.priority, cnm.destination), (C3, star.mac(0)));
        assert!(cnm.feedback > 0);
        let mut msdu = vec![0x88, 0xb5];
        msdu.extend(flow.id.to_be_bytes());
        assert_eq!((&cnm.msdu.as_bytes()[..6], cnm.msdu.as_bytes().len()), (&msdu[..], 64));
    }
}

#[test]
fn cnm_counter_equals_number_of_sent_cnms() {
    let mut star = Star::new(switch(3, INGRESS));
    let streams = [limited(&star, 0), limited(&star, 0)];
    let flows = [star.start(1, 0, streams[0]), star.start(2, 0, streams[1])];
    star.run_for(millis(30));
    for flow in flows {
        let cnms = star.at(flow.from).cnms();
        let port = PortId(u8::try_from(flow.from).expect("more than 255 ports"));
        let counted = star.switch().counters.class(port, C3);
        assert_eq!(counted.cnms_sent.get(), cnms.len() as u64);
        assert_eq!(
            counted.cnm_feedback_sum.get(),
            cnms.iter().map(|(_, cnm)| u64::from(cnm.feedback)).sum::<u64>()
        );
        assert!(cnms.len() > 3 && counted.qcn_samples.get() > counted.cnms_sent.get());
        assert_eq!(counted.cnms_not_sent.get(), 0);
    }
}

#[test]
fn switch_sends_no_cnm_without_congestion_or_qcn_settings() {
    let alone = |qcn, from: &[usize], class| {
        let mut star = Star::new(switch(3, qcn));
        for &from in from {
            let stream = Stream { class, ..limited(&star, 0) };
            star.start(from, 0, stream);
        }
        star.run_for(millis(20));
        (star.at(1).notices.len() + star.at(2).notices.len(), sum(&star, |class| class.qcn_samples.get()))
    };
    let (cnms, samples) = alone(INGRESS, &[1], C3);
    assert_eq!((cnms, samples > 10), (0, true), "a single sender got CNMs, or was not sampled");
    assert_eq!(alone(QcnSettings::PAPER, &[1, 2], C3), (0, 0));
    assert_eq!(alone(INGRESS, &[1, 2], C4), (0, 0));
    assert!(alone(INGRESS, &[1, 2], C3).0 > 0);
}

#[test] // proves: qcn
fn cnm_precedes_data_despite_pause() {
    let mut star = Star::new(switch(4, INGRESS));
    let streams = [limited(&star, 0), limited(&star, 0), star.stream(1, C3, 300)];
    star.start(1, 0, streams[0]);
    star.start(2, 0, streams[1]);
    star.start(3, 1, streams[2]);
    star.pause(1, stop(C3, u16::MAX));
    star.run_for(millis(5));
    assert!(
        star.switch().worker(PortId(1)).buffer().egress(PortId(1), C3) > Bytes(100_000),
        "no data is queued"
    );
    assert!(!star.at(1).notices.is_empty());
    assert_eq!(star.at(1).arrivals.len(), 0, "a frame left the paused class");
}

/// Starts the experiment of the QCN paper's section III, fig. 2: four flows from four inputs to one output, and a fifth 200 ms
/// later.
fn fan_in(qcn: QcnSettings) -> (Star, Vec<Flow>) {
    let mut star = Star::new(switch(6, qcn));
    let mut flows = Vec::new();
    for from in 1..=5 {
        let start = if from == 5 { millis(200) } else { Nanos::ZERO };
        let stream = Stream { from: start, ..limited(&star, 0) };
        flows.push(star.start(from, 0, stream));
    }
    (star, flows)
}

fn shares(star: &Star, flows: &[Flow], from: u64, to: u64) -> (f64, f64) {
    let rates: Vec<f64> = flows.iter().map(|&flow| rate(star, flow, from, to)).collect();
    let (least, most) = rates.iter().fold((f64::MAX, 0.0), |(l, m), &rate| (rate.min(l), rate.max(m)));
    (rates.iter().sum(), most / least)
}

#[test] // proves: qcn; section III, fig. 2a and 2b: at outputs grossly unfair, at inputs strikingly fair
fn qcn_rates_converge_to_fair_shares_of_bottleneck() {
    let run = |qcn| {
        let (mut star, flows) = fan_in(qcn);
        star.run_for(millis(100));
        let xoffs = sum(&star, |class| class.xoff_sent.get());
        star.run_for(millis(100));
        let more = sum(&star, |class| class.xoff_sent.get()) - xoffs;
        assert!(flows[..4].iter().all(|&flow| cnms_received(&star, flow) > 3));
        let (total, four) = shares(&star, &flows[..4], 100, 200);
        assert!((950.0..=1_000.1).contains(&total), "{total} Mb/s");
        star.run_for(millis(200));
        let (total, five) = shares(&star, &flows, 300, 400);
        assert!((950.0..=1_000.1).contains(&total), "{total} Mb/s");
        assert!(flows.iter().all(|&flow| star.received(flow).late_or_twice == 0));
        ((xoffs, more), four, five)
    };
    let mut sums = [0.0; 4];
    for seed in 1..=2 {
        let (inputs, outputs) = (run(QcnSettings { seed, ..INGRESS }), run(QcnSettings { seed, ..EGRESS }));
        assert!(inputs.0.1 < inputs.0.0, "the pauses did not become rarer over time: {:?}", inputs.0);
        assert_eq!(outputs.0.1, 0, "pauses did not end: {:?}", outputs.0);
        assert!(
            inputs.1 < 1.5 && inputs.2 < 1.6,
            "unfair rates: ratio {} of four flows, {} with a fifth",
            inputs.1,
            inputs.2
        );
        let ratios = [inputs.1, inputs.2, outputs.1, outputs.2];
        sums.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio);
    }
    assert!(sums[2] > 1.5 * sums[0] && sums[3] > 1.5 * sums[1], "{sums:?}");
}

/// Starts the experiment of the QCN paper's section IV, fig. 3, with virtual output queues: one input sends flow f1 to the
/// congested output, and f6 to a free one.
fn shared_input(culprit: Culprit) -> (Star, Flow, Flow) {
    let mut plan = switch(7, QcnSettings { culprit, ..INGRESS });
    plan.each_lossless(|class| class.queue = QueueKind::Voq);
    let mut star = Star::new(plan);
    let at_rate =
        |star: &Star, to, mbps| Stream { rate: Some(BitRate::from_mbps(mbps)), ..limited(star, to) };
    let (f1, f6) = (at_rate(&star, 0, 300), at_rate(&star, 6, 690));
    let (f1, f6) = (star.start(1, 0, f1), star.start(1, 6, f6));
    for from in 2..=4 {
        let stream = limited(&star, 0);
        star.start(from, 0, stream);
    }
    star.run_for(millis(300));
    (star, f1, f6)
}

/// Section IV-A of the QCN paper: "QCN arrival sampling will direct most CNMs to f6".
///
/// f1 starts at 300 Mb/s, f6 at 690 Mb/s. CNMs lower, and byte cycles of the sender's rate limiter raise, both rates by
/// the same factor. Its time cycles and constant steps (R_AI) raise the faster f6 by a smaller factor. So when f1 falls
/// to its fair share, 250 Mb/s, f6 has at most 690 x 250 / 300 = 575 Mb/s.
#[test] // proves: qcn
fn qcn_arrival_sampling_slows_victim_at_shared_ingress() {
    let (star, f1, f6) = shared_input(Culprit::Arrival);
    assert!(
        cnms_received(&star, f6) > cnms_received(&star, f1),
        "f6 got {} CNMs, f1 {}",
        cnms_received(&star, f6),
        cnms_received(&star, f1)
    );
    let (of_f1, of_f6) = (rate(&star, f1, 100, 300), rate(&star, f6, 100, 300));
    assert!(of_f1 <= 250.1 && of_f6 < 690.0 * of_f1 / 300.0, "rates in Mb/s: f1 {of_f1}, f6 {of_f6}");
}

#[test] // proves: qcn; section IV-B: f6 keeps its rate; random sampling sends it few CNMs, deterministic sampling none
fn qcn_occupancy_sampling_keeps_rate_of_victim() {
    for (culprit, most) in [(Culprit::OccupancyDeterministic, 0), (Culprit::OccupancyRandom, 5)] {
        let (star, f1, f6) = shared_input(culprit);
        assert!(
            cnms_received(&star, f1) > 20 && cnms_received(&star, f6) <= most,
            "f1 got {} CNMs, f6 {}",
            cnms_received(&star, f1),
            cnms_received(&star, f6)
        );
        assert!(rate(&star, f6, 100, 300) > 680.0, "{culprit:?}: {}", rate(&star, f6, 100, 300));
        assert!((240.0..=260.0).contains(&rate(&star, f1, 100, 300)), "f1 did not get its fair share");
    }
}

#[test] // proves: qcn
fn every_qcn_sampling_mode_loses_and_reorders_no_frame() {
    for culprit in [Culprit::Arrival, Culprit::OccupancyDeterministic, Culprit::OccupancyRandom] {
        for qcn in [INGRESS, EGRESS] {
            let mut star = Star::new(switch(4, QcnSettings { culprit, ..qcn }));
            let flows = [1, 2, 3].map(|from| {
                let stream = Stream { count: 1_000, ..limited(&star, 0) };
                star.start(from, 0, stream)
            });
            star.run_to_rest();
            flows.iter().for_each(|&flow| star.assert_whole(flow, 1_000));
            assert!(flows.iter().map(|&flow| cnms_received(&star, flow)).sum::<usize>() > 5);
        }
    }
}

#[test] // proves: qcn
fn pause_frames_leave_although_cnms_use_up_frame_pool() {
    let qcn =
        QcnSettings { sample_every: Bytes(1_000), set_point: Bytes(5_000), frames_per_cnm: 1, ..INGRESS };
    let mut plan = switch(3, qcn);
    plan.control_slots = 1;
    let mut star = Star::new(plan);
    let flows = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, 2_000)));
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 2_000));
    assert!(sum(&star, |class| class.xoff_sent.get()) > 0);
    assert!(sum(&star, |class| class.cnms_sent.get()) > 100);
}

#[test]
fn link_loss_discards_queued_cnms() {
    let mut star = Star::new(switch(3, QcnSettings { sample_every: Bytes(1_000), ..INGRESS }));
    let flows = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, 2_000)));
    star.run_for(millis(4));
    assert!(!star.at(1).notices.is_empty());
    star.set_link(1, false);
    star.run_for(millis(4));
    star.set_link(1, true);
    star.run_to_rest();
    star.assert_whole(flows[1], 2_000);
}

#[test]
fn cnms_of_other_switches_are_forwarded_and_counted() {
    let mut star = Star::new(switch(3, INGRESS));
    let cnm = Cnm {
        feedback: 9,
        congestion_point: CongestionPointId::new(MacAddr([2; 6]), C3),
        q_offset: 1,
        q_delta: 1,
        priority: C3,
        destination: star.mac(2),
        msdu: xoff_wire::cnm::Msdu::of(&[]),
    };
    let envelope = xoff_wire::cnm::Envelope {
        dst: star.mac(1),
        src: MacAddr([2, 9, 9, 9, 9, 9]),
        tag: None,
        cn_tag: Some(CnTag(7)),
    };
    let good = cnm.encode(&envelope);
    let mut bad = good.as_bytes().to_vec();
    bad[18] = 0x10;
    star.inject(2, good.as_bytes());
    star.inject(2, &bad);
    star.run_to_rest();
    let came: Vec<&[u8]> = star.at(1).notices.iter().map(|(_, bytes)| &bytes[..]).collect();
    assert_eq!(came, [good.as_bytes(), &bad]);
    let counted = star.switch().counters.port(PortId(2));
    assert_eq!(counted.cnms_received.get(), 1);
    assert_eq!(counted.malformed_cnms[CnmError::UnknownVersion.index()].get(), 1);
}
