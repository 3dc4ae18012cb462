// This file proves promises of SPECIFICATION.md: integrations

use std::path::Path;
use std::process::Command;

/// Debian's Python, which has the packages that tests need.
const PYTHON: &str = "/usr/bin/python3";

fn assert_pytest_passes(of: &str, tests: &[&str]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integrations").join(of);
    let mut command = Command::new(PYTHON);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).args(tests);
    let output = command
        .current_dir(directory)
        .env("XOFF", crate::BINARY)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 starts: scripts/install-deps.sh --tests");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(&format!("{} passed", tests.len())), "{stdout}");
}

#[test]
fn xoff_switch_in_mininet_passes_pingall_and_iperf() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_everybody_reaches_everybody_over_two_switches",
            "tests/test_xoff_mininet.py::test_iperf_measures_no_more_than_the_line",
        ],
    );
}

#[test]
fn mininet_hosts_join_and_leave_running_switch() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_hosts_come_and_go_and_nobody_else_notices",
            "tests/test_xoff_mininet.py::test_a_wire_between_running_switches_is_a_restart_of_both",
        ],
    );
}

#[test]
fn mininet_link_refuses_unsupported_options() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_what_a_wire_cannot_do_is_refused",
            "tests/test_xoff_mininet.py::test_a_switch_that_does_not_start_says_why",
            "tests/test_xoff_mininet.py::test_tables_are_toml",
        ],
    );
}

#[test]
fn mininet_hosts_with_kernel_senders_lose_nothing() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_a_burst_of_kernel_senders_loses_nothing",
            "tests/test_xoff_mininet.py::test_the_same_burst_of_hosts_that_do_not_obey_loses",
        ],
    );
}

#[test]
fn containerlab_topology_matches_lab_network() {
    assert_pytest_passes(
        "containerlab",
        &[
            "tests/test_topology.py::test_every_node_is_one_that_containerlab_can_start",
            "tests/test_topology.py::test_it_is_the_network_that_xoff_lab_makes",
        ],
    );
}

#[test]
fn pytest_fixture_fails_a_test_with_frame_loss() {
    assert_pytest_passes(
        "pytest",
        &[
            "tests/test_pytest_xoff.py::test_a_network_is_up_for_the_test_and_gone_after_it",
            "tests/test_pytest_xoff.py::test_a_network_that_loses_fails_the_test",
        ],
    );
}

#[test]
fn test_step_of_github_workflow_succeeds_locally() {
    assert_pytest_passes(
        "github-actions",
        &[
            "tests/test_workflow.py::test_the_step_runs_and_leaves_an_account",
            "tests/test_workflow.py::test_what_it_installs_is_there",
        ],
    );
}

#[test]
fn benchmarks_refuse_wrong_arguments() {
    assert_pytest_passes(
        "../scripts/benchmarks",
        &[
            "benchmarks_test.py::test_help_names_benchmarks_and_their_options",
            "benchmarks_test.py::test_wrong_argument_gets_one_line",
        ],
    );
}

#[test]
fn stuck_forwarder_loses_only_its_own_benchmark_results() {
    assert_pytest_passes(
        "../scripts/benchmarks",
        &[
            "benchmarks_test.py::test_ratio_pairs_rounds_that_both_have",
            "benchmarks_test.py::test_turns_begin_with_another_name_each_round",
            "benchmarks_test.py::test_failure_is_kept_and_is_status_one",
            "benchmarks_test.py::test_scope_removes_what_a_failed_turn_left",
            "benchmarks_test.py::test_stuck_forwarder_costs_only_its_own_results",
        ],
    );
}
