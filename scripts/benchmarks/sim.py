"""Measures how fast the simulator is, and its memory: a permutation on fat-trees of 4, 8 and 16 ports, each in a
process of its own, on one core: a minute."""

import json

from benchmarks import arguments, build
from benchmarks.process import run

SUMMARY = "Measure speed and memory of the simulator"
ROOT_FOR = None
PORTS = (4, 8, 16)


def add_arguments(parser):
    arguments.add_json(parser)
    parser.add_argument(
        "--seed", type=arguments.natural, default=1, metavar="N", help="seed of the permutation [%(default)s]"
    )


def main(options):
    permutation = build.example("xoff-sim", "permutation")
    runs = [run(permutation, str(ports), str(options.seed), timeout_s=None).strip() for ports in PORTS]
    print(json.dumps({"runs": [json.loads(text) for text in runs]}) if options.json else "\n".join(runs))
