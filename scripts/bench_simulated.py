#!/usr/bin/env python3
"""Live against simulated: the same small experiments on this machine and in the simulator, as a table in Markdown.

    python3 scripts/bench_simulated.py [--xoff PROGRAM] [--runs N] [--rate RATE] [--policy A,B]

Needs root, as live experiments do, and a machine with nothing else to do: what keeps a thread from running is in the live half only.
"""

import argparse
import json
import subprocess

# What is compared: experiment, what it is called, and where it stands in the JSON of a policy.
PLACES = [("incast", f"{senders} senders: {what}", f"/sweep/{place}/{key}")
          for place, senders in enumerate((2, 4, 8))
          for what, key in (("goodput, Mb/s", "goodput_mbps/p50"), ("held, ms", "paused_ms"), ("mean queue, bytes", "queue_bytes/mean"))]
PLACES += [("cascade", f"{what}, ms", f"/steps/{step}/at_ms")
           for step, what in ((0, "rail-c holds the spine"), (2, "the spine holds rail-a"), (6, "rail-a holds gpu-1"))]


def at(value, pointer):
    """What stands at a JSON pointer, None where there is nothing."""
    for part in pointer.strip("/").split("/"):
        if value is None:
            return None
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value


def run(arguments, experiment, *more):
    """The result of an experiment."""
    command = [arguments.xoff, "experiment", experiment, "--json", "--rate", arguments.rate, "--policy", arguments.policy, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def number(value):
    """To four digits."""
    return "-" if value is None else f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xoff", default="target/release/xoff")
    parser.add_argument("--runs", default="5")
    parser.add_argument("--rate", default="100M")
    parser.add_argument("--policy", default="pfc,capfc-stop-max")
    arguments = parser.parse_args()
    print("| experiment | policy | what | live | simulated | simulated by live |\n|---|---|---|---|---|---|")
    for experiment in dict.fromkeys(experiment for experiment, _, _ in PLACES):
        live = run(arguments, experiment, "--runs", arguments.runs)
        simulated = run(arguments, experiment, "--simulated")
        for policy in arguments.policy.split(","):
            for _, what, place in (of for of in PLACES if of[0] == experiment):
                of_live, of_simulated = (at(of["policies"][policy], place) for of in (live, simulated))
                # Times in pause add up over runs.
                if place.endswith("paused_ms") and of_live is not None:
                    of_live /= int(arguments.runs)
                ratio = of_simulated / of_live if of_live and of_simulated is not None else None
                print(f"| {experiment} | {policy} | {what} | {number(of_live)} | {number(of_simulated)} | {number(ratio)} |")
        stall = max(of["longest_stall_ms"] for of in live["policies"].values())
        print(f"| {experiment} | all | longest stall, ms | {number(stall)} | 0 | - |")


if __name__ == "__main__":
    main()
