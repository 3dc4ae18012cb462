//! Group `map`: which class does the device give each code point (DSCP or PCP), and which fields of a frame does it change?

mod ecn_share;
mod ingress;
mod ipv6;

use xoff_flow_control::settings::Trust;
use xoff_wire::units::{Class, Nanos};

use super::Case;
use super::buffers::counted;
use super::complete::{drain, require_no_stall, share};
use super::streams::{FROM, TO, lossless, marked, require_held, settle_time, start_heartbeat};
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
        "map.dscp-ingress",
        "Does the device pause the class of each DSCP in the setup file?",
        "RFC 2474; DSCP map configured on the device",
        dscp_ingress,
    ),
    case(
        "map.pcp-ingress",
        "Does the device pause the class of each PCP in the setup file?",
        "IEEE 802.1Q 6.9.3",
        pcp_ingress,
    ),
    case(
        "map.rewrite",
        "Do forwarded frames keep their tag, PCP and DSCP?",
        "IEEE 802.1Q 6.9.3, RFC 2474",
        rewrite,
    ),
    case("map.ecn", "Does the device mark ECN in congestion, and only then?", "RFC 3168 5", ecn),
    case(
        "map.ecn-share",
        "Does the share of marked packets grow between both ECN thresholds?",
        "RFC 7567; thresholds configured on the device",
        ecn_share::share,
    ),
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
const FREE: u64 = 50;

fn dscp(bench: &mut Bench) -> Result<Judgement, Void> {
    let codes = dscps(bench)?;
    classes(bench, &codes)
}

fn pcp(bench: &mut Bench) -> Result<Judgement, Void> {
    let codes = pcps(bench)?;
    classes(bench, &codes)
}

fn dscp_ingress(bench: &mut Bench) -> Result<Judgement, Void> {
    let codes = dscps(bench)?;
    ingress::classes(bench, &codes)
}

fn pcp_ingress(bench: &mut Bench) -> Result<Judgement, Void> {
    let codes = pcps(bench)?;
    ingress::classes(bench, &codes)
}

fn dscps(bench: &Bench) -> Result<Vec<(Mark, Class)>, Void> {
    let device = &bench.setup.device;
    match device.trust {
        Trust::Dscp | Trust::Both => Ok((0..64).map(Mark::Dscp).zip(device.dscp_to_class).collect()),
        _ => Err(Void::NotPossible("the setup file says that the device does not trust the DSCP".into())),
    }
}

fn pcps(bench: &Bench) -> Result<Vec<(Mark, Class)>, Void> {
    let device = &bench.setup.device;
    if device.trust != Trust::Pcp {
        return Err(Void::NotPossible(
            "the setup file says that the class of IP packets does not depend on the PCP".into(),
        ));
    }
    let untagged = bench.port(FROM).settings.vlan.is_none().then_some((Mark::Untagged, device.default_class));
    Ok((0..8).map(Mark::Pcp).zip(device.pcp_to_class).chain(untagged).collect())
}

/// Pauses each class that obeys PFC in turn, and requires that exactly its code points stop.
fn classes(bench: &mut Bench, codes: &[(Mark, Class)]) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let obeying = marked(bench, bench.setup.device.obeys)?;
    let dscps: Vec<(u8, Class)> = codes
        .iter()
        .filter_map(|&(mark, of)| matches!(mark, Mark::Dscp(_)).then_some((mark.code()?, of)))
        .collect();
    let (mut wrong, mut ipv6, mut stopped_by) = (0, 0, Vec::new());
    for class in &obeying {
        bench.begin_case()?;
        start_heartbeat(bench)?;
        let (held, response) = (bench.now(), settle_time(bench));
        bench.hold(TO, [*class].into_iter().collect(), HOLD.after(response));
        bench.run_for(response)?;
        let packets = (!dscps.is_empty()).then(|| ipv6::Packets::send(bench));
        let has_arrived =
            |bench: &Bench, dscp| packets.as_ref().is_some_and(|packets| packets.has_arrived(bench, dscp));
        let mut streams: Vec<(Mark, Class, StreamId)> = Vec::new();
        for &(mark, of) in codes {
            let flow = Flow::new(FROM, TO, of).mark(mark).size(100).count(FRAMES);
            streams.push((mark, of, bench.stream(flow)?));
        }
        let free = |bench: &Bench| {
            streams.iter().all(|(_, of, id)| of == class || bench.tally(*id).frames == FRAMES)
                && dscps.iter().all(|(dscp, of)| of == class || has_arrived(bench, *dscp))
        };
        let begin = bench.now();
        bench.run_until(Nanos(HOLD.0 / 2), free)?;
        bench.run_for(Nanos::from_millis(5))?;
        bench.require_steady(begin, Nanos(HOLD.0 / 8))?;
        require_held(bench, held)?;
        let passed: Vec<bool> = streams.iter().map(|(.., id)| bench.tally(*id).frames > 0).collect();
        let passed_ipv6: Vec<bool> = dscps.iter().map(|(dscp, _)| has_arrived(bench, *dscp)).collect();
        bench.release(TO);
        let ids: Vec<StreamId> = streams.iter().map(|(.., id)| *id).collect();
        drain(bench, &ids)?;
        stopped_by.push((*class, passed.iter().map(|passed| !passed).collect::<Vec<bool>>()));
        let mut require = |what: &str, of: Class, passed: bool| {
            let is_right = passed == (of != *class);
            wrong += u32::from(!is_right);
            judgement.require_in_time(is_right, || match passed {
                true => {
                    format!("{what} did not stop when class {class} (theirs by the setup file) was paused")
                }
                false => {
                    format!(
                        "{what} stopped when class {class} was paused; by the setup file they have class {of}"
                    )
                }
            });
        };
        for ((mark, of, _), passed) in streams.iter().zip(&passed) {
            require(&format!("frames with {mark}"), *of, *passed);
        }
        for ((dscp, of), passed) in dscps.iter().zip(passed_ipv6) {
            if has_arrived(bench, *dscp) {
                ipv6 += 1;
                require(&format!("IPv6 packets with DSCP {dscp}"), *of, passed);
            }
        }
        for (mark, _, id) in &streams {
            let arrived = bench.tally(*id).frames > 0;
            judgement.require_unless_stalled(arrived, || format!("no frame with {mark} arrived"));
        }
        let stopped = streams.iter().zip(passed).filter(|(_, passed)| !passed);
        let stopped: Vec<Mark> = stopped.map(|((mark, ..), _)| *mark).collect();
        let name = format!("code points that stop with class {class}: {}", ingress::describe(&stopped));
        judgement.measure(&name, stopped.len() as f64, "code points");
        // Check now for a stall: the heartbeat ends before the next class.
        require_no_stall(bench, &judgement)?;
    }
    if shows_wrong_map(codes, &stopped_by) {
        bench.disregard_pauses();
    }
    judgement.limits("code points with a wrong class", f64::from(wrong), "code points", (None, Some(0.0)));
    judgement.note(format!("judged classes (those that obey PFC): {}", list(&obeying)));
    judgement.note("classes that ignore PFC cannot be distinguished");
    if !dscps.is_empty() && ipv6 == 0 {
        judgement.note("IPv6 was not examined: no packet arrived");
    }
    Ok(judgement)
}

/// Returns whether only a wrong map explains which of `codes` each paused class `stopped`.
fn shows_wrong_map(codes: &[(Mark, Class)], stopped: &[(Class, Vec<bool>)]) -> bool {
    let of = |class: Class| (0..codes.len()).filter(move |index| codes[*index].1 == class);
    let stops =
        |class: Class, index: usize| stopped.iter().any(|(of, stopped)| *of == class && stopped[index]);
    stopped.iter().any(|&(class, _)| {
        let is_partial = Class::ALL.into_iter().any(|other| {
            of(other).any(|index| stops(class, index)) && of(other).any(|index| !stops(class, index))
        });
        let takes = stopped
            .iter()
            .filter(|(other, _)| *other != class)
            .any(|&(other, _)| of(other).any(|index| stops(class, index) && !stops(other, index)));
        is_partial || takes && of(class).any(|index| stops(class, index))
    })
}

fn list(classes: &[Class]) -> String {
    classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn rewrite(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let vlan = bench.port(FROM).settings.vlan.filter(|_| bench.port(TO).settings.vlan.is_some());
    let has_vlan = [FROM, TO].into_iter().any(|port| bench.port(port).settings.vlan.is_some());
    let mut marks: Vec<Mark> = (0..64).map(Mark::Dscp).collect();
    if vlan.is_some() {
        marks.extend((0..8).map(Mark::Pcp));
    }
    start_heartbeat(bench)?;
    let mut streams = Vec::new();
    for mark in marks {
        streams.push((mark, bench.stream(Flow::new(FROM, TO, class).mark(mark).size(100).count(FRAMES))?));
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
            judgement.require(has_vlan || arrival.tag.is_none(), || {
                format!("an untagged frame with {mark} arrived with a tag")
            });
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
    /// Packets received during the pause of their class.
    early: u64,
}

impl Packets {
    fn marked(&self) -> usize {
        self.ecn.iter().filter(|ecn| **ecn == CE).count()
    }

    /// Returns the shortest queue length in packets at which the device marked, and the longest at which it did not. Devices mark packets
    /// on entry or on exit: of both lengths, takes the one that favors the device.
    fn marking(&self) -> [Option<usize>; 2] {
        let all = self.ecn.len();
        let is_marked = |ecn: &u8| *ecn == CE;
        let first = |marked: bool| self.ecn.iter().position(|ecn| is_marked(ecn) == marked);
        let last = |marked: bool| self.ecn.iter().rposition(|ecn| is_marked(ecn) == marked);
        let shortest = first(true).zip(last(true)).map(|(first, last)| (first + 1).max(all - last));
        let longest = first(false).zip(last(false)).map(|(first, last)| (last + 1).min(all - first));
        [shortest, longest]
    }
}

/// Sends packets while their class is paused (`congested`) or free, and requires that they arrive unchanged or marked.
fn send_packets(
    bench: &mut Bench,
    judgement: &mut Judgement,
    ecn: u8,
    congested: bool,
) -> Result<Packets, Void> {
    bench.begin_case()?;
    start_heartbeat(bench)?;
    let (class, begin) = (lossless(bench), bench.now());
    if congested {
        let response = settle_time(bench);
        bench.hold(TO, [class].into_iter().collect(), HOLD.after(response));
        bench.run_for(response)?;
    }
    let rate = share(bench, if congested { 50 } else { 5 }, 1, SIZE);
    // Queue little more than `ecn_max`, so that the device need not pause.
    let packet = counted(bench, SIZE);
    let count = match bench.setup.device.ecn {
        Some([_, ecn_max]) if congested => ecn_max.0 * 3 / 2 / packet + 4,
        Some([ecn, _]) => (ecn.0 / 2 / packet).clamp(1, FREE),
        None if congested => QUEUED,
        None => FREE,
    };
    let stream = bench.stream(Flow::new(FROM, TO, class).size(SIZE).ecn(ecn).rate(rate).count(count))?;
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
    drain(bench, &[stream])?;
    let packets = Packets { ecn: bench.arrivals_of(stream).map(|arrival| arrival.ecn).collect(), early };
    let lost = if count < QUEUED { bench.missing(stream) } else { 0 };
    let is_short = bench.setup.device.ecn.is_some_and(|[ecn, _]| ecn.0 < 2 * packet);
    let may_mark = (congested || is_short) && ecn == ECT;
    let changed = packets.ecn.iter().filter(|bits| **bits != ecn && !(may_mark && **bits == CE)).count();
    let queue = if congested { "a congested queue" } else { "an empty queue" };
    judgement.require_unless_stalled(changed == 0, || {
        format!("{changed} packets with ECN bits {ecn:02b} left {queue} with other bits")
    });
    judgement.require_unless_stalled(lost == 0, || {
        format!("{lost} packets with ECN bits {ecn:02b} were lost, or got a wrong checksum")
    });
    require_no_stall(bench, judgement)?;
    Ok(packets)
}

fn ecn(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for bits in [ECT, CE] {
        send_packets(bench, &mut judgement, bits, false)?;
    }
    let not_capable = send_packets(bench, &mut judgement, 0, true)?;
    let queued = send_packets(bench, &mut judgement, ECT, true)?;
    if not_capable.early + queued.early > 0 {
        judgement.cannot_tell("packets arrived while their class was paused, so they did not queue; see case receive.stops-class");
        return Ok(judgement);
    }
    let packet = counted(bench, SIZE);
    let bytes = |packets: usize| packets as u64 * packet;
    let all = bytes(queued.ecn.len());
    judgement.measure("marked packets of a congested queue", queued.marked() as f64, "frames");
    judgement.measure("packets of the congested queue", queued.ecn.len() as f64, "frames");
    let Some([ecn, ecn_max]) = bench.setup.device.ecn.map(|ecn| ecn.map(|bytes| bytes.0)) else {
        judgement.note("whether the device marks ECN was not judged: the setup file has no `ecn` threshold");
        return Ok(judgement);
    };
    let [shortest, longest] = queued.marking().map(|packets| packets.map(bytes));
    let (least, most) = ((ecn - ecn / 4).saturating_sub(packet), ecn_max + ecn_max / 4 + packet);
    if let Some(shortest) = shortest {
        let limits = (Some(least as f64), None);
        judgement.limits("shortest queue with a mark", shortest as f64, "bytes", limits);
        judgement.require(shortest >= least, || {
            format!("packets were marked in a queue of {shortest} bytes; the threshold is {ecn} bytes")
        });
    }
    if all <= most {
        judgement.cannot_tell(format!(
            "only {all} bytes queued, too few to exceed the threshold of {ecn_max} bytes"
        ));
    } else if let Some(longest) = longest {
        judgement.limits("longest queue without a mark", longest as f64, "bytes", (None, Some(most as f64)));
        judgement.require(longest <= most, || {
            format!(
                "packets were not marked in a queue of {longest} bytes; from {ecn_max} bytes on, all must be"
            )
        });
    }
    Ok(judgement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_code_points_distinguish_wrong_map_from_disobedience() {
        let codes: Vec<_> =
            (0..16).map(|code| (Mark::Dscp(code), Class::ALL[usize::from(code / 2)])).collect();
        let stopped = |by: [&[usize]; 2]| {
            let of = |codes: &[usize]| (0..16).map(|index| codes.contains(&index)).collect();
            vec![(Class::ALL[3], of(by[0])), (Class::ALL[4], of(by[1]))]
        };
        for (by, expected) in [
            ([&[6, 7][..], &[8, 9][..]], false),
            ([&[], &[]], false),
            ([&[8, 9], &[10, 11]], false), // PFC for class n pauses class n + 1
            ([&[6, 7, 8, 9], &[6, 7, 8, 9]], false), // PFC for a class pauses both
            ([&[6, 7], &[8, 9, 10, 11]], false),
            ([&[6], &[8, 9]], true),
            ([&[3, 5, 11], &[8, 9]], true),
            ([&[6, 7, 8, 9], &[]], true), // class 4 is mapped to class 3
        ] {
            assert_eq!(shows_wrong_map(&codes, &stopped(by)), expected, "{by:?}");
        }
    }

    #[test]
    fn ecn_marks_show_marking_threshold() {
        let marking = |ecn: &[u8]| Packets { ecn: ecn.to_vec(), early: 0 }.marking();
        let of_three = [Some(3), Some(2)];
        assert_eq!(marking(&[ECT, ECT, CE, CE, CE]), of_three, "marked when they enter a queue of three");
        assert_eq!(marking(&[CE, CE, CE, ECT, ECT]), of_three, "marked when they leave a queue of three");
        assert_eq!(marking(&[CE, CE, ECT, CE, ECT]), [Some(2), Some(3)], "some marked in a queue of two");
        assert_eq!(marking(&[ECT; 5]), [None, Some(5)]);
        assert_eq!(marking(&[CE; 5]), [Some(1), None]);
    }
}
