//! Cases `map.dscp-ingress` and `map.pcp-ingress`: which class does the device pause for frames of each code point? Port 2 pauses all
//! classes, so that they fill the device; classes that ignore pauses are sent from two ports.

use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos};

use crate::bench::{Bench, Flow, StreamId, Void};
use crate::cases::buffers::counted;
use crate::cases::complete::{drain, full_size, share, tag_len};
use crate::cases::streams::{FROM, TO, paused_classes, require_held, settle_time, start_heartbeat};
use crate::judgement::Judgement;
use crate::setup::Mark;

const TIME_MAX: Nanos = Nanos::from_secs(45);
const FILL_MAX: Nanos = Nanos::from_secs(3);
const LAST: Nanos = Nanos::from_millis(20);
const RESUME_MAX: Nanos = Nanos::from_secs(2);
const QUIET: Nanos = Nanos::from_millis(30);
const IDLE: Nanos = Nanos::from_millis(150);
const ATTEMPTS_MAX: u32 = 8;
/// Fills with an unexpected result after which the result counts.
const REPEATS: u32 = 3;
/// Fills after which the case begins anew, because a case has at most 256 streams.
const FILLS_MAX: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Classes for which the device sent XOFF.
    Xoff(ClassSet),
    Passed,
    NotFilled,
    NotTested,
}

struct Fill {
    xoff: ClassSet,
    /// Bytes that the device kept or dropped of each sender, at least.
    bytes: u64,
    has_passed: bool,
}

pub(super) fn classes(bench: &mut Bench, codes: &[(Mark, Class)]) -> Result<Judgement, Void> {
    let begin = bench.now();
    let (lossless, obeys) = (bench.setup.device.lossless, bench.setup.device.obeys);
    let mut thresholds: [Option<u64>; CLASSES] = [None; CLASSES];
    let mut table = Vec::new();
    let mut fills = 0;
    for (mark, class) in in_turn(codes, lossless) {
        let enough = match lossless.contains(class) {
            true => thresholds[class.index()],
            false => thresholds.iter().flatten().max().copied(),
        };
        let senders = match obeys.contains(class) {
            true => &[FROM][..],
            false if bench.ports().len() > TO + 1 => &[FROM, TO + 1],
            false => &[],
        };
        let outcome = if bench.now().since(begin) > TIME_MAX {
            Outcome::NotTested
        } else if senders.is_empty() || enough.is_none() && !lossless.contains(class) {
            Outcome::NotFilled
        } else {
            let fill = settled(bench, &mut fills, (mark, class), senders, enough)?;
            if fill.xoff.contains(class) {
                let threshold = &mut thresholds[class.index()];
                *threshold = Some(fill.bytes.max(threshold.unwrap_or_default()));
            }
            match fill {
                Fill { has_passed: true, .. } => Outcome::Passed,
                Fill { xoff: ClassSet::NONE, bytes, .. } if enough.is_some_and(|enough| bytes < enough) => {
                    Outcome::NotFilled
                }
                Fill { xoff, .. } => Outcome::Xoff(xoff),
            }
        };
        table.push((mark, class, outcome));
    }
    let is_foreign = |xoff: &ClassSet, class: Class| !xoff.is_empty() && !xoff.contains(class);
    let is_suspect = |(_, class, outcome): &(Mark, Class, Outcome)| matches!(outcome, Outcome::Xoff(xoff) if is_foreign(xoff, *class));
    let unasked = if table.iter().any(is_suspect) { without_frames(bench)? } else { ClassSet::NONE };
    table.sort_by_key(|row| codes.iter().position(|code| code.0 == row.0));
    Ok(judge(&table, lossless, unasked))
}

/// Orders code points: first those of lossless classes, of each class in turn.
fn in_turn(codes: &[(Mark, Class)], lossless: ClassSet) -> Vec<(Mark, Class)> {
    let rank = |at: usize| codes[..at].iter().filter(|code| code.1 == codes[at].1).count();
    let mut order: Vec<usize> = (0..codes.len()).collect();
    order.sort_by_key(|&at| (!lossless.contains(codes[at].1), rank(at)));
    order.into_iter().map(|at| codes[at]).collect()
}

/// Fills the device until the result is the expected one, or three undisturbed fills had another one.
fn settled(
    bench: &mut Bench,
    fills: &mut u32,
    code: (Mark, Class),
    senders: &[usize],
    enough: Option<u64>,
) -> Result<Fill, Void> {
    let is_lossless = bench.setup.device.lossless.contains(code.1);
    let mut repeats = 0;
    for _ in 0..ATTEMPTS_MAX {
        if fills.is_multiple_of(FILLS_MAX) {
            bench.begin_case()?;
            bench.only_count(TO);
            start_heartbeat(bench)?;
        }
        *fills += 1;
        let begin = bench.now();
        let fill = fill(bench, code, senders, enough)?;
        let is_steady = require_held(bench, begin).is_ok();
        let is_expected = fill.xoff.contains(code.1) || fill.xoff.is_empty() && !is_lossless;
        if is_expected && !fill.has_passed {
            return Ok(fill);
        }
        if bench.device_stall() > bench.stall_limit() {
            *fills = 0; // restarts the heartbeat
        } else if is_steady {
            repeats += 1;
            if repeats == REPEATS {
                return Ok(fill);
            }
        }
    }
    Err(Void::Disturbed(format!("tester or device stalled while frames with {} filled the device", code.0)))
}

/// Sends frames of a code point into the paused device until it pauses their class, or keeps twice `enough` bytes of each sender.
fn fill(
    bench: &mut Bench,
    (mark, class): (Mark, Class),
    senders: &[usize],
    enough: Option<u64>,
) -> Result<Fill, Void> {
    let device = &bench.setup.device;
    let (obeys, is_paused) = (device.obeys, device.obeys.contains(class));
    let span_max = device.watchdog.map_or(FILL_MAX, |time| Nanos(time.0 / 2).min(FILL_MAX));
    let settle = settle_time(bench);
    let untagged = if mark == Mark::Untagged { tag_len(bench, FROM) } else { 0 };
    let size = full_size(bench, FROM) - untagged;
    let frame = counted(bench, size);
    let rate = share(bench, 100 * senders.len() as u64, senders.len(), size);
    let limit = enough.map(|bytes| 2 * bytes + 8 * frame);
    let span =
        limit.map_or(span_max, |bytes| Nanos(4 * rate.time_of(Bytes(bytes)).0).after(LAST).min(span_max));
    if !obeys.is_empty() {
        bench.hold(TO, obeys, span.after(Nanos(4 * settle.0)).after(LAST));
    }
    bench.run_for(settle)?;
    let earlier: Vec<(usize, usize)> =
        senders.iter().map(|port| (*port, bench.controls(*port).len())).collect();
    let mut streams: Vec<StreamId> = Vec::new();
    for port in senders {
        let rate = rate.min(bench.port(*port).speed());
        streams.push(bench.stream(Flow::new(*port, TO, class).mark(mark).size(size).rate(rate))?);
    }
    let xoff = |bench: &Bench| {
        let classes =
            earlier.iter().map(|&(port, earlier)| paused_classes(&bench.controls(port)[earlier..]).0);
        ClassSet(classes.fold(0, |all, classes| all | classes))
    };
    let kept =
        |bench: &Bench| streams.iter().map(|stream| bench.missing(*stream) * frame).min().unwrap_or_default();
    let is_over =
        |bench: &Bench| xoff(bench).contains(class) || limit.is_some_and(|limit| kept(bench) >= limit);
    bench.run_until(span, is_over)?;
    let bytes = kept(bench);
    bench.stop_streams(&streams);
    bench.run_until(LAST.max(settle), |bench| xoff(bench).contains(class))?;
    let has_passed = is_paused && streams.iter().any(|stream| bench.tally(*stream).frames > 0);
    let xoff = xoff(bench);
    bench.release(TO);
    empty(bench, &streams, is_paused)?;
    Ok(Fill { xoff, bytes, has_passed })
}

fn empty(bench: &mut Bench, streams: &[StreamId], is_complete: bool) -> Result<(), Void> {
    if is_complete {
        drain(bench, streams)?;
    }
    let missing = |bench: &Bench| streams.iter().map(|stream| bench.missing(*stream)).sum::<u64>();
    let quiet = QUIET.max(bench.stall_limit());
    loop {
        let before = missing(bench);
        if bench.run_until(quiet, |bench| missing(bench) == 0)? || missing(bench) == before {
            break;
        }
    }
    let end = bench.now().after(RESUME_MAX);
    while bench.is_paused() && bench.now() < end {
        bench.run_for(Nanos::from_millis(1))?;
    }
    Ok(())
}

/// Returns the classes that the idle device pauses.
fn without_frames(bench: &mut Bench) -> Result<ClassSet, Void> {
    bench.begin_case()?;
    start_heartbeat(bench)?;
    if !bench.setup.device.obeys.is_empty() {
        bench.hold(TO, bench.setup.device.obeys, IDLE);
    }
    bench.run_for(IDLE)?;
    bench.release(TO);
    let ports = 0..bench.ports().len();
    Ok(ClassSet(ports.fold(0, |all, port| all | paused_classes(bench.controls(port)).0)))
}

fn judge(table: &[(Mark, Class, Outcome)], lossless: ClassSet, unasked: ClassSet) -> Judgement {
    let mut judgement = Judgement::new();
    let found =
        table.iter().filter_map(|(mark, class, outcome)| Some((*mark, *class, outcome.xoff(unasked)?)));
    let found: Vec<(Mark, Class, ClassSet)> = found.collect();
    let is_silent = |class: Class| !found.iter().any(|(_, of, xoff)| *of == class && !xoff.is_empty());
    let mut wrong = 0;
    for &(mark, class, xoff) in &found {
        let is_lossless = lossless.contains(class);
        let is_foreign = !xoff.is_empty() && !xoff.contains(class);
        let is_missing = xoff.is_empty() && is_lossless && !is_silent(class);
        wrong += u32::from(is_foreign || is_missing);
        judgement.require(!is_foreign, || {
            let kind = if is_lossless { "class" } else { "the lossy class" };
            format!("frames with {mark} caused XOFF of {xoff:?}; by the setup file they have {kind} {class}")
        });
        judgement.require_unless_stalled(!is_missing, || {
            format!("frames with {mark} caused no XOFF; by the setup file they have class {class}")
        });
    }
    for class in lossless.iter().filter(|class| found.iter().any(|row| row.1 == *class)) {
        if is_silent(class) {
            judgement
                .cannot_tell(format!("the device sent no XOFF for class {class}; see case send.before-loss"));
        }
    }
    if found.is_empty() {
        judgement.cannot_tell("no code point could be examined");
    }
    if !unasked.is_empty() {
        judgement.cannot_tell(format!("the device pauses {unasked:?} without cause; see case send.spurious"));
    }
    let marks =
        |of: Outcome| -> Vec<Mark> { table.iter().filter(|row| row.2 == of).map(|row| row.0).collect() };
    let passed = marks(Outcome::Passed);
    if !passed.is_empty() {
        judgement.cannot_tell(format!(
            "frames with {} left the device although it was paused; see cases receive.stops-class and map.dscp",
            describe(&passed)
        ));
    }
    judgement.limits(
        "code points with a wrong ingress class",
        f64::from(wrong),
        "code points",
        (None, Some(0.0)),
    );
    let mut sets: Vec<ClassSet> = found.iter().map(|row| row.2).collect();
    sets.sort_by_key(|set| set.0);
    sets.dedup();
    for set in sets {
        let of: Vec<Mark> = found.iter().filter(|row| row.2 == set).map(|row| row.0).collect();
        let cause = if set.is_empty() { "no XOFF".to_owned() } else { format!("XOFF of {set:?}") };
        judgement.measure(&format!("{cause}: {}", describe(&of)), of.len() as f64, "code points");
    }
    for (outcome, reason) in [
        (Outcome::NotFilled, "the tester cannot fill the device (a lossy class needs port 3)"),
        (Outcome::NotTested, "the case took too long"),
    ] {
        let marks = marks(outcome);
        if !marks.is_empty() {
            judgement.note(format!("not examined, because {reason}: {}", describe(&marks)));
        }
    }
    judgement
}

impl Outcome {
    fn xoff(self, unasked: ClassSet) -> Option<ClassSet> {
        match self {
            Outcome::Xoff(xoff) => Some(ClassSet(xoff.0 & !unasked.0)),
            _ => None,
        }
    }
}

/// Returns code points of one kind as ranges, such as `DSCP 24 to 31, 40`.
pub(super) fn describe(marks: &[Mark]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let codes: Vec<u8> = marks.iter().filter_map(|mark| mark.code()).collect();
    for range in codes.chunk_by(|a, b| a + 1 == *b) {
        parts.push(match (range[0], range[range.len() - 1]) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first} to {last}"),
        });
    }
    let kind = if marks.iter().any(|mark| matches!(mark, Mark::Pcp(_))) { "PCP" } else { "DSCP" };
    let mut text = if parts.is_empty() { String::new() } else { format!("{kind} {}", parts.join(", ")) };
    if marks.contains(&Mark::Untagged) {
        text.push_str(if text.is_empty() { "untagged" } else { ", untagged" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    const LOSSLESS: ClassSet = ClassSet(0b1_1000);

    fn table(outcomes: &[(u8, u8)]) -> Vec<(Mark, Class, Outcome)> {
        let row = |&(dscp, xoff): &(u8, u8)| {
            (Mark::Dscp(dscp), Class::ALL[usize::from(dscp / 8)], Outcome::Xoff(ClassSet(xoff)))
        };
        outcomes.iter().map(row).collect()
    }

    #[test]
    fn foreign_or_missing_xoff_of_code_point_fails() {
        const RIGHT: [(u8, u8); 4] = [(24, 8), (32, 16), (0, 0), (63, 0)];
        for (outcomes, unasked, verdict) in [
            (&RIGHT[..], 0, Verdict::Pass),
            (&[(24, 8), (27, 16)], 0, Verdict::Fail),
            (&[(24, 8), (27, 24)], 0, Verdict::Pass),
            (&[(24, 8), (27, 0)], 0, Verdict::Fail),
            (&[(24, 0), (27, 0), (32, 16)], 0, Verdict::CannotTell),
            (&[(24, 8), (63, 8)], 0, Verdict::Fail),
            (&[(24, 8), (63, 128)], 0, Verdict::Pass),
            (&[(24, 8), (63, 8)], 8, Verdict::CannotTell),
            (&[], 0, Verdict::CannotTell),
        ] {
            let judgement = judge(&table(outcomes), LOSSLESS, ClassSet(unasked));
            assert_eq!(judgement.verdict(), verdict, "{outcomes:?}: {}", judgement.reason());
        }
        let measured = judge(&table(&RIGHT), LOSSLESS, ClassSet::NONE).measurements;
        let names: Vec<&str> = measured.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names[1], "no XOFF: DSCP 0, 63");
    }

    #[test]
    fn code_points_of_lossless_classes_are_examined_first_in_turn() {
        let codes = [0, 24, 25, 32, 33].map(|dscp| (Mark::Dscp(dscp), Class::ALL[usize::from(dscp / 8)]));
        let order: Vec<Mark> = in_turn(&codes, LOSSLESS).into_iter().map(|code| code.0).collect();
        assert_eq!(order, [24, 32, 25, 33, 0].map(Mark::Dscp));
    }

    #[test]
    fn code_points_are_described_as_ranges() {
        let marks: Vec<Mark> = [3, 4, 5, 9].map(Mark::Dscp).to_vec();
        assert_eq!(describe(&marks), "DSCP 3 to 5, 9");
        assert_eq!(describe(&[Mark::Pcp(0), Mark::Untagged]), "PCP 0, untagged");
    }
}
