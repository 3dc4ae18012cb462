"""xoff inside a guest, between two NICs of one model: what does it make of the driver, and does the driver keep its part?

    Wire a -- TAP -- NIC 0 -- xoff (guest) -- NIC 1 -- TAP -- Wire b

All steps but the first are yes or no. Each frame is compared with what was sent, byte by byte.
"""

import contextlib
import time

from models import GENERIC
from switch import Switch
from wire import Wire, add_tap, address, datagram, pause, quanta, run, tagged, text

ONE, OTHER = address(1), address(2)
CLASS = 3
WITHIN_S = 5.0
GREETINGS = 10
DEVICES = ("eth0", "eth1")
STEPS = ("forwards", "tags", "burst", "pause_obeyed", "pause_sent", "link")


class Bench:
    """A guest with two NICs, their wires, and one switch after the other."""

    def __init__(self, guest, model, wires):
        self.guest, self.model, (self.a, self.b) = guest, model, wires

    def set_up(self):
        """Sets what the model needs; answers with what a switch had not asked for before, though it was due."""
        switch = Switch(self.guest)
        asked = " ".join(switch.warnings())
        switch.stop()
        commands = [setting.format(device) for setting in self.model.settings for device in DEVICES]
        for command in commands:
            self.guest.do(command)
        return [command for command in commands if command not in asked]

    def measure(self, mode):
        """What a switch in `mode` found and did; only `error` where it did not start."""
        self.set_mtu(1500)
        switch = Switch(self.guest, mode)
        if not switch.runs:
            return {"error": switch.log().strip()}
        try:
            port = switch.ports()["a"]
            seen = {"xdp": port["xdp"], "memory": port["memory"], "queues": port["queues"], "warnings": switch.warnings()}
            self.await_links(switch, "up")
            self.greet()
            seen["forwards"] = self.forwards()
            seen["tags"] = self.keeps_tags(switch)
            seen["burst"] = self.takes_a_burst()
            seen["pause_obeyed"], seen["pause_sent"] = self.pauses(switch)
            seen["link"] = self.follows_links(switch)
            status = switch.status()
            seen["verdict"], seen["drops"] = status["verdict"]["promise"], drops(status)
        finally:
            code = switch.stop()
        seen["exit_code"] = code
        return seen

    def set_mtu(self, mtu):
        for device in DEVICES:
            self.guest.do(f"ip link set {device} mtu {mtu}")

    def measure_mtu(self, mtu):
        """How frames come in whose payload has up to `mtu` bytes; the reason where they do not."""
        self.set_mtu(mtu)
        switch = Switch(self.guest, mtu=mtu)
        if not switch.runs:
            return switch.log().strip().splitlines()[-1]
        code = None
        try:
            self.await_links(switch, "up")
            self.greet()
            port = switch.ports()["a"]
            step = mtu // 20
            sent = [datagram(ONE, OTHER, 8 * CLASS, n, mtu + 14 - n * step) for n in range(19)]
            arrived = self.exchange(self.a, self.b, sent) == sent
            dropped = drops(switch.status())
        finally:
            code = switch.stop()
        return (port["xdp"], port["memory"]) if arrived and code == 0 else f"{port['xdp']}: frames are lost {dropped}"

    def all_of_it(self, promised):
        """Every row of the table for this model and kernel, and what of it is not as promised."""
        device = self.guest.do("ethtool -i eth0; uname -r").splitlines()
        seen = {"driver": device[0].split()[-1], "release": device[-1], "modes": {}, "mtus": {}}
        wrong = [f"xoff does not ask for `{command}`" for command in self.set_up()]
        for mode in ("auto", "generic"):
            seen["modes"][mode] = one = self.measure(mode)
            failed = [step for step in STEPS if one.get(step) is not True]
            if failed or one.get("exit_code") != 0:
                wrong.append(f"mode {mode}: {', '.join(failed)} {one.get('error') or one.get('drops')}")
            if one.get("xdp") == GENERIC:
                break
        for mtu, how in promised.by_mtu.items():
            seen["mtus"][mtu] = found = self.measure_mtu(mtu)
            if found != how:
                wrong.append(f"MTU {mtu}: {found} instead of {how}")
        return {**seen, "wrong": wrong}

    def await_links(self, switch, state, name=None):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if all(port["link"] == state for port in switch.ports().values() if name in (None, port["name"])):
                return True
            time.sleep(0.2)
        return False

    def greet(self):
        """Until greetings pass for a while: a driver that is set up anew says that there is a link, takes it away and
        gives it back. Then both ends are known to the switch, so that nothing is flooded."""
        end, passed = time.monotonic() + 30, 0
        while passed < GREETINGS and time.monotonic() < end:
            for wire in (self.a, self.b):
                wire.drain()
            there = self.exchange(self.a, self.b, [datagram(ONE, OTHER, 0, 0, 60)], 0.3)
            back = self.exchange(self.b, self.a, [datagram(OTHER, ONE, 0, 0, 60)], 0.3)
            passed = passed + 1 if there and back else 0
            time.sleep(0.1)
        for wire in (self.a, self.b):
            wire.drain()

    def exchange(self, here, there, frames, within=WITHIN_S):
        for frame in frames:
            here.send(frame)
        return there.collect(len(frames), within)

    def forwards(self):
        lengths = (60, 61, 64, 128, 512, 1000, 1500, 1513, 1514)
        for here, there, source, target in ((self.a, self.b, ONE, OTHER), (self.b, self.a, OTHER, ONE)):
            sent = [datagram(source, target, 8 * CLASS, n, length) for n, length in enumerate(lengths)]
            if self.exchange(here, there, sent) != sent:
                return False
        return True

    def keeps_tags(self, switch):
        """Tags, and classes by PCP."""
        def received():
            return switch.ports()["a"]["classes"][CLASS]["rx_frames"]

        before = received()
        sent = [tagged(ONE, OTHER, pcp, 10, n) for n, pcp in enumerate((0, CLASS, 5, CLASS, 7))]
        for _ in range(2):  # the first is flooded: the address is not known in that VLAN
            back = [tagged(OTHER, ONE, 0, 10, 0)]
            self.exchange(self.b, self.a, back)
        # Classes take turns, and a TAP with several queues spreads by its bytes what is not IP.
        return sorted(self.exchange(self.a, self.b, sent)) == sorted(sent) and received() == before + 2

    def takes_a_burst(self):
        """Five hundred frames at once: as much as there is headroom for."""
        sent = [datagram(ONE, OTHER, 8 * CLASS, n, 1000) for n in range(500)]
        return self.exchange(self.a, self.b, sent) == sent

    def pauses(self, switch):
        """B stops class 3. So nothing of it comes any more, and A is stopped in turn; B lets go, and all of it comes."""
        sent = [datagram(ONE, OTHER, 8 * CLASS, n, 1000) for n in range(100)]
        other = datagram(ONE, OTHER, 0, 0, 1000)
        self.b.send(pause(OTHER, {CLASS}, 0xFFFF))
        end = time.monotonic() + WITHIN_S
        while switch.ports()["b"]["classes"][CLASS]["pause_received"]["xoff"] == 0 and time.monotonic() < end:
            time.sleep(0.01)
        frames, last = list(sent), 0.0
        leaked, is_held = [], False
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end and not (is_held and not frames):
            if time.monotonic() - last > 0.05:
                self.b.send(pause(OTHER, {CLASS}, 0xFFFF))
                last = time.monotonic()
            if frames:
                self.a.send(frames.pop(0))
            leaked += filter(None, [self.b.receive(0.001)])
            self.a.receive(0.001)
            is_held = any(quanta(frame, CLASS) for frame in self.a.pauses)
        self.a.send(other)
        passed, end = None, time.monotonic() + WITHIN_S
        while passed is None and time.monotonic() < end:
            self.b.send(pause(OTHER, {CLASS}, 0xFFFF))  # it holds for a third of a second
            passed = self.b.receive(0.05)
        self.b.send(pause(OTHER, {CLASS}, 0))
        came = self.b.collect(len(sent), WITHIN_S)
        end = time.monotonic() + WITHIN_S
        while not (is_let_go := any(quanta(frame, CLASS) == 0 for frame in self.a.pauses)) and time.monotonic() < end:
            self.a.receive(0.05)
        return not leaked and passed == other and came == sent, is_held and is_let_go

    def follows_links(self, switch):
        self.guest.ask("set_link", name="nic1", up=False)
        went = self.await_links(switch, "down", "b")
        self.guest.ask("set_link", name="nic1", up=True)
        came = self.await_links(switch, "up", "b")
        self.greet()
        return went and came and self.forwards()


def drops(status):
    """Whatever ended other than by leaving."""
    found = {}
    for port in status["ports"]:
        for one in port["classes"]:
            found |= {f"{port['name']}/{one['class']}/{reason}": n for reason, n in one["drops"].items() if n}
        for group in ("xdp_statistics", "device_drops"):
            kept = ("tx_ring_empty", "tx_failed_errno")
            found |= {f"{port['name']}/{reason}": n for reason, n in port[group].items() if n and reason not in kept}
    return found


@contextlib.contextmanager
def bench(start_guest, model):
    devices = []
    for n in (0, 1):
        add_tap(f"tap{n}", mtu=9216, queues=model.queues)
        devices += model.arguments(n, f"tap{n}", text(address(0xA0 + n)))
    wires = [Wire(f"tap{n}") for n in (0, 1)]
    try:
        with start_guest(devices) as guest:
            guest.await_boot()
            guest.load("af_packet", model.module)
            yield Bench(guest, model, wires)
    finally:
        for wire in wires:
            wire.close()
            run("ip", "link", "del", wire.device)
