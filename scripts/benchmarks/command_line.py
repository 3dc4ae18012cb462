"""The command line: one subcommand for each benchmark."""

import os

from benchmarks import (
    forward,
    goodput,
    hosts,
    idle,
    load,
    nic,
    pause,
    policies,
    rings,
    routers,
    scaling,
    sim,
    simulated,
)
from benchmarks.arguments import HelpFormatter, Parser

BENCHMARKS = {
    "forward": forward,
    "rings": rings,
    "routers": routers,
    "scaling": scaling,
    "load": load,
    "pause": pause,
    "nic": nic,
    "hosts": hosts,
    "goodput": goodput,
    "idle": idle,
    "policies": policies,
    "sim": sim,
    "simulated": simulated,
}

DESCRIPTION = """Runs a benchmark of xoff and prints a table, or JSON with --json.

A benchmark first installs missing Debian packages and builds the switch of this tree; with --xoff BINARY it does
neither. docs/benchmarks.md says what each benchmark measures.

benchmarks:
""" + "\n".join(f"  {name:<10} {benchmark.SUMMARY}" for name, benchmark in BENCHMARKS.items())

EPILOG = """`scripts/bench BENCHMARK --help` lists the options of a benchmark.

exit status:
  0  every measurement succeeded
  1  a measurement failed; the other results are printed
  2  the arguments are wrong, a build failed, or the benchmark needs root"""


def parser():
    top = Parser(prog="scripts/bench", description=DESCRIPTION, epilog=EPILOG, formatter_class=HelpFormatter)
    subcommands = top.add_subparsers(metavar="BENCHMARK", required=True, help="one of those above")
    for name, benchmark in BENCHMARKS.items():
        subcommand = subcommands.add_parser(name, description=benchmark.__doc__, formatter_class=HelpFormatter)
        benchmark.add_arguments(subcommand)
        subcommand.set_defaults(benchmark=benchmark, parser=subcommand)
    return top


def main():
    """Runs the benchmark that the command line names and returns the exit status."""
    options, unknown = parser().parse_known_args()
    if unknown:
        options.parser.error(f"unknown arguments: {' '.join(unknown)}")
    if options.benchmark.ROOT_FOR and os.geteuid() != 0:
        options.parser.exit(2, f"{options.parser.prog}: needs root: it makes {options.benchmark.ROOT_FOR}\n")
    try:
        return options.benchmark.main(options)
    except RuntimeError as error:
        options.parser.exit(1, f"{options.parser.prog}: {error}\n")
