// Tests for SPECIFICATION.md: sim-hosts

use xoff_flow_control::settings::EcnSettings;
use xoff_sim::flows::{
    Control, DcqcnSettings, FlowFabric, HostSettings, RoceSettings, SwiftSettings, TimelySettings, Transport,
    frame_len,
};
use xoff_sim::{Line, Picos, Seed};
use xoff_wire::units::{Bytes, PortId};

use super::{LOSSLESS, check, dropped, flow, line, star};

const ECN: EcnSettings =
    EcnSettings { min: Bytes(5_000), max: Bytes(200_000), probability: 0.02, wred: false };

fn forty() -> Line {
    line(40, 1_000)
}

fn many_to_one(senders: u32, control: Control, ack_every: u32) -> FlowFabric {
    let lines = vec![forty(); senders as usize + 1];
    let plan = star(&lines, |class, settings| {
        if class == LOSSLESS {
            settings.ecn = Some(ECN);
            settings.egress_max = Bytes(settings.egress_max.0 + 32_000_000);
            settings.xoff = Bytes(1_000_000);
            settings.xoff_frames = 1_000_000;
        }
    });
    let roce = RoceSettings { control, ack_every, ..RoceSettings::default() };
    let settings = HostSettings { transport: Transport::Roce(roce), ..HostSettings::default() };
    let mut fabric = FlowFabric::new(&plan, Seed(1), settings);
    (1..=senders).for_each(|from| _ = fabric.add(flow(from, 0, 1 << 40)));
    fabric
}

struct Measurement {
    queue: f64,
    shares: Vec<f64>,
    used: f64,
}

fn measure(fabric: &mut FlowFabric, senders: u32, from: Picos, until: Picos) -> Measurement {
    fabric.run_until(from);
    let received =
        |fabric: &FlowFabric| -> Vec<u32> { (0..senders).map(|flow| fabric.received(flow)).collect() };
    let before = received(fabric);
    let (mut sum, mut looks) = (0.0, 0.0);
    let mut now = from;
    while now < until {
        now = now.after(Picos::from_micros(2));
        fabric.run_until(now);
        sum += fabric.fabric().switches()[0].counters().class(PortId(0), LOSSLESS).egress_bytes.get() as f64;
        looks += 1.0;
    }
    let on_line = Bytes::on_line(frame_len(1_456)).0 as f64;
    let all = forty().rate.bits_per_second() as f64 / 8.0 * until.since(from).0 as f64 / 1e12 / on_line;
    let after = received(fabric);
    let frames: Vec<f64> =
        after.iter().zip(&before).map(|(after, before)| f64::from(after - before)).collect();
    Measurement {
        queue: sum / looks,
        used: frames.iter().sum::<f64>() / all,
        shares: frames.iter().map(|frames| frames * f64::from(senders) / all).collect(),
    }
}

fn standing(excess: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1e-9, 0.5);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if excess(middle) < 0.0 { high = middle } else { low = middle }
    }
    low
}

const FRAME_BITS: f64 = 8.0 * 1_538.0;

fn seconds(time: Picos) -> f64 {
    time.0 as f64 / 1e12
}

fn share(senders: u32) -> f64 {
    forty().rate.bits_per_second() as f64 / FRAME_BITS / f64::from(senders)
}

/// Returns the marking probability in the equilibrium of DCQCN's fluid model (Zhu et al., CoNEXT 2016).
///
/// Senders have equal shares of the line; alpha, target and rate are constant. Units are frames and seconds.
fn fluid(settings: &DcqcnSettings, senders: u32) -> f64 {
    let rate = share(senders);
    let cut = seconds(settings.cnp_interval);
    let time = seconds(settings.increase_timer) * rate;
    let bytes = settings.byte_counter.0 as f64 * 8.0 / FRAME_BITS;
    let additive = settings.additive.bits_per_second() as f64 / FRAME_BITS;
    let recovery = f64::from(settings.fast_recovery);
    standing(|p| {
        let keep = 1.0 - p;
        let notified = 1.0 - keep.powf(cut * rate);
        let rounds = |frames: f64| p / (keep.powf(-frames) - 1.0);
        let beyond = |frames: f64| keep.powf(recovery * frames) * rounds(frames);
        let alpha = 1.0 - keep.powf(seconds(settings.alpha_timer) * rate);
        let down = notified * notified * alpha / (cut * cut * (rounds(bytes) + rounds(time)));
        additive * rate * (beyond(bytes) + beyond(time)) - down
    })
}

/// Returns the marking probability in the equilibrium of a model that follows DCQCN from one notification (CNP) to the
/// next.
///
/// After a CNP the receiver sends none for the CNP interval, then waits for the first mark. Each CNP restarts the
/// timers, and lowers the target to the rate: by their gap at this time, not by the fluid model's mean gap. Cycles are
/// too short for rounds of the byte counter.
fn cycles(settings: &DcqcnSettings, senders: u32) -> f64 {
    let rate = share(senders);
    let [interval, timer, decay] =
        [settings.cnp_interval, settings.increase_timer, settings.alpha_timer].map(seconds);
    let additive = settings.additive.bits_per_second() as f64 / FRAME_BITS;
    standing(|p| {
        let marks = p * rate;
        let reaches = |rounds: u32| (-marks * (f64::from(rounds) * timer - interval).max(0.0)).exp();
        let alpha = 1.0 / (1.0 + (marks * interval).exp() / ((marks * decay).exp() - 1.0));
        let (mut missing, mut risen, mut drift) = (rate * alpha / 2.0, 0.0, 0.0);
        for round in 0..5_000 {
            if round > settings.fast_recovery {
                risen += additive;
                missing += additive;
            }
            if round > 0 {
                missing /= 2.0;
            }
            drift += (reaches(round) - reaches(round + 1)) * (risen - missing);
        }
        drift
    })
}

/// The queue must be within 10 % of the cycle model, and within 40 % of the fluid model, which ignores single frames
/// and randomness.
#[test]
fn dcqcn_queue_and_rates_match_model_equilibrium() {
    let settings = DcqcnSettings::default();
    for senders in [2, 10] {
        let mut fabric = many_to_one(senders, Control::Dcqcn(settings), 16);
        let measured = measure(&mut fabric, senders, Picos::from_micros(60_000), Picos::from_micros(180_000));
        let Measurement { queue, shares, used } = &measured;
        assert!(*used > 0.99 && *used < 1.001, "{senders} senders use {used} of the line");
        assert!(
            shares.iter().all(|share| (share - 1.0).abs() < 0.1),
            "{senders} senders have unequal shares {shares:?}"
        );
        for (p, off_max) in [(fluid(&settings, senders), 0.4), (cycles(&settings, senders), 0.1)] {
            assert!(p < ECN.probability, "marking probability {p} exceeds the maximum of the marking curve");
            let expected = ECN.min.0 as f64 + p / ECN.probability * (ECN.max.0 - ECN.min.0) as f64;
            eprintln!(
                "{senders} senders: {used} of the line, shares {shares:?}, {queue} bytes against {expected}"
            );
            assert!(
                (queue / expected - 1.0).abs() < off_max,
                "{senders} senders have a mean queue of {queue} bytes; the model predicts {expected}"
            );
        }
        assert_eq!(fabric.records().map(|record| record.frames_resent).sum::<u32>(), 0);
        let port = fabric.fabric().switches()[0].counters().class(PortId(1), LOSSLESS);
        assert_eq!((port.xoff_sent.get(), dropped(&fabric)), (0, 0));
        check(&fabric);
    }
}

#[test]
fn receiver_keeps_minimum_gap_between_cnps_of_a_flow() {
    let control = Control::Dcqcn(DcqcnSettings::default());
    let mut fabric = many_to_one(4, control, 16);
    fabric.run_until(Picos::from_micros(3_000));
    for record in fabric.records() {
        assert!(record.cnps > 2 && record.cnps <= 60, "{} in 3 ms", record.cnps);
        assert!(record.marked > record.cnps);
    }
    let rates: Vec<f64> = (0..4).filter_map(|flow| fabric.rate(flow)).collect();
    assert!(rates.len() == 4 && rates.iter().all(|rate| *rate < 39e9), "{rates:?}");
}

#[test]
fn delay_based_control_keeps_queue_short_and_line_busy() {
    let swift = Control::Swift(SwiftSettings { target: Picos::from_micros(15), ..SwiftSettings::default() });
    let timely = Control::Timely(TimelySettings { start: 0.25, ..TimelySettings::default() });
    // Queue bounds in bytes. Swift: 15 us target, less 5 us for the empty path, plus the addition for small windows.
    // TIMELY: its thresholds.
    for (name, control, ack_every, queue_max) in
        [("Swift", swift, 1, 250_000.0), ("TIMELY", timely, 16, 2_500_000.0)]
    {
        let mut fabric = many_to_one(4, control, ack_every);
        let measured = measure(&mut fabric, 4, Picos::from_micros(5_000), Picos::from_micros(20_000));
        let Measurement { queue, shares, used } = &measured;
        eprintln!("{name}: {used} of the line, shares {shares:?}, {queue} bytes");
        assert!(*used > 0.9, "{name} uses {used} of the line");
        assert!(*queue < queue_max, "{name}: {queue} bytes");
        assert_eq!(dropped(&fabric), 0);
    }
}
