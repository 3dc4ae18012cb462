use xoff_config::Problem;
use xoff_config::reader::parse::{self, OrOff};
use xoff_config::reader::{Parsed, Problems, Table, value};
use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::Obedience;
use xoff_sim::Picos;
use xoff_sim::flows::{
    Control, DcqcnSettings, HostSettings, RoceSettings, SwiftSettings, TimelySettings, Transport,
};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::keys::{positive, time};
use super::tcp;

const SECOND: Nanos = Nanos::from_secs(1);
const CONTROLS: [&str; 5] = ["none", "dcqcn", "swift", "timely", "qcn"];

xoff_config::keys! {
    struct HostKeys {
        transport: &'static str = parse::choice(&["line-rate", "roce", "tcp"].map(|word| (word, word)));
        control: &'static str = parse::choice(&CONTROLS.map(|word| (word, word)));
        payload: u32 = parse::integer(64..=9_000);
        pauses: Obedience = pauses;
        ofc: bool = parse::boolean;
        gfc: bool = parse::boolean;
        window: OrOff<Bytes> = parse::or_word("none", parse::bytes);
        ack_every: u32 = parse::integer(1..=1_000);
        ack_class: Class = parse::class;
        timeout: Picos = time(Nanos::from_micros(1)..=Nanos::from_secs(10));
    }
}

xoff_config::keys! {
    struct DcqcnKeys over DcqcnSettings {
        gain: f64 = parse::share;
        alpha_timer: Picos = time(Nanos(1)..=SECOND);
        increase_timer: Picos = time(Nanos(1)..=SECOND);
        byte_counter: Bytes = parse::bytes;
        fast_recovery: u32 = parse::integer(1..=1_000);
        additive: BitRate = parse::rate;
        hyper: BitRate = parse::rate;
        rate_min: BitRate = parse::rate;
        cnp_interval: Picos = time(Nanos(1)..=SECOND);
        cnp_class: Class = parse::class;
    }
}

xoff_config::keys! {
    struct QcnKeys {
        decrease: u32 = parse::integer(1..=1_000_000);
        fast_recovery: u32 = parse::integer(1..=1_000);
        byte_counter: Bytes = parse::bytes;
        timer: Nanos = parse::time(Nanos::from_micros(10)..=SECOND);
        additive: BitRate = parse::rate;
        hyper: BitRate = parse::rate;
        rate_min: BitRate = parse::rate;
        jitter: u8 = parse::integer(0..=50);
        delay: Picos = time(Nanos::ZERO..=SECOND);
    }
}

xoff_config::keys! {
    struct SwiftKeys over SwiftSettings {
        target: Picos = time(Nanos(1)..=SECOND);
        additive: f64 = positive;
        decrease: f64 = parse::share;
        decrease_max: f64 = parse::share;
        flow_range: Picos = time(Nanos::ZERO..=SECOND);
    }
}

xoff_config::keys! {
    struct TimelyKeys over TimelySettings {
        gain: f64 = parse::share;
        decrease: f64 = parse::share;
        additive: BitRate = parse::rate;
        low: Picos = time(Nanos(1)..=SECOND);
        high: Picos = time(Nanos(1)..=SECOND);
        idle: Picos = time(Nanos(1)..=SECOND);
        hyper_after: u32 = parse::integer(1..=1_000);
        rate_min: BitRate = parse::rate;
    }
}

fn pauses(value: &toml_span::Value<'_>) -> Parsed<Obedience> {
    match value.as_str() {
        Some("obey") => Ok(Obedience::Obey),
        Some("ignore") => Ok(Obedience::Ignore),
        _ => parse::time(Nanos(1)..=SECOND)(value).map(Obedience::Late).map_err(|allowed| {
            format!("\"obey\", \"ignore\", or the delay with which hosts obey: {allowed}")
        }),
    }
}

pub(super) fn read(table: &Table<'_, '_>, problems: &mut Problems) -> HostSettings {
    table.no_others(&[HostKeys::KEYS, &CONTROLS[1..], &["tcp"]], problems);
    let keys = HostKeys::read(table, problems);
    let (transport, control) =
        (value(keys.transport.as_ref(), "line-rate"), value(keys.control.as_ref(), "none"));
    let of_roce_alone = !["none", "qcn"].contains(&control);
    let of_roce = [
        ("control", keys.control.as_ref().filter(|_| of_roce_alone).map(|key| key.span)),
        ("window", keys.window.as_ref().map(|key| key.span)),
        ("ack_every", keys.ack_every.as_ref().map(|key| key.span)),
        ("ack_class", keys.ack_class.as_ref().map(|key| key.span)),
        ("timeout", keys.timeout.as_ref().map(|key| key.span)),
    ];
    for (name, span) in of_roce.iter().filter(|_| transport != "roce") {
        if let Some(span) = *span {
            let why = match transport {
                "tcp" => "TCP has its own keys",
                _ => "hosts with transport = \"line-rate\" get no feedback from receivers",
            };
            let help = match transport {
                "tcp" => "move the key to [hosts.tcp] if this key exists there, or set transport = \"roce\"",
                _ => "set transport = \"roce\", or remove the key",
            };
            problems.push(
                Problem::error(format!("`{name}` has no effect: {why}"))
                    .at(span, "needs another transport")
                    .help(help),
            );
        }
    }
    if let Some(payload) = keys.payload.as_ref().filter(|_| transport == "tcp") {
        problems.push(
            Problem::error("`payload` has no effect: TCP has its own size of segments")
                .at(payload.span, "without effect")
                .help("set `mss` in [hosts.tcp]"),
        );
    }
    let place = (table, control);
    let dcqcn = parameters(place, "dcqcn", DcqcnKeys::KEYS, DcqcnKeys::read, problems);
    let swift = parameters(place, "swift", SwiftKeys::KEYS, SwiftKeys::read, problems);
    let timely = parameters(place, "timely", TimelyKeys::KEYS, TimelyKeys::read, problems);
    let qcn = parameters(place, "qcn", QcnKeys::KEYS, QcnKeys::read, problems);
    let control_of_roce = match control {
        "dcqcn" => Control::Dcqcn(dcqcn.over(DcqcnSettings::default())),
        "swift" => Control::Swift(swift.over(SwiftSettings::default())),
        "timely" => Control::Timely(timely.over(TimelySettings::default())),
        _ => Control::None,
    };
    let standard = ReactionSettings::STANDARD;
    let reaction = ReactionSettings {
        decrease_divisor: value(qcn.decrease.as_ref(), standard.decrease_divisor),
        recovery_cycles: value(qcn.fast_recovery.as_ref(), standard.recovery_cycles),
        cycle_bytes: value(qcn.byte_counter.as_ref(), standard.cycle_bytes),
        cycle_time: value(qcn.timer.as_ref(), standard.cycle_time),
        active_step: value(qcn.additive.as_ref(), standard.active_step),
        hyper_step: value(qcn.hyper.as_ref(), standard.hyper_step),
        rate_min: value(qcn.rate_min.as_ref(), standard.rate_min),
        jitter_percent: value(qcn.jitter.as_ref(), standard.jitter_percent),
        ..standard
    };
    let default = RoceSettings::default();
    let roce = RoceSettings {
        window: keys.window.and_then(|key| key.value.into_option()),
        ack_every: value(keys.ack_every.as_ref(), default.ack_every),
        ack_class: keys.ack_class.map(|key| key.value),
        timeout: value(keys.timeout.as_ref(), default.timeout),
        control: control_of_roce,
    };
    let mut settings = HostSettings::default();
    settings.payload_max = value(keys.payload.as_ref(), settings.payload_max);
    settings.obedience = value(keys.pauses.as_ref(), settings.obedience);
    settings.obeys_flows = value(keys.ofc.as_ref(), settings.obeys_flows);
    settings.obeys_rates = value(keys.gfc.as_ref(), settings.obeys_rates);
    if transport == "roce" {
        settings.transport = Transport::Roce(roce);
    }
    settings.tcp = tcp::read(table, transport == "tcp", problems);
    settings.qcn = (control == "qcn").then_some(reaction);
    settings.qcn_delay = value(qcn.delay.as_ref(), Picos::ZERO);
    settings
}

fn parameters<K: Default>(
    (table, chosen): (&Table<'_, '_>, &str),
    name: &'static str,
    known: &'static [&'static str],
    read: fn(&Table<'_, '_>, &mut Problems) -> K,
    problems: &mut Problems,
) -> K {
    let Some(below) = table.table(name, problems) else { return K::default() };
    if chosen != name {
        problems.push(
            Problem::error(format!(
                "[hosts.{name}] has no effect: `control` selects another congestion control"
            ))
            .at(below.span, "without effect")
            .help(format!("set control = \"{name}\" in [hosts]")),
        );
    }
    below.no_others(&[known], problems);
    read(&below, problems)
}
