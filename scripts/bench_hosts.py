"""What ordinary programs of four Linux hosts get into one, with `xoff nic` at each host and without. See docs/benchmarks.md.

    h1 .. h4 -- s1 -- h5, made by `xoff lab`; scripts/hosts_incast.py is what runs there
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

INCAST = Path(__file__).with_name("hosts_incast.py")
CASES = [(transport, lossy) for transport in ("udp", "tcp") for lossy in (False, True)]
WIRE_BYTES = {"udp": 1472 + 66, "tcp": 1448 + 90}
PAYLOAD_BYTES = {"udp": 1472, "tcp": 1448}
"""Of the longest frames: what of their time on the line is payload."""


def network(options, agents):
    return f'[defaults]\nspeed = "{options.mbps}M"\nnic = {str(agents).lower()}\n[[switch]]\nname = "s1"\nhosts = 5\n'


def run(options, transport, lossy, agents):
    """What the programs and the account of the network say."""
    with tempfile.TemporaryDirectory(prefix="xoff-bench-") as directory:
        file = Path(directory) / "hosts.toml"
        file.write_text(network(options, agents))
        done = subprocess.run(
            [options.xoff, "lab", "run", "--json", str(file), "--", sys.executable, str(INCAST), "--xoff", options.xoff,
             "--transport", transport, "--seconds", str(options.seconds), *(["--lossy"] if lossy else [])],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=options.seconds + 60,
        )  # fmt: skip
    programs = [line for line in done.stderr.splitlines() if line.startswith('{"class_3"')]
    if not programs:
        raise RuntimeError(f"xoff lab run ended with {done.returncode}:\n{done.stderr}")
    said = json.loads(programs[0])
    line = options.mbps * PAYLOAD_BYTES[transport] / WIRE_BYTES[transport]
    lossless, all_classes = said["class_3"], sum(of["goodput_mbps"] for of in said.values())
    lost = lambda of: sum(of["sent"]) - sum(of["received"]) if transport == "udp" else of["sent_again"]
    return {
        "lost": lost(lossless),
        "lost_lossy": lost(said["class_0"]) if lossy else None,
        "goodput_mbps": lossless["goodput_mbps"],
        "line_share": round(all_classes / line, 4),
        "jain": lossless["jain"],
        "lossless_dropped": json.loads(done.stdout)["verdict"]["lossless_lost"],
    }


def median(rounds):
    keys = rounds[0].keys()
    return {key: None if rounds[0][key] is None else statistics.median(one[key] for one in rounds) for key in keys}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=3, help="how often; medians are printed")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--mbps", type=int, default=100, help="every line's rate")
    parser.add_argument("--xoff", default="target/dist/xoff", help="the binary")
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    cases = []
    for transport, lossy in CASES:
        for agents in (True, False):
            rounds = [run(options, transport, lossy, agents) for _ in range(options.rounds)]
            worst = max(one["lost"] for one in rounds)
            cases.append({"transport": transport, "lossy": lossy, "agents": agents, **median(rounds), "lost_at_most": worst})
    if options.json:
        return print(json.dumps({"mbps": options.mbps, "rounds": options.rounds, "cases": cases}))
    print("class 3 from four hosts into one: datagrams lost or segments sent again (median, at most), shares")
    print("        beside   agents     lost   at most  lossy lost   class 3   of the line   Jain")
    for one in cases:
        print(
            f"{one['transport']:<8}{'lossy' if one['lossy'] else '-':<9}{'yes' if one['agents'] else 'no':<7}"
            f"{one['lost']:>8}{one['lost_at_most']:>10}{one['lost_lossy'] if one['lossy'] else '-':>12}"
            f"{one['goodput_mbps']:>8.1f} M{one['line_share']:>13.1%}{one['jain']:>8.3f}"
        )


if __name__ == "__main__":
    main()
