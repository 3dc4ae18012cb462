#!/usr/bin/env python3
"""Whether each test that SPECIFICATION.md names is one that the test runner runs.

Names are looked up in what the test binaries list, not in the text of files: a test that was renamed, that is
ignored, or whose file is not compiled proves nothing.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "SPECIFICATION.md"
WORKSPACES = (ROOT, ROOT / "xdp/peer")
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def listed(binary, directory):
    """Names of the tests that a test binary runs."""

    def names(*arguments):
        command = [binary, "--list", "--format", "terse", *arguments]
        said = subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout
        return {line.removesuffix(": test") for line in said.splitlines() if line.endswith(": test")}

    return names() - names("--ignored")


def binaries(workspace):
    """The test binaries of a workspace: the file at the root of each, and the tests that it runs."""
    build = [
        "cargo",
        "test",
        "--workspace",
        "--target-dir",
        TARGET,
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]
    messages = subprocess.run(build, cwd=workspace, check=True, stdout=subprocess.PIPE, text=True).stdout
    for message in map(json.loads, messages.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            root = Path(message["target"]["src_path"])
            package = Path(message["manifest_path"]).parent
            yield PurePosixPath(root.relative_to(ROOT)), listed(message["executable"], package)


def module(file, root):
    """The path of modules to `file` in the crate whose root is the file `root`; None where it is in another."""
    if file == root:
        return []
    if not file.is_relative_to(root.parent):
        return None
    parts = list(file.relative_to(root.parent).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "mod" else parts


def is_run(file, test, crates):
    """Whether a crate runs `test` of `file`, in the file's module or in the module of tests within it."""
    for root, tests in crates:
        modules = module(file, root)
        inner = [] if modules is None else [modules, [*modules, "tests"]]
        if any("::".join([*path, test]) in tests for path in inner):
            return True
    return False


def main():
    text = DOCUMENT.read_text()
    shorthands = dict(re.findall(r"`(\w+/)` is `([\w/-]+/)`", text))
    named = re.findall(r"`([\w/.-]+\.rs)::(\w+)`", text)
    named.remove(("file.rs", "test"))  # how they are written
    crates = [crate for workspace in WORKSPACES for crate in binaries(workspace)]
    missing = []
    for file, test in named:
        short, _, rest = file.partition("/")
        paths = [PurePosixPath(shorthands.get(f"{short}/", short), rest), PurePosixPath(file)]
        if not any(is_run(path, test, crates) for path in paths):
            missing.append(f"{file}::{test}")
    if missing:
        print("SPECIFICATION.md names tests that are not run:", *missing, sep="\n  ", file=sys.stderr)
        print("correct the name, or write the test", file=sys.stderr)
        return 1
    count = sum(len(tests) for _, tests in crates)
    print(f"SPECIFICATION.md names {len(named)} tests, each one of the {count} that are run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
