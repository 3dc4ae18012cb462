"""Tests of the forwarding benchmark: what it does where a forwarder gets stuck. They need root, cgroups, and a switch: XOFF."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent
sys.path.insert(0, str(SCRIPTS))
from bench_lab import Failures, Lab, run  # noqa: E402
from bench_statistics import summary  # noqa: E402

# The benchmark's generator and sink, slow, and without the build that the real ones need.
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


def test_failure_is_kept_and_ends_the_process_with_one(capsys):
    failures = Failures()
    with failures.caught("round 1 peer"):
        raise RuntimeError("no frames")
    with failures.caught("round 2 peer"):
        pass
    assert failures.all == ["round 1 peer failed: no frames"]
    with pytest.raises(SystemExit) as ended:
        failures.exit()
    assert ended.value.code == 1 and "1 measurements failed" in capsys.readouterr().err


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
    stuck = tmp_path / "xoff-worker"  # named as the thread that the benchmark looks for
    stuck.write_text("#!/bin/sh\necho running\nwhile :; do sleep 1; done\n")
    stuck.chmod(0o755)
    ends = tmp_path / "ends"
    ends.write_text(ENDS)
    ends.chmod(0o755)
    command = [
        sys.executable, str(SCRIPTS / "bench_forward.py"), "--json", "--rounds", "2", "--seconds", "0.2", "--sizes", "64",
        "--flows", "1", "--modes", "generator-limited", "--peers", "kernel_bridge", "--also", f"stuck={stuck}", "--patience", "5",
        "--xoff", os.environ["XOFF"], "--bench", str(ends),
    ]  # fmt: skip
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    [one] = result["runs"]
    assert one["rounds"] == {"xoff": 2, "stuck": None, "kernel_bridge": 2}
    assert len(result["failures"]) == 2 and all("stuck failed: waited 5.0 s in vain" in text for text in result["failures"])
