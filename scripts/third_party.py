#!/usr/bin/env python3
"""Collects the licence texts of the third-party crates that are linked into xoff.

    scripts/third_party.py --to FILE [--no-default-features] [--features LIST]

Features are those of the build whose crates are wanted. Crates that run at build time only, such as procedural macros,
are left out. A crate without a licence file gets the default text of its licence; if there is none, that is an error."""

import argparse
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LICENCE_FILE = re.compile(r"(un)?licen[cs]e|copying", re.IGNORECASE)
# Files that belong to a licence without being one.
NOTICE_FILE = re.compile(r"copyright|notice", re.IGNORECASE)
# Directories of foreign sources that a crate compiles, besides `src`.
SOURCES = {"libbpf-sys": ("libbpf",)}
RULE = "-" * 80


class Crate(NamedTuple):
    """A linked crate; `licence` is an SPDX expression, `directory` has its sources, if any."""

    name: str
    version: str
    licence: str
    authors: list[str]
    directory: Path | None

    def __str__(self):
        return f"{self.name} {self.version}"


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked_crates(features):
    """Returns the standard library and the foreign crates that a build of xoff with these features links."""
    tree = ["cargo", "tree", "--locked", "--package", "xoff", "--edges", "normal,no-proc-macro", "--prefix", "none"]
    lines = output(*tree, "--format", "{p}", *features).splitlines()
    linked = {tuple(line.split()[:2]) for line in lines if line}
    packages = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))["packages"]
    crates = [
        Crate(one["name"], one["version"], one["license"] or "", one["authors"], Path(one["manifest_path"]).parent)
        for one in packages
        if one["source"] and (one["name"], f"v{one['version']}") in linked
    ]
    rust = output("rustc", "--version").split()[1]
    crates.append(Crate("std", rust, "MIT OR Apache-2.0", ["The Rust Project Developers"], None))
    return sorted(crates)


def files(crate, name):
    """Returns a crate's files with a matching name, in its directory and beside compiled sources."""
    if crate.directory is None:
        return []
    found = list(crate.directory.iterdir())
    for sources in ("src", *SOURCES.get(crate.name, ())):
        found += (crate.directory / sources).rglob("*")
    return sorted(file for file in found if file.is_file() and name.match(file.name) and file.suffix != ".rs")


def read(crate, name):
    """Returns the paths and texts of these files."""
    return [(str(file.relative_to(crate.directory)), file.read_text(errors="replace")) for file in files(crate, name)]


def default_texts(crate):
    """Returns names and texts of the first alternative whose licences all have a default text; `None` without one.

    Default texts are those of this repository; the MIT licence names the crate's authors.
    """
    mit = (ROOT / "LICENSE-MIT").read_text()
    authors = ", ".join(crate.authors) or f"the authors of {crate.name}"
    texts = {
        "MIT": re.sub(r"^Copyright .*$", f"Copyright (c) {authors}", mit, count=1, flags=re.MULTILINE),
        "Apache-2.0": (ROOT / "LICENSE-APACHE").read_text(),
    }
    for alternative in re.split(r" OR |/", crate.licence):
        names = alternative.split(" AND ")
        if all(name in texts for name in names):
            return [(name, texts[name]) for name in names]
    return None


def collect(crates):
    """Returns the texts with their crates, and the crates without any text."""
    owners, texts, missing = {}, {}, []
    for crate in crates:
        licences = read(crate, LICENCE_FILE) or default_texts(crate)
        if licences is None:
            missing.append(crate)
            continue
        for name, text in licences + read(crate, NOTICE_FILE):
            key = " ".join(text.split())
            texts.setdefault(key, text.strip("\n"))
            owners.setdefault(key, []).append(f"{crate} ({name})")
    return [(owners[key], text) for key, text in texts.items()], missing


def document(crates, texts):
    """Returns the document: a list of the crates, then each text once."""
    lines = ["Third-party software that is linked into xoff, and its licences (SPDX expressions).", ""]
    lines += [f"{crate!s:<40} {crate.licence}" for crate in crates]
    for owners, text in texts:
        lines += ["", RULE, textwrap.fill(", ".join(owners), 120, break_on_hyphens=False), RULE, "", text]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="where the texts go")
    parser.add_argument("--no-default-features", action="store_true", help="as of cargo")
    parser.add_argument("--features", default="", metavar="LIST", help="as of cargo")
    options = parser.parse_args()
    features = ["--no-default-features"] * options.no_default_features + ["--features", options.features]
    crates = linked_crates(features)
    texts, missing = collect(crates)
    for crate in missing:
        licence = crate.licence or "no licence"
        print(f"third_party.py: {crate} ({licence}) has no licence file, and there is no default text", file=sys.stderr)
    if missing:
        return 1
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_text(document(crates, texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
