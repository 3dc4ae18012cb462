"""xoff inside a guest, between its NICs, and its status of them.

The speed is 10 Mb/s, so that a pause lasts 3.4 s: an emulated guest on a busy machine may stall for over a third of a
second.
"""

import json

CONFIG = """
[switch]
log = "info"
stall_budget = "250ms"

[defaults]
speed = "{speed}"
mode = "{mode}"
mtu = {mtu}
lossless = {lossless}
tagged = [10]
"""

CLASS = """
[class.{number}]
xoff = "30KB"
xon = "15KB"
"""

PORT = """
[[port]]
name = "{name}"
device = "{device}"
"""

PORTS = {"a": "eth0", "b": "eth1"}

START_WITHIN_S = 30
DROPS = ("early_drop", "egress_full", "headroom_exhausted", "ingress_full", "link_down", "malformed", "no_frames")


class Switch:
    """A switch that runs in the guest while this is open."""

    def __init__(self, guest, mode="auto", mtu=1500, speed="10M", ports=PORTS, lossless=(3,)):
        """Starts a switch with `ports`, a map of names to devices."""
        self.guest = guest
        head = CONFIG.format(mode=mode, mtu=mtu, speed=speed, lossless=list(lossless))
        classes = [CLASS.format(number=number) for number in lossless]
        tables = [PORT.format(name=name, device=device) for name, device in ports.items()]
        guest.write("/tmp/xoff.toml", "".join([head, *classes, *tables]))
        guest.do("rm -f /tmp/xoff.code; (xoff run /tmp/xoff.toml; echo $? >/tmp/xoff.code) >/tmp/xoff.log 2>&1 &")
        ended = f"for n in $(seq {START_WITHIN_S * 10}); do grep -q ' running ' /tmp/xoff.log && exit; [ ! -s /tmp/xoff.code ] || exit 1; sleep 0.1; done; exit 1"
        self.runs = guest.run(ended).code == 0

    def log(self):
        return self.guest.do("cat /tmp/xoff.log")

    def warnings(self):
        return [line.split(" WARN ", 1)[1] for line in self.log().splitlines() if " WARN " in line]

    def status(self):
        return json.loads(self.guest.do("xoff status --json"))

    def ports(self):
        return {port["name"]: port for port in self.status()["ports"]}

    def stop(self):
        """Stops the switch; returns its exit code, or `None` if it did not end."""
        done = self.guest.run(
            "killall -TERM xoff; for n in $(seq 300); do [ -s /tmp/xoff.code ] && exec cat /tmp/xoff.code; sleep 0.1; done"
        )
        return int(done.text.split()[-1]) if done.text.split()[-1:] and done.text.split()[-1].isdigit() else None
