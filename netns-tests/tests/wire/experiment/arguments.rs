use super::experiment;

#[test] // proves: experiments
fn experiment_refuses_wrong_key_before_it_starts() {
    for (set, why) in [
        ("class.3.xof=80KB", "did you mean `xoff`?"),
        ("class.3.xon=90KB", "xon"),
        ("port.speed=1G", "--speed"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let csv = directory.path().join("raw");
        let run = experiment(&["incast", "--set", set, "--out", csv.to_str().unwrap()]).output().unwrap();
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains(why) && !message.contains("run 1 of 1"), "{set}: {message}");
        assert!(!csv.exists());
    }
}

#[test]
fn duration_option_is_refused_if_experiment_ends_by_itself() {
    let run = experiment(&["incast", "--duration", "5s"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("has a fixed duration"), "{message}");
}

#[test]
fn error_about_unknown_experiment_lists_valid_names() {
    let run = experiment(&["incats"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("incats") && message.contains("incast"), "{message}");
}
