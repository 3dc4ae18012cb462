use std::fs;

use xoff_netns_tests::{LaunchOptions, Switch};

use crate::bed;

fn needed(message: &str) -> u64 {
    let (_, rest) = message.split_once("the switch needs ").unwrap_or_else(|| panic!("{message}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

fn limited(soft: u64, hard: u64) -> LaunchOptions {
    LaunchOptions { descriptors: Some((soft, hard)), ..LaunchOptions::default() }
}

fn open(switch: &Switch) -> u64 {
    fs::read_dir(format!("/proc/{}/fd", switch.pid())).unwrap().count() as u64
}

#[test] // proves: check
fn switch_checks_open_file_limit_before_it_opens_devices() {
    let bed = bed(3).queues(4).build();
    let config = bed.config("speed = \"1G\"").switch("workers = 2");
    let before: Vec<_> = (1..=3).map(|port| bed.port(port).counters().unwrap()).collect();
    let exit = bed.launch_with(limited(20, 100), &config).wait();
    let message = exit.stderr;
    assert_eq!(exit.status.code(), Some(2), "{message}");
    let needed = needed(&message);
    for words in [
        "open files (12 sockets on 3 ports".to_owned(),
        "this process may open 100:".into(),
        format!("ulimit -Hn {needed}"),
        format!("LimitNOFILE={needed}"),
        "fewer `queues`".into(),
    ] {
        assert!(message.contains(&words), "{words:?} is not in {message}");
    }
    assert!(!message.contains("port open"), "{message}");
    let after: Vec<_> = (1..=3).map(|port| bed.port(port).counters().unwrap()).collect();
    assert_eq!(format!("{before:?}"), format!("{after:?}"));

    let exit = bed.launch_with(limited(20, needed - 1), &config).wait();
    assert_eq!(exit.status.code(), Some(2), "{}", exit.stderr);

    // A soft limit of 20 files suffices, because the switch raises it to the hard limit.
    let switch = bed.launch_with(limited(20, needed), &config).ready();
    let (taken, idle) = (open(&switch), 64); // connections not made yet
    assert!((needed / 2..=needed).contains(&(taken + idle)), "{taken} taken, {needed} needed");
    bed.finish(switch);
}
