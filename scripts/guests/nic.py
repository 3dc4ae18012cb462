"""The tests of `xoff nic` in a guest, with the leaf `plug` of Debian's kernels, which this machine's kernel may lack.

host -- veth -- peer      in namespaces of the guest, created by the tests
"""

import contextlib
import json

MODULES = (
    "af_packet", "veth", "sch_htb", "sch_plug", "sch_tbf", "sch_ingress", "cls_bpf", "cls_u32", "act_mirred", "act_gact", "act_bpf",
)  # fmt: skip
PROGRAMS = ("sysctl", "setpriv")
LEAF = "plug"
BINARIES = ("host", "wire")
# Prefixes of the agent's tests in binary `wire`; of `host` all tests run.
ABOUT_AGENTS = ("nic::", "nic_rates::")
TEST_WITHIN_S = 600


def built(messages):
    """Returns the test binaries among cargo's messages, and the program that they start by its path."""
    found = {}
    for message in map(json.loads, messages.read_text().splitlines()):
        executable, name = message.get("executable"), message.get("target", {}).get("name")
        if executable and name in BINARIES:
            found[f"usr/bin/{name}"] = executable
        elif executable and name == "xoff-under-test":
            found[executable] = executable
    return found


class Bench:
    def __init__(self, guest):
        self.guest = guest

    def leaf(self):
        """Returns the leaf by which `xoff nic` stops classes."""
        self.guest.do("ip link add nic0 type veth peer name nic1")
        told = json.loads(self.guest.do("xoff nic check --device nic0 --speed 1G --json"))
        self.guest.do("ip link del nic0")
        return told["leaf"]

    def tests(self):
        """Yields the tests to run, with their binaries."""
        for binary in BINARIES:
            for line in self.guest.do(f"{binary} --list").splitlines():
                name, _, kind = line.rpartition(": ")
                if kind == "test" and (binary != "wire" or name.startswith(ABOUT_AGENTS)):
                    yield binary, name

    def measure(self):
        passed, failed = [], {}
        for binary, name in self.tests():
            done = self.guest.run(f"{binary} --exact {name} --nocapture", within=TEST_WITHIN_S)
            if done.code == 0:
                passed.append(name)
            else:
                failed[name] = done.text[-3000:]
        return {"leaf": self.leaf(), "passed": passed, "failed": failed}


@contextlib.contextmanager
def bench(start_guest):
    with start_guest([]) as guest:
        guest.await_boot()
        guest.load(*MODULES)
        yield Bench(guest)


def judge(seen):
    """Returns the broken promises."""
    wrong = [f"{name}: {text}" for name, text in seen["failed"].items()]
    if seen["leaf"] != LEAF:
        wrong.append(f"classes are stopped by {seen['leaf']} instead of {LEAF}")
    return wrong if seen["passed"] else [*wrong, "no test was run"]
