#!/usr/bin/env python3
"""Make the plots of docs/testing-switches.md: cases of `xoff test` against the reference switch, correct and defective.

Write docs/plots/tester-*.svg. Requires root, and both binaries of scripts/tester_defects.py.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import tester_defects

RATE, SEARCH = "Rate of each class at port 2", "Search for the headroom"
QUEUE = "Queue of port 1 while its receiver drains it step by step"
# File, case, title of the plot, and defect.
PLOTS = [
    ("expiry", "receive.expiry", RATE, None),
    ("expiry-quantum-double", "receive.expiry", RATE, "quantum-double"),
    ("xon", "receive.xon", RATE, None),
    ("xon-late", "receive.xon", RATE, "xon-late"),
    ("headroom", "headroom.size", SEARCH, None),
    ("headroom-short", "headroom.size", SEARCH, "headroom-short"),
    ("threshold", "buffers.xon", QUEUE, None),
    ("threshold-xon-empty", "buffers.xon", QUEUE, "xon-empty"),
]
ATTEMPTS = 10
SIZE_MAX = 15_000
# The report's style sheet follows the page; an image has its own colors.
STYLE = """<style>
text{font:11px sans-serif;fill:#444} .marker{fill:#666} path.marker{stroke:#888;stroke-dasharray:3 3;fill:none}
.grid{stroke:#ddd} .axis{stroke:#888;fill:none} .curve{fill:none;stroke-width:1.5}
.c0{stroke:#1965b0} .c1{stroke:#dc6a00} .d0{fill:#1965b0} .d1{fill:#dc6a00}
</style>
<rect width="100%" height="100%" fill="#fff"/>
"""


def plot(args, both, case, title, defect):
    """Return the plot of a run whose verdict is the expected one."""
    expected = "fail" if defect else "pass"
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as directory:
            settings = tester_defects.settings_of(defect, case)
            verdicts = tester_defects.examine(args, both, directory, defect, settings, [case])
            if verdicts[case][0] == expected:
                page = pathlib.Path(directory, "report.html").read_text()
                plots = re.findall(r"<svg .*?</svg>\n", page, re.DOTALL)
                return next(svg for svg in plots if f'aria-label="{title}"' in svg)
            print(f"{case}: {': '.join(verdicts[case])}; again", file=sys.stderr)
    sys.exit(f"{case} did not {expected} in {ATTEMPTS} runs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xoff", default="target/debug/xoff", help="the binary xoff")
    parser.add_argument("--reference", default="target/debug/xoff-reference", help="the reference switch")
    parser.add_argument("--out", default="docs/plots", help="directory of the plots")
    parser.add_argument("names", nargs="*", help="plots, such as expiry; default: all")
    parser.set_defaults(speed=tester_defects.SPEED)
    args = parser.parse_args()
    with tester_defects.namespaces() as both:
        for name, case, title, defect in PLOTS:
            if args.names and name not in args.names:
                continue
            svg = plot(args, both, case, title, defect)
            svg = svg.replace(">\n", ">\n" + STYLE, 1)
            if len(svg) > SIZE_MAX:
                sys.exit(f"the plot {name} has {len(svg)} bytes, more than {SIZE_MAX}")
            pathlib.Path(args.out, f"tester-{name}.svg").write_text(svg)
            print(f"{name}: {len(svg)} bytes")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
