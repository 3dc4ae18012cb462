"""Processes of a benchmark, and the CPU time of their threads."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path


def log(text):
    """Prints progress on standard error, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def run(*command, timeout_s=60):
    """Runs a command and returns its standard output."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError as error:
        raise RuntimeError(f"{command[0]} is missing; scripts/install-deps.sh --bench installs it") from error
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def stop(process):
    """Terminates a process and waits for its end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def threads(pid, pattern=""):
    """Returns the ids of a process's threads with matching names."""
    names = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            names[int(task.name)] = (task / "comm").read_text().strip()
    return [tid for tid, name in names.items() if re.search(pattern, name)]


def cpu_ns(pid, tids):
    """Returns the CPU time of these threads of a process, in nanoseconds."""
    return sum(int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0]) for tid in tids)
