#!/usr/bin/env python3
"""Checks that chaos finds faults, planted in a copy of the sources and selected by number in the environment.

    scripts/planted_faults.py [SEEDS]       100 seeds

Chaos has to find each fault with the seed that is known for it, or else within SEEDS seeds, and again in a smaller scenario.
Without a fault the copy has to keep all promises for SEEDS seeds. The sources themselves contain no faults: if a change removes
the place of a fault, the script reports it, and the fault needs a new place.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "target/planted/copy"
BUILD = ROOT / "target/planted/build"
CHAOS = ROOT / "target/planted/chaos"
JOBS = os.cpu_count() or 1

CHOICE = """
/// Whether this fault is planted.
#[allow(missing_docs)]
pub(crate) fn planted(fault: u8) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<u8>> = std::sync::OnceLock::new();
    let chosen = || std::env::var("PLANTED").ok().and_then(|text| text.parse().ok());
    *CHOSEN.get_or_init(chosen) == Some(fault)
}
"""

# Name, a seed that finds it, file, original text, text with the fault (`PLANTED` is true if it is selected).
FAULTS = [
    (
        "a forgotten release",
        19,
        "dataplane/src/switch/journey.rs",
        "            self.pipeline.try_again(self.now);\n        }\n        self.finish(frame, store);\n",
        """            self.pipeline.try_again(self.now);
        }
        if PLANTED && frame.len() % 61 == 7 {
            store.free(frame);
        } else {
            self.finish(frame, store);
        }
""",
    ),
    (
        "a missed refresh",
        1,
        "flow-control/src/pause/held.rs",
        "if self.wanted.is_empty() { Nanos::NEVER } else",
        "if self.wanted.is_empty() || PLANTED { Nanos::NEVER } else",
    ),
    (
        "a borrowed byte of headroom",
        2,
        "flow-control/src/buffer/ingress.rs",
        "self.headroom_used + beyond > self.headroom ||",
        "self.headroom_used + beyond > self.headroom + Bytes(u64::from(PLANTED)) ||",
    ),
    (
        "a swapped queue",
        18,
        "dataplane/src/switch/journey.rs",
        "        at.queues[class.index()].push(&mut self.nodes, frame);\n        if at.queues",
        """        let queue = if PLANTED && frame.len() % 61 == 7 { class.index() ^ 1 } else { class.index() };
        at.queues[queue].push(&mut self.nodes, frame);
        if at.queues""",
    ),
    (
        "two frames that change places",
        18,
        "dataplane/src/queue/mod.rs",
        "            ClassQueue::Fifo(fifo) => fifo.push(nodes, frame),\n",
        """            ClassQueue::Fifo(fifo) => {
                let before = if PLANTED && frame.len() % 61 == 7 { fifo.pop(nodes) } else { None };
                fifo.push(nodes, frame);
                before.into_iter().for_each(|before| fifo.push(nodes, before));
            }
""",
    ),
    (
        "an XON too early",
        1,
        "flow-control/src/buffer/ingress.rs",
        "self.body < self.xon(threshold) ||",
        "self.body < self.xon(threshold) + Bytes(500 * u64::from(PLANTED)) ||",
    ),
    (
        "frames that are received before any are released",
        0,
        "dataplane/src/driver/mod.rs",
        "        for port in ports.iter_mut() {\n            is_busy |= reap(",
        """        for port in ports.iter_mut().filter(|_| PLANTED) {
            received += receive(*by, &mut batch, port, *store);
        }
        for port in ports.iter_mut() {
            is_busy |= reap(""",
    ),
]


def replace(path, before, after):
    text = path.read_text()
    if text.count(before) != 1:
        sys.exit(f"planted_faults.py: this stands {text.count(before)} times in {path.relative_to(COPY)}:\n{before}")
    path.write_text(text.replace(before, after))


def build():
    """Plants all faults in a copy, and builds chaos from it."""
    shutil.rmtree(COPY, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():  # skips files with an uncommitted removal
            target = COPY / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    for crate in sorted({Path(file).parts[0] for _, _, file, _, _ in FAULTS}):
        with open(COPY / crate / "src/lib.rs", "a") as root:
            root.write(CHOICE)
    for number, (_, _, file, before, after) in enumerate(FAULTS, start=1):
        replace(COPY / file, before, after.replace("PLANTED", f"crate::planted({number})"))
    command = ["cargo", "build", "--quiet", "--release", "--package", "xoff-testkit", "--example", "chaos"]
    subprocess.run(command, cwd=COPY, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(BUILD)})
    shutil.copy2(BUILD / "release/examples/chaos", CHAOS)


def chaos(fault, start, end, jobs=JOBS):
    """Runs chaos with these seeds; returns whether it found anything, and its output."""
    environment = {**os.environ, "PLANTED": str(fault)}
    command = [CHAOS, str(start), str(end), str(jobs)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return run.returncode != 0, run.stdout


def found(number, seeds):
    """Describes how a fault is found, and returns whether it is."""
    name, known, *_ = FAULTS[number - 1]
    is_found, output = chaos(number, known, known + 1, jobs=1)
    if not is_found:
        is_found, output = chaos(number, 0, seeds)
    finding = re.search(
        r"^seed (\d+), event (\d+): (.+?):.*?^smaller scenario, event (\d+): (.+?):.*", output, re.MULTILINE | re.DOTALL
    )
    if not is_found or finding is None:
        return f"{name}: not found with {seeds} seeds", False
    seed, event, promise, event_shrunk, promise_shrunk = finding.groups()
    if promise != promise_shrunk:
        return f"{name}: {promise} became {promise_shrunk} in a smaller scenario", False
    hint = "" if int(seed) == known else f" (enter this seed for the fault; {known} no longer finds it)"
    return f"{name}: seed {seed}{hint}, event {event} ({promise}); smaller: event {event_shrunk}", True


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    begin = time.monotonic()
    build()
    print(f"built in {time.monotonic() - begin:.0f} s", flush=True)
    all_found = True
    with ThreadPoolExecutor(JOBS) as pool:
        for how, is_found in pool.map(lambda number: found(number, seeds), range(1, len(FAULTS) + 1)):
            print(how, flush=True)
            all_found &= is_found
    is_broken, output = chaos(0, 0, seeds)
    if is_broken:
        print(f"without a fault:\n{output}")
    print(f"{time.monotonic() - begin:.0f} s in all")
    return 0 if all_found and not is_broken else 1


if __name__ == "__main__":
    sys.exit(main())
