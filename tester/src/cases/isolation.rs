//! Group `isolation`: does a paused class block other traffic (head-of-line blocking)?

use xoff_wire::units::{BitRate, Class, ClassSet, Nanos};

use super::Case;
use super::complete::{drain, full_size, require_complete, share};
use super::streams::{
    BEFORE, FROM, PATIENCE, TO, lossless, others, require_held, response_limit, settle_time, start_heartbeat,
};
use crate::bench::{Bench, Flow, StreamId, Void};
use crate::judgement::Judgement;
use crate::report::Verdict;

const THIRD: usize = 2;
const WAITING: u64 = 8;
const WAITING_OF_VICTIM: u64 = 2;
const VICTIMS: u64 = 200;
const HOLD: Nanos = Nanos::from_millis(150);
const SETTLED: Nanos = Nanos::from_millis(10);

const fn case(id: &'static str, title: &'static str, ports: usize, run: super::Run) -> Case {
    Case { id, title, source: "IEEE 802.1Q 36.1.1, RFC 2889 5.5", ports, run }
}

pub(super) const CASES: &[Case] = &[
    case(
        "isolation.other-port",
        "Do frames to a free port overtake frames queued for a paused port?",
        3,
        other_port,
    ),
    case("isolation.other-class", "Do other classes flow at a port where one is paused?", 2, other_class),
    case(
        "isolation.other-ingress",
        "Do frames flow between two other ports during a pause?",
        4,
        other_ingress,
    ),
    case("isolation.floods", "Are frames to a learned address sent to its port only?", 3, floods),
];

struct Victim {
    from: usize,
    to: usize,
    classes: Vec<Class>,
}

/// Queues frames of a paused class, and fails the case unless frames of `victim` overtake them.
fn passes(bench: &mut Bench, victim: &Victim) -> Result<Judgement, Void> {
    let class = lossless(bench);
    start_heartbeat(bench)?;
    let response = settle_time(bench);
    let held = bench.now();
    bench.hold(TO, [class].into_iter().collect(), HOLD.after(response));
    bench.run_for(response)?;
    // Many frames of the victim's class would pause the victim.
    let is_same = victim.from == FROM && victim.classes.contains(&class);
    let count = if is_same { WAITING_OF_VICTIM } else { WAITING };
    let waiting = bench.stream(Flow::new(FROM, TO, class).size(200).count(count))?;
    bench.run_for(Nanos::from_millis(5))?;
    let before = bench.now();
    let count = victim.classes.len() as u64;
    let rate = BitRate::new(20_000_000 / count).expect("the rate is not zero");
    let mut streams = Vec::new();
    for of in &victim.classes {
        let flow = Flow::new(victim.from, victim.to, *of).size(200);
        streams.push(bench.stream(flow.rate(rate).count(VICTIMS / count))?);
    }
    let has_passed = |bench: &Bench, stream: StreamId| bench.tally(stream).frames >= VICTIMS / count;
    bench.run_until(Nanos(HOLD.0 / 2), |bench| streams.iter().all(|id| has_passed(bench, *id)))?;
    let passed: u64 = streams.iter().map(|id| bench.tally(*id).frames).sum();
    let blocked = victim.classes.iter().zip(&streams).filter(|(_, id)| !has_passed(bench, **id));
    let blocked: ClassSet = blocked.map(|(of, _)| *of).collect();
    let early = bench.tally(waiting).frames;
    bench.require_steady(before, Nanos(HOLD.0 / 4))?;
    require_held(bench, held)?;
    bench.release(TO);
    streams.push(waiting);
    drain(bench, &streams)?;
    let mut judgement = Judgement::new();
    if early > 0 {
        judgement.cannot_tell(format!("class {class} was not paused; see case receive.stops-class"));
    }
    let all = VICTIMS / count * count;
    judgement.limits("frames that passed", passed as f64, "frames", (Some(all as f64), None));
    judgement.require_in_time(blocked.is_empty(), || {
        let (from, to) = (victim.from + 1, victim.to + 1);
        format!(
            "{passed} of {all} frames from port {from} to port {to} passed while class {class} of port 2 was paused; \
             blocked were classes {blocked:?}"
        )
    });
    require_complete(bench, &mut judgement, &streams, "all streams");
    if !blocked.is_empty() && stops_heartbeat(bench, class)? {
        judgement
            .require(false, || format!("pauses of class {class} at port 2 stopped frames to port 1, too"));
    }
    Ok(judgement)
}

/// Returns whether the heartbeat stops exactly during each of three pauses, unlike in a stall.
fn stops_heartbeat(bench: &mut Bench, class: Class) -> Result<bool, Void> {
    let limit = response_limit(bench);
    for span in [40, 70, 55].map(Nanos::from_millis) {
        bench.run_for(Nanos(limit.0 + 2 * SETTLED.0))?;
        let paused = bench.hold(TO, [class].into_iter().collect(), HOLD.after(limit));
        bench.run_for(span.after(limit))?;
        let resumed = bench.release(TO);
        bench.run_for(limit.after(SETTLED))?;
        let beats = |from: Nanos, to: Nanos| bench.require_heartbeat(from, to).is_ok();
        let before = beats(Nanos(paused.earliest.0 - SETTLED.0), paused.latest);
        let after = beats(resumed.earliest, resumed.latest.after(limit));
        if !before || beats(paused.latest.after(limit), resumed.earliest) || !after {
            return Ok(false);
        }
    }
    Ok(true)
}

fn other_port(bench: &mut Bench) -> Result<Judgement, Void> {
    let classes = vec![lossless(bench)];
    passes(bench, &Victim { from: FROM, to: THIRD, classes })
}

fn other_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let classes = others(bench, class)?;
    let victim = Victim { from: FROM, to: TO, classes };
    let mut judgement = passes(bench, &victim)?;
    keep_rate(bench, &mut judgement, class, &victim.classes)?;
    Ok(judgement)
}

/// Requires that a pause of `class` leaves `others` two thirds of their rate.
fn keep_rate(
    bench: &mut Bench,
    judgement: &mut Judgement,
    class: Class,
    others: &[Class],
) -> Result<(), Void> {
    let (size, response) = (full_size(bench, FROM), response_limit(bench));
    let rate = share(bench, 90, others.len(), size);
    bench.only_count(TO);
    let mut run = |is_paused: bool| {
        let begin = bench.now();
        if is_paused {
            bench.hold(TO, [class].into_iter().collect(), HOLD.after(response));
            bench.run_for(response)?;
            bench.stream(Flow::new(FROM, TO, class).count(WAITING))?;
        }
        let mut streams = Vec::new();
        for of in others {
            streams.push(bench.stream(Flow::new(FROM, TO, *of).size(size).rate(rate))?);
        }
        let bytes = |bench: &Bench| streams.iter().map(|id| bench.tally(*id).line_bytes.0).sum::<u64>();
        bench.run_for(SETTLED)?;
        let (before, since) = (bytes(bench), bench.now());
        bench.run_for(Nanos(HOLD.0 / 2))?;
        let bits = (bytes(bench) - before) as f64 * 8.0;
        let rate = bits * 1e3 / bench.now().since(since).0.max(1) as f64;
        if is_paused {
            require_held(bench, begin)?;
        }
        bench.stop_streams(&streams);
        bench.release(TO);
        bench.run_for(BEFORE)?;
        Ok(rate)
    };
    let (free, paused) = (run(false)?, run(true)?);
    judgement.measure("rate of the other classes without a pause", free, "Mb/s");
    judgement.limits("their rate during the pause", paused, "Mb/s", (Some(free * 2.0 / 3.0), None));
    judgement.require_in_time(paused >= free * 2.0 / 3.0, || {
        format!("the pause of class {class} reduced the other classes from {free:.0} to {paused:.0} Mb/s")
    });
    Ok(())
}

fn other_ingress(bench: &mut Bench) -> Result<Judgement, Void> {
    let classes = vec![lossless(bench)];
    passes(bench, &Victim { from: THIRD, to: 3, classes })
}

fn floods(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    bench.run_for(BEFORE)?;
    let stream = bench.stream(Flow::new(FROM, TO, class).count(VICTIMS))?;
    bench.run_until(PATIENCE, |bench| bench.tally(stream).frames >= VICTIMS)?;
    bench.run_for(BEFORE)?;
    let mut judgement = Judgement::new();
    for port in (0..bench.ports().len()).filter(|port| *port != TO) {
        let of_stream =
            |id: StreamId| bench.arrivals(port).iter().filter(|arrival| arrival.stream == id).count();
        let flooded = of_stream(stream);
        judgement.limits(
            &format!("frames at port {}", port + 1),
            flooded as f64,
            "frames",
            (None, Some(0.0)),
        );
        judgement.require(flooded == 0, || {
            format!("port {} received {flooded} frames to the address of port 2", port + 1)
        });
    }
    let received = bench.tally(stream).frames;
    if received < VICTIMS && judgement.verdict() == Verdict::Pass {
        return Err(Void::Disturbed(format!("only {received} of {VICTIMS} frames arrived at port 2")));
    }
    Ok(judgement)
}
