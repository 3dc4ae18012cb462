"""`xoff lab` with a guest: frames and pauses in both directions between it and hosts in namespaces, by kernel sockets.

    guest -- TAP == wire --\\
    h1 ------------ wire -- s1      == as `xoff lab` ties them; h1, h2 and the guest run `xoff nic`
    h2 ------------ wire --/

The guest and h2 each send at line rate to h1, so the switch pauses them; then h1 sends to the guest, which pauses the switch.
"""

import contextlib
import json
import os
import subprocess
import time

from drivers import CLASS
from models import Model
from tap import SNDBUF

from wire import add_tap, run

NAME, TAP, GUEST = "guests", "vm0", "vm"
SPEED, OFFERED, SECONDS = "20M", "30M", 6
PROGRAMS = ("iperf3",)
MODEL = Model("virtio-net-pci", "virtio_net")
MODULES = ("af_packet", MODEL.module, "sch_htb", "sch_plug", "cls_bpf")
FILE = f"""
name = "{NAME}"
[defaults]
speed = "{SPEED}"
[[switch]]
name = "s1"
hosts = ["h1", "h2", "{GUEST}"]
[[host]]
name = "{GUEST}"
tap = "{TAP}"
"""


class Bench:
    def __init__(self, guest, xoff, environment):
        self.guest, self.xoff, self.environment = guest, xoff, environment

    def measure(self):
        server = "iperf3 --server --daemon"
        self.guest.do(server)
        self.at("h1", f"{server} --port 5201")
        self.at("h1", f"{server} --port 5202")
        other = self.begin("h2", client(self.environment["XOFF_H1_IPV4"], 5202))
        ways = {"from the guest": report(self.guest.do(client(self.environment["XOFF_H1_IPV4"], 5201)))}
        ways["beside it"] = report(other.communicate(timeout=120)[0])
        there = self.begin("h1", client(self.environment[f"XOFF_{GUEST.upper()}_IPV4"], 5201))
        time.sleep(2)
        # 65,535 quanta are 1.7 s of this line.
        self.guest.do(f"xoff traffic pause --device eth0 --pause {CLASS}=65535")
        ways["to the guest"] = report(there.communicate(timeout=120)[0])
        agent = json.loads(self.guest.do("xoff nic status --json"))
        port = next(port for port in self.status()["switches"][0]["ports"] if port["name"] == GUEST)
        self.guest.do("killall iperf3")
        seen = {
            "ways": ways, "leaf": agent["leaf"],
            "told": port["classes"][CLASS]["pause_sent"]["xoff"],
            "obeyed": agent["classes"][CLASS]["pause_received"]["xoff"],
            "guest_told": port["classes"][CLASS]["pause_received"]["xoff"],
        }  # fmt: skip
        down = subprocess.run(
            [self.xoff, "lab", "down", "--json"], capture_output=True, text=True, timeout=120, check=False
        )
        return {
            **seen,
            "exit_code": down.returncode,
            "verdict": json.loads(down.stdout)["verdict"],
            "agent": self.stop_agent(),
        }

    def at(self, node, command):
        return run(self.xoff, "lab", "exec", node, "--", *command.split())

    def begin(self, node, command):
        words = [self.xoff, "lab", "exec", node, "--", *command.split()]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def status(self):
        return json.loads(run(self.xoff, "lab", "status", "--json"))

    def stop_agent(self):
        """Stops the guest's agent; returns its exit code."""
        ended = "for n in $(seq 100); do [ -s /tmp/nic.code ] && exec cat /tmp/nic.code; sleep 0.1; done; cat /tmp/nic.log; exit 1"
        return int(self.guest.do(f"killall -TERM xoff; {ended}"))


def client(address, port):
    return f"iperf3 --client {address} --port {port} --udp --dscp {8 * CLASS} --bitrate {OFFERED} --length 1400 --time {SECONDS} --json"


def report(text):
    """Returns the final report of an iperf3 client, with its server's counts."""
    told = json.loads(text)
    if "error" in told:
        raise RuntimeError(f"iperf3: {told['error']}")
    total = told["end"]["sum"]
    return {"sent": total["packets"], "lost": total["lost_packets"], "mbps": round(total["bits_per_second"] / 1e6, 1)}


@contextlib.contextmanager
def bench(start_guest, xoff, directory):
    add_tap(TAP)
    file = directory / "lab.toml"
    file.write_text(FILE)
    run(xoff, "lab", "up", file)
    os.environ["XOFF_LAB"] = NAME  # the machine may have other labs
    try:
        told = run(xoff, "lab", "exec", "h1", "--", "env")
        environment = dict(line.partition("=")[::2] for line in told.splitlines())
        mac, ipv4 = (environment[f"XOFF_{GUEST.upper()}_{what}"] for what in ("MAC", "IPV4"))
        devices = list(MODEL.arguments(0, TAP, mac))
        devices = [one + f",sndbuf={SNDBUF}" if one.startswith("tap,") else one for one in devices]
        with start_guest(devices) as guest:
            guest.await_boot()
            guest.load(*MODULES)
            guest.do(
                f"ip address add {ipv4}/16 dev eth0; ip link set eth0 up; sysctl -w net.core.rmem_max=8000000 net.core.rmem_default=8000000"
            )
            agent = f"(xoff nic --device eth0 --speed {SPEED}; echo $? >/tmp/nic.code) >/tmp/nic.log 2>&1 &"
            obeys = "for n in $(seq 300); do grep -q ' obeying ' /tmp/nic.log && exit; sleep 0.1; done; cat /tmp/nic.log; exit 1"
            guest.do(f"{agent} {obeys}")
            yield Bench(guest, xoff, environment)
    finally:
        subprocess.run([xoff, "lab", "down"], capture_output=True, timeout=120, check=False)
        run("ip", "link", "del", TAP)


def judge(seen):
    """Returns the broken promises."""
    wrong = [f"{way}: {one}" for way, one in seen["ways"].items() if one["lost"] or not one["sent"]]
    if (seen["exit_code"], seen["agent"]) != (0, 0):
        wrong.append(
            f"the network ended with exit code {seen['exit_code']}, the guest's agent with {seen['agent']}: {seen['verdict']}"
        )
    for what in ("told", "obeyed", "guest_told"):
        if not seen[what]:
            wrong.append(f"no pause was seen: {what}")
    return wrong
