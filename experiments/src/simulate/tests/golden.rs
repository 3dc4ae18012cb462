//! Small scenarios whose result tables are compared byte by byte: a diff shows changed decisions.

// Tests for SPECIFICATION.md: sim-fabrics

use std::env;

use super::*;

/// Environment variable with which the tests store new tables, instead of comparing them.
const WRITE: &str = "XOFF_WRITE_GOLDEN";

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn made(source: &Source, path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let place = tempfile::tempdir().unwrap();
    let shard = Some(Shard { number: 1, count: 1 });
    let request = Request { source, path, seeds: None, shard, threads: 2, out: Some(place.path()) };
    run(&request, &mut |_| ()).unwrap();
    let is_kept = |file: &Path| file.extension().is_some_and(|ending| ending == "csv" || ending == "txt");
    files(place.path()).into_iter().filter(|(name, _)| is_kept(name)).collect()
}

fn holds(name: &str, source: &Source, path: &Path) {
    for (file, made) in made(source, path) {
        let kept = directory(name).join(&file);
        if env::var_os(WRITE).is_some() {
            fs::write(&kept, made).unwrap();
            continue;
        }
        let (made, kept) = (String::from_utf8(made).unwrap(), fs::read_to_string(&kept).unwrap_or_default());
        let lines = || made.lines().map(Some).chain([None]).zip(kept.lines().map(Some).chain([None]));
        if let Some((line, (now, then))) = (1..).zip(lines()).find(|(_, (now, then))| now != then) {
            panic!(
                "{name}, line {line} of {} differs:\nstored {then:?}\nnow {now:?}\nif the change is intended, {WRITE}=1 cargo nextest run \
                 --workspace -E 'test(golden)' writes new tables",
                file.display()
            );
        }
    }
}

#[test] // proves: sim-results
fn results_of_small_scenarios_match_stored_tables() {
    for name in ["incast", "link", "change", "driver"] {
        let path = directory(name).join("scenario.toml");
        holds(name, &Source::load(&path, &[]).unwrap(), &path);
    }
}

#[test]
fn run_of_imported_fabric_writes_results_in_hpcc_format() {
    let [scenario, topology, flows] =
        ["scenario.toml", "topology", "flow"].map(|name| directory("hpcc").join(name));
    let source = import(Some(&scenario), [&topology, &flows], &[]).unwrap();
    holds("hpcc", &source, &scenario);
    // Scripts of ns-3's users read columns 4 to 8.
    let made = made(&source, &scenario);
    let text = |name: &str| String::from_utf8(made[Path::new(name)].clone()).unwrap();
    let lines = text("fct.txt");
    let numbers =
        |line: &str| -> Vec<u64> { line.split(' ').skip(2).map(|word| word.parse().unwrap()).collect() };
    assert_eq!(lines.lines().count(), 6);
    for line in lines.lines() {
        let [_, port, bytes, start, took, alone] = numbers(line)[..] else { panic!("{line}") };
        assert!(line.starts_with("0b00") && [100, 200].contains(&port) && bytes > 0, "{line}");
        assert!(start >= 2_000_000_000 && took >= alone && alone > 0, "{line}");
    }
    let pauses = text("pfc.txt");
    let [begin, end] =
        ["1", "0"].map(|what| pauses.lines().filter(|line| line.split(' ').nth(4) == Some(what)).count());
    assert!(begin > 0 && begin == end, "{begin} {end}");
    let lengths = text("qlen.txt");
    let (first, rest) = lengths.split_once('\n').unwrap();
    assert!(first.starts_with("time: 2000"), "{first}");
    let sample_counts: Vec<u64> = rest
        .lines()
        .map(|line| line.split(' ').skip(2).map(|word| word.parse::<u64>().unwrap()).sum())
        .collect();
    assert!(
        sample_counts.len() == 7 && sample_counts.iter().all(|count| *count == sample_counts[0]),
        "{sample_counts:?}"
    );
}

#[test]
fn shard_results_of_imported_fabric_merge_to_whole_results() {
    let [topology, flows] = ["topology", "flow"].map(|name| directory("hpcc").join(name));
    let source = import(None, [&topology, &flows], &[]).unwrap();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let of = |shard: Option<Shard>, out: &Path| {
        let path = Path::new("");
        let request =
            Request { source: &source, path, seeds: Some((1, 2)), shard, threads: 1, out: Some(out) };
        run(&request, &mut |_| ()).unwrap();
    };
    of(None, &at("one"));
    let parts = [1, 2].map(|number| {
        let part = at(&format!("shard-{number}"));
        of(Some(Shard { number, count: 2 }), &part);
        part
    });
    merge(&parts, &at("merged"), &mut |_| ()).unwrap();
    let one = files(&at("one"));
    assert!(one.contains_key(Path::new("fct_point0_seed2.txt")), "{:?}", one.keys());
    assert_eq!(files(&at("merged")), one);
}

#[test]
fn import_error_names_hpcc_file_and_line() {
    let place = tempfile::tempdir().unwrap();
    let [topology, flows] = ["topology", "flow"].map(|name| directory("hpcc").join(name));
    let write = |name: &str, text: &str| {
        fs::write(place.path().join(name), text).unwrap();
        place.path().join(name)
    };
    let why = |scenario: Option<&Path>, topology: &Path, flows: &Path| {
        let made = import(scenario, [topology, flows], &[]);
        let run = made.and_then(|source| build::model(&source, 0, 1, scenario.unwrap_or(Path::new("")), 1));
        run.map(|_| ()).unwrap_err().to_string()
    };
    let broken = write("broken", "3 1 2\n0\n0 1 fast 1us 0\n");
    assert_eq!(
        why(None, &broken, &flows),
        format!("{}: line 3: \"fast\" is not the rate of a link, such as 100Gbps", broken.display())
    );
    let broken = write("flows", "1\n0 1 3 100\n");
    let error = why(None, &topology, &broken);
    assert!(
        error.starts_with(&format!("{}: line 2: a flow has 4 columns; allowed", broken.display())),
        "{error}"
    );
    assert!(why(None, &place.path().join("none"), &flows).contains("cannot read"));
    // The scenario's time limit, by default 1 s, also applies to imported flows.
    let scenario = write("s.toml", "[scenario]\nname = \"s\"\n");
    let error = why(Some(&scenario), &topology, &flows);
    assert!(error.contains("a flow starts at 2s, but the run ends at 1s at the latest"), "{error}");
    let scenario = write("s.toml", "[scenario]\nname = \"s\"\n[topology]\nkind = \"single\"\n");
    let error = format!("{:?}", import(Some(&scenario), [&topology, &flows], &[]).unwrap_err());
    assert!(error.contains("the scenario has a [topology], but --import brings another one"), "{error}");
}
