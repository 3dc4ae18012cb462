// Tests for SPECIFICATION.md: scenarios

use super::*;

#[test] // proves: sim-fabrics, scenarios
fn invalid_keys_of_link_faults_are_refused() {
    let fault = |keys: &str| format!("{FINE}[[fault]]\n{keys}\n");
    let scenario = read(&fault("at = \"s1p2\"\ndown = \"1us\"\nup = \"2us\"")).unwrap().point(0).unwrap();
    let Fault::Link(link) = &scenario.faults[0] else { panic!("{:?}", scenario.faults) };
    assert_eq!((link.at, link.up), (At::Switch(1, 2), Some(Nanos(2_000))));
    let (line, message, _) = problem(&fault("at = \"x1\"\nlost = 0.5"));
    assert_eq!(line, Some(10));
    assert!(message.contains("\"h3\" is host 3"), "{message}");
    let (_, message, _) = problem(&fault("at = \"h0\"\ndown = \"2us\"\nup = \"2us\""));
    assert_eq!(message, "`up` is not after `down`");
    for bad in ["1.5", "-0.1"] {
        let (_, message, _) = problem(&fault(&format!("at = \"h0\"\nlost = {bad}")));
        assert!(message.contains("from 0 to 1"), "{message}");
    }
    for none in ["0", "0.0"] {
        assert!(read(&fault(&format!("at = \"h0\"\nlost = {none}"))).is_ok(), "a share of 0 must be allowed");
    }
    let (_, message, _) = problem(&fault("down = \"2us\""));
    assert_eq!(message, "`at` is missing in [[fault]] of kind \"link\"");
    let (_, message, _) = problem(&fault("at = \"s0\"\nlost = 0.5"));
    assert!(message.starts_with("`at` of a fault of kind \"link\" has to be an end of a link"), "{message}");
    for nothing in ["at = \"h0\"", "kind = \"link\"\nat = \"h0\"\nlate_by = \"1us\""] {
        let (line, message, help) = problem(&fault(nothing));
        assert_eq!(line, Some(9));
        assert_eq!(
            message,
            "a [[fault]] of kind \"link\" has neither `down` nor a share of lost or harmed frames"
        );
        assert!(help.contains("`down`") && help.contains("`control_harmed`"), "{help}");
    }
    let (line, message, help) = problem(&fault("at = \"h0\"\nlost = 0.5\nlate_by = \"1us\""));
    assert_eq!(line, Some(12));
    assert_eq!(message, "`late_by` delays MAC control frames, but no share of frames is delayed");
    assert!(help.contains("`control_late` or `control_again`"), "{help}");
    for late in ["control_late = 0", "control_again = 0.5"] {
        assert!(read(&fault(&format!("at = \"h0\"\n{late}\nlate_by = \"1us\""))).is_ok(), "{late}");
    }
    let swept = format!("{}[[sweep]]\nfault.0.lost = [0, 0.1]\n", fault("at = \"h0\""));
    assert!(read(&swept).is_ok());
}

#[test]
fn share_of_control_frames_below_1_in_1024_is_refused() {
    let fault = |key: &str, share: &str| read(&format!("{FINE}[[fault]]\nat = \"h0\"\n{key} = {share}\n"));
    for key in ["control_lost", "control_late", "control_again", "control_harmed"] {
        let few = fault(key, "0.0009765624").unwrap_err();
        let ConfigError::Invalid(invalid) = few else { panic!("{few}") };
        let message = &invalid.problems()[0].message;
        assert!(
            message.contains(&format!("`{key}` is 0.0009765624")) && message.contains("1/1024"),
            "{message}"
        );
        assert!(["0", "0.0009765625", "1"].iter().all(|share| fault(key, share).is_ok()), "{key}");
    }
    assert!(fault("lost", "0.0001").is_ok());
}

#[test]
fn invalid_keys_of_switch_faults_are_refused() {
    let fault = |kind: &str, keys: &str| format!("{FINE}[[fault]]\nkind = \"{kind}\"\n{keys}\n");
    let fine = |kind: &str, keys: &str| {
        let scenario = read(&fault(kind, keys)).unwrap().point(0).unwrap();
        let Fault::Switch(fault) = scenario.faults[0].clone() else { panic!("{:?}", scenario.faults) };
        (fault.switch, fault.what, fault.begin, fault.end)
    };
    let (begin, end) = (Nanos::from_millis(1), Nanos::from_millis(2));
    let times = "begin = \"1ms\"\nend = \"2ms\"";
    let at = |place: &str| format!("at = \"{place}\"\n{times}");
    assert_eq!(fine("stall", &at("s7")), (Some(7), Impairment::Stall, begin, end));
    assert_eq!(fine("stall", &at("all")), (None, Impairment::Stall, begin, end));
    assert_eq!(fine("refusal", &at("s1p2")), (Some(1), Impairment::Refusal(2), begin, end));
    assert_eq!(fine("late-completions", &at("s0")), (Some(0), Impairment::LateCompletions, begin, end));
    assert_eq!(fine("restart", &at("s0")), (Some(0), Impairment::Restart, begin, end));
    let at_once = fine("restart", "at = \"s0\"\nbegin = \"1ms\"");
    assert_eq!(at_once, (Some(0), Impairment::Restart, begin, begin));
    let stalls = |from: u64, to: u64| Impairment::Stalls {
        gap: Nanos::from_micros(100),
        length: Nanos::from_micros(from)..=Nanos::from_micros(to),
    };
    let whole = fine("stalls", "at = \"s0\"\ngap = \"100us\"\nlength = \"20us\"");
    assert_eq!(whole, (Some(0), stalls(20, 20), Nanos::ZERO, Nanos::from_secs(1)));
    let part = fine("stalls", &format!("{}\ngap = \"100us\"\nlength = \"10us..50us\"", at("all")));
    assert_eq!(part, (None, stalls(10, 50), begin, end));

    let message_of = |kind: &str, keys: &str| problem(&fault(kind, keys)).1;
    for (kind, places) in [
        ("stall", &["s1p2", "h3"][..]),
        ("stalls", &["s1p2"]),
        ("refusal", &["s1", "h3", "all"]),
        ("late-completions", &["s1p0"]),
        ("restart", &["s1p0", "h0"]),
    ] {
        let more = if kind == "stalls" { "\ngap = \"1us\"\nlength = \"1us\"" } else { "" };
        for place in places {
            let message = message_of(kind, &format!("{}{more}", at(place)));
            let expected = format!("`at` of a fault of kind \"{kind}\" has to be a ");
            assert!(message.starts_with(&expected), "{message}");
        }
    }
    for kind in ["stall", "refusal", "late-completions", "restart"] {
        let place = if kind == "refusal" { "s0p0" } else { "s0" };
        let message = message_of(kind, &format!("at = \"{place}\"\nbegin = \"2ms\"\nend = \"2ms\""));
        assert_eq!(message, "`end` is not after `begin`");
        let message = message_of(kind, &format!("{}\nlost = 0.5", at(place)));
        assert_eq!(message, format!("`lost` is not a key of [[fault]] of kind \"{kind}\""));
        let message = message_of(kind, &format!("at = \"{place}\"\nbegin = \"1s\"\nend = \"2s\""));
        assert_eq!(message, "`begin` of a fault is 1s, but the run ends at 1s at the latest");
    }
    assert_eq!(
        message_of("stall", "at = \"s0\"\nbegin = \"1ms\""),
        "`end` is missing in [[fault]] of kind \"stall\""
    );
    let message = message_of("link", "at = \"h0\"\nbegin = \"1ms\"");
    assert_eq!(message, "`begin` is not a key of [[fault]] of kind \"link\"");
    for length in ["50us..10us", "0s", "1us..2", "20"] {
        let message = message_of("stalls", &format!("at = \"s0\"\ngap = \"100us\"\nlength = \"{length}\""));
        assert!(message.contains("a range of times"), "{message}");
    }
    let message = message_of("pause", &at("s0"));
    assert!(message.contains("late-completions"), "{message}");
    let text = fault("stall", "at = \"h0\"\nbegin = \"2ms\"\nend = \"1ms\"\ngap = \"1us\"");
    let Err(ConfigError::Invalid(invalid)) = read(&text) else { panic!("nothing is wrong") };
    let lines: Vec<_> = invalid.problems().iter().map(|problem| problem.position.unwrap().0).collect();
    assert_eq!(lines, [11, 13, 14]);
}

#[test]
fn overlapping_restarts_of_a_switch_are_refused() {
    let restart = |at: &str, times: &str| format!("[[fault]]\nkind = \"restart\"\nat = \"{at}\"\n{times}\n");
    let first = format!("{FINE}{}", restart("s0", "begin = \"50us\"\nend = \"100us\""));
    let within = "begin = \"70us\"\nend = \"80us\"";
    for (at, times) in
        [("s0", within), ("all", within), ("s0", "begin = \"100us\""), ("s0", "begin = \"50us\"")]
    {
        let (line, message, help) = problem(&format!("{first}{}", restart(at, times)));
        assert_eq!(line, Some(14), "{at} {times}");
        assert_eq!(message, "two [[fault]] tables restart switch 0 at overlapping times");
        assert!(help.contains("after the `end`"), "{help}");
    }
    let stall = restart("s0", within).replace("restart", "stall");
    let later = restart("s0", "begin = \"101us\"");
    for fine in [stall, later, restart("s1", within), restart("all", "begin = \"20us\"\nend = \"49us\"")] {
        assert!(read(&format!("{first}{fine}")).is_ok(), "{fine}");
    }
    let [one, two] = [restart("all", within), restart("all", "begin = \"75us\"")];
    assert_eq!(
        problem(&format!("{FINE}{one}{two}")).1,
        "two [[fault]] tables restart all switches at overlapping times"
    );
}
