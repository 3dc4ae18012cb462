"""xoff on this machine, in the test's own namespace, connected to the guests' TAPs."""

import json
import subprocess
import time

from wire import run

START_WITHIN_S = 60

HEAD = """
[switch]
log = "info"

[defaults]
speed = "{speed}"
lossless = [3]

[class.3]
xoff = "30KB"
xon = "15KB"
"""

PORT = """
[[port]]
name = "{name}"
device = "{device}"
mode = "{mode}"
"""


class HostSwitch:
    """A switch that runs while this is open. `ports` maps a name to device and mode; `more` is appended."""

    def __init__(self, xoff, directory, speed, ports, more=""):
        self.config, self.speed = directory / "host.toml", speed
        self.configure(ports, more)
        self.xoff, self.log = xoff, directory / "host.log"
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", xoff, "run", self.config],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        end = time.monotonic() + START_WITHIN_S
        while " running " not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"xoff does not start: {self.log.read_text()}")
            time.sleep(0.02)

    def configure(self, ports, more=""):
        """Writes the configuration."""
        ports = "".join(PORT.format(name=name, device=device, mode=mode) for name, (device, mode) in ports.items())
        self.config.write_text(HEAD.format(speed=self.speed) + ports + more)

    def status(self):
        return json.loads(run(self.xoff, "status", "--json"))

    def ports(self):
        return {port["name"]: port for port in self.status()["ports"]}

    def stop(self):
        """Stops the switch; returns its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
