// Tests for SPECIFICATION.md: scenarios

use super::*;

/// Four hosts of one switch send to a fifth host at another switch, without retransmissions.
fn scenario(duration: &str, more: &str) -> String {
    format!(
        "[scenario]\nname = \"x\"\nduration = \"{duration}\"\n[topology]\nkind = \"dumbbell\"\nhosts = 4\n\
         [[load]]\nkind = \"incast\"\naskers = [4]\nservers = [0, 1, 2, 3]\nfan_in = 4\nsize = \"10MB\"\n{more}"
    )
}

fn fault(kind: &str, at: &str, times: &str) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\nat = \"{at}\"\n{times}\n")
}

fn switch_row(rows: &Rows) -> [u64; 5] {
    let [row] = &rows[&tables::SWITCHES][..] else { panic!("{:?}", rows[&tables::SWITCHES]) };
    ["stalls", "stalled_ns", "unseen_frames", "restarts", "restart_frames"]
        .map(|name| row[tables::SWITCHES.at(name)].parse().unwrap())
}

fn lost(rows: &Rows) -> u64 {
    rows[&RUNS][0][RUNS.at("lost_frames")].parse().unwrap()
}

fn sum(rows: &Rows, column: &str, switch: &str) -> u64 {
    let own = rows[&tables::CLASSES].iter().filter(|row| row[tables::CLASSES.at("switch")] == switch);
    own.map(|row| row[tables::CLASSES.at(column)].parse::<u64>().unwrap()).sum()
}

fn drops(rows: &Rows) -> u64 {
    let counts = rows[&tables::DROPS].iter().map(|row| &row[tables::DROPS.at("dropped_frames")]);
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

#[test] // proves: sim-faults, sim-results
fn every_frame_lost_by_stall_is_counted_with_its_cause() {
    let none = run_of(&scenario("300us", ""), &[]);
    assert!(none[&tables::SWITCHES].is_empty() && lost(&none) == 0);
    let stall = fault("stall", "s0", "begin = \"100us\"\nend = \"140us\"");
    let rows = run_of(&scenario("300us", &stall), &[]);
    let [stalls, stalled, unseen, ..] = switch_row(&rows);
    assert_eq!((stalls, stalled), (1, 40_000));
    assert!(lost(&rows) > 0, "frames must be lost, because ideal hardware has no memory for stalls");
    let dropped = sum(&rows, "dropped_frames", "0") + sum(&rows, "dropped_frames", "1");
    assert_eq!(lost(&rows), unseen + dropped);
    assert!(none[&tables::DROPS].is_empty());
    assert!(dropped > 0 && drops(&rows) == dropped, "{:?}", rows[&tables::DROPS]);
    let reasons = rows[&tables::DROPS].iter().map(|row| row[tables::DROPS.at("reason")].as_str());
    assert!(reasons.into_iter().all(|reason| reason == "headroom_exhausted"), "{:?}", rows[&tables::DROPS]);
    for at in ["s0", "s1"] {
        let budget = "[switch.all]\nstall_budget = \"40us\"\n";
        let stall = fault("stall", at, "begin = \"100us\"\nend = \"140us\"");
        let rows = run_of(&scenario("300us", &format!("{budget}{stall}")), &[]);
        assert_eq!((lost(&rows), switch_row(&rows)[..2].to_vec()), (0, vec![1, 40_000]), "{at}");
    }
}

#[test] // proves: sim-faults
fn random_stalls_differ_by_seed_and_switch() {
    let stalls = |at: &str| fault("stalls", at, "gap = \"20us\"\nlength = \"1us..3us\"");
    let run = |faults: &str| {
        let source = Source::from_toml("x", &scenario("1ms", faults), &[]).unwrap();
        let run =
            |seed| job::run(&source, Path::new(""), Job { point: 0, seed }, 1, &Default::default()).unwrap();
        [run(1)[&tables::SWITCHES].clone(), run(2)[&tables::SWITCHES].clone()]
    };
    let stalled = |row: &Row| row[tables::SWITCHES.at("stalled_ns")].parse::<u64>().unwrap();
    let [all, others] = run(&stalls("all"));
    assert_eq!(all.len(), 2);
    let times: Vec<u64> = all.iter().chain(&others).map(stalled).collect();
    // Stalls of 2 us begin every 22 us on average.
    assert!(times.iter().all(|time| (50_000..140_000).contains(time)), "{times:?}");
    assert!(times.iter().enumerate().all(|(at, time)| !times[..at].contains(time)), "{times:?}");
    let [one, _] = run(&stalls("s1"));
    assert_eq!(one, all[1..], "random stalls of two switches must differ");
    let [two, _] = run(&format!("{}{}", stalls("s1"), stalls("s1")));
    assert!(stalled(&two[0]) > stalled(&one[0]) * 5 / 4, "{two:?}");
}

#[test]
fn refusal_and_late_completion_faults_end_on_time() {
    let sent = |kind: &str, at: &str| {
        let rows = run_of(&scenario("200us", &fault(kind, at, "begin = \"0s\"\nend = \"100us\"")), &[]);
        assert!(rows[&tables::SWITCHES].is_empty() && lost(&rows) == 0, "{kind}");
        sum(&rows, "tx_frames", "1")
    };
    let undisturbed = sum(&run_of(&scenario("200us", ""), &[]), "tx_frames", "1");
    for (kind, at) in [("refusal", "s1p0"), ("late-completions", "s1"), ("refusal", "s0p4")] {
        let frames = sent(kind, at);
        assert!(
            (undisturbed * 45 / 100..undisturbed * 52 / 100).contains(&frames),
            "{kind}: {frames} of {undisturbed}"
        );
    }
    assert_eq!(sent("refusal", "s1p1"), undisturbed, "nothing is sent there");
}

#[test] // proves: sim-faults
fn restarted_switch_loses_frames_but_keeps_settings() {
    let restart = fault("restart", "s0", "begin = \"100us\"\nend = \"120us\"");
    let rows = run_of(&scenario("300us", &restart), &[]);
    let [_, _, unseen, restarts, frames] = switch_row(&rows);
    assert_eq!((unseen, restarts), (0, 1));
    // Frames that arrive on four lines of 100 Gb/s in 20 us.
    let lines = 4 * 20_000 * 100 / 8 / 1_538;
    assert!((lines..lines + 500).contains(&frames), "{frames}");
    let dropped = sum(&rows, "dropped_frames", "0") + sum(&rows, "dropped_frames", "1");
    assert_eq!(lost(&rows), frames + dropped);
    let low = "[[change]]\nat = \"10us\"\nswitch = 0\nclass.3.xoff = \"45KB\"\nclass.3.xon = \"43KB\"\n";
    let pauses = |more: &str| {
        let rows = run_of(&scenario("300us", more), &[]);
        let late = |row: &&Row| row[tables::PAUSES.at("start_ns")].parse::<u64>().unwrap() > 150_000;
        rows[&tables::PAUSES]
            .iter()
            .filter(|row| row[tables::PAUSES.at("switch")] == "0")
            .filter(late)
            .count()
    };
    let [high, low, again] =
        [restart.clone(), low.to_owned(), format!("{low}{restart}")].map(|more| pauses(&more));
    assert!(low > high * 2 && again > high * 2, "{high} {low} {again}");
}

#[test]
fn scenario_refuses_fault_at_missing_switch() {
    let why = |fault: &str| refusal(&scenario("300us", fault), &[]).unwrap();
    let times = "begin = \"1us\"\nend = \"2us\"";
    let expected = "a [[fault]] names switch 2, but this fabric has switches 0 to 1";
    assert_eq!(why(&fault("stall", "s2", times)), expected);
    let expected = "a [[fault]] names port 5 of switch 1, which does not exist";
    assert_eq!(why(&fault("refusal", "s1p5", times)), expected);
    assert_eq!(why("[[fault]]\nat = \"h8\"\nlost = 0.1\n"), "a [[fault]] names host 8, which does not exist");
}

#[test] // proves: sim-results
fn lost_frames_are_listed_by_link_end() {
    let of = |rows: &Rows, end: &str| {
        let row = rows[&tables::LINKS].iter().find(|row| row[tables::LINKS.at("end")] == end).cloned();
        ["lost_frames", "lost_control_frames", "late_control_frames", "harmed_control_frames"]
            .map(|name| row.as_ref().map_or(0, |row| row[tables::LINKS.at(name)].parse::<u64>().unwrap()))
    };
    let sent = |rows: &Rows| sum(rows, "tx_frames", "1");
    let none = run_of(&scenario("300us", ""), &[]);
    assert!(none[&tables::LINKS].is_empty());
    let rows = run_of(&scenario("300us", "[[fault]]\nat = \"s1p0\"\nlost = 1.0\n"), &[]);
    // The last frame may still be in flight.
    assert!(
        of(&rows, "s1p0") == [lost(&rows), 0, 0, 0] && sent(&rows).abs_diff(lost(&rows)) <= 1,
        "{:?}",
        of(&rows, "s1p0")
    );
    let rows = run_of(&scenario("300us", "[[fault]]\nat = \"s0p0\"\ncontrol_lost = 1.0\n"), &[]);
    assert!(of(&rows, "s0p0")[1] > 0 && of(&rows, "s0p0")[0] == 0, "its pauses");
    let rows = run_of(&scenario("300us", "[[fault]]\nat = \"s0p0\"\ncontrol_again = 1.0\n"), &[]);
    assert!(of(&rows, "s0p0")[2] > 0 && of(&rows, "s0p0")[..2] == [0, 0]);
    let rows = run_of(&scenario("300us", "[[fault]]\nat = \"s0p0\"\ncontrol_harmed = 1.0\n"), &[]);
    assert!(of(&rows, "s0p0")[3] > 0 && of(&rows, "s0p0")[..3] == [0; 3]);
    // When the link fails, each direction carries 500 ns of frames.
    let rows = run_of(&scenario("300us", "[[fault]]\nat = \"h0\"\ndown = \"100us\"\nup = \"110us\"\n"), &[]);
    let [on_their_way, ..] = of(&rows, "h0");
    assert!(on_their_way >= 4, "{on_their_way}, and what it sent while the link was down");
}

#[test]
fn event_after_end_of_run_gives_a_warning() {
    let warnings_of = |duration: &str, keys: &str| {
        let text = format!("{}{keys}\n", scenario(duration, "").replace("10MB", "1MB"));
        let source = Source::from_toml("x", &text, &[]).unwrap();
        let request = Request {
            source: &source,
            path: Path::new(""),
            seeds: Some((1, 2)),
            shard: None,
            threads: 1,
            out: None,
        };
        let mut warnings = Vec::new();
        run(&request, &mut |text| warnings.push(text)).unwrap();
        warnings.retain(|text| text.contains("ended earlier"));
        warnings
    };
    let warnings = |keys: &str| warnings_of("until-done", keys);
    let after = "but 2 of 2 runs ended earlier";
    assert_eq!(warnings_of("until-done\"\nwarm_up = \"100us", ""), [""; 0]);
    assert_eq!(
        warnings_of("until-done\"\nwarm_up = \"900ms", ""),
        [format!("warning: the warm-up was to end at 900ms, {after}")]
    );
    assert_eq!(warnings("[[fault]]\nat = \"h7\"\ndown = \"1us\"\nup = \"2us\""), [""; 0]);
    assert_eq!(
        warnings("[[fault]]\nat = \"h7\"\ndown = \"900ms\"\nup = \"901ms\""),
        [format!("warning: a [[fault]] at h7 was due at 900ms, {after}")]
    );
    assert_eq!(
        warnings("[[fault]]\nkind = \"stall\"\nat = \"all\"\nbegin = \"900ms\"\nend = \"901ms\""),
        [format!("warning: a [[fault]] at all switches was due at 900ms, {after}")]
    );
    assert_eq!(
        warnings("[[change]]\nat = \"900ms\"\nclass.3.xoff = \"75KB\""),
        [format!("warning: a [[change]] was due at 900ms, {after}")]
    );
}

#[test]
fn conflicting_faults_are_refused() {
    let why = |faults: &[&str]| {
        let faults: String = faults.iter().map(|keys| format!("[[fault]]\n{keys}\n")).collect();
        refusal(&scenario("300us", &faults), &[])
    };
    let [lost, control_lost, control_late] =
        ["lost", "control_lost", "control_late"].map(|key| format!("at = \"h0\"\n{key} = 0.5"));
    let refused = Some("two [[fault]] tables set shares of faulty frames at host 0".to_owned());
    for (one, other, expected) in [
        (&lost, &lost, refused.clone()),
        (&control_lost, &control_late, refused),
        (&lost, &control_lost, None),
        (&lost, &lost.replace("h0", "s0p0"), None), // the other direction
    ] {
        assert_eq!(why(&[one, other]), expected, "{one}, {other}");
    }
    let down = |at: &str, down: u8, up: u8| format!("at = \"{at}\"\ndown = \"{down}us\"\nup = \"{up}us\"");
    let first = down("h0", 10, 20);
    for (at, begin, is_refused) in
        [("h0", 20, true), ("s0p0", 15, true), ("h0", 21, false), ("h1", 15, false)]
    {
        assert_eq!(why(&[&first, &down(at, begin, 50)]).is_some(), is_refused, "{at} {begin}");
    }
}

/// An XOFF after the link was lost must be a new pause, not a refresh.
#[test] // proves: sim-results
fn pause_rows_of_results_match_counters_after_link_flap() {
    let flap = "[[fault]]\nat = \"s0p4\"\ndown = \"100us\"\nup = \"120us\"\n";
    for faults in ["", flap] {
        let rows = run_of(&scenario("300us", faults), &[]);
        let cells_of = |column: &str| {
            let cells = rows[&tables::PAUSES].iter().map(|row| row[tables::PAUSES.at(column)].as_str());
            cells.map(|cell| cell.parse::<u64>().ok()).collect::<Vec<_>>()
        };
        let counted = |column: &str| sum(&rows, column, "0") + sum(&rows, column, "1");
        assert_eq!(cells_of("start_ns").len() as u64, counted("xoff_sent"), "{faults}");
        assert_eq!(
            cells_of("refreshes").iter().flatten().sum::<u64>(),
            counted("refreshes_sent"),
            "{faults}"
        );
        let with_link = cells_of("end_ns").iter().filter(|end| **end == Some(100_000)).count();
        assert_eq!(with_link > 0, faults == flap, "{faults}");
    }
}
