"""A guest attached by a TAP: checks that PFC reaches it and that no frame is lost.

    guest -- TAP -- veth -- xoff -- veth -- Wire      both directions, and with other attachments than a veth

The guest runs `xoff traffic`, which obeys pauses. The wire pauses class 3 while the guest sends, so the switch has to
pause the guest; then the wire sends to the guest.
"""

import contextlib
import json
import re
import subprocess
import time

from drivers import CLASS, drops
from host_switch import HostSwitch
from models import Model

from wire import Wire, add_tap, address, pause, run, text

GUEST, FAR = address(0xA0), address(2)
FRAMES, SIZE = 3000, 1000
SPEED, RATE = "100M", "100mbit"
STOPPED_S = 1.0

# Guests must send complete frames with checksums: nothing between a TAP and a switch completes them.
WHOLE_FRAMES = ",csum=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off"
SNDBUF = 65536
MODEL = Model("virtio-net-pci", "virtio_net", options=WHOLE_FRAMES)


def tie(one, other):
    """Redirects frames received at either device to the other."""
    for here, there in ((one, other), (other, one)):
        run("tc", "qdisc", "add", "dev", here, "clsact")
        run("tc", "filter", "add", "dev", here, "ingress", "protocol", "all", "prio", 1, "u32", "match", "u32", 0, 0,
            "action", "mirred", "egress", "redirect", "dev", there)  # fmt: skip


def add_veth(one, other):
    run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
    for end in (one, other):
        run("ip", "link", "set", end, "up")


@contextlib.contextmanager
def veth():
    """Ties the TAP to a veth with a shaper at line rate; yields the switch's device and mode."""
    add_veth("vtap0", "sw0")
    tie("tap0", "vtap0")
    run("tc", "qdisc", "add", "dev", "vtap0", "root", "tbf", "rate", RATE, "burst", 3200, "limit", 10_000_000)
    yield "sw0", "auto"
    run("tc", "qdisc", "del", "dev", "tap0", "clsact")
    run("ip", "link", "del", "vtap0")


@contextlib.contextmanager
def bridge():
    """Connects TAP and veth by a kernel bridge; yields the switch's device and mode."""
    add_veth("vtap0", "sw0")
    run("ip", "link", "add", "br0", "type", "bridge")
    for device in ("tap0", "vtap0"):
        run("ip", "link", "set", device, "master", "br0")
    run("ip", "link", "set", "br0", "up")
    yield "sw0", "auto"
    run("ip", "link", "del", "br0")
    run("ip", "link", "del", "vtap0")


@contextlib.contextmanager
def itself(mode):
    yield "tap0", mode


# Attachments, and whether PFC reaches the guest through them.
ATTACHMENTS = {
    "TAP tied to a veth": (veth, True),
    "socket on the TAP, native": (lambda: itself("native"), True),
    "socket on the TAP, generic": (lambda: itself("generic"), True),
    "kernel bridge": (bridge, False),
}


class Bench:
    def __init__(self, guest, wire, xoff, directory):
        self.guest, self.wire, self.xoff, self.directory = guest, wire, xoff, directory

    def measure(self, attach):
        with attach() as (device, mode):
            before = host_drops()
            with HostSwitch(self.xoff, self.directory, SPEED, {"g": (device, mode), "h": ("sw1", "auto")}) as switch:
                out = self.from_guest(switch)
                into = self.to_guest()
                status = switch.status()
                port = status["ports"][0]
                seen = {
                    "xdp": port["xdp"], "from_guest": out, "to_guest": into,
                    "switch_drops": drops(status), "host_drops": difference(host_drops(), before),
                    "exit_code": switch.stop(),
                }  # fmt: skip
        return seen

    def start_traffic(self, command):
        self.guest.do(f"rm -f /tmp/told; ({command} >/tmp/out 2>/tmp/err; mv /tmp/out /tmp/told) >/dev/null 2>&1 &")
        self.guest.do("for n in $(seq 100); do grep -q ready /tmp/err && exit; sleep 0.1; done; cat /tmp/err; exit 1")

    def traffic_told(self):
        return json.loads(
            self.guest.do("for n in $(seq 300); do [ -e /tmp/told ] && exec cat /tmp/told; sleep 0.1; done; exit 1")
        )

    def from_guest(self, switch):
        stream = f"class={CLASS},dst={text(FAR)},size={SIZE},rate=line,count={FRAMES}"
        self.wire.drain()
        self.wire.send(pause(FAR, {0}, 0))
        command = f"xoff traffic --device eth0 --speed {SPEED} --stream {stream} --json"
        self.start_traffic(command)
        frames, stop_at, last = [], None, 0.0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(frames) < FRAMES:
            now = time.monotonic()
            frame = self.wire.receive(0.02)
            if frame is not None and is_data(frame):
                frames.append(frame)
                stop_at = stop_at or now + STOPPED_S
            if stop_at and now < stop_at and now - last > 0.05:
                self.wire.send(pause(FAR, {CLASS}, 0xFFFF))
                last = now
            elif stop_at and now >= stop_at and last:
                self.wire.send(pause(FAR, {CLASS}, 0))
                last = 0.0
                deadline = min(deadline, now + 15)
        told = self.traffic_told()
        return {
            "received": len(set(frames)), "obeyed": told["pauses"]["classes"][CLASS]["xoff"],
            "told": switch.ports()["g"]["classes"][CLASS]["pause_sent"]["xoff"],
        }  # fmt: skip

    def to_guest(self):
        self.start_traffic(f"xoff traffic --device eth0 --speed {SPEED} --linger 2s --json")
        stream = f"class={CLASS},dst={text(GUEST)},size={SIZE},rate=line,count={FRAMES}"
        subprocess.run(
            [self.xoff, "traffic", "--device", "far0", "--speed", SPEED, "--stream", stream, "--json"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        told = self.traffic_told()
        [stream] = told["received"]
        return {key: stream[key] for key in ("frames", "lost", "duplicated", "reordered")}


def is_data(frame):
    return frame[:6] == FAR and len(frame) == SIZE - 4


def host_drops():
    """Returns the drops of this machine's devices and queueing disciplines."""
    found = {}
    for link in json.loads(run("ip", "-s", "-j", "link")):
        for way in ("rx", "tx"):
            found[f"{link['ifname']} {way}"] = link["stats64"][way]["dropped"] + link["stats64"][way]["errors"]
    for device, count in re.findall(
        r"qdisc \w+ \S+ dev (\S+) .*?\(dropped (\d+),", run("tc", "-s", "qdisc").replace("\n", " ")
    ):
        found[f"{device} qdisc"] = found.get(f"{device} qdisc", 0) + int(count)
    return found


def difference(now, before):
    return {name: count - before.get(name, 0) for name, count in now.items() if count > before.get(name, 0)}


@contextlib.contextmanager
def bench(start_guest, xoff, directory):
    add_tap("tap0")
    add_veth("far0", "sw1")
    devices = list(MODEL.arguments(0, "tap0", text(GUEST)))
    devices = [one + f",sndbuf={SNDBUF}" if one.startswith("tap,") else one for one in devices]
    wire = Wire("far0")
    try:
        with start_guest(devices) as guest:
            guest.await_boot()
            guest.load("af_packet", MODEL.module)
            guest.do("ip link set eth0 up")
            yield Bench(guest, wire, xoff, directory)
    finally:
        wire.close()
        run("ip", "link", "del", "far0")
        run("ip", "link", "del", "tap0")


def judge(seen, reaches):
    """Returns the broken promises."""
    out, into = seen["from_guest"], seen["to_guest"]
    is_whole = (
        out["received"] == FRAMES and not seen["switch_drops"] and not seen["host_drops"] and seen["exit_code"] == 0
    )
    wrong = []
    if reaches and not (is_whole and into == {"frames": FRAMES, "lost": 0, "duplicated": 0, "reordered": 0}):
        wrong.append(f"frames are lost: {seen}")
    if not reaches and out["received"] == FRAMES:
        wrong.append(f"nothing is lost, though nobody told the guest to stop: {seen}")
    return wrong
