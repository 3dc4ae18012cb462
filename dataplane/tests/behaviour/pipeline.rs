// Tests for SPECIFICATION.md: pipeline

use std::num::NonZeroU32;

use xoff_flow_control::headroom::Link;
use xoff_flow_control::settings::{Accounting, FrameRate, IngressOrder, PipelineSettings, WhenFull};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Star, Stream, SwitchPlan};
use crate::{C0, C3, resume, stop};

/// Time of a 64-byte frame on a link, from its first bit sent to its last bit received.
const HOP: Nanos = Nanos(672 + 500);

fn per_second(frames: u32) -> Option<FrameRate> {
    NonZeroU32::new(frames).map(FrameRate)
}

fn plan(pipeline: PipelineSettings) -> SwitchPlan {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.pipeline = pipeline;
    plan
}

fn short(star: &Star, to: usize, class: Class, count: u64) -> Stream {
    Stream { len: 60, ..star.stream(to, class, count) }
}

fn came(star: &Star, first: Nanos) -> Vec<(u64, u32)> {
    let first = first + HOP + HOP;
    star.at(0).arrivals.iter().map(|(at, mark)| (at.since(first).0, mark.stream)).collect()
}

#[test]
fn pipeline_with_rate_serves_ports_in_round_robin() {
    let mut star = Star::new(plan(PipelineSettings { rate: per_second(100_000), ..Default::default() }));
    let stream = short(&star, 0, C0, 3);
    let [a, b] = [1, 2].map(|from| star.start(from, 0, stream).id);
    star.run_to_rest();
    let expected = [(0, a), (10_000, b), (20_000, a), (30_000, b), (40_000, a), (50_000, b)];
    assert_eq!(came(&star, Nanos::ZERO), expected);
}

#[test]
fn idle_pipeline_saves_no_credit_for_later_frames() {
    let mut star = Star::new(plan(PipelineSettings { rate: per_second(300_000), ..Default::default() }));
    let stream = short(&star, 0, C0, 1);
    star.start(1, 0, stream);
    star.run_for(Nanos::from_millis(1));
    let stream = short(&star, 0, C0, 3);
    star.start(1, 0, stream);
    star.run_to_rest();
    let times: Vec<u64> = came(&star, Nanos::ZERO).iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [0, 1_000_000, 1_003_333, 1_006_666]);
}

#[test]
fn pipeline_rate_stays_exact_with_fractional_frame_times() {
    let mut star = Star::new(plan(PipelineSettings { rate: per_second(300_000), ..Default::default() }));
    let stream = short(&star, 0, C0, 301);
    star.start(1, 0, stream);
    star.run_to_rest();
    let times: Vec<u64> = came(&star, Nanos::ZERO).iter().map(|&(at, _)| at).collect();
    assert_eq!(times[..4], [0, 3_333, 6_666, 10_000]);
    assert_eq!(times[300], 1_000_000);
}

#[test]
fn frame_delayed_in_pipeline_counts_at_its_ingress() {
    let delay = Nanos::from_micros(25);
    let mut star = Star::new(plan(PipelineSettings { delay, ..Default::default() }));
    let stream = short(&star, 0, C0, 2);
    star.start(1, 0, stream);
    let counted = |star: &Star| {
        let buffer = star.switch().worker(PortId(0)).buffer();
        (buffer.ingress(PortId(1), C0).0, buffer.egress(PortId(0), C0).0)
    };
    star.run_until(Nanos(HOP.0 + delay.0 - 1));
    assert_eq!(counted(&star), (128, 0));
    star.run_until(HOP + delay);
    assert_eq!(counted(&star), (64, 64));
    star.run_to_rest();
    let times: Vec<u64> = came(&star, delay).iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [0, 672], "delayed frames did not leave back to back");
}

#[test]
fn late_driver_batch_moves_all_frames_due_in_pipeline() {
    let mut plan = plan::switch(&[Link { loop_gap: Nanos::from_micros(100), ..LINK }; 2]);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.pipeline = PipelineSettings { rate: per_second(100_000), ..Default::default() };
    let mut star = Star::new(plan);
    let stream = short(&star, 0, C0, 30);
    star.start(1, 0, stream);
    // The driver polls every 100 us. Its first poll forwards one frame, each later poll ten due frames.
    for (micros, left) in [(100, 29), (200, 19), (300, 9), (400, 0)] {
        star.run_until(Nanos::from_micros(micros));
        let waiting = star.switch().worker(PortId(1)).buffer().ingress(PortId(1), C0);
        assert_eq!(waiting, Bytes(64 * left), "wrong number of queued frames after {micros} us");
    }
    star.run_to_rest();
}

fn order(ingress: IngressOrder) -> Vec<u32> {
    let mut star =
        Star::new(plan(PipelineSettings { rate: per_second(100_000), ingress, ..Default::default() }));
    for (class, count, from) in [(C0, 2, 0), (Class::ALL[7], 1, 2_000)] {
        let stream = Stream { from: Nanos(from), ..short(&star, 0, class, count) };
        star.start(1, 0, stream);
    }
    star.run_to_rest();
    came(&star, Nanos::ZERO).into_iter().map(|(_, stream)| stream).collect()
}

#[test]
fn ingress_order_setting_selects_class_order_or_fifo() {
    assert_eq!(order(IngressOrder::ByClass), [0, 1, 0]);
    assert_eq!(order(IngressOrder::Fifo), [0, 0, 1]);
}

fn crowded(pipeline: PipelineSettings) -> Star {
    let mut plan = plan(pipeline);
    plan.settings.when_full = WhenFull::Stop;
    plan.settings.ports[2].classes[C3.index()].egress_max = Bytes(3 * 64 + 1);
    let mut star = Star::new(plan);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(2));
    let stream = short(&star, 2, C3, 4);
    star.start(0, 2, stream);
    star
}

#[test]
fn halted_pipeline_suspends_its_delays_and_rate_limit() {
    for (delay, apart) in [(Nanos::from_micros(25), 10_000), (Nanos::ZERO, 10_000)] {
        let pipeline = PipelineSettings { rate: per_second(100_000), delay, ..Default::default() };
        let mut star = crowded(pipeline);
        let stream = short(&star, 0, C0, 3);
        star.run_for(Nanos::from_micros(5));
        let beside = star.start(1, 0, stream);
        star.run_for(Nanos::from_micros(15));
        let stream = short(&star, 0, C0, 1);
        let last = star.start(1, 0, stream);
        star.run_for(Nanos::from_millis(1));
        assert_eq!(
            (star.received(beside).frames, star.received(last).frames),
            (3, 0),
            "frames passed the halted pipeline, delay {delay:?}"
        );
        star.pause(2, resume(C3));
        let room = star.now() + HOP + Nanos(672); // the first of the three has left
        star.run_until(room);
        let waiting = star.switch().worker(PortId(0)).buffer().ingress(PortId(0), C3);
        assert_eq!(waiting, Bytes::ZERO, "the halting frame did not pass at once");
        star.run_to_rest();
        assert_eq!(
            star.arrivals(last),
            [room + Nanos(apart) + HOP],
            "wrong time after the halt, delay {delay:?}"
        );
    }
}

#[test]
fn pipeline_halt_delays_only_frames_received_during_it() {
    let delay = Nanos::from_micros(25);
    let mut star = crowded(PipelineSettings { delay, ..Default::default() });
    star.run_for(Nanos::from_micros(100));
    let stream = short(&star, 0, C0, 1);
    let meanwhile = star.start(1, 0, stream);
    star.run_for(Nanos::from_millis(1));
    star.pause(2, resume(C3));
    let room = star.now() + HOP + Nanos(672);
    star.run_for(Nanos::from_millis(1));
    assert_eq!(star.arrivals(meanwhile), [room + delay + HOP]);
    let (stream, sent) = (short(&star, 0, C0, 1), star.now());
    let later = star.start(1, 0, stream);
    star.run_to_rest();
    assert_eq!(star.arrivals(later), [sent + HOP + delay + HOP]);
}

#[test]
fn pipeline_that_stops_when_full_loses_no_lossless_frame() {
    let papers = PipelineSettings {
        rate: per_second(500_000),
        delay: Nanos::from_micros(25),
        ingress: IngressOrder::Fifo,
    };
    let ordered = PipelineSettings { ingress: IngressOrder::Fifo, ..Default::default() };
    for pipeline in [papers, ordered] {
        let mut plan = plan(pipeline);
        plan.settings.when_full = WhenFull::Stop;
        plan.each_lossless(|class| class.egress_max = Bytes(10_000));
        let mut star = Star::new(plan);
        let flows: Vec<_> = [(0, 2, 300), (1, 2, 1_514), (3, 2, 60), (0, 1, 900), (2, 1, 200), (3, 0, 1_000)]
            .into_iter()
            .map(|(from, to, len)| {
                let stream = Stream { len, ..star.stream(to, C3, 200) };
                star.start(from, to, stream)
            })
            .collect();
        star.run_to_rest();
        flows.into_iter().for_each(|flow| star.assert_whole(flow, 200));
    }
}
