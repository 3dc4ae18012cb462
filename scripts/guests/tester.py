"""xoff inside a guest, examined by `xoff test` on the TAPs of the guest's NICs.

xoff test -- TAPs -- NICs -- xoff (guest)      frames of a TAP reach its NIC unchanged, PFC frames too
"""

import contextlib
import json
import subprocess

from drivers import drops
from tester_devices import REPORTS, store, verdicts

from switch import Switch
from wire import add_tap, address, text

MODELS_EXAMINED = ("virtio-net", "igb")
LOSSLESS = (3, 4)
EXPECTED = "no case fails; a guest without KVM on a busy machine stalls, so many cases cannot tell"
TEST_WITHIN_S = 7200
WARM_UP = "losslessness.bursts"
# Frames that a TAP holds for a stalled guest: they arrive after the guest's XOFF, so they need its headroom.
QUEUE = 500

DEVICE = """
[device]
name = "{name}"
lossless = {lossless}
response_allowance = "20ms"
"""

PORT = """
[[port]]
device = "tap{number}"
speed = "{speed}"
connected = "eth{number}"
"""


class Bench:
    def __init__(self, guest, model, ports, speed, mode):
        self.guest, self.ports, self.speed = guest, ports, speed
        devices = [f"eth{number}" for number in range(ports)]
        for device in devices:
            for setting in model.settings:
                guest.do(setting.format(device))
        self.switch = Switch(guest, mode, speed=speed, ports={name: name for name in devices}, lossless=LOSSLESS)
        if not self.switch.runs:
            raise RuntimeError(f"xoff does not start: {self.switch.log()}")

    def examine(self, xoff, directory, only):
        """Writes the tester's report into a directory, beside the switch's log and status; returns the verdicts."""
        directory.mkdir(parents=True, exist_ok=True)
        file, report = directory / "dut.toml", directory / "report.json"
        report.unlink(missing_ok=True)
        ports = [PORT.format(number=number, speed=self.speed) for number in range(self.ports)]
        file.write_text(DEVICE.format(name=directory.name, lossless=list(LOSSLESS)) + "".join(ports))
        # The first frames are slow: QEMU translates the code that they run, and the tester would take that for its error.
        self.test(xoff, file, directory / "warm-up", ["--only", WARM_UP])
        patterns = [word for pattern in only for word in ("--only", pattern)]
        self.test(xoff, file, directory / "progress", ["--report", directory, *patterns])
        if not report.exists():
            raise RuntimeError(f"xoff test: {(directory / 'progress').read_text()}")
        status = self.switch.status()
        code = self.switch.stop()
        (directory / "status.json").write_text(json.dumps(status, indent=1))
        (directory / "switch.log").write_text(self.switch.log())
        cases = json.loads(report.read_text())["cases"]
        groups = verdicts(cases)
        if not only:
            summary = (directory / "report.txt").read_text()
            store(REPORTS, f"guest-{directory.name}", EXPECTED, [("TAPs of the guest's NICs", summary)])
        failed = {case["id"]: case["reason"] for case in cases if case["verdict"] == "fail"}
        return {
            "xdp": status["ports"][0]["xdp"], "groups": groups, "failed": failed, "drops": drops(status), "exit_code": code,
        }  # fmt: skip

    def test(self, xoff, file, log, words):
        with log.open("w") as output:
            subprocess.run(
                ["setpriv", "--pdeathsig", "KILL", xoff, "test", file, *words],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=TEST_WITHIN_S, check=False,
            )  # fmt: skip


@contextlib.contextmanager
def bench(start_guest, model, ports, speed, mode):
    # One queue: a TAP with several reorders frames.
    model = model._replace(queues=1)
    devices = []
    for number in range(ports):
        add_tap(f"tap{number}", length=QUEUE)
        devices += model.arguments(number, f"tap{number}", text(address(0xA0 + number)))
    with start_guest(devices) as guest:
        guest.await_boot()
        guest.load("af_packet", model.module)
        yield Bench(guest, model, ports, speed, mode)


def judge(seen):
    """Returns the broken promises."""
    wrong = [f"{case}: {reason}" for case, reason in seen["failed"].items()]
    # The tester ignores the switch's XOFF in some cases, so the switch may end with 1: it lost frames.
    return wrong if seen["exit_code"] in (0, 1) else [*wrong, f"exit code {seen['exit_code']}"]
