use xoff_config::reader::{Problems, Table, parse, value};
use xoff_config::{Problem, quantity};
use xoff_sim::Picos;
use xoff_sim::flows::SlowReceiver;
use xoff_wire::units::{BitRate, Bytes, Nanos};

use super::keys::{TIME_MAX, hosts};

xoff_config::keys! {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    pub hosts: Vec<u32>,
    pub slow: SlowReceiver,
}

const BUFFER: Bytes = Bytes(1_000_000);

pub(super) fn read(all: &[Table<'_, '_>], limits: (Bytes, Nanos), problems: &mut Problems) -> Vec<Receiver> {
    let mut receivers: Vec<Receiver> = Vec::new();
    for table in all {
        let Some(receiver) = read_one(table, limits, problems) else { continue };
        let before = || receivers.iter().flat_map(|before| &before.hosts);
        if let Some(host) = receiver.hosts.iter().find(|host| before().any(|before| before == *host)) {
            problems.push(
                Problem::error(format!("two [[receiver]] tables name host {host}"))
                    .at(table.span, "second table")
                    .help("name each host in one [[receiver]] only"),
            );
        }
        receivers.push(receiver);
    }
    receivers
}

fn read_one(
    table: &Table<'_, '_>,
    (longest, run_end): (Bytes, Nanos),
    problems: &mut Problems,
) -> Option<Receiver> {
    table.no_others(&[ReceiverKeys::KEYS], problems);
    let keys = ReceiverKeys::read(table, problems);
    for (key, example) in [("hosts", "hosts = [3]"), ("rate", "rate = \"20G\"")] {
        if table.value(key).is_none() {
            problems.push(Problem::missing("[receiver]", key, example, table.span));
        }
    }
    let buffer = value(keys.buffer.as_ref(), BUFFER);
    let xoff = value(keys.xoff.as_ref(), Bytes(buffer.0 / 2));
    let xon = value(keys.xon.as_ref(), Bytes(xoff.0 / 2));
    let span = |of: [&Option<toml_span::Spanned<Bytes>>; 2]| {
        of.into_iter().flatten().next().map_or(table.span, |key| key.span)
    };
    if xon > xoff {
        problems.push(
            Problem::error(format!(
                "`xon` is {}, but has to be at most `xoff`, which is {}",
                quantity::bytes(xon),
                quantity::bytes(xoff)
            ))
            .at(span([&keys.xon, &keys.xoff]), "`xon` above `xoff`")
            .help("set a smaller `xon`; the default is half of `xoff`"),
        );
    }
    if xon == Bytes::ZERO {
        problems.push(
            Problem::error("`xon` of a [[receiver]] is 0")
                .at(span([&keys.xon, &keys.xoff]), "the switch would stay paused")
                .help(
                    "set `xon` above 0: the host resumes the switch when fewer bytes than `xon` are queued; the default is half of `xoff`",
                ),
        );
    }
    if xoff.saturating_add(longest) > buffer {
        let least = if keys.xoff.is_some() { xoff.saturating_add(longest) } else { Bytes(2 * longest.0 - 1) };
        let [xoff, buffer, longest, least] = [xoff, buffer, longest, least].map(quantity::bytes);
        problems.push(
            Problem::error(format!(
                "`buffer` is {buffer}, but has to be at least `xoff` ({xoff}) plus one frame (up to {longest})"
            ))
                .at(span([&keys.xoff, &keys.buffer]), "too small: `buffer` must hold one more frame than `xoff`")
                .help(format!(
                    "set `buffer` to at least {least}: frames that arrive until the switch pauses need space above `xoff`, \
                     which is half of `buffer` by default"
                )),
        );
    }
    let begin = value(keys.begin.as_ref(), Nanos::ZERO);
    super::in_time(
        keys.begin.as_ref(),
        ["`begin` of a [[receiver]]", "this receiver is never slow"],
        run_end,
        problems,
    );
    if let Some(end) = keys.end.as_ref().filter(|end| end.value <= begin) {
        problems
            .push(Problem::error("`end` is not after `begin`").at(end.span, "this receiver is never slow"));
    }
    let (hosts, rate) = (keys.hosts?.value, keys.rate?.value);
    let end = keys.end.map_or(Picos::NEVER, |key| key.value.into());
    Some(Receiver { hosts, slow: SlowReceiver { rate, buffer, xoff, xon, begin: begin.into(), end } })
}
