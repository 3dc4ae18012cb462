//! Group `map`: which class does the device give each code point (DSCP or PCP), and which fields of a frame does it change? A code point
//! has the class whose pause stops its frames.

use xoff_flow_control::settings::Trust;
use xoff_wire::units::{Class, Nanos};

use super::Case;
use super::complete::drain;
use super::streams::{FROM, PATIENCE, TO, lossless, require_held, response_limit, start_heartbeat};
use crate::bench::{Bench, Flow, StreamId, Void};
use crate::judgement::Judgement;
use crate::setup::Mark;

pub(super) const CASES: &[Case] = &[
    case(
        "map.dscp",
        "Does each DSCP get the class in the setup file?",
        "RFC 2474; DSCP map configured on the device",
        dscp,
    ),
    case("map.pcp", "Does each PCP get the class in the setup file?", "IEEE 802.1Q 6.9.3", pcp),
    case(
        "map.rewrite",
        "Do forwarded frames keep their tag, PCP and DSCP?",
        "IEEE 802.1Q 6.9.3, RFC 2474",
        rewrite,
    ),
    case("map.ecn", "Does the device mark ECN in congestion, and only then?", "RFC 3168 5", ecn),
];

const fn case(id: &'static str, title: &'static str, source: &'static str, run: super::Run) -> Case {
    Case { id, title, source, ports: 2, run }
}

const FRAMES: u64 = 2;
const HOLD: Nanos = Nanos::from_millis(150);
const ECT: u8 = 0b10;
const QUEUED: u64 = 2_000;

fn dscp(bench: &mut Bench) -> Result<Judgement, Void> {
    if !matches!(bench.setup.device.trust, Trust::Dscp | Trust::Both) {
        return Err(Void::NotPossible("the setup file says that the device does not trust the DSCP".into()));
    }
    let map = bench.setup.device.dscp_to_class;
    let codes: Vec<_> = (0..64).map(|code| (Mark::Dscp(code), map[usize::from(code)])).collect();
    classes(bench, &codes)
}

fn pcp(bench: &mut Bench) -> Result<Judgement, Void> {
    if bench.setup.device.trust != Trust::Pcp {
        return Err(Void::NotPossible(
            "the setup file says that the class of IP packets does not depend on the PCP".into(),
        ));
    }
    let map = bench.setup.device.pcp_to_class;
    let codes: Vec<_> = (0..8).map(|code| (Mark::Pcp(code), map[usize::from(code)])).collect();
    classes(bench, &codes)
}

/// Pauses each class that obeys PFC in turn, and fails the case unless exactly the frames with the class's code points stop.
fn classes(bench: &mut Bench, codes: &[(Mark, Class)]) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let obeying: Vec<Class> = bench.setup.device.obeys.iter().collect();
    let mut wrong = 0;
    for class in &obeying {
        bench.begin_case()?;
        start_heartbeat(bench)?;
        let (held, response) = (bench.now(), response_limit(bench).max(Nanos::from_millis(3)));
        bench.hold(TO, [*class].into_iter().collect(), HOLD.after(response));
        bench.run_for(response)?;
        let mut streams: Vec<(Mark, Class, StreamId)> = Vec::new();
        for &(mark, of) in codes {
            let flow = Flow::new(FROM, TO, of).mark(mark).size(100).count(FRAMES);
            streams.push((mark, of, bench.stream(flow)?));
        }
        let free = |bench: &Bench| {
            streams.iter().all(|(_, of, id)| of == class || bench.tally(*id).frames == FRAMES)
        };
        let begin = bench.now();
        bench.run_until(Nanos(HOLD.0 / 2), free)?;
        bench.run_for(Nanos::from_millis(5))?;
        bench.require_steady(begin, Nanos(HOLD.0 / 8))?;
        require_held(bench, held)?;
        let passed: Vec<bool> = streams.iter().map(|(.., id)| bench.tally(*id).frames > 0).collect();
        bench.release(TO);
        let ids: Vec<StreamId> = streams.iter().map(|(.., id)| *id).collect();
        drain(bench, &ids)?;
        for ((mark, of, id), passed) in streams.iter().zip(passed) {
            let arrived = bench.tally(*id).frames > 0;
            judgement.require_unless_stalled(arrived, || format!("no frame with {mark} arrived"));
            let is_right = passed == (of != class);
            wrong += u32::from(!is_right);
            judgement.require_in_time(is_right, || match passed {
                true => format!(
                    "frames with {mark} did not stop when class {class} (theirs by the setup file) was paused"
                ),
                false => {
                    format!("frames with {mark} stopped when class {class} was paused; by the setup file they have class {of}")
                }
            });
        }
        // Check for stalls after each class: the next class starts a new heartbeat, which does not show earlier stalls.
        if judgement.may_be_stall() && bench.device_stall() > bench.stall_limit() {
            return Err(Void::Disturbed(format!(
                "the device stalled while under test; {}",
                judgement.reason()
            )));
        }
    }
    judgement.limits("code points with a wrong class", f64::from(wrong), "code points", (None, Some(0.0)));
    judgement.note(format!("judged classes (those that obey PFC): {}", list(&obeying)));
    Ok(judgement)
}

fn list(classes: &[Class]) -> String {
    classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn rewrite(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let vlan = bench.port(FROM).settings.vlan.filter(|_| bench.port(TO).settings.vlan.is_some());
    let mut marks: Vec<Mark> = (0..64).step_by(7).map(Mark::Dscp).collect();
    if vlan.is_some() {
        marks.extend((0..8).map(Mark::Pcp));
    }
    start_heartbeat(bench)?;
    let mut streams = Vec::new();
    for mark in marks {
        streams.push((mark, bench.stream(Flow::new(FROM, TO, class).mark(mark).count(FRAMES))?));
    }
    let ids: Vec<StreamId> = streams.iter().map(|(_, id)| *id).collect();
    drain(bench, &ids)?;
    let mut judgement = Judgement::new();
    for (mark, id) in streams {
        let arrivals: Vec<_> = bench.arrivals_of(id).copied().collect();
        judgement.require_unless_stalled(!arrivals.is_empty(), || format!("no frame with {mark} arrived"));
        for arrival in arrivals {
            if let Mark::Dscp(dscp) = mark {
                judgement.require(arrival.dscp == dscp, || {
                    format!("a packet with {mark} arrived with DSCP {}", arrival.dscp)
                });
            }
            if let Some(vlan) = vlan {
                let pcp = if let Mark::Pcp(pcp) = mark { pcp } else { 0 };
                match arrival.tag {
                    None => judgement
                        .require(false, || format!("a frame of VLAN {vlan} with {mark} arrived untagged")),
                    Some(tag) => judgement.require(tag.0 == u16::from(pcp) << 13 | vlan, || {
                        format!("a frame of VLAN {vlan} with {mark} arrived with the tag {:#06x}", tag.0)
                    }),
                }
            }
        }
    }
    if vlan.is_none() {
        judgement
            .note("tags were not examined: set `vlan` of both ports if the device forwards tagged frames");
    }
    Ok(judgement)
}

struct Marked {
    marked: u64,
    all: u64,
    early: u64,
}

/// Sends packets with these ECN bits while their class is paused (`congested`) or free.
fn marked(bench: &mut Bench, ecn: u8, congested: bool) -> Result<Marked, Void> {
    bench.begin_case()?;
    let (class, begin) = (lossless(bench), bench.now());
    if congested {
        let response = response_limit(bench).max(Nanos::from_millis(3));
        bench.hold(TO, [class].into_iter().collect(), HOLD.after(response));
        bench.run_for(response)?;
    }
    let flow = Flow::new(FROM, TO, class).size(1_000).ecn(ecn);
    let flow = if congested { flow.rate(super::complete::share(bench, 50, 1, 1_000)) } else { flow };
    let stream = bench.stream(flow.count(if congested { QUEUED } else { 50 }))?;
    bench.run_for(Nanos(HOLD.0 / 2))?;
    bench.stop(stream);
    let early = match congested {
        true => {
            require_held(bench, begin)?;
            bench.tally(stream).frames
        }
        false => 0,
    };
    bench.release(TO);
    bench.run_until(PATIENCE, |bench| bench.missing(stream) == 0)?;
    let of_stream = bench.arrivals_of(stream);
    let none = Marked { marked: 0, all: 0, early };
    Ok(of_stream.fold(none, |sum, arrival| Marked {
        marked: sum.marked + u64::from(arrival.is_marked),
        all: sum.all + 1,
        ..sum
    }))
}

fn ecn(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let idle = marked(bench, ECT, false)?.marked;
    judgement.require(idle == 0, || format!("{idle} packets got an ECN mark without congestion"));
    let Marked { marked: not_capable, early: early_before, .. } = marked(bench, 0, true)?;
    judgement.require(not_capable == 0, || {
        format!("{not_capable} packets that are not ECN-capable got an ECN mark")
    });
    let Marked { marked: in_queue, all: arrived, early } = marked(bench, ECT, true)?;
    if early_before + early > 0 {
        judgement.cannot_tell("packets arrived while their class was paused, so they did not queue; see case receive.stops-class");
        return Ok(judgement);
    }
    judgement.measure("marked packets of a congested queue", in_queue as f64, "frames");
    judgement.measure("packets of the congested queue", arrived as f64, "frames");
    match bench.setup.device.ecn {
        None => judgement
            .note("whether the device marks ECN was not judged: the setup file has no `ecn` threshold"),
        Some(threshold) if arrived * 1_000 > threshold.0 * 5 / 4 => {
            judgement.require(in_queue > 0, || {
                format!(
                    "no packet was marked in a queue of {arrived} kB; the threshold is {} bytes",
                    threshold.0
                )
            });
        }
        Some(threshold) => judgement.cannot_tell(format!(
            "the device paused the tester at {arrived} kB, before the threshold of {} bytes",
            threshold.0
        )),
    }
    Ok(judgement)
}
