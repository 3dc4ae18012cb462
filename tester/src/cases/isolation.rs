//! Group `isolation`: does a paused class block other traffic (head-of-line blocking)? Port 2 pauses a class of which a few frames are
//! queued.

use xoff_wire::units::{Class, Nanos};

use super::Case;
use super::complete::{drain, require_complete};
use super::streams::{
    BEFORE, FROM, PATIENCE, TO, lossless, markable, require_held, response_limit, start_heartbeat,
};
use crate::bench::{Bench, Flow, StreamId, Void};
use crate::judgement::Judgement;
use crate::report::Verdict;

const THIRD: usize = 2;
const WAITING: u64 = 8;
const WAITING_OF_VICTIM: u64 = 2;
const VICTIMS: u64 = 200;
const HOLD: Nanos = Nanos::from_millis(150);

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
    class: Class,
    what: String,
}

/// Queues frames of a paused class, and fails the case unless frames of `victim` overtake them.
fn passes(bench: &mut Bench, victim: &Victim) -> Result<Judgement, Void> {
    let class = lossless(bench);
    start_heartbeat(bench)?;
    let response = response_limit(bench).max(Nanos::from_millis(3));
    let held = bench.now();
    bench.hold(TO, [class].into_iter().collect(), HOLD.after(response));
    bench.run_for(response)?;
    // Many frames of the victim's class would pause the victim.
    let is_same = (victim.from, victim.class) == (FROM, class);
    let count = if is_same { WAITING_OF_VICTIM } else { WAITING };
    let waiting = bench.stream(Flow::new(FROM, TO, class).count(count))?;
    bench.run_for(Nanos::from_millis(5))?;
    let before = bench.now();
    let flow = Flow::new(victim.from, victim.to, victim.class).size(200);
    let stream = bench.stream(flow.count(VICTIMS))?;
    bench.run_until(Nanos(HOLD.0 / 2), |bench| bench.tally(stream).frames >= VICTIMS)?;
    let (passed, early) = (bench.tally(stream).frames, bench.tally(waiting).frames);
    bench.require_steady(before, Nanos(HOLD.0 / 4))?;
    require_held(bench, held)?;
    bench.release(TO);
    drain(bench, &[waiting, stream])?;
    let mut judgement = Judgement::new();
    if early > 0 {
        judgement.cannot_tell(format!("class {class} was not paused; see case receive.stops-class"));
    }
    judgement.limits("frames that passed", passed as f64, "frames", (Some(VICTIMS as f64), None));
    judgement.require_in_time(passed >= VICTIMS, || {
        format!(
            "{passed} of {VICTIMS} frames of {} passed while class {class} of port 2 was paused",
            victim.what
        )
    });
    require_complete(bench, &mut judgement, &[waiting, stream], "both streams");
    Ok(judgement)
}

fn other_port(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let what = format!("class {class} from port 1 to port 3");
    passes(bench, &Victim { from: FROM, to: THIRD, class, what })
}

fn other_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let Some(other) = markable(bench).iter().find(|other| *other != class) else {
        return Err(Void::NotPossible("the setup file's maps use only one class; the case needs two".into()));
    };
    passes(
        bench,
        &Victim { from: FROM, to: TO, class: other, what: format!("class {other} to the same port") },
    )
}

fn other_ingress(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let what = format!("class {class} from port 3 to port 4");
    passes(bench, &Victim { from: THIRD, to: 3, class, what })
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
