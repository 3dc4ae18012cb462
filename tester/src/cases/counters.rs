//! Group `counters`: do the device's counters agree with the frames on the wire? The command `counters` of the file
//! prints a line for each counter: label of the port, name, value. Names: `pfc_received`, `pfc_sent`, `rx_frames`,
//! `tx_frames`, `dropped`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use xoff_wire::MacControl;
use xoff_wire::units::Nanos;

use super::complete::drain;
use super::headroom::overfill;
use super::streams::{BEFORE, FROM, TO, lossless};
use super::{Case, Run};
use crate::bench::{Bench, Flow, Void};
use crate::judgement::Judgement;

const fn case(id: &'static str, title: &'static str, run: Run) -> Case {
    Case { id, title, source: "IEEE 802.1Q 12.23, the counters of the device", ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case("counters.frames", "Does the device count received and sent frames?", frames),
    case("counters.pfc", "Does the device count received and sent PFC frames?", pfc),
    case("counters.drops", "Does the device count the frames that it drops?", drops),
];

/// Maximum time until the device's counters contain the last frames.
const SETTLE: Nanos = Nanos::from_secs(3);
const FRAMES: u64 = 1_000;
const PAUSES: u64 = 10;

type Counters = BTreeMap<(String, String), u64>;

/// Runs the file's command.
fn read(bench: &Bench) -> Result<Counters, Void> {
    let Some(command) = &bench.setup.device.counters else {
        return Err(Void::NotPossible("the file has no `counters` command".into()));
    };
    let failed =
        |reason: String| Void::NotPossible(format!("the `counters` command `{command}` failed: {reason}"));
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).map_err(|line| {
        failed(format!(
            "the line `{line}` is no counter; print lines of port, name and value, such as `p1 pfc_sent 7`"
        ))
    })
}

fn parse(text: &str) -> Result<Counters, String> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let counter = (words.next()?.to_owned(), words.next()?.to_owned());
        let value = words.next()?.parse().ok()?;
        words.next().is_none().then_some((counter, value))
    };
    text.lines()
        .filter(|text| !text.trim().is_empty())
        .map(|text| line(text).ok_or_else(|| text.to_owned()))
        .collect()
}

/// Counter of a port that a case compares, with the number of frames on the wire.
struct Expected {
    port: usize,
    name: &'static str,
    frames: u64,
}

/// Judges the growth of counters since `before`.
fn judge(bench: &mut Bench, before: &Counters, expected: &[Expected]) -> Result<Judgement, Void> {
    let label = |bench: &Bench, port: usize| {
        let missing = || Void::NotPossible(format!("port {} has no label; set `connected`", port + 1));
        bench.port(port).settings.connected.clone().ok_or_else(missing)
    };
    let mut wanted = Vec::new();
    for of in expected {
        let counter = (label(bench, of.port)?, of.name.to_owned());
        if let Some(value) = before.get(&counter) {
            wanted.push((counter, *value, of.frames));
        }
    }
    if wanted.is_empty() {
        return Err(Void::NotPossible("the `counters` command prints none of the case's counters".into()));
    }
    let grown = |after: &Counters, (counter, value, _): &(_, u64, u64)| {
        after.get(counter).map_or(0, |now| now.saturating_sub(*value))
    };
    let begin = bench.now();
    let mut after = read(bench)?;
    while wanted.iter().any(|of| grown(&after, of) < of.2) && bench.now().since(begin) < SETTLE {
        bench.run_for(Nanos::from_millis(200))?;
        after = read(bench)?;
    }
    let mut judgement = Judgement::new();
    for of in &wanted {
        let ((port, name), _, frames) = of;
        let counted = grown(&after, of);
        judgement.measure(&format!("{name} of {port}"), counted as f64, "frames");
        judgement.require(counted == *frames, || {
            format!("the device counted {counted} frames as {name} of {port}; on the wire were {frames}")
        });
    }
    Ok(judgement)
}

fn frames(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    bench.run_for(BEFORE)?;
    let before = settled(bench)?;
    let stream = bench.stream(Flow::new(FROM, TO, class).count(FRAMES))?;
    bench.run_until(SETTLE, |bench| bench.tally(stream).frames >= FRAMES)?;
    drain(bench, &[stream])?;
    let arrived = bench.tally(stream).frames;
    judge(
        bench,
        &before,
        &[
            Expected { port: FROM, name: "rx_frames", frames: FRAMES },
            Expected { port: TO, name: "tx_frames", frames: arrived },
        ],
    )
}

/// Reads the counters twice, until they no longer change.
fn settled(bench: &mut Bench) -> Result<Counters, Void> {
    let mut before = read(bench)?;
    loop {
        bench.run_for(Nanos::from_millis(500))?;
        let after = read(bench)?;
        if after == before {
            return Ok(after);
        }
        before = after;
    }
}

fn pfc(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let before = settled(bench)?;
    let is_pfc = |frame: &&crate::bench::ControlFrame| matches!(frame.content, Ok(MacControl::Pfc(_)));
    let known = bench.controls(FROM).iter().filter(is_pfc).count();
    for _ in 0..PAUSES {
        bench.pause(TO, &[(class, 1_000)]);
        bench.run_for(Nanos::from_millis(1))?;
    }
    let sent = PAUSES + congest(bench)?;
    let received = bench.controls(FROM).iter().filter(is_pfc).count() - known;
    judge(
        bench,
        &before,
        &[
            Expected { port: TO, name: "pfc_received", frames: sent },
            Expected { port: FROM, name: "pfc_sent", frames: received as u64 },
        ],
    )
}

/// Congests the device until it pauses port 1, and lets it drain. Returns the number of PFC frames of port 2.
fn congest(bench: &mut Bench) -> Result<u64, Void> {
    let class = lossless(bench);
    let span = Nanos::from_millis(20);
    let mut sent = 0;
    let stream = bench.stream(super::send_flow(bench, class))?;
    for _ in 0..5 {
        bench.pause(TO, &[(class, u16::MAX)]);
        sent += 1;
        bench.run_for(span)?;
    }
    bench.stop(stream);
    bench.resume(TO, [class].into_iter().collect());
    drain(bench, &[stream])?;
    bench.run_for(span)?;
    Ok(sent + 1)
}

fn drops(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let before = settled(bench)?;
    let device = &bench.setup.device;
    let (Some(xoff), Some(headroom)) = (device.xoff, device.headroom) else {
        return Err(Void::NotPossible("the case needs `xoff` and `headroom` of [device]".into()));
    };
    let count = (xoff + headroom).0 / 1_000 * 5 / 4;
    let lost = overfill(bench, &[class], count)?;
    if lost == 0 {
        return Err(Void::NotPossible("the device dropped nothing beyond `xoff` and `headroom`".into()));
    }
    judge(bench, &before, &[Expected { port: FROM, name: "dropped", frames: lost }])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_lines_of_port_name_and_value() {
        let counters = parse("p1 pfc_sent 7\n\np2 dropped 0\n").unwrap();
        assert_eq!(counters[&("p1".to_owned(), "pfc_sent".to_owned())], 7);
        assert_eq!(counters.len(), 2);
        for wrong in ["p1 pfc_sent", "p1 pfc_sent x", "p1 pfc_sent 7 8"] {
            assert_eq!(parse(wrong), Err(wrong.to_owned()));
        }
    }
}
