#!/usr/bin/env python3
"""Live against simulated: the same small experiments on this machine, in the simulator as ideal hardware, and in it as programs of a
machine that stalls as this one did, as a table in Markdown.

    python3 scripts/bench_simulated.py [--xoff PROGRAM] [--runs N] [--rate RATE] [--stall LENGTH[/EVERY[/WAKE]]] [EXPERIMENT ..]

Needs root, as live experiments do, and a machine with nothing else to do: what keeps a thread from running is in the live half only, but
for its length. Without --stall the programs stall for up to as long as the longest stall of a switch or host in the live runs, and take
as long to wake as its hosts usually did, but a millisecond at most.
"""

import argparse
import json
import statistics
import subprocess

# What is compared: experiment, policies, and what it is called beside where it stands in the JSON of a policy.
PLACES = [
    ("incast", ("pfc", "pfc-control", "capfc-stop-max"),
     [(f"{senders} senders: {what}", f"/sweep/{place}/{key}")
      for place, senders in enumerate((2, 4, 8))
      for what, key in (("goodput, Mb/s", "goodput_mbps/p50"), ("fairness", "fairness/p50"), ("held, ms", "paused_ms"),
                        ("mean queue, KB", "queue_bytes/mean"), ("XOFF per GB", "xoff_per_gb"))]),
    ("ofc-fig1", ("pfc", "ofc"),
     [("F0, of its solo rate", "/f0/share_of_solo/p50"), ("F0 complete, ms", "/f0/completion_ms/p50"),
      ("F1 complete, ms", "/f1/completion_ms/p50"), ("held, ms", "/pfc/paused_ms")]),
    ("cascade", ("pfc",),
     [("held, ms", "/pfc/paused_ms"), ("XOFFs", "/pfc/xoff_sent")]
     + [(f"{what}, ms", f"/steps/{step}/at_ms")
        for step, what in ((0, "rail-c holds the spine"), (2, "the spine holds rail-a"), (6, "rail-a holds gpu-1"))]),
]
# Added up over runs.
SUMS = ("/paused_ms", "/xoff_sent")


def at(value, pointer):
    """What stands at a JSON pointer, None where there is nothing; the median of a spread."""
    for part in pointer.strip("/").split("/"):
        if value is None:
            return None
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value["p50"] if isinstance(value, dict) else value


def run(arguments, experiment, policies, *more):
    """The result of an experiment."""
    command = [arguments.xoff, "experiment", experiment, "--json", "--rate", arguments.rate, "--policy", ",".join(policies),
               "--runs", arguments.runs, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def longest(result):
    """The longest stall of any program, ms."""
    return max(max(of["longest_stall_ms"], of["longest_host_gap_ms"]) for of in result["policies"].values())


def wake(result):
    """How long it usually took to wake a host, ms: by policy, the middle one."""
    return statistics.median(of["usual_host_gap_ms"] for of in result["policies"].values())


def number(value):
    """To four digits."""
    return "-" if value is None else f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", default=[name for name, _, _ in PLACES])
    parser.add_argument("--xoff", default="target/dist/xoff")
    parser.add_argument("--runs", default="5")
    parser.add_argument("--rate", default="100M")
    parser.add_argument("--stall")
    arguments = parser.parse_args()
    print("| experiment | policy | what | live | programs | by live | hardware | by live |\n|---|---|---|---|---|---|---|---|")
    for experiment, policies, places in PLACES:
        if experiment not in arguments.experiments:
            continue
        live = run(arguments, experiment, policies)
        stall = arguments.stall or f"{longest(live):.3f}ms/1s/{min(wake(live), 1) * 1000:.0f}us"
        results = [live, run(arguments, experiment, policies, "--simulated", "--stall", stall),
                   run(arguments, experiment, policies, "--simulated")]
        for policy in policies:
            for what, place in places:
                values = [at(of["policies"][policy], place) for of in results]
                if place.endswith(SUMS):
                    values = [value and value / int(arguments.runs) for value in values]
                if what.endswith(", KB"):
                    values = [value and value / 1e3 for value in values]
                ratio = [value / values[0] if values[0] and value is not None else None for value in values]
                print(f"| {experiment} | {policy} | {what} | {number(values[0])} | {number(values[1])} | {number(ratio[1])} "
                      f"| {number(values[2])} | {number(ratio[2])} |")
        stalls = [number(longest(of)) for of in results]
        print(f"| {experiment} | all | longest stall, ms (--stall {stall}) | {stalls[0]} | {stalls[1]} | - | {stalls[2]} | - |", flush=True)


if __name__ == "__main__":
    main()
