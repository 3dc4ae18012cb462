"""Measures what ordinary programs of four Linux hosts get into one, with `xoff nic` at each host and without: four
minutes.

    h1 .. h4 -- s1 -- h5, made by `xoff lab`; the programs are scripts/hosts_incast.py"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import arguments, build

SUMMARY = "Measure an incast of ordinary programs, with `xoff nic` and without"
ROOT_FOR = "network namespaces"
INCAST = build.SCRIPTS / "hosts_incast.py"
CASES = [(transport, lossy) for transport in ("udp", "tcp") for lossy in (False, True)]
# Payload of the longest frames, and their bytes on the line.
PAYLOAD_BYTES = {"udp": 1472, "tcp": 1448}
WIRE_BYTES = {"udp": 1472 + 66, "tcp": 1448 + 90}


def add_arguments(parser):
    arguments.add_json(parser)
    arguments.add_rounds(parser, 3)
    arguments.add_seconds(parser, 6.0)
    parser.add_argument(
        "--mbps", type=arguments.positive(int), default=100, metavar="N", help="rate of every line [%(default)s]"
    )
    arguments.add_xoff(parser)


def main(options):
    options.xoff = build.xoff(options)
    cases = []
    for transport, lossy in CASES:
        for agents in (True, False):
            rounds = [measure(options, transport, lossy, agents) for _ in range(options.rounds)]
            case = {"transport": transport, "lossy": lossy, "agents": agents, **medians(rounds)}
            cases.append({**case, "lost_at_most": max(one["lost"] for one in rounds)})
    if options.json:
        return print(json.dumps({"mbps": options.mbps, "rounds": options.rounds, "cases": cases}))
    print("class 3 from four hosts into one: datagrams lost or segments sent again (median, at most), shares")
    print("        beside   agents     lost   at most  lossy lost   class 3   of the line   Jain")
    for case in cases:
        print(
            f"{case['transport']:<8}{'lossy' if case['lossy'] else '-':<9}{'yes' if case['agents'] else 'no':<7}"
            f"{case['lost']:>8}{case['lost_at_most']:>10}{case['lost_lossy'] if case['lossy'] else '-':>12}"
            f"{case['goodput_mbps']:>8.1f} M{case['line_share']:>13.1%}{case['jain']:>8.3f}"
        )


def network(options, agents):
    return f'[defaults]\nspeed = "{options.mbps}M"\nnic = {str(agents).lower()}\n[[switch]]\nname = "s1"\nhosts = 5\n'


def measure(options, transport, lossy, agents):
    """Runs the programs once. Returns their result and the network's counted losses."""
    programs = [sys.executable, str(INCAST), "--xoff", options.xoff]
    programs += ["--transport", transport, "--seconds", str(options.seconds), *(["--lossy"] if lossy else [])]
    with tempfile.TemporaryDirectory(prefix="xoff-bench-") as directory:
        file = Path(directory) / "hosts.toml"
        file.write_text(network(options, agents))
        done = subprocess.run(
            [options.xoff, "lab", "run", "--json", str(file), "--", *programs],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=options.seconds + 60,
            check=False,
        )
    results = [line for line in done.stderr.splitlines() if line.startswith('{"class_3"')]
    if not results:
        raise RuntimeError(f"xoff lab run ended with {done.returncode}:\n{done.stderr}")
    classes = json.loads(results[0])
    line_mbps = options.mbps * PAYLOAD_BYTES[transport] / WIRE_BYTES[transport]

    def lost(name):
        result = classes[name]
        return sum(result["sent"]) - sum(result["received"]) if transport == "udp" else result["sent_again"]

    return {
        "lost": lost("class_3"),
        "lost_lossy": lost("class_0") if lossy else None,
        "goodput_mbps": classes["class_3"]["goodput_mbps"],
        "line_share": round(sum(result["goodput_mbps"] for result in classes.values()) / line_mbps, 4),
        "jain": classes["class_3"]["jain"],
        "lossless_dropped": json.loads(done.stdout)["verdict"]["lossless_lost"],
    }


def medians(rounds):
    keys = rounds[0].keys()
    return {key: None if rounds[0][key] is None else statistics.median(one[key] for one in rounds) for key in keys}
