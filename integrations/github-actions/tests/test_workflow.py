"""Tests the steps of the example workflow that concern xoff."""

import json
import os
import subprocess
from pathlib import Path

import yaml

HERE = Path(__file__).parent.parent
ROOT = HERE.parent.parent


def steps():
    return yaml.safe_load((HERE / "lossless.yml").read_text())["jobs"]["test"]["steps"]


def test_step_runs_and_writes_an_account(tmp_path):
    step = next(step for step in steps() if "xoff lab run" in step.get("run", ""))
    assert ROOT / step["working-directory"] == HERE
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "xoff").symlink_to(os.environ["XOFF"])
    # The test runs as root.
    (programs / "sudo").symlink_to("/usr/bin/env")
    work = tmp_path / "work"
    work.mkdir()
    for name in ("lab.toml", "test.sh"):
        (work / name).symlink_to(HERE / name)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=work, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    account = json.loads((work / "account.json").read_text())
    assert account["verdict"]["promise"] == "kept" and "3 received" in done.stderr, (account, done.stderr)


def test_installed_script_and_package_exist():
    install = next(step for step in steps() if step.get("name") == "Install xoff")["run"]
    assert (ROOT / "scripts/install-deps.sh").is_file() and "scripts/install-deps.sh" in install
    assert 'name = "xoff"' in (ROOT / "cli/Cargo.toml").read_text() and "--package xoff" in install
