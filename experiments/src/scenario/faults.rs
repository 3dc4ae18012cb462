use std::ops::RangeInclusive;

use toml_span::{Spanned, Value};
use xoff_config::reader::{Parsed, Problems, Table, parse, value};
use xoff_config::{Choice, Problem, quantity};
use xoff_sim::{At, ControlFaults, Picos};
use xoff_wire::units::Nanos;

use super::keys::{TIME_MAX, kinds, time};

const CONTROL_STEP: f64 = 1.0 / 1_024.0;

xoff_config::keys! {
    struct FaultKeys {
        kind: FaultKind = parse::choice(FaultKind::WORDS);
        at: FaultLocation = place;
        begin: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        end: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        gap: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        length: RangeInclusive<Nanos> = span;
        down: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        up: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        lost: f64 = parse::share_or_none;
        control_lost: f64 = of_control;
        control_late: f64 = of_control;
        control_again: f64 = of_control;
        control_harmed: f64 = of_control;
        late_by: Picos = time(Nanos(1)..=Nanos::from_secs(1));
    }
}

fn of_control(value: &Value<'_>) -> Parsed<f64> {
    let share = parse::share_or_none(value).ok();
    share.filter(|share| *share == 0.0 || *share >= CONTROL_STEP).ok_or_else(|| {
        "0, or a number from 1/1024 (0.0009765625) to 1: shares of MAC control frames are rounded up to steps of 1/1024".into()
    })
}

fn place(value: &Value<'_>) -> Parsed<FaultLocation> {
    let place = value.as_str().and_then(|text| match text.split_at_checked(1)? {
        ("h", rest) => {
            let (host, link) = rest.split_once('p').unwrap_or((rest, "0"));
            Some(FaultLocation::End(At::Host(host.parse().ok()?, link.parse().ok()?)))
        }
        ("s", rest) => Some(match rest.split_once('p') {
            Some((switch, port)) => FaultLocation::End(At::Switch(switch.parse().ok()?, port.parse().ok()?)),
            None => FaultLocation::Switch(rest.parse().ok()?),
        }),
        _ => (text == "all").then_some(FaultLocation::AllSwitches),
    });
    place.ok_or_else(|| {
        "an end of a link (\"h3\" is host 3, \"h3p1\" its link 1, \"s1p2\" is port 2 of switch 1), a switch (\"s1\"), or \"all\" switches".into()
    })
}

fn span(value: &Value<'_>) -> Parsed<RangeInclusive<Nanos>> {
    let allowed = || {
        "a time from 1 ns to one hour such as \"20us\", or a range of times such as \"10us..50us\"".to_owned()
    };
    let ends = match value.as_str().and_then(|text| text.split_once("..")) {
        Some((least, most)) => quantity::parse_time(least.trim()).zip(quantity::parse_time(most.trim())),
        None => parse::time(Nanos(1)..=TIME_MAX)(value).ok().map(|time| (time, time)),
    };
    let ends = ends.filter(|(least, most)| Nanos(1) <= *least && least <= most && *most <= TIME_MAX);
    ends.map(|(least, most)| least..=most).ok_or_else(allowed)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultLocation {
    End(At),
    Switch(u32),
    AllSwitches,
}

kinds! {
    FaultKind {
        Link = "link", ["at"],
            ["kind", "down", "up", "lost", "control_lost", "control_late", "control_again", "control_harmed", "late_by"];
        Stall = "stall", ["at", "begin", "end"], ["kind"];
        Stalls = "stalls", ["at", "gap", "length"], ["kind", "begin", "end"];
        Refusal = "refusal", ["at", "begin", "end"], ["kind"];
        LateCompletions = "late-completions", ["at", "begin", "end"], ["kind"];
        Restart = "restart", ["at", "begin"], ["kind", "end"];
    }
}

impl FaultKind {
    const fn place(self) -> &'static str {
        match self {
            FaultKind::Link => "an end of a link: \"h3\" is host 3, \"s1p2\" is port 2 of switch 1",
            FaultKind::Refusal => "a port of a switch: \"s1p2\" is port 2 of switch 1",
            _ => "a switch: \"s1\" is switch 1, \"all\" means all switches",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    Link(LinkFault),
    Switch(SwitchFault),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFault {
    pub at: At,
    /// Time at which both directions of the link fail.
    pub down: Option<Nanos>,
    pub up: Option<Nanos>,
    pub lost: f64,
    pub control: ControlFaults,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SwitchFault {
    pub switch: Option<u32>,
    pub what: Impairment,
    pub begin: Nanos,
    /// End of the fault; random stalls begin only before it.
    pub end: Nanos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Impairment {
    Stall,
    Stalls {
        gap: Nanos,
        length: RangeInclusive<Nanos>,
    },
    Refusal(u8),
    /// The driver learns late that its frames were sent.
    LateCompletions,
    Restart,
}

impl Fault {
    pub const fn lossy(at: At, lost: f64) -> Fault {
        Fault::Link(LinkFault { at, down: None, up: None, lost, control: NO_CONTROL })
    }
}

/// Default: MAC control frames have no faults; `late_by` is 10 us.
const NO_CONTROL: ControlFaults =
    ControlFaults { lost: 0, late: 0, again: 0, harmed: 0, late_by: Picos::from_micros(10) };

const AROUND: [&str; 3] = ["kind", "at", "late_by"];

pub(super) fn read(all: &[Table<'_, '_>], run_end: Nanos, problems: &mut Problems) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for table in all {
        let Some(fault) = read_one(table, run_end, problems) else { continue };
        if let Some(switch) = faults.iter().find_map(|before| restarted_by_both(before, &fault)) {
            let name = switch.map_or("all switches".to_owned(), |number| format!("switch {number}"));
            problems.push(
                Problem::error(format!("two [[fault]] tables restart {name} at overlapping times"))
                    .at(table.span, "second restart")
                    .help("let the `begin` of one restart be after the `end` of the other"),
            );
        }
        faults.push(fault);
    }
    faults
}

fn restarted_by_both(one: &Fault, other: &Fault) -> Option<Option<u32>> {
    let (Fault::Switch(one), Fault::Switch(other)) = (one, other) else { return None };
    let are_restarts = [one, other].iter().all(|fault| fault.what == Impairment::Restart);
    let is_one_switch = one.switch.is_none() || other.switch.is_none() || one.switch == other.switch;
    let are_at_one_time = one.begin <= other.end && other.begin <= one.end;
    (are_restarts && is_one_switch && are_at_one_time).then_some(one.switch.or(other.switch))
}

fn read_one(table: &Table<'_, '_>, run_end: Nanos, problems: &mut Problems) -> Option<Fault> {
    table.no_others(&[FaultKeys::KEYS], problems);
    let keys = FaultKeys::read(table, problems);
    if keys.kind.is_none() && table.value("kind").is_some() {
        return None; // the error is already reported
    }
    let kind = value(keys.kind.as_ref(), FaultKind::Link);
    super::of_kind(table, "[[fault]]", kind.word(), FaultKeys::KEYS, kind.keys(), problems);
    let is_set = |name: &&str| table.value(name).is_some();
    if kind == FaultKind::Link && !FaultKeys::KEYS.iter().filter(|name| !AROUND.contains(name)).any(is_set) {
        let problem = Problem::error(
            "a [[fault]] of kind \"link\" has neither `down` nor a share of lost or harmed frames",
        );
        problems.push(problem.at(table.span, "fault without effect").help(
            "add `down`, the time at which the link fails, or a share: `lost`, `control_lost`, `control_late`, \
             `control_again` or `control_harmed`; a share of 0 is allowed, as in a sweep's control point",
        ));
    } else if let Some(late_by) = &keys.late_by
        && kind == FaultKind::Link
        && !["control_late", "control_again"].iter().any(is_set)
    {
        let problem =
            Problem::error("`late_by` delays MAC control frames, but no share of frames is delayed");
        problems.push(problem.at(late_by.span, "of no effect").help(
            "add `control_late` or `control_again`, a share of delayed or duplicated frames; 0 is allowed, as in a sweep's control point",
        ));
    }
    for (key, what) in [(&keys.begin, "`begin` of a fault"), (&keys.down, "`down` of a fault")] {
        super::in_time(key.as_ref(), [what, "time after the end of the run"], run_end, problems);
    }
    match kind {
        FaultKind::Link => link(keys, problems),
        _ => switch(kind, keys, run_end, problems),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 1
fn of_1024(share: f64) -> u16 {
    (share * 1_024.0).ceil() as u16
}

fn misplaced(kind: FaultKind, at: &Spanned<FaultLocation>, problems: &mut Problems) {
    problems.push(
        Problem::error(format!("`at` of a fault of kind \"{}\" has to be {}", kind.word(), kind.place()))
            .at(at.span, "no such place"),
    );
}

fn link(keys: FaultKeys, problems: &mut Problems) -> Option<Fault> {
    if let Some(up) = &keys.up
        && keys.down.as_ref().is_none_or(|down| down.value >= up.value)
    {
        problems.push(
            Problem::error("`up` is not after `down`")
                .at(up.span, "the link has not failed before")
                .help("set `down` to a time before `up`"),
        );
    }
    let share = |key: &Option<Spanned<f64>>| value(key.as_ref(), 0.0);
    let [lost, late, again, harmed] =
        [&keys.control_lost, &keys.control_late, &keys.control_again, &keys.control_harmed]
            .map(|key| of_1024(share(key)));
    let late_by = value(keys.late_by.as_ref(), NO_CONTROL.late_by);
    let at = keys.at?;
    let FaultLocation::End(end) = at.value else {
        misplaced(FaultKind::Link, &at, problems);
        return None;
    };
    Some(Fault::Link(LinkFault {
        at: end,
        down: keys.down.map(|key| key.value),
        up: keys.up.map(|key| key.value),
        lost: share(&keys.lost),
        control: ControlFaults { lost, late, again, harmed, late_by },
    }))
}

fn switch(kind: FaultKind, keys: FaultKeys, run_end: Nanos, problems: &mut Problems) -> Option<Fault> {
    let begin = value(keys.begin.as_ref(), Nanos::ZERO);
    if let Some(end) = keys.end.as_ref().filter(|end| end.value <= begin) {
        problems.push(
            Problem::error("`end` is not after `begin`")
                .at(end.span, "fault without effect")
                .help("a fault lasts from `begin` to `end`: set `end` to a later time"),
        );
    }
    let without_end = if kind == FaultKind::Restart { begin } else { run_end };
    let end = value(keys.end.as_ref(), without_end);
    let at = keys.at?;
    let (switch, port) = match at.value {
        FaultLocation::End(At::Switch(switch, port)) => (Some(switch), Some(port)),
        FaultLocation::Switch(switch) => (Some(switch), None),
        FaultLocation::AllSwitches if kind != FaultKind::Refusal => (None, None),
        FaultLocation::End(At::Host(..)) | FaultLocation::AllSwitches => {
            misplaced(kind, &at, problems);
            return None;
        }
    };
    let what = match (kind, port) {
        (FaultKind::Refusal, Some(port)) => Impairment::Refusal(port),
        (FaultKind::Stall, None) => Impairment::Stall,
        (FaultKind::Stalls, None) => Impairment::Stalls { gap: keys.gap?.value, length: keys.length?.value },
        (FaultKind::LateCompletions, None) => Impairment::LateCompletions,
        (FaultKind::Restart, None) => Impairment::Restart,
        _ => {
            misplaced(kind, &at, problems);
            return None;
        }
    };
    Some(Fault::Switch(SwitchFault { switch, what, begin, end }))
}
