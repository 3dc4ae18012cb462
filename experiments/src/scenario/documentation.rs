const DOCUMENT: &str = include_str!("../../../docs/simulation.md");

#[test] // proves: scenarios
fn every_scenario_key_is_documented() {
    for (heading, mut keys) in super::documented() {
        let (_, section) =
            DOCUMENT.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
        let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let mut documented: Vec<&str> = rows
            .filter_map(|row| row.trim_matches('|').split('|').next())
            .map(|key| key.trim().trim_matches('`'))
            .collect();
        documented.sort_unstable();
        keys.sort_unstable();
        assert_eq!(documented, keys, "{heading}");
    }
}
