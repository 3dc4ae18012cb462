"""The network of a benchmark: two namespaces with their devices and processes.

Leaving `Lab` removes everything, also after an error or a signal. `Lab.scope` removes at its end everything made
within it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.cgroup import Group
from benchmarks.process import run, stop

PATIENCE_S = 60
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Counted(NamedTuple):
    """Counters of a device: frames, and bytes of the received ones."""

    received: int
    received_bytes: int
    sent: int


class Lab:
    """Two namespaces, `hosts` and `switch`, and a directory for files."""

    def __init__(self, patience_s=PATIENCE_S):
        self.patience_s = patience_s
        self.tag = f"xoff-bench-{os.getpid()}"
        self.hosts, self.switch = f"{self.tag}-hosts", f"{self.tag}-switch"
        self.undo = contextlib.ExitStack()

    def __enter__(self):
        for number in SIGNALS:
            signal.signal(number, lambda *_: sys.exit(1))
        self.directory = Path(self.undo.enter_context(tempfile.TemporaryDirectory(prefix="xoff-bench-")))
        for namespace in (self.hosts, self.switch):
            run("ip", "netns", "add", namespace)
            self.undo.callback(run, "ip", "netns", "del", namespace)
            self.ip(namespace, "link set lo up")
            for key in ("all", "default"):  # keeps neighbour discovery out of the counted frames
                path = f"/proc/sys/net/ipv6/conf/{key}/disable_ipv6"
                run("ip", "netns", "exec", namespace, "sh", "-c", f"[ ! -e {path} ] || echo 1 >{path}")
        self.resident = self.start(self.hosts, "sleep", "infinity")
        self.wait_for("a process in the namespace", lambda: self.devices().keys() == {"lo"})
        return self

    def __exit__(self, *_):
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # removal is short and must complete
        self.undo.close()

    @contextlib.contextmanager
    def scope(self):
        """Removes at the end of the block everything made within it, newest first."""
        outer, self.undo = self.undo, contextlib.ExitStack()
        try:
            with self.undo:
                yield
        finally:
            self.undo = outer

    def wait_for(self, what, condition):
        """Waits for `condition()` for at most `patience_s` seconds, and returns its true value."""
        end = time.monotonic() + self.patience_s
        while time.monotonic() < end:
            if value := condition():
                return value
            time.sleep(0.02)
        raise RuntimeError(f"waited {self.patience_s} s in vain for {what}")

    def group(self, name):
        group = Group(self.tag, name)
        self.undo.callback(group.remove)
        return group

    def ip(self, namespace, line):
        """Runs `ip` with the words of `line` in a namespace."""
        return run("ip", "-n", namespace, *line.split())

    def mac_address(self, namespace, device):
        [link] = json.loads(self.ip(namespace, f"-j link show {device}"))
        return link["address"]

    def wire(self, host_end, switch_end, address):
        """Creates a veth pair between a host, whose end has this MAC address, and the switch."""
        peer = f"type veth peer name {switch_end} netns {self.switch}"
        run("ip", *f"link add {host_end} netns {self.hosts} address {address} {peer}".split())
        self.undo.callback(self._unwire, host_end)
        self.ip(self.hosts, f"link set {host_end} up")
        self.ip(self.switch, f"link set {switch_end} up")

    def wire_hosts(self, device, other, address, other_address):
        """Creates a veth pair between two hosts."""
        peer = f"type veth peer name {other} address {other_address} netns {self.hosts}"
        run("ip", *f"link add {device} netns {self.hosts} address {address} {peer}".split())
        self.undo.callback(self._unwire, device)
        for end in (device, other):
            self.ip(self.hosts, f"link set {end} up")

    def _unwire(self, host_end):
        if host_end in self.devices():
            self.ip(self.hosts, f"link del {host_end}")

    def devices(self):
        """Returns the counters of the hosts' devices by name."""
        lines = Path(f"/proc/{self.resident.pid}/net/dev").read_text().splitlines()[2:]
        counters = {name.strip(): numbers.split() for name, _, numbers in (line.partition(":") for line in lines)}
        return {
            name: Counted(received=int(numbers[1]), received_bytes=int(numbers[0]), sent=int(numbers[9]))
            for name, numbers in counters.items()
        }

    def start(self, namespace, *command, ready=None, env=None):
        """Starts a process, and waits until it prints `ready`, if given. The scope or `stop` ends it."""
        log = self.directory / f"{Path(command[0]).name}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, "stdbuf", "--output=L", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(env or {})},
            )
        self.undo.callback(stop, process)
        if ready is not None:
            self.wait_for(f"'{ready}'", lambda: process.poll() is not None or ready in log.read_text())
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(command)} ended at once:\n{log.read_text()}")
        return process

    def start_switch(self, binary, text, name="xoff"):
        """Starts a switch with this configuration. Returns its process and the configuration file."""
        config = self.directory / f"{name}.toml"
        config.write_text(text)
        return self.start(self.switch, binary, "run", str(config), ready="running"), config
