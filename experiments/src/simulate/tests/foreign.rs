use super::*;

fn field(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/field").join(name)
}

#[test] // proves: scenarios
fn path_of_flow_size_table_is_relative_to_scenario_file() {
    let place = tempfile::tempdir().unwrap();
    fs::copy(field("shares-0-to-1.txt"), place.path().join("sizes.txt")).unwrap();
    let path = place.path().join("scenario.toml");
    let scenario = |size: &str| {
        format!(
            "[scenario]\nname = \"x\"\n[topology]\nkind = \"single\"\nhosts = 4\n[[load]]\nkind = \"draw\"\nflows = 200\n\
             pairs = [[0, 1], [2, 3]]\nsize = \"{size}\"\nbetween = \"step\"\n"
        )
    };
    fs::write(&path, scenario("sizes.txt")).unwrap();
    let source = Source::load(&path, &[]).unwrap();
    let rows = job::run(&source, &path, Job { point: 0, seed: 1 }, 1, &job::Progress::default()).unwrap();
    let sizes: BTreeSet<&str> = rows[&FLOWS].iter().map(|row| row[FLOWS.at("size_bytes")].as_str()).collect();
    assert_eq!(sizes, ["300", "500000"].into());
    let why = |size: &str| {
        let source = Source::from_toml("x.toml", &scenario(size), &[]).unwrap();
        build::model(&source, 0, 1, &path, 1).map(|_| ()).unwrap_err().to_string()
    };
    assert!(why("websearch.txt").contains("cannot read the table of sizes"), "{}", why("websearch.txt"));
    fs::write(place.path().join("short.txt"), "1 0\n9 99\n").unwrap();
    assert!(why("short.txt").contains("short.txt: the last percentage is not 100, nor the last share 1"));
}

#[test] // proves: sim-fabrics
fn oddities_of_imported_hpcc_files_cause_warnings() {
    let files = [field("simai-header.txt"), field("count-leftover-digit.txt")];
    let source = import(None, [&files[0], &files[1]], &[]).unwrap();
    let mut warnings = Vec::new();
    let path = Path::new("");
    let request = Request { source: &source, path, seeds: None, shard: None, threads: 1, out: None };
    let summary = run(&request, &mut |line| warnings.push(line)).unwrap();
    for part in ["simai-header.txt: the topology is SimAI's", "digit.txt: the first line announces 982 flows"]
    {
        assert!(
            warnings.iter().any(|line| line.starts_with("warning: ") && line.contains(part)),
            "{warnings:?}"
        );
    }
    assert!(summary.text().contains("import"), "{}", summary.text());
}

#[test] // proves: sim-fabrics
fn imported_incast_of_255_hosts_on_one_switch_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, head: &str, lines: &mut dyn Iterator<Item = String>| {
        fs::write(place.path().join(name), head.to_owned() + &lines.collect::<String>()).unwrap();
        place.path().join(name)
    };
    let mut links = (0..256).map(|host| format!("{host} 256 100Gbps 1us 0\n"));
    let topology = write("topology", "257 1 256\n256\n", &mut links);
    let mut lines = (0..1_000).map(|flow| format!("{} 0 3 100 50000 2\n", 1 + flow % 255));
    let flows = write("flows", "1000\n", &mut lines);
    let source = import(None, [&topology, &flows], &[]).unwrap();
    let path = Path::new("");
    let rows = job::run(&source, path, Job { point: 0, seed: 1 }, 1, &job::Progress::default()).unwrap();
    let cells = ["flows_done", "lost_frames"].map(|name| rows[&RUNS][0][RUNS.at(name)].clone());
    assert_eq!(cells, ["1000", "0"]);
}
