"""xoff inside a guest, between two NICs of one model: checks xoff's choice of mode, and the driver's behaviour.

    Wire a -- TAP -- NIC 0 -- xoff (guest) -- NIC 1 -- TAP -- Wire b

Each frame is compared byte by byte with the sent one. Time limits are generous, because a guest without KVM on a busy
machine is slow. A check is repeated if a link or a pause did not last as long as it has to.
"""

import contextlib
import threading
import time

from models import GENERIC

from switch import Switch
from wire import Wire, add_tap, address, datagram, pause, quanta, run, tagged, text

ONE, OTHER = address(1), address(2)
CLASS = 3
PATIENCE_S = 60.0
ATTEMPTS = 5
GREETINGS, GREETING_S = 10, 2.0
REFRESHES = 20
DEVICES = ("eth0", "eth1")
STEPS = ("forwards", "tags", "burst", "pauses", "link")
CHECKS = (*STEPS, "mtu")
MODES = ("auto", "native", "generic")


class Interrupted(Exception):
    """A precondition of a check ended early; the check proves nothing and has to be repeated."""


class Bench:
    """A guest with two NICs, their wires, and a sequence of switches."""

    def __init__(self, guest, model, wires):
        self.guest, self.model, (self.a, self.b) = guest, model, wires
        self.greeting = 0

    def set_up(self):
        """Applies the model's settings; returns those that the switch did not ask for, though they were due."""
        switch = Switch(self.guest)
        asked = " ".join(switch.warnings())
        switch.stop()
        commands = [setting.format(device) for setting in self.model.settings for device in DEVICES]
        for command in commands:
            self.guest.do(command)
        return [command for command in commands if command not in asked]

    def measure(self, mode, steps):
        """Returns the observations of a switch in `mode`; only `error` if it did not start."""
        self.set_mtu(1500)
        switch = Switch(self.guest, mode)
        if not switch.runs:
            return {"error": switch.log().strip()}
        try:
            port = switch.ports()["a"]
            seen = {
                "xdp": port["xdp"],
                "memory": port["memory"],
                "queues": port["queues"],
                "warnings": switch.warnings(),
            }
            self.await_links(switch, "up")
            seen["faults"] = faults = {}
            for step in steps:
                faults[step] = (
                    self.link(switch) if step == "link" else self.unless_interrupted(getattr(self, step), switch)
                )
                seen[step] = faults[step] is None
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
        """Returns the receive mode for frames with up to `mtu` bytes of payload, or the reason of a failure."""
        self.set_mtu(mtu)
        switch = Switch(self.guest, mtu=mtu)
        if not switch.runs:
            return switch.log().strip().splitlines()[-1]
        code = None
        try:
            self.await_links(switch, "up")
            port = switch.ports()["a"]
            step = mtu // 20
            sent = [datagram(ONE, OTHER, 8 * CLASS, n, mtu + 14 - n * step) for n in range(19)]
            fault = self.unless_interrupted(lambda _: self.passes(self.a, self.b, sent), switch)
            dropped = drops(switch.status())
        finally:
            code = switch.stop()
        how = (port["xdp"], port["memory"])
        return (
            how
            if fault is None and code == 0
            else f"{', '.join(how)}: {fault or 'every frame came'}; drops {dropped}, exit code {code}"
        )

    def all_of_it(self, promised, checks, mode=None):
        """Returns every row of the table for this model and kernel, and the broken promises."""
        device = self.guest.do("ethtool -i eth0; uname -r").splitlines()
        seen = {"driver": device[0].split()[-1], "release": device[-1], "modes": {}, "mtus": {}}
        wrong = [f"xoff does not ask for `{command}`" for command in self.set_up()]
        steps = [step for step in STEPS if step in checks]
        for one_mode in [mode] if mode else ("auto", "generic"):
            seen["modes"][one_mode] = one = self.measure(one_mode, steps)
            failed = [f"{step}: {fault}" for step, fault in one.get("faults", {}).items() if fault]
            if "error" in one or failed or one["exit_code"] != 0:
                wrong.append(
                    f"mode {one_mode}: {'; '.join(failed)} {one.get('error') or one['drops']}, exit code {one.get('exit_code')}"
                )
            if one.get("xdp") == GENERIC:
                break
        for mtu, how in promised.by_mtu.items() if "mtu" in checks else ():
            seen["mtus"][mtu] = found = self.measure_mtu(mtu)
            if found != how:
                wrong.append(f"MTU {mtu}: {found} instead of {how}")
        return {**seen, "wrong": wrong}

    def unless_interrupted(self, step, switch):
        """Returns the fault of a step, or `None`. Repeats interrupted steps: some drivers drop and restore their link some
        seconds after setup."""
        for _ in range(ATTEMPTS):
            if fault := self.greet():
                return fault
            changes = self.link_changes()
            try:
                fault = step(switch)
            except Interrupted as reason:
                fault = str(reason)
                continue
            if fault is None or self.link_changes() == changes:
                return fault
        return f"{fault}; and so in each of {ATTEMPTS} attempts, which something interrupted"

    def link_changes(self):
        return self.guest.do(
            "cat " + " ".join(f"/sys/class/net/{device}/carrier_changes" for device in DEVICES)
        ).split()

    def await_links(self, switch, state, name=None):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if all(port["link"] == state for port in switch.ports().values() if name in (None, port["name"])):
                return True
            time.sleep(0.2)
        return False

    def greet(self):
        """Waits until greetings pass for a while, because a new driver reports, drops and restores its link. Then the
        switch knows both ends, floods nothing, and no frame is in flight."""
        end, passed = time.monotonic() + PATIENCE_S, 0
        while passed < GREETINGS:
            if time.monotonic() > end:
                return f"no frames of 60 bytes pass {GREETINGS} times in turn, both ways"
            self.greeting += 1
            there = self.arrives(self.a, self.b, datagram(ONE, OTHER, 0, self.greeting, 60))
            back = self.arrives(self.b, self.a, datagram(OTHER, ONE, 0, self.greeting, 60))
            passed = passed + 1 if there and back else 0
            time.sleep(0.1)
        for wire in (self.a, self.b):
            wire.drain()
        return None

    def arrives(self, here, there, frame):
        """Returns whether a frame arrives soon. Earlier frames in flight are discarded."""
        here.send(frame)
        end = time.monotonic() + GREETING_S
        while (left := end - time.monotonic()) > 0:
            if there.receive(left) == frame:
                return True
        return False

    def exchange(self, here, there, frames):
        for frame in frames:
            here.send(frame)
        return there.collect(len(frames), PATIENCE_S)

    def passes(self, here, there, frames):
        return difference(frames, self.exchange(here, there, frames))

    def forwards(self, _=None):
        lengths = (60, 61, 64, 128, 512, 1000, 1500, 1513, 1514)
        for here, there, source, target in ((self.a, self.b, ONE, OTHER), (self.b, self.a, OTHER, ONE)):
            sent = [datagram(source, target, 8 * CLASS, n, length) for n, length in enumerate(lengths)]
            if fault := self.passes(here, there, sent):
                return fault
        return None

    def tags(self, switch):
        """Checks VLAN tags, and classes by PCP."""

        def received():
            return switch.ports()["a"]["classes"][CLASS]["rx_frames"]

        before = received()
        sent = [tagged(ONE, OTHER, pcp, 10, n) for n, pcp in enumerate((0, CLASS, 5, CLASS, 7))]
        for _ in range(2):  # the first is flooded, because the address is unknown in that VLAN
            back = [tagged(OTHER, ONE, 0, 10, 0)]
            self.exchange(self.b, self.a, back)
        # Classes alternate, and a TAP with several queues spreads non-IP frames by their bytes.
        fault = difference(sorted(sent), sorted(self.exchange(self.a, self.b, sent)))
        counted = received() - before
        return fault or (None if counted == 2 else f"{counted} frames of 2 were taken to be of class {CLASS}")

    def burst(self, _=None):
        """Checks five hundred frames at once, as many as the headroom holds."""
        return self.passes(self.a, self.b, [datagram(ONE, OTHER, 8 * CLASS, n, 1000) for n in range(500)])

    def pauses(self, switch):
        """Checks pauses: B pauses class 3, so no frame of it arrives and the switch pauses A; another class passes.
        Then B resumes class 3, all its frames arrive, and the switch resumes A. Counters show that B's pause lasted."""

        def paused():
            return switch.ports()["b"]["classes"][CLASS]["pause_received"]

        def is_told(are_right):
            self.a.receive(0.01)
            return any(are_right(time) for frame in self.a.pauses if (time := quanta(frame, CLASS)) is not None)

        sent = [datagram(ONE, OTHER, 8 * CLASS, n, 1000) for n in range(100)]
        other = datagram(ONE, OTHER, 0, 0, 1000)
        with Refreshed(self.b, pause(OTHER, {CLASS}, 0xFFFF)):
            if not await_it(lambda: paused()["now"]):
                return "the switch takes no note of a pause"
            ended = paused()["durations"]["count"]
            for frame in sent:
                self.a.send(frame)
            is_held = await_it(lambda: is_told(lambda time: time > 0))
            self.a.send(other)
            came = self.b.receive(PATIENCE_S)
            told = paused()["xoff"]
            await_it(lambda: paused()["xoff"] >= told + REFRESHES)
            leaked = self.b.receive(0.05)
            lasted = paused()
        self.b.send(pause(OTHER, {CLASS}, 0))
        rest = self.b.collect(len(sent), PATIENCE_S)
        is_let_go = await_it(lambda: is_told(lambda time: time == 0))
        if not lasted["now"] or lasted["durations"]["count"] != ended:
            raise Interrupted("the pause was over before it was refreshed")
        if came != other or leaked:
            return (
                "frames of the class that was stopped leave" if came or leaked else "no frame of another class leaves"
            )
        if not is_held or not is_let_go:
            return f"who sends is not told to {'go on' if is_held else 'stop'}"
        return difference(sent, rest)

    def link(self, switch):
        self.guest.ask("set_link", name="nic1", up=False)
        went = self.await_links(switch, "down", "b")
        self.guest.ask("set_link", name="nic1", up=True)
        came = self.await_links(switch, "up", "b")
        if not went or not came:
            return f"a link that {'is given back' if went else 'is taken away'} is not noticed"
        return self.unless_interrupted(self.forwards, switch)


class Refreshed:
    """A pause that a thread repeats while this is open."""

    EVERY_S = 0.05

    def __init__(self, wire, frame):
        self.wire, self.frame = wire, frame
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._repeat, daemon=True)

    def _repeat(self):
        while not self.is_over.is_set():
            self.wire.send(self.frame)
            self.is_over.wait(self.EVERY_S)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def await_it(is_so):
    """Waits for `is_so()`, and returns whether it became true."""
    end = time.monotonic() + PATIENCE_S
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.01)
    return bool(found)


def difference(sent, came):
    """Describes how `came` differs from `sent`; `None` if they are equal."""
    if came == sent:
        return None
    missing = [n for n, frame in enumerate(sent) if frame not in came]
    strange = sum(frame not in sent for frame in came)
    if missing or strange or len(came) != len(sent):
        return f"of {len(sent)} frames {len(missing)} are missing {missing[:20]}, {strange} came that were not sent, {len(came)} in all"
    return "frames overtake each other"


def drops(status):
    """Returns the nonzero drop counters."""
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
