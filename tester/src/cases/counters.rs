//! Group `counters`: do the device's counters agree with the frames on the wire? The command `counters` of the setup
//! file prints one line per counter: port label, name, value.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use xoff_wire::MacControl;
use xoff_wire::units::Nanos;

use super::complete::{drain, send_all, share};
use super::headroom::overfill;
use super::streams::{FROM, TO, lossless, response_limit, start_heartbeat};
use super::{Case, Run, watchdog};
use crate::bench::{Bench, Flow, Void};
use crate::judgement::Judgement;
use crate::report::Verdict;

const fn case(id: &'static str, title: &'static str, run: Run) -> Case {
    Case { id, title, source: "IEEE 802.1Q 12.23; counters of the device", ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case("counters.frames", "Does the device count received and sent frames?", frames),
    case("counters.pfc", "Does the device count received and sent PFC frames?", pfc),
    case("counters.drops", "Does the device count the frames that it drops?", drops),
    case("counters.watchdog", "Does the device count pause storms, and the frames dropped in them?", storms),
];

const SETTLE: Nanos = Nanos::from_secs(3);
const READINGS_MAX: usize = 5;
const FRAMES: u64 = 1_000;
const TX_FRAMES: &str = "tx_frames";
const PAUSES: u64 = 10;
const STORMS: u64 = 2;

type Key = (String, String);
type Counters = BTreeMap<Key, u64>;

/// Maximum time of the `counters` command, in seconds. Then `timeout` sends it SIGTERM, and SIGKILL a second later.
const COMMAND_MAX: &str = "10";
/// Exit code of `timeout` after it sent SIGTERM. After SIGKILL it has none, because it kills itself, too.
const TIMED_OUT: i32 = 124;
const OUTPUT_MAX: Duration = Duration::from_secs(12);

fn read(bench: &Bench) -> Result<Counters, Void> {
    let Some(command) = &bench.setup.device.counters else {
        return Err(Void::NotPossible("the setup file has no `counters` command".into()));
    };
    if bench.is_closed() {
        return Err(Void::Interrupted);
    }
    let failed =
        |reason: String| Void::NotPossible(format!("the `counters` command `{command}` failed: {reason}"));
    let Some(output) = run(command, OUTPUT_MAX) else {
        return Err(failed(
            "a program that it started keeps its output open; redirect that output".to_owned(),
        ));
    };
    let output = output.map_err(|error| failed(error.to_string()))?;
    if matches!(output.status.code(), None | Some(TIMED_OUT)) {
        return Err(failed(format!("the command did not end within {COMMAND_MAX} s")));
    }
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).map_err(|line| {
        failed(format!(
            "the line `{line}` is no counter; print lines of port, name and value, such as `p1 pfc_sent 7`"
        ))
    })
}

fn run(command: &str, limit: Duration) -> Option<io::Result<Output>> {
    let mut timeout = Command::new("timeout");
    timeout.args(["-k", "1", COMMAND_MAX, "sh", "-c", command]).stdin(Stdio::null());
    let (done, output) = mpsc::channel();
    std::thread::spawn(move || done.send(timeout.output()));
    output.recv_timeout(limit).ok()
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

struct Expected {
    key: Key,
    frames: u64,
    /// Port whose other frames, such as the device's own, may count, and their earlier number.
    others: Option<(usize, u64)>,
}

impl Expected {
    fn exactly(key: Key, frames: u64) -> Expected {
        Expected { key, frames, others: None }
    }
}

fn key(bench: &Bench, port: usize, name: &str) -> Result<Key, Void> {
    let missing = || Void::NotPossible(format!("port {} has no label; set `connected`", port + 1));
    Ok((bench.port(port).settings.connected.clone().ok_or_else(missing)?, name.to_owned()))
}

/// Reads the counters `keys` until they are stable. Counters of sent frames may still grow, because devices send frames
/// of their own.
fn settled(bench: &mut Bench, keys: &[&Key]) -> Result<Counters, Void> {
    let read = |bench: &Bench| -> Result<Counters, Void> {
        let mut counters = read(bench)?;
        counters.retain(|key, _| keys.contains(&key));
        Ok(counters)
    };
    let mut before = read(bench)?;
    for _ in 1..READINGS_MAX {
        bench.run_for(SETTLE)?;
        let after = read(bench)?;
        let is_settled = |key: &&Key| key.1 == TX_FRAMES || after.get(*key) == before.get(*key);
        if keys.iter().copied().all(|key| is_settled(&key)) {
            return Ok(after);
        }
        before = after;
    }
    Err(Void::Disturbed("the device's counters do not settle: keep other traffic away from its ports".into()))
}

/// Returns the growth of a counter; a counter that appeared since `before` began at zero.
fn growth(before: &Counters, after: &Counters, key: &Key) -> Option<u64> {
    let before = before.get(key).copied().unwrap_or(0);
    after.get(key).map(|now| now.saturating_sub(before))
}

fn judge(bench: &mut Bench, before: &Counters, expected: &[Expected]) -> Result<Judgement, Void> {
    // Check for stalls of the device before the `counters` command, which stalls the tester and so its heartbeat.
    let is_stalled = bench.device_stall() > bench.stall_limit();
    let begin = bench.now();
    let mut after = read(bench)?;
    let is_behind = |after: &Counters| {
        expected.iter().any(|of| growth(before, after, &of.key).is_some_and(|grown| grown < of.frames))
    };
    while is_behind(&after) && bench.now().since(begin) < SETTLE {
        bench.run_for(Nanos::from_millis(200))?;
        after = read(bench)?;
    }
    bench.run_for(Nanos::from_millis(1))?; // receive all frames that were counted
    let mut judgement = Judgement::new();
    for Expected { key, frames, others } in expected {
        let others = others.map_or(0, |(port, before)| self::others(bench, port) - before);
        let (port, name) = key;
        let Some(counted) = growth(before, &after, key) else {
            judgement.note(format!("the `counters` command prints no {name} of {port}"));
            continue;
        };
        judgement.measure(&format!("{name} of {port}"), counted as f64, "frames");
        judgement.require((*frames..=frames + others).contains(&counted), || {
            format!("the device counted {counted} as {name} of {port}; the tester counted {frames}")
        });
    }
    if judgement.measurements.is_empty() {
        return Err(Void::NotPossible("the `counters` command prints none of the case's counters".into()));
    }
    if is_stalled && judgement.verdict() == Verdict::Fail {
        return Err(Void::Disturbed(format!("the device stalled; {}", judgement.reason())));
    }
    Ok(judgement)
}

fn others(bench: &Bench, port: usize) -> u64 {
    (bench.controls(port).len() + bench.others(port).len()) as u64
}

fn frames(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let (received, sent) = (key(bench, FROM, "rx_frames")?, key(bench, TO, TX_FRAMES)?);
    let others_before = others(bench, TO);
    let before = settled(bench, &[&received, &sent])?;
    start_heartbeat(bench)?;
    let flow = Flow::new(FROM, TO, class);
    let rate = flow.rate.min(share(bench, 20, 1, flow.size));
    let stream = send_all(bench, flow.rate(rate), FRAMES)?;
    drain(bench, &[stream])?;
    let sent = Expected { key: sent, frames: bench.tally(stream).frames, others: Some((TO, others_before)) };
    judge(bench, &before, &[Expected::exactly(received, FRAMES), sent])
}

fn pfc(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let (received, sent) = (key(bench, TO, "pfc_received")?, key(bench, FROM, "pfc_sent")?);
    let before = settled(bench, &[&received, &sent])?;
    start_heartbeat(bench)?;
    let is_pfc = |frame: &&crate::bench::ControlFrame| matches!(frame.content, Ok(MacControl::Pfc(_)));
    let earlier = bench.controls(FROM).iter().filter(is_pfc).count();
    for _ in 0..PAUSES {
        bench.pause(TO, &[(class, 1_000)]);
        bench.run_for(Nanos::from_millis(1))?;
    }
    let pauses = PAUSES + congest(bench)?;
    let pfc = bench.controls(FROM).iter().filter(is_pfc).count() - earlier;
    let expected = [Expected::exactly(received, pauses), Expected::exactly(sent, pfc as u64)];
    judge(bench, &before, &expected)
}

/// Congests the device, so that it pauses port 1, and lets it drain. Returns how many PFC frames port 2 sent.
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
    bench.run_for(span.max(response_limit(bench)))?;
    Ok(sent + 1)
}

fn drops(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let dropped = key(bench, FROM, "dropped")?;
    let device = &bench.setup.device;
    let (Some(xoff), Some(headroom)) = (device.xoff, device.headroom) else {
        return Err(Void::NotPossible(
            "the case needs `xoff` and `headroom` in [device] of the setup file".into(),
        ));
    };
    let count = (xoff + headroom).0 / 1_000 * 5 / 4;
    let before = settled(bench, &[&dropped])?;
    start_heartbeat(bench)?;
    let lost = overfill(bench, &[class], 1_000, count)?;
    if lost == 0 {
        return Err(Void::NotPossible("the device dropped no frame beyond `xoff` plus `headroom`".into()));
    }
    judge(bench, &before, &[Expected::exactly(dropped, lost)])
}

fn storms(bench: &mut Bench) -> Result<Judgement, Void> {
    let [detected, restored, dropped] = ["storms_detected", "storms_restored", "watchdog_dropped"];
    let keys = [key(bench, TO, detected)?, key(bench, TO, restored)?, key(bench, TO, dropped)?];
    let before = settled(bench, &keys.each_ref())?;
    let lost = watchdog::storms(bench, STORMS)?;
    let [detected, restored, dropped] = keys;
    judge(
        bench,
        &before,
        &[
            Expected::exactly(detected, STORMS),
            Expected::exactly(restored, STORMS),
            Expected::exactly(dropped, lost),
        ],
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn counter_lines_are_parsed_as_port_then_name_then_value() {
        let counters = parse("p1 pfc_sent 7\n\np2 dropped 0\n").unwrap();
        assert_eq!(counters[&("p1".to_owned(), "pfc_sent".to_owned())], 7);
        assert_eq!(counters.len(), 2);
        let before = parse("p1 pfc_sent 5\n").unwrap();
        let key = |name: &str| ("p1".to_owned(), name.to_owned());
        assert_eq!(growth(&before, &counters, &key("pfc_sent")), Some(2));
        assert_eq!(growth(&before, &counters, &("p2".to_owned(), "dropped".to_owned())), Some(0));
        assert_eq!(growth(&before, &counters, &key("rx_frames")), None);
        for wrong in ["p1 pfc_sent", "p1 pfc_sent x", "p1 pfc_sent 7 8"] {
            assert_eq!(parse(wrong), Err(wrong.to_owned()));
        }
    }

    #[test]
    fn counters_command_whose_output_stays_open_is_given_up() {
        let output = run("echo p1 pfc_sent 7", OUTPUT_MAX).unwrap().unwrap();
        assert_eq!(output.stdout, b"p1 pfc_sent 7\n");
        assert!(run("sleep 30 & echo p1 pfc_sent 7", Duration::from_millis(100)).is_none());
    }
}
