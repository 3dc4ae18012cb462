"""Where benchmarks run: processes that are ended, namespaces and control groups that are removed.

Everything is made by `Lab`, and removed when it is left, by an error or a signal too; what is made within `Lab.scope` is
removed at the scope's end. `Failures` keeps one measurement that fails from ending the others.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")
PERIOD_US = 10_000
PATIENCE_S = 60


def tell(text):
    print(text, file=sys.stderr, flush=True)


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def await_that(what, condition):
    """Waits until `condition()` is true, and returns its value. `PATIENCE_S` bounds the wait."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.02)
    raise RuntimeError(f"waited {PATIENCE_S} s in vain for {what}")


class Failures:
    """Measurements that failed, each with its reason; the benchmark goes on with the next one."""

    def __init__(self):
        self.all = []

    @contextlib.contextmanager
    def caught(self, measurement):
        """Notes an error of the block as a failure of `measurement`, a text, instead of raising it."""
        try:
            yield
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            self.all.append(f"{measurement} failed: {error}")
            tell(self.all[-1])

    def exit(self):
        """Ends the process with status 1 if a measurement failed. The results are to be printed before."""
        if self.all:
            tell("\n".join(["", f"{len(self.all)} measurements failed; their results are missing above:", *self.all]))
            sys.exit(1)


class Group:
    """A control group with nearly all the weight there is, and a quota where one is set.

    The weight keeps what else the machine does out of the measurement. In cgroup v2 the group is a
    threaded one, so that single threads can be put into it.
    """

    def __init__(self, name):
        self.v1 = (V1 / "cpu.shares").exists()
        if self.v1:
            self.parents, self.path = [], V1 / name
        else:
            top = V2 / name.split("/")[0]
            self.parents, self.path = [top], V2 / name
            (V2 / "cgroup.subtree_control").write_text("+cpu")
        self.path.mkdir(parents=True, exist_ok=True)
        if self.v1:
            (self.path / "cpu.shares").write_text("262144")
        else:
            (self.path / "cgroup.type").write_text("threaded")
            (top / "cgroup.subtree_control").write_text("+cpu")
            (self.path / "cpu.weight").write_text("10000")

    def add_thread(self, pid, tid):
        if self.v1:
            (self.path / "tasks").write_text(str(tid))
        else:
            (self.parents[0] / "cgroup.procs").write_text(str(pid))
            (self.path / "cgroup.threads").write_text(str(tid))

    def limit(self, share):
        """Limits what is in the group to `share` of a core; `None`: no limit."""
        quota = None if share is None else round(PERIOD_US * share)
        if self.v1:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))
        else:
            (self.path / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD_US}")

    def remove(self):
        for path in [self.path, *self.parents]:
            with contextlib.suppress(OSError):
                path.rmdir()


class Counted(NamedTuple):
    """Frames, and bytes of those that came in."""

    received: int
    received_bytes: int
    sent: int


class Lab:
    """Two namespaces: `hosts`, and `switch` between them; and everything that was started in them."""

    def __init__(self):
        self.tag = f"xoff-bench-{os.getpid()}"
        self.hosts, self.switch = f"{self.tag}-hosts", f"{self.tag}-switch"
        self.undo = contextlib.ExitStack()

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))
        self.directory = Path(self.undo.enter_context(tempfile.TemporaryDirectory(prefix="xoff-bench-")))
        for namespace in (self.hosts, self.switch):
            run("ip", "netns", "add", namespace)
            self.undo.callback(lambda name=namespace: run("ip", "netns", "del", name))
            run("ip", "-n", namespace, "link", "set", "lo", "up")
            for key in ("all", "default"):  # no frame that nobody sent on purpose
                path = f"/proc/sys/net/ipv6/conf/{key}/disable_ipv6"
                run("ip", "netns", "exec", namespace, "sh", "-c", f"[ ! -e {path} ] || echo 1 >{path}")
        self.resident = self.start(self.hosts, "sleep", "infinity")
        await_that("a process in the namespace", lambda: self.devices().keys() == {"lo"})
        return self

    def __exit__(self, *_):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # tidying up is short, and is not to be interrupted
        self.undo.close()

    @contextlib.contextmanager
    def scope(self):
        """Removes at the end of the block what was made within it, newest first."""
        outer, self.undo = self.undo, contextlib.ExitStack()
        try:
            with self.undo:
                yield
        finally:
            self.undo = outer

    def group(self, name):
        group = Group(f"{self.tag}/{name}" if not (V1 / "cpu.shares").exists() else f"{self.tag}-{name}")
        self.undo.callback(group.remove)
        return group

    def wire(self, host_end, switch_end, address):
        run("ip", "link", "add", host_end, "netns", self.hosts, "address", address,
            "type", "veth", "peer", "name", switch_end, "netns", self.switch)  # fmt: skip
        self.undo.callback(self._unwire, host_end)
        for namespace, end in ((self.hosts, host_end), (self.switch, switch_end)):
            run("ip", "-n", namespace, "link", "set", end, "up")

    def wire_hosts(self, one, other, address, other_address):
        """Two ends of one veth, both of the hosts: nothing is in between."""
        run("ip", "link", "add", one, "netns", self.hosts, "address", address,
            "type", "veth", "peer", "name", other, "address", other_address, "netns", self.hosts)  # fmt: skip
        for end_ in (one, other):
            run("ip", "-n", self.hosts, "link", "set", end_, "up")
        self.undo.callback(self._unwire, one)

    def _unwire(self, host_end):
        if host_end in self.devices():
            run("ip", "-n", self.hosts, "link", "del", host_end)

    def devices(self):
        """What each device of the hosts has counted."""
        lines = Path(f"/proc/{self.resident.pid}/net/dev").read_text().splitlines()[2:]
        counters = {name.strip(): numbers.split() for name, _, numbers in (line.partition(":") for line in lines)}
        return {
            name: Counted(received=int(numbers[1]), received_bytes=int(numbers[0]), sent=int(numbers[9]))
            for name, numbers in counters.items()
        }

    def start(self, namespace, *command, ready=None, env=None):
        """Starts a process, which is ended with the scope or by `end`; waits until it has printed `ready`, if anything."""
        log = self.directory / f"{Path(command[0]).name}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, "stdbuf", "--output=L", *command],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(env or {})},
            )  # fmt: skip
        self.undo.callback(end, process)
        if ready is not None:
            await_that(ready, lambda: process.poll() is not None or ready in log.read_text())
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(command)} ended at once:\n{log.read_text()}")
        return process


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def threads(pid, pattern):
    """The threads of a process whose name matches."""
    names = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            names[int(task.name)] = (task / "comm").read_text().strip()
    return [tid for tid, name in names.items() if re.search(pattern, name)]


def cpu_ns(pid, tid):
    """How long a thread has run."""
    return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0])
