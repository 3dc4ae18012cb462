"""LACP with a Linux bond: a guest with two NICs in a bond (802.3ad), at two ports of a group.

    guest: bond0 = eth0 -- TAP -- veth -- m1 \\
                   eth1 -- TAP -- veth -- m2 -- xoff -- a -- veth -- this machine

Pings from this machine, and their replies, pass while a reload removes a member and adds it again. No ping may be lost.
"""

import contextlib
import subprocess
import time

from host_switch import HostSwitch
from tap import MODEL, SNDBUF, add_veth, tie

from wire import add_tap, address, run, text

SPEED = "40M"
MEMBERS = (1, 2)
# The bond hashes addresses and process ids of pings. Ids differ by 1: addresses that differ by 2 use both members.
ADDRESSES = [f"10.0.0.{100 + 2 * n}" for n in range(16)]
PINGS, EVERY = 350, 0.1
AGREE_WITHIN_S, LOAD_WITHIN_S = 60, 10
GROUP = """
[[group]]
name = "up"
ports = [{members}]
lacp = "{lacp}"
lacp_timeout = "{timeout}"
"""
VARIANTS = (("active", "short", "fast"), ("active", "long", "slow"), ("passive", "short", "fast"))


def group(members, lacp, timeout):
    return GROUP.format(members=", ".join(f'"m{n}"' for n in members), lacp=lacp, timeout=timeout)


def ports(members):
    return {"a": ("sw9", "auto"), **{f"m{n}": (f"sw{n}", "auto") for n in members}}


class Bench:
    def __init__(self, guest, xoff, directory):
        self.guest, self.xoff, self.directory = guest, xoff, directory

    def bond(self, rate):
        self.guest.run("ip link del bond0")
        self.guest.do(
            f"ip link add bond0 type bond mode 802.3ad lacp_rate {rate} miimon 50 xmit_hash_policy layer3+4; "
            "for n in 0 1; do ethtool -s eth$n speed 1000 duplex full; ip link set eth$n down; ip link set eth$n master bond0; done; "
            "ip link set bond0 up; "
            f"for it in {' '.join(ADDRESSES)}; do ip address add $it/24 dev bond0; done"
        )

    def await_members(self, switch, count):
        end = time.monotonic() + AGREE_WITHIN_S
        while (seen := run(self.xoff, "status", "groups")).count("distributing") != count:
            if time.monotonic() > end:
                raise RuntimeError(f"not {count} members distribute:\n{seen}{self.in_guest()}{switch.log.read_text()}")
            time.sleep(0.2)

    def in_guest(self):
        return self.guest.do("cat /proc/net/bonding/bond0")

    def measure(self, lacp, timeout, rate):
        self.bond(rate)
        with HostSwitch(self.xoff, self.directory, SPEED, ports(MEMBERS), group(MEMBERS, lacp, timeout)) as switch:
            self.await_members(switch, 2)
            run("ping", "-c", 3, "-W", 5, ADDRESSES[0])
            pings = [
                subprocess.Popen(
                    ["ping", "-q", "-c", str(PINGS), "-i", str(EVERY), "-W", "5", it],
                    stdout=subprocess.PIPE, text=True,
                )
                for it in ADDRESSES
            ]  # fmt: skip
            time.sleep(2)
            idle = self.idle_members(switch)
            for members in (MEMBERS[:1], MEMBERS):
                switch.configure(ports(members), group(members, lacp, timeout))
                run(self.xoff, "reload")
                self.await_members(switch, len(members))
                time.sleep(3)
            idle += self.idle_members(switch)
            ended = sum(ping.poll() is not None for ping in pings)
            outputs = [ping.communicate()[0] for ping in pings]
            return {
                "pings": len(ADDRESSES) * PINGS,
                "answered": sum(int(output.split(" received")[0].rsplit(" ", 1)[-1]) for output in outputs),
                "duplicates": sum("duplicates" in output for output in outputs),
                "ended_early": ended,
                "idle_members": idle,
                "bond_ports": self.in_guest().split("Number of ports: ")[1].split("\n")[0],
                "exit_code": switch.stop(),
            }

    @staticmethod
    def idle_members(switch):
        """Waits until both members carry frames in both directions; returns those that do not."""
        first, idle = None, ["not read"]
        end = time.monotonic() + LOAD_WITHIN_S
        while idle and time.monotonic() < end:
            ports = switch.ports()
            counts = {
                f"m{n} {way}": ports[f"m{n}"]["classes"][0][f"{way}_frames"] for n in MEMBERS for way in ("rx", "tx")
            }
            first = first or counts
            idle = [name for name, count in counts.items() if count < first[name] + 10]
            time.sleep(0.5)
        return idle


@contextlib.contextmanager
def bench(start_guest, xoff, directory):
    with contextlib.ExitStack() as undo:
        devices = []
        for n in MEMBERS:
            add_tap(f"tap{n}")
            undo.callback(run, "ip", "link", "del", f"tap{n}")
            add_veth(f"vtap{n}", f"sw{n}")
            undo.callback(run, "ip", "link", "del", f"vtap{n}")
            tie(f"tap{n}", f"vtap{n}")
            devices += MODEL.arguments(n, f"tap{n}", text(address(n)))
        devices = [one + f",sndbuf={SNDBUF}" if one.startswith("tap,") else one for one in devices]
        add_veth("here", "sw9")
        undo.callback(run, "ip", "link", "del", "here")
        run("ethtool", "-K", "here", "tx", "off")
        run("ip", "address", "add", "10.0.0.9/24", "dev", "here")
        guest = undo.enter_context(start_guest(devices))
        guest.await_boot()
        guest.load("af_packet", MODEL.module, "bonding")
        yield Bench(guest, xoff, directory)


def judge(seen):
    """Returns the broken promises."""
    wrong = []
    if seen["answered"] != seen["pings"] or seen["duplicates"]:
        wrong.append(f"pings are lost or duplicated: {seen}")
    if seen["ended_early"] or seen["idle_members"]:
        wrong.append(f"a member carried no pings, so that its change shows nothing: {seen}")
    if seen["bond_ports"] != "2" or seen["exit_code"] != 0:
        wrong.append(f"the bond lacks a member, or the switch ended with a loss: {seen}")
    return wrong
