use xoff_config::Problem;
use xoff_config::reader::{Parsed, Problems, Table, parse, value};
use xoff_host::tcp::{Algorithm, Detection, TcpSettings};
use xoff_sim::flows::TcpHosts;
use xoff_wire::units::{Bytes, Class, ClassSet, Nanos};

const MINUTE: Nanos = Nanos::from_secs(60);
const CONTROLS: [(&str, Algorithm); 3] =
    [("cubic", Algorithm::Cubic), ("reno", Algorithm::Reno), ("dctcp", Algorithm::Dctcp)];

xoff_config::keys! {
    struct TcpHostKeys {
        classes: ClassSet = classes;
        ack_class: Class = parse::class;
    }
}

xoff_config::keys! {
    struct TcpKeys over TcpSettings {
        control: Algorithm = parse::choice(&CONTROLS);
        ecn: bool = parse::boolean;
        mss: u32 = parse::integer(64..=8_934);
        initial_window: u32 = parse::integer(1..=1_000);
        window: Bytes = window;
        sack: bool = parse::boolean;
        detection: Detection = detection;
        undo: bool = parse::boolean;
        rto_min: Nanos = parse::time(Nanos::from_micros(1)..=MINUTE);
        rto_initial: Nanos = parse::time(Nanos::from_micros(1)..=MINUTE);
        rto_max: Nanos = parse::time(Nanos::from_micros(1)..=Nanos::from_secs(3_600));
        ack_every: u32 = parse::integer(1..=1_000);
        ack_delay: Nanos = parse::time(Nanos(1)..=MINUTE);
        quick_acks: u32 = parse::integer(0..=1_000_000);
        handshake: bool = parse::boolean;
        persistent: bool = parse::boolean;
        idle_restart: bool = parse::boolean;
    }
}

const WINDOW_MAX: Bytes = Bytes(1 << 30);

fn window(value: &toml_span::Value<'_>) -> Parsed<Bytes> {
    let window = parse::bytes(value)?;
    if window > WINDOW_MAX {
        Err("a size up to \"1GiB\", the largest window of TCP".into())
    } else {
        Ok(window)
    }
}

fn classes(value: &toml_span::Value<'_>) -> Parsed<ClassSet> {
    let classes = parse::classes(value)?;
    if classes.is_empty() { Err("a list of at least one class, such as [0, 1]".into()) } else { Ok(classes) }
}

fn detection(value: &toml_span::Value<'_>) -> Parsed<Detection> {
    match value.as_str() {
        Some("rack") => Ok(Detection::Rack),
        Some("never") => Ok(Detection::Never),
        _ => parse::integer(1..=1_000)(value).map(Detection::Duplicates).map_err(|number| {
            format!("\"rack\", \"never\", or the number of duplicate acknowledgements: {number}")
        }),
    }
}

pub(super) fn read(hosts: &Table<'_, '_>, is_chosen: bool, problems: &mut Problems) -> Option<TcpHosts> {
    let Some(table) = hosts.table("tcp", problems) else {
        let all = TcpHosts { classes: ClassSet::ALL, ack_class: None, settings: TcpSettings::default() };
        return is_chosen.then_some(all);
    };
    table.no_others(&[TcpHostKeys::KEYS, TcpKeys::KEYS], problems);
    let (hosts, keys) = (TcpHostKeys::read(&table, problems), TcpKeys::read(&table, problems));
    match &hosts.classes {
        None if !is_chosen && table.value("classes").is_none() => problems.push(
            Problem::error("[hosts.tcp] has no effect: no flow uses TCP")
                .at(table.span, "without effect")
                .help("set transport = \"tcp\" in [hosts] for all flows, or list the `classes` of flows with TCP here"),
        ),
        Some(classes) if is_chosen => problems.push(
            Problem::error("`classes` has no effect: with transport = \"tcp\" all flows use TCP")
                .at(classes.span, "without effect")
                .help("remove the key, or choose the transport of the other classes in [hosts]"),
        ),
        _ => {}
    }
    let control = value(keys.control.as_ref(), Algorithm::Cubic);
    let is_dctcp = control == Algorithm::Dctcp;
    if let Some(ecn) = keys.ecn.as_ref().filter(|ecn| is_dctcp && !ecn.value) {
        problems.push(
            Problem::error("DCTCP needs congestion marks, but `ecn` is false")
                .at(ecn.span, "no segment would be marked")
                .help("remove `ecn`, or choose another `control`"),
        );
    }
    let default = TcpSettings::default();
    let sack = value(keys.sack.as_ref(), default.sack);
    if let Some(rack) = keys.detection.as_ref().filter(|key| key.value == Detection::Rack && !sack) {
        problems.push(
            Problem::error("detection = \"rack\" needs selective acknowledgements, but `sack` is false")
                .at(rack.span, "needs `sack`")
                .help("set a number of duplicate acknowledgements, such as 3, or remove `sack`"),
        );
    }
    let detection = if sack { default.detection } else { Detection::Duplicates(3) };
    let settings = keys.over(TcpSettings { ecn: is_dctcp, sack, detection, ..default });
    let classes = value(hosts.classes.as_ref(), ClassSet::ALL);
    Some(TcpHosts { classes, ack_class: hosts.ack_class.map(|key| key.value), settings })
}

// Tests for SPECIFICATION.md: scenarios, tcp
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Source;
    use super::*;

    fn of(hosts: &str) -> Result<Option<TcpHosts>, String> {
        in_topology("kind = \"single\"\nhosts = 3", hosts)
    }

    fn in_topology(topology: &str, hosts: &str) -> Result<Option<TcpHosts>, String> {
        let text = format!(
            "[scenario]\nname = \"x\"\n[topology]\n{topology}\n[[load]]\nkind = \"permutation\"\nsize = 1\n{hosts}\n"
        );
        let source = Source::from_toml("x", &text, &[]).map_err(|error| format!("{error:?}"))?;
        Ok(source.point(0).unwrap().hosts.tcp)
    }

    #[test]
    fn scenario_keys_set_the_tcp_parameters() {
        let all = of("[hosts]\ntransport = \"tcp\"").unwrap().unwrap();
        assert_eq!((all.classes, all.settings), (ClassSet::ALL, TcpSettings::default()));
        assert_eq!(of("[hosts]\ntransport = \"roce\""), Ok(None));
        let some = of("[hosts.tcp]\nclasses = [0, 2]\nsack = false\ncontrol = \"dctcp\"\nrto_min = \"10ms\"")
            .unwrap()
            .unwrap();
        assert_eq!(some.classes, [0, 2].map(|class| Class::ALL[class]).into_iter().collect());
        let expected = TcpSettings {
            sack: false,
            detection: Detection::Duplicates(3),
            control: Algorithm::Dctcp,
            ecn: true,
            rto_min: Nanos::from_millis(10),
            ..TcpSettings::default()
        };
        assert_eq!(some.settings, expected);
        for (word, detection) in [("\"never\"", Detection::Never), ("5", Detection::Duplicates(5))] {
            let tcp = of(&format!("[hosts]\ntransport = \"tcp\"\ntcp.detection = {word}")).unwrap().unwrap();
            assert_eq!(tcp.settings.detection, detection);
        }
    }

    #[test]
    fn scenario_refuses_tcp_keys_without_effect() {
        let tcp = "[hosts]\ntransport = \"tcp\"\n";
        for (keys, expected) in [
            ("[hosts.tcp]\nmss = 1000".to_owned(), "[hosts.tcp] has no effect"),
            (format!("{tcp}tcp.classes = [0]"), "`classes` has no effect"),
            (format!("{tcp}payload = 1000"), "`payload` has no effect"),
            (format!("{tcp}ack_every = 4"), "`ack_every` has no effect: TCP has its own keys"),
            (format!("{tcp}control = \"dcqcn\""), "`control` has no effect: TCP has its own keys"),
            (format!("{tcp}tcp = {{ control = \"dctcp\", ecn = false }}"), "DCTCP needs congestion marks"),
            (
                format!("{tcp}tcp = {{ sack = false, detection = \"rack\" }}"),
                "needs selective acknowledgements",
            ),
            (format!("{tcp}tcp.detection = \"always\""), "the number of duplicate acknowledgements"),
            (format!("{tcp}tcp.mss = 8934"), "`mss` is 8934, which with headers needs an MTU of 8986"),
            (format!("{tcp}tcp.window = 1073741825"), "a size up to \\\"1GiB\\\", the largest window"),
            (format!("{tcp}tcp.classes = []"), "a list of at least one class"),
        ] {
            let error = of(&keys).unwrap_err();
            assert!(error.contains(expected), "{keys}: {error}");
        }
    }

    /// A segment with 1200 bytes of payload fits into five cells. With 1448 bytes it needs six, as the longest RoCE
    /// frame does.
    #[test]
    fn credits_below_longest_frame_of_any_transport_are_refused() {
        let topology = "kind = \"scheduled\"\nleaves = 2\nspines = 2\nhosts = 2\ncredits = 5";
        let tcp = |mss| format!("[hosts]\ntransport = \"tcp\"\ntcp.mss = {mss}");
        assert!(in_topology(topology, &tcp(1_200)).is_ok());
        for hosts in [tcp(1_448), "[hosts]\npayload = 1000\ntcp.classes = [0]".into()] {
            let error = in_topology(topology, &hosts).unwrap_err();
            assert!(
                error.contains("the longest frame needs 6") && error.contains("`mss`"),
                "{hosts}: {error}"
            );
        }
    }
}
