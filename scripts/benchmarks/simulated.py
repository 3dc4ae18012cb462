"""Compares the same small experiments live on this machine, in the simulator as programs of a machine that stalls as
this one did, and in the simulator as ideal hardware, as a table in Markdown.

Run it on an otherwise idle machine: whatever keeps a thread from running affects the live half. Without --stall the
simulated programs stall for up to the longest stall of a switch or host in the live runs, and wake as late as the live
hosts usually did, at most a millisecond."""

import json
import statistics
import subprocess

from benchmarks import arguments, build

SUMMARY = "Compare live and simulated experiments"
ROOT_FOR = "network namespaces and AF_XDP sockets"

# Experiment, policies, and the compared values with their place in a policy's JSON.
PLACES = [
    (
        "incast",
        ("pfc", "pfc-control", "capfc-stop-max"),
        [
            (f"{senders} senders: {what}", f"/sweep/{place}/{key}")
            for place, senders in enumerate((2, 4, 8))
            for what, key in (
                ("goodput, Mb/s", "goodput_mbps/p50"),
                ("fairness", "fairness/p50"),
                ("held, ms", "paused_ms"),
                ("mean queue, KB", "queue_bytes/mean"),
                ("XOFF per GB", "xoff_per_gb"),
            )
        ],
    ),
    (
        "ofc-fig1",
        ("pfc", "ofc"),
        [
            ("F0, of its solo rate", "/f0/share_of_solo/p50"),
            ("F0 complete, ms", "/f0/completion_ms/p50"),
            ("F1 complete, ms", "/f1/completion_ms/p50"),
            ("held, ms", "/pfc/paused_ms"),
        ],
    ),
    (
        "cascade",
        ("pfc",),
        [("held, ms", "/pfc/paused_ms"), ("XOFFs", "/pfc/xoff_sent")]
        + [
            (f"{what}, ms", f"/steps/{step}/at_ms")
            for step, what in ((0, "rail-c holds the spine"), (2, "the spine holds rail-a"), (6, "rail-a holds gpu-1"))
        ],
    ),
]
# Sums over runs.
SUMS = ("/paused_ms", "/xoff_sent")


def at(value, pointer):
    """Returns the value at a JSON pointer, or the median of a spread there; `None` if missing."""
    for part in pointer.strip("/").split("/"):
        if value is None:
            return None
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value["p50"] if isinstance(value, dict) else value


def run(options, experiment, policies, *more):
    """Returns the result of an experiment."""
    command = [options.xoff, "experiment", experiment, "--json", "--speed", options.rate]
    command += ["--policy", ",".join(policies), "--runs", str(options.runs), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def longest(result):
    """Returns the longest stall of any program, in ms."""
    return max(max(of["longest_stall_ms"], of["longest_host_gap_ms"]) for of in result["policies"].values())


def wake(result):
    """Returns the usual delay of waking a host, in ms: the median of the policies."""
    return statistics.median(of["usual_host_gap_ms"] for of in result["policies"].values())


def number(value):
    """Formats a number with four digits."""
    return "-" if value is None else f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def add_arguments(parser):
    names = [name for name, _, _ in PLACES]
    parser.add_argument(
        "experiments",
        nargs="*",
        type=arguments.one_of(names),
        default=names,
        metavar="EXPERIMENT",
        help=f"of {', '.join(names)} [all]",
    )
    parser.add_argument(
        "--runs", type=arguments.positive(int), default=5, metavar="N", help="runs of each experiment [%(default)s]"
    )
    parser.add_argument("--rate", default="100M", help="rate of the lines [%(default)s]")
    parser.add_argument(
        "--stall", metavar="LENGTH[/EVERY[/WAKE]]", help="stalls of the simulated programs [as in the live runs]"
    )
    arguments.add_xoff(parser)


def main(options):
    options.xoff = build.xoff(options)
    print(
        "| experiment | policy | what | live | programs | by live | hardware | by live |\n|---|---|---|---|---|---|---|---|"
    )
    for experiment, policies, places in PLACES:
        if experiment in options.experiments:
            print("\n".join(compare(options, experiment, policies, places)), flush=True)


def compare(options, experiment, policies, places):
    """Runs an experiment in all three ways and returns its rows of the table."""
    live = run(options, experiment, policies)
    stall = options.stall or f"{longest(live):.3f}ms/1s/{min(wake(live), 1) * 1000:.0f}us"
    programs = run(options, experiment, policies, "--simulated", "--stall", stall)
    results = [live, programs, run(options, experiment, policies, "--simulated")]
    rows = []
    for policy in policies:
        for what, place in places:
            values = [at(result["policies"][policy], place) for result in results]
            if place.endswith(SUMS):
                values = [value and value / options.runs for value in values]
            if what.endswith(", KB"):
                values = [value and value / 1e3 for value in values]
            ratio = [value / values[0] if values[0] and value is not None else None for value in values]
            cells = [values[0], values[1], ratio[1], values[2], ratio[2]]
            rows.append(f"| {experiment} | {policy} | {what} | {' | '.join(map(number, cells))} |")
    stalls = [number(longest(result)) for result in results]
    rows.append(
        f"| {experiment} | all | longest stall, ms (--stall {stall}) | {stalls[0]} | {stalls[1]} | - | {stalls[2]} | - |"
    )
    return rows
