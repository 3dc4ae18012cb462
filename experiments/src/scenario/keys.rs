//! The keys of a scenario, table by table, and how the value of each is read.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use toml_span::Value;
use toml_span::value::ValueInner;
use xoff_config::reader::Parsed;
use xoff_config::reader::parse::{self, OrOff};
use xoff_config::{Choice as _, SpreadKind, quantity};
use xoff_sim::flows::FLOW_BYTES_MAX;
use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::faults::{FaultKind, Place};
use super::{Between, Control, End, Gaps, LoadKind, Obeys, Of, Size, TopologyKind, Transport};

/// Most of a run: an hour.
const TIME_MAX: Nanos = Nanos::from_secs(3_600);
/// The highest seed: round, with room for one more in each run below what TOML has no numbers for.
pub const SEED_MAX: u64 = 1_000_000_000_000_000_000;
/// The least share of MAC control.
const CONTROL_STEP: f64 = 1.0 / 1_024.0;
/// Hosts of a fabric.
const HOST_MAX: u32 = 1_000_000;

xoff_config::keys! {
    /// `[scenario]`.
    struct ScenarioKeys {
        name: String = parse::name;
        about: String = line;
        duration: OrOff<Nanos> = parse::or_word("until-done", parse::time(Nanos(1)..=TIME_MAX));
        limit: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        warm_up: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        seed: u64 = parse::integer(0..=SEED_MAX);
    }
}

xoff_config::keys! {
    /// `[topology]`.
    struct TopologyKeys {
        kind: TopologyKind = parse::choice(TopologyKind::WORDS);
        hosts: u32 = parse::integer(1..=65_536);
        switches: u32 = parse::integer(1..=4_096);
        k: u8 = parse::integer(4..=128);
        pods: u32 = parse::integer(1..=128);
        edges: u32 = parse::integer(1..=128);
        aggregations: u32 = parse::integer(1..=128);
        cores: u32 = parse::integer(1..=4_096);
        leaves: u32 = parse::integer(1..=256);
        spines: u32 = parse::integer(1..=256);
        rate: BitRate = parse::rate;
        delay: Nanos = parse::time(Nanos::ZERO..=Nanos::from_millis(5));
        host_rate: BitRate = parse::rate;
        host_delay: Nanos = parse::time(Nanos::ZERO..=Nanos::from_millis(5));
        core_rate: BitRate = parse::rate;
        core_delay: Nanos = parse::time(Nanos::ZERO..=Nanos::from_millis(5));
        failed: Vec<(u8, u8)> = lines;
        spread: SpreadKind = parse::choice(SpreadKind::WORDS);
        routed: bool = parse::boolean;
        file: PathBuf = file;
    }
}

xoff_config::keys! {
    /// `[hosts]`.
    struct HostKeys {
        transport: Transport = parse::choice(Transport::WORDS);
        control: Control = parse::choice(Control::WORDS);
        payload: u32 = parse::integer(64..=9_000);
        pauses: Obeys = pauses;
        ofc: bool = parse::boolean;
        gfc: bool = parse::boolean;
        window: OrOff<Bytes> = parse::or_word("none", parse::bytes);
        ack_every: u32 = parse::integer(1..=1_000);
        ack_class: Class = parse::class;
        timeout: Nanos = parse::time(Nanos::from_micros(1)..=Nanos::from_secs(10));
    }
}

xoff_config::keys! {
    /// `[hosts.dcqcn]`.
    struct DcqcnKeys {
        gain: f64 = parse::share;
        alpha_timer: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        increase_timer: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        byte_counter: Bytes = parse::bytes;
        fast_recovery: u32 = parse::integer(1..=1_000);
        additive: BitRate = parse::rate;
        hyper: BitRate = parse::rate;
        rate_min: BitRate = parse::rate;
        cnp_interval: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        cnp_class: Class = parse::class;
    }
}

xoff_config::keys! {
    /// `[hosts.qcn]`.
    struct QcnKeys {
        decrease: u32 = parse::integer(1..=1_000_000);
        fast_recovery: u32 = parse::integer(1..=1_000);
        byte_counter: Bytes = parse::bytes;
        timer: Nanos = parse::time(Nanos::from_micros(10)..=Nanos::from_secs(1));
        additive: BitRate = parse::rate;
        hyper: BitRate = parse::rate;
        rate_min: BitRate = parse::rate;
        jitter: u8 = parse::integer(0..=50);
    }
}

xoff_config::keys! {
    /// `[hosts.swift]`.
    struct SwiftKeys {
        target: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        additive: f64 = positive;
        decrease: f64 = parse::share;
        decrease_max: f64 = parse::share;
        flow_range: Nanos = parse::time(Nanos::ZERO..=Nanos::from_secs(1));
    }
}

xoff_config::keys! {
    /// `[hosts.timely]`.
    struct TimelyKeys {
        gain: f64 = parse::share;
        decrease: f64 = parse::share;
        additive: BitRate = parse::rate;
        low: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        high: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        idle: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
        hyper_after: u32 = parse::integer(1..=1_000);
        rate_min: BitRate = parse::rate;
    }
}

xoff_config::keys! {
    /// `[[load]]`, whatever its kind.
    struct LoadKeys {
        kind: LoadKind = parse::choice(LoadKind::WORDS);
        name: String = parse::name;
        class: Class = parse::class;
        hosts: Vec<u32> = hosts;
        load: f64 = offered;
        size: Size = size;
        between: Between = parse::choice(Between::WORDS);
        begin: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        jitter: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        end: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        askers: Vec<u32> = hosts;
        servers: Vec<u32> = hosts;
        fan_in: u32 = parse::integer(1..=65_536);
        question: Bytes = question;
        deadline: Nanos = parse::time(Nanos(1)..=TIME_MAX);
        open: bool = parse::boolean;
        gap: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        gaps: Gaps = parse::choice(Gaps::WORDS);
        pairs: Vec<(u32, u32)> = pairs;
        ahead: u32 = parse::integer(1..=65_535);
        flows: u32 = parse::integer(1..=1_000_000);
        rate: BitRate = parse::rate;
        file: PathBuf = file;
    }
}

xoff_config::keys! {
    /// `[[fault]]`.
    struct FaultKeys {
        kind: FaultKind = parse::choice(FaultKind::WORDS);
        at: Place = place;
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
        late_by: Nanos = parse::time(Nanos(1)..=Nanos::from_secs(1));
    }
}

xoff_config::keys! {
    /// `[[receiver]]`.
    struct ReceiverKeys {
        hosts: Vec<u32> = hosts;
        rate: BitRate = parse::rate;
        buffer: Bytes = parse::bytes;
        xoff: Bytes = parse::bytes;
        xon: Bytes = parse::bytes;
        begin: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        end: Nanos = parse::time(Nanos(1)..=TIME_MAX);
    }
}

xoff_config::keys! {
    /// `[[change]]`, beside the keys of a switch.
    struct ChangeKeys {
        at: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        switch: Of = of;
    }
}

xoff_config::keys! {
    /// `[output]`.
    struct OutputKeys {
        begin: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        sample: OrOff<Nanos> = parse::or_word("off", parse::time(Nanos(100)..=TIME_MAX));
        pauses: bool = parse::boolean;
        throughput_flows: u32 = parse::integer(0..=10_000);
    }
}

/// Text of one line.
fn line(value: &Value<'_>) -> Parsed<String> {
    let line =
        value.as_str().filter(|text| (1..=200).contains(&text.len()) && !text.chars().any(char::is_control));
    line.map(str::to_owned).ok_or_else(|| "a text of one line, of up to 200 bytes".into())
}

fn positive(value: &Value<'_>) -> Parsed<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    number.filter(|number| *number > 0.0 && *number <= 1e6).ok_or_else(|| "a number above 0".into())
}

/// What is offered of a line; it may be more than the line takes.
fn offered(value: &Value<'_>) -> Parsed<f64> {
    positive(value)
        .ok()
        .filter(|load| *load <= 10.0)
        .ok_or_else(|| "a share of a host's line, above 0 and up to 10, such as 0.6".into())
}

/// A share of MAC control, which is counted in steps.
fn of_control(value: &Value<'_>) -> Parsed<f64> {
    let share = parse::share_or_none(value).ok();
    share.filter(|share| *share == 0.0 || *share >= CONTROL_STEP).ok_or_else(|| {
        "0, or a number from 1/1024 (0.0009765625) to 1: shares of MAC control are in steps of 1/1024".into()
    })
}

fn pauses(value: &Value<'_>) -> Parsed<Obeys> {
    match value.as_str() {
        Some("obey") => Ok(Obeys::AtOnce),
        Some("ignore") => Ok(Obeys::Never),
        _ => parse::time(Nanos(1)..=Nanos::from_secs(1))(value)
            .map(Obeys::After)
            .map_err(|allowed| format!("\"obey\", \"ignore\", or {allowed} by which hosts are late")),
    }
}

fn size(value: &Value<'_>) -> Parsed<Size> {
    let table = value.as_str().and_then(|text| super::SIZES.iter().find(|name| **name == text));
    if let Some(name) = table {
        return Ok(Size::Table(name));
    }
    if let Some((least, most)) = value.as_str().and_then(|text| text.split_once("..")) {
        let ends = quantity::parse_bytes(least.trim()).zip(quantity::parse_bytes(most.trim()));
        return ends
            .filter(|(least, most)| least < most && most.0 <= FLOW_BYTES_MAX)
            .map(|(least, most)| Size::Uniform(least.0, most.0))
            .ok_or_else(|| "two sizes of 128GiB at most, the smaller first, such as \"1KB..150KB\"".into());
    }
    let bytes = match value.as_ref() {
        ValueInner::Integer(bytes) => u64::try_from(*bytes).ok(),
        ValueInner::String(text) => quantity::parse_bytes(text).map(|bytes| bytes.0),
        _ => None,
    };
    bytes.filter(|bytes| (1..=FLOW_BYTES_MAX).contains(bytes)).map(Size::Fixed).ok_or_else(|| {
        format!("a size such as \"64KB\", 128GiB at most, two of them such as \"1KB..150KB\", or the name of a table of sizes: {}", super::SIZES.join(", "))
    })
}

fn question(value: &Value<'_>) -> Parsed<Bytes> {
    let bytes = parse::bytes(value)?;
    if bytes.0 <= FLOW_BYTES_MAX {
        Ok(bytes)
    } else {
        Err("a size of 128GiB at most, such as \"2KB\"".into())
    }
}

/// Hosts by number, ranges as strings: `[0, "8-15"]`; each once.
fn hosts(value: &Value<'_>) -> Parsed<Vec<u32>> {
    let range = |entry: &Value<'_>| {
        let range = match entry.as_ref() {
            ValueInner::String(text) => text
                .split_once('-')
                .and_then(|(from, to)| from.trim().parse().ok().zip(to.trim().parse().ok())),
            _ => parse::integer(0..=HOST_MAX)(entry).ok().map(|host| (host, host)),
        };
        range.filter(|(from, to)| from <= to && *to <= HOST_MAX).ok_or_else(String::new)
    };
    let mut hosts: Vec<u32> = parse::list(value, range)
        .filter(|ranges| !ranges.is_empty())
        .ok_or("a list of hosts by number, one at least, such as [0, 1] or [0, \"8-15\"]")?
        .into_iter()
        .flat_map(|(from, to)| from..=to)
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    Ok(hosts)
}

fn pairs(value: &Value<'_>) -> Parsed<Vec<(u32, u32)>> {
    let host = parse::integer(0..=HOST_MAX);
    let pair = |entry: &Value<'_>| match parse::list(entry, &host).as_deref() {
        Some(&[from, to]) if from != to => Ok((from, to)),
        _ => Err(String::new()),
    };
    parse::list(value, pair)
        .filter(|pairs| !pairs.is_empty())
        .ok_or_else(|| "a list of pairs of different hosts, such as [[0, 3], [1, 3]]".into())
}

/// Lines between leaves and spines.
fn lines(value: &Value<'_>) -> Parsed<Vec<(u8, u8)>> {
    let number = parse::integer(0..=u8::MAX);
    let pair = |entry: &Value<'_>| match parse::list(entry, &number).as_deref() {
        Some(&[leaf, spine]) => Ok((leaf, spine)),
        _ => Err(String::new()),
    };
    parse::list(value, pair)
        .ok_or_else(|| "a list of lines by leaf and spine, such as [[2, 1], [3, 0]]".into())
}

/// An end of a link, as it is written in results, a switch, or all of them.
fn place(value: &Value<'_>) -> Parsed<Place> {
    let place = value.as_str().and_then(|text| match text.split_at_checked(1)? {
        ("h", host) => host.parse().ok().map(|host| Place::End(End::Host(host))),
        ("s", rest) => Some(match rest.split_once('p') {
            Some((switch, port)) => Place::End(End::Switch(switch.parse().ok()?, port.parse().ok()?)),
            None => Place::Switch(rest.parse().ok()?),
        }),
        _ => (text == "all").then_some(Place::AllSwitches),
    });
    place.ok_or_else(|| {
        "an end of a link (\"h3\" is host 3, \"s1p2\" is port 2 of switch 1), a switch (\"s1\"), or \"all\" switches".into()
    })
}

/// A time, or any between two.
fn span(value: &Value<'_>) -> Parsed<RangeInclusive<Nanos>> {
    let allowed = || {
        "a time of 1 ns to an hour such as \"20us\", or two of them, the shorter first, such as \"10us..50us\"".to_owned()
    };
    let ends = match value.as_str().and_then(|text| text.split_once("..")) {
        Some((least, most)) => quantity::parse_time(least.trim()).zip(quantity::parse_time(most.trim())),
        None => parse::time(Nanos(1)..=TIME_MAX)(value).ok().map(|time| (time, time)),
    };
    let ends = ends.filter(|(least, most)| Nanos(1) <= *least && least <= most && *most <= TIME_MAX);
    ends.map(|(least, most)| least..=most).ok_or_else(allowed)
}

/// Switches that are meant.
fn of(value: &Value<'_>) -> Parsed<Of> {
    match value.as_str() {
        Some("all") => Ok(Of::All),
        Some(kind) if !kind.is_empty() => Ok(Of::Kind(kind.to_owned())),
        _ => parse::integer(0..=u32::MAX)(value)
            .map(Of::Switch)
            .map_err(|_| "\"all\", a kind of switches, or the number of one".into()),
    }
}

fn file(value: &Value<'_>) -> Parsed<PathBuf> {
    let path = value.as_str().filter(|path| !path.is_empty() && !path.contains('\0'));
    path.map(PathBuf::from).ok_or_else(|| "the path of a file, from the scenario's on".into())
}
