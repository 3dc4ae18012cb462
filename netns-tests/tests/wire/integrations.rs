// Tests for SPECIFICATION.md: integrations

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
            "tests/test_xoff_mininet.py::test_all_hosts_reach_each_other_over_two_switches",
            "tests/test_xoff_mininet.py::test_iperf_measures_no_more_than_the_line",
        ],
    );
}

#[test]
fn mininet_hosts_join_and_leave_running_switch() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_other_hosts_lose_nothing_when_hosts_are_added_and_removed",
            "tests/test_xoff_mininet.py::test_new_link_between_running_switches_restarts_both",
        ],
    );
}

#[test]
fn mininet_link_refuses_unsupported_options() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_unsupported_link_options_are_refused",
            "tests/test_xoff_mininet.py::test_error_of_failed_switch_contains_its_message",
            "tests/test_xoff_mininet.py::test_tables_become_toml",
        ],
    );
}

#[test]
fn mininet_hosts_with_kernel_senders_lose_nothing() {
    assert_pytest_passes(
        "mininet",
        &[
            "tests/test_xoff_mininet.py::test_burst_of_kernel_senders_is_lossless",
            "tests/test_xoff_mininet.py::test_burst_of_hosts_without_agents_loses_frames",
        ],
    );
}

#[test]
fn containerlab_topology_matches_lab_network() {
    assert_pytest_passes(
        "containerlab",
        &[
            "tests/test_topology.py::test_containerlab_can_start_every_node",
            "tests/test_topology.py::test_topology_equals_the_network_of_xoff_lab",
        ],
    );
}

#[test]
fn pytest_fixture_fails_a_test_with_frame_loss() {
    assert_pytest_passes(
        "pytest",
        &[
            "tests/test_pytest_xoff.py::test_network_exists_during_its_test_only",
            "tests/test_pytest_xoff.py::test_loss_in_the_network_fails_the_test",
        ],
    );
}

#[test]
fn test_step_of_github_workflow_succeeds_locally() {
    assert_pytest_passes(
        "github-actions",
        &[
            "tests/test_workflow.py::test_step_runs_and_writes_an_account",
            "tests/test_workflow.py::test_installed_script_and_package_exist",
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
