#!/usr/bin/env python3
"""Joins the promises of SPECIFICATION.md with the tests that prove them.

A comment `#[test] // proves: ID, ID` names the promises of a test. A line `// Tests for SPECIFICATION.md: ID`
names those of all other tests of its file.

With --write it writes docs/evidence.md. Without, it checks that the page is current, builds all tests, and checks that the test
binaries list each annotated test: a test that is ignored or not compiled proves nothing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PROMISES = ROOT / "SPECIFICATION.md"
EVIDENCE = ROOT / "docs/evidence.md"
WORKSPACES = (ROOT, ROOT / "xdp/peer")
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")

OF_FILE = re.compile(r"^ *// Tests for SPECIFICATION\.md: (.*)$", re.MULTILINE)
TEST = re.compile(r"^ *#\[test\](?: // proves: ([^;\n]*).*|.*)?\n(?:.*\n)*? *fn (\w+)", re.MULTILINE)
HEAD = """\
# Evidence

The tests that prove each promise of [SPECIFICATION.md](../SPECIFICATION.md). `scripts/specification.py --write` writes this
page from the comments in the sources of the tests (CONTRIBUTING.md shows their form).
"""


def annotations():
    """Yields the file, the name and the promises of each annotated test."""
    command = ["git", "grep", "--untracked", "-lE", "// proves: |// Tests for SPECIFICATION", "--", "*.rs"]
    files = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in sorted(files.splitlines()):
        text = (ROOT / file).read_text()
        if re.search(r"^ *// proves: ", text, re.MULTILINE):
            sys.exit(f"{file}: write `#[test] // proves: ID` in one line")
        of_file = OF_FILE.findall(text)
        if len(of_file) > 1:
            sys.exit(f"{file}: only one line `// Tests for SPECIFICATION.md: ID` may stand in a file")
        for ids, test in TEST.findall(text):
            if ids or of_file:
                yield PurePosixPath(file), test, (ids or of_file[0]).split(", ")


def evidence(promises, proofs):
    """Returns the text of docs/evidence.md."""
    text = HEAD
    for promise in promises:
        text += f"\n## [{promise}](../SPECIFICATION.md#{promise})\n\n"
        tests = {}
        for file, test, ids in proofs:
            if promise in ids:
                tests.setdefault(file, []).append(f"    {test}\n")
        lines = "".join(f"{file}\n{''.join(names)}" for file, names in tests.items())
        text += f"```text\n{lines}```\n"
    return text


def listed(binary, directory):
    """Returns the names of the tests that a test binary runs."""

    def names(*arguments):
        command = [binary, "--list", "--format", "terse", *arguments]
        output = subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout
        return {line.removesuffix(": test") for line in output.splitlines() if line.endswith(": test")}

    return names() - names("--ignored")


def binaries(workspace):
    """Yields the root file of each test binary of a workspace, and the names of its tests."""
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
    """Returns the module path of `file` in the crate with root file `root`; `None` for a file of another crate."""
    if file == root:
        return []
    if not file.is_relative_to(root.parent):
        return None
    parts = list(file.relative_to(root.parent).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "mod" else parts


def is_run(file, test, crates):
    """Returns whether a crate runs `test` of `file`, in the file's module or its inner module `tests`."""
    for root, tests in crates:
        modules = module(file, root)
        inner = [] if modules is None else [modules, [*modules, "tests"]]
        if any("::".join([*path, test]) in tests for path in inner):
            return True
    return False


def report(problem, items, remedy):
    """Ends the program with an error if there are items."""
    if items:
        sys.exit("\n  ".join([f"{problem}:", *items]) + f"\n{remedy}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/evidence.md; build and check nothing")
    args = parser.parse_args()
    promises = re.findall(r"^### (.+)$", PROMISES.read_text(), re.MULTILINE)
    proofs = list(annotations())
    proved = {promise for _, _, ids in proofs for promise in ids}
    report("tests prove promises that SPECIFICATION.md does not have", sorted(proved - {*promises}), "correct the ID")
    report("no test proves these promises", sorted({*promises} - proved), "annotate one: #[test] // proves: ID")
    text = evidence(promises, proofs)
    if args.write:
        EVIDENCE.write_text(text)
        return
    if not EVIDENCE.exists() or EVIDENCE.read_text() != text:
        sys.exit("docs/evidence.md differs from the comments above tests: run scripts/specification.py --write")
    crates = [crate for workspace in WORKSPACES for crate in binaries(workspace)]
    missing = [f"{file}: {test}" for file, test, _ in proofs if not is_run(file, test, crates)]
    report("annotated tests that no test binary runs", missing, "compile them, or remove the annotation")
    count = sum(len(tests) for _, tests in crates)
    print(f"{len(proofs)} of the {count} tests that are run prove {len(promises)} promises")


if __name__ == "__main__":
    main()
