"""Tests of the benchmarks: their command line, and that a stuck forwarder does not end a comparison.

They need root, cgroups, and a switch: XOFF in the environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.arguments import HelpFormatter, Parser
from benchmarks.command_line import BENCHMARKS
from benchmarks.comparison import summary
from benchmarks.lab import Lab
from benchmarks.process import run
from benchmarks.rounds import Failures, turns

BENCH = Path(__file__).resolve().parent.parent / "bench"

# A slow generator and sink, which need no build.
ENDS = """#!/usr/bin/python3
import socket, sys, time
print("ready", flush=True)
if sys.argv[1] == "sink":
    time.sleep(1000)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((sys.argv[2], 0))
while True:
    link.send(bytes.fromhex("020000000201" "020000000001" "88b5") + bytes(46))
    time.sleep(0.001)
"""
CASE = ("capped", 64, 1)


def measured(kpps):
    return {"kpps": kpps, "gbps": 0.0, "offered_kpps": 1.0, "core_share": 0.35, "disturbed": False}


def test_ratio_pairs_rounds_that_both_have():
    ours = {0: measured(10.0), 1: measured(30.0), 2: measured(40.0)}
    theirs = {1: measured(10.0), 2: measured(20.0)}  # its first round failed
    [one] = summary({(CASE, "xoff"): ours, (CASE, "peer"): theirs}, [CASE], ["xoff", "peer"])
    assert one["xoff_to"] == {"peer": 2.5}
    assert one["rounds"] == {"xoff": 3, "peer": 2}


def test_turns_begin_with_another_name_each_round():
    assert list(turns(2, "ab", [1, 2])) == [
        *[(0, 1, "a"), (0, 1, "b"), (0, 2, "a"), (0, 2, "b")],
        *[(1, 1, "b"), (1, 1, "a"), (1, 2, "b"), (1, 2, "a")],
    ]


def bench(*arguments, timeout=60):
    command = [sys.executable, "-B", str(BENCH), *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
    )


def test_help_names_benchmarks_and_their_options():
    done = bench("--help")
    assert done.returncode == 0, done.stderr
    for name, benchmark in BENCHMARKS.items():
        assert f"\n  {name} " in done.stdout and benchmark.SUMMARY in done.stdout, done.stdout
        parser = Parser(prog=name, formatter_class=HelpFormatter)
        benchmark.add_arguments(parser)
        assert "--" in parser.format_help()
    done = bench("forward", "--help")
    assert done.returncode == 0 and "--peers LIST" in done.stdout and "[5]" in done.stdout, done.stdout


def test_wrong_argument_gets_one_line():
    for arguments, message in (
        ([], "scripts/bench: the following arguments are required: BENCHMARK"),
        (["idle", "--rounds", "1"], "scripts/bench idle: unknown arguments: --rounds 1"),
        (["forward", "--rounds", "0"], "scripts/bench forward: argument --rounds: '0' is no whole number above 0"),
        (
            ["forward", "--flows", "17"],
            "scripts/bench forward: argument --flows: 17 flows are too many; take 16 at most",
        ),
        (["load", "--peers", "x"], "scripts/bench load: argument --peers: 'x' is unknown; choose from kernel_bridge,"),
        (["pause", "--xoff", "/none"], "scripts/bench pause: argument --xoff: '/none' is no program"),
    ):
        done = bench(*arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(message), done.stderr


def test_failure_is_kept_and_is_status_one(capsys):
    failures = Failures()
    with failures.caught("round 1 peer"):
        raise RuntimeError("no frames")
    with failures.caught("round 2 peer"):
        pass
    assert failures.all == ["round 1 peer failed: no frames"]
    assert failures.exit_status() == 1 and "1 measurements failed" in capsys.readouterr().err
    assert Failures().exit_status() == 0


def test_scope_removes_what_a_failed_turn_left():
    with Lab() as lab:
        with pytest.raises(RuntimeError), lab.scope():
            lab.wire("g1", "s1", "02:00:00:00:00:01")
            process = lab.start(lab.switch, "sleep", "1000")
            raise RuntimeError("the forwarder got stuck")
        assert process.poll() is not None
        assert "s1" not in run("ip", "-n", lab.switch, "-brief", "link")
        lab.wire("g1", "s1", "02:00:00:00:00:01")


def test_stuck_forwarder_costs_only_its_own_results(tmp_path):
    stuck = tmp_path / "xoff-worker"  # the name of the thread that the benchmark expects
    stuck.write_text("#!/bin/sh\necho running\nwhile :; do sleep 1; done\n")
    stuck.chmod(0o755)
    ends = tmp_path / "ends"
    ends.write_text(ENDS)
    ends.chmod(0o755)
    load = ["--sizes", "64", "--flows", "1", "--modes", "generator-limited", "--rounds", "2", "--seconds", "0.2"]
    forwarders = ["--peers", "kernel_bridge", "--also", f"stuck={stuck}", "--patience", "5"]
    programs = ["--xoff", os.environ["XOFF"], "--generator", str(ends)]
    done = bench("forward", "--json", *load, *forwarders, *programs, timeout=300)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    [one] = result["runs"]
    assert one["rounds"] == {"xoff": 2, "stuck": None, "kernel_bridge": 2}
    assert len(result["failures"]) == 2 and all(
        "stuck failed: waited 5.0 s in vain" in text for text in result["failures"]
    )
