//! Group `map`: which class does the device give each code point (DSCP or PCP), and which fields of a frame does it change? A code point
//! has the class whose pause stops its frames.

use xoff_flow_control::settings::Trust;
use xoff_wire::units::{Class, Nanos};

use super::Case;
use super::buffers::counted;
use super::complete::{drain, share};
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
const CE: u8 = 0b11;
const SIZE: u32 = 1_000;
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

struct Packets {
    ecn: Vec<u8>,
    early: u64,
}

impl Packets {
    fn marked(&self) -> usize {
        self.ecn.iter().filter(|ecn| **ecn == CE).count()
    }

    /// Returns the shortest queue with a mark, and the longest without one, in packets. Devices mark packets that enter the queue, or those
    /// that leave it.
    fn marking(&self) -> [usize; 2] {
        let all = self.ecn.len();
        let entering = |at: usize| at + 1;
        let leaving = |at: usize| all - at;
        let (marked, unmarked): (Vec<_>, Vec<_>) = (0..all).partition(|at| self.ecn[*at] == CE);
        let shortest =
            |queue: &dyn Fn(usize) -> usize| marked.iter().map(|at| queue(*at)).min().unwrap_or(all);
        let longest =
            |queue: &dyn Fn(usize) -> usize| unmarked.iter().map(|at| queue(*at)).max().unwrap_or(0);
        [shortest(&entering).max(shortest(&leaving)), longest(&entering).min(longest(&leaving))]
    }
}

/// Sends packets with these ECN bits while their class is paused (`congested`) or free.
fn send(bench: &mut Bench, ecn: u8, congested: bool) -> Result<Packets, Void> {
    bench.begin_case()?;
    let (class, begin) = (lossless(bench), bench.now());
    if congested {
        let response = response_limit(bench).max(Nanos::from_millis(3));
        bench.hold(TO, [class].into_iter().collect(), HOLD.after(response));
        bench.run_for(response)?;
    }
    let flow = Flow::new(FROM, TO, class).size(SIZE).ecn(ecn);
    let flow = if congested { flow.rate(share(bench, 50, 1, SIZE)) } else { flow };
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
    Ok(Packets { ecn: bench.arrivals_of(stream).map(|arrival| arrival.ecn).collect(), early })
}

fn ecn(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let idle = send(bench, ECT, false)?;
    judgement.require(idle.marked() == 0, || {
        format!("{} packets got an ECN mark without congestion", idle.marked())
    });
    let not_capable = send(bench, 0, true)?;
    judgement.require(not_capable.marked() == 0, || {
        format!("{} packets that are not ECN-capable got an ECN mark", not_capable.marked())
    });
    let queued = send(bench, ECT, true)?;
    let cleared =
        [&idle, &queued].into_iter().flat_map(|packets| &packets.ecn).filter(|ecn| **ecn == 0).count();
    judgement.require(cleared == 0, || format!("{cleared} ECN-capable packets arrived as not ECN-capable"));
    if not_capable.early + queued.early > 0 {
        judgement.cannot_tell("packets arrived while their class was paused, so they did not queue; see case receive.stops-class");
        return Ok(judgement);
    }
    let packet = counted(bench, SIZE);
    let bytes = |packets: usize| packets as u64 * packet;
    let all = bytes(queued.ecn.len());
    judgement.measure("marked packets of a congested queue", queued.marked() as f64, "frames");
    judgement.measure("packets of the congested queue", queued.ecn.len() as f64, "frames");
    let Some([some, every]) = bench.setup.device.ecn.map(|ecn| ecn.map(|bytes| bytes.0)) else {
        judgement.note("whether the device marks ECN was not judged: the setup file has no `ecn` threshold");
        return Ok(judgement);
    };
    let [from, to] = queued.marking().map(bytes);
    judgement.limits(
        "shortest queue with a mark",
        from as f64,
        "bytes",
        (Some((some - some / 4) as f64), None),
    );
    judgement.require(from + some / 4 + packet >= some, || {
        format!("packets were marked in a queue of {from} bytes; the threshold is {some} bytes")
    });
    if all <= every + every / 4 + packet {
        judgement.cannot_tell(format!(
            "the device paused the tester at {all} bytes, before the threshold of {every} bytes"
        ));
        return Ok(judgement);
    }
    judgement.limits(
        "longest queue without a mark",
        to as f64,
        "bytes",
        (None, Some((every + every / 4) as f64)),
    );
    judgement.require(to <= every + every / 4 + packet, || {
        format!("packets were not marked in a queue of {to} bytes; from {every} bytes on, all must be")
    });
    Ok(judgement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_show_queue_length_from_which_packets_are_marked() {
        let marking = |ecn: &[u8]| Packets { ecn: ecn.to_vec(), early: 0 }.marking();
        assert_eq!(marking(&[ECT, ECT, CE, CE, CE]), [3, 2], "marked when they enter a queue of three");
        assert_eq!(marking(&[CE, CE, CE, ECT, ECT]), [3, 2], "marked when they leave a queue of three");
        assert_eq!(marking(&[CE, CE, ECT, CE, ECT]), [2, 3], "one of two marked in a queue of two or three");
        assert_eq!(marking(&[ECT; 5]), [5, 5]);
        assert_eq!(marking(&[CE; 5]), [1, 0]);
    }
}
