#!/usr/bin/python3
"""LACP against Open vSwitch: a bond of two members in its userspace datapath.

As root: scripts/lacp_ovs.py [PATH OF XOFF]. It needs openvswitch-switch, tcpdump and ethtool. Frames pass in both
directions while a reload removes a member and adds it again. Frames that Open vSwitch itself loses do not count.
"""

import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

XOFF = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/debug/xoff")
SECONDS, RATE, PORTS = 12, 500, {"forth": 9000, "back": 9001}
CONFIG = """[switch]
name = "x"
workers = 1
[defaults]
speed = "100M"
peer_response = "software"
lldp = false
[[group]]
name = "up"
ports = [{members}]
lacp = "active"
lacp_timeout = "short"
"""
SEND = """
import socket, sys, time
address, port, seconds, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
[it.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x68) for it in sockets]
begin, number = time.time(), 0
while time.time() - begin < seconds:
    sockets[number % 16].sendto(number.to_bytes(8, "big") + bytes(200), (address, port))
    number += 1
    time.sleep(max(0, begin + number / rate - time.time()))
"""


def at(node: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", f"lacp-{node}", *command]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wire(a: str, device: str, b: str, other: str) -> None:
    one = ["numtxqueues", "1", "numrxqueues", "1"]
    run(
        *f"ip link add name {device} netns lacp-{a}".split(),
        *one,
        *f"type veth peer name {other} netns lacp-{b}".split(),
        *one,
    )
    for node, name in ((a, device), (b, other)):
        run("ip", "-n", f"lacp-{node}", "link", "set", "dev", name, "mtu", "1504", "up")
        run(*at(node, "ethtool", "-K", name, "tx", "off", "gso", "off", "tso", "off", "gro", "off"))


def config(*members: str) -> str:
    ports = "".join(f'[[port]]\nname = "{it}"\ndevice = "{it}"\n' for it in ("a", *members))
    return CONFIG.format(members=", ".join(f'"{it}"' for it in members)) + ports


def numbers(file: Path, port: int) -> set[int]:
    """Returns the numbers of datagrams to a port in a capture."""
    data, found, place = file.read_bytes(), set(), 24
    while place + 16 <= len(data):
        length = struct.unpack("<I", data[place + 8 : place + 12])[0]
        frame = data[place + 16 : place + 16 + length]
        if int.from_bytes(frame[36:38], "big") == port:
            found.add(int.from_bytes(frame[42:50], "big"))
        place += 16 + length
    return found


def wait_for_members(count: int, log: Path) -> None:
    for _ in range(30):
        status = subprocess.run(at("x", XOFF, "status", "groups"), check=False, capture_output=True, text=True)
        if status.stdout.count("distributing") == count:
            return
        time.sleep(0.3)
    raise SystemExit(f"not {count} members distribute:\n{status.stdout}{status.stderr}{log.read_text()}")


def main() -> None:
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ |= dict.fromkeys(("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"), name)

        def start(*command: str) -> subprocess.Popen[bytes]:
            with (place / "log").open("ab") as log:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
            return started[-1]

        try:
            for node in ("x", "o", "a", "b"):
                run("ip", "netns", "add", f"lacp-{node}")
                run("ip", "-n", f"lacp-{node}", "link", "set", "lo", "up")
            for ends in (("x", "a", "a", "e"), ("x", "m1", "o", "o1"), ("x", "m2", "o", "o2"), ("o", "ob", "b", "e")):
                wire(*ends)
            for node, address in (("a", "10.9.0.1/24"), ("b", "10.9.0.2/24")):
                run("ip", "-n", f"lacp-{node}", "addr", "add", address, "dev", "e")
            run("ovsdb-tool", "create", f"{name}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
            start(*at("o", "ovsdb-server", f"{name}/conf.db", f"--remote=punix:{name}/db.sock"))
            time.sleep(1)
            ovs = ("ovs-vsctl", f"--db=unix:{name}/db.sock", "--no-wait")
            run(*ovs, "init")
            bridge = "add-br br -- set bridge br datapath_type=netdev -- add-port br ob -- add-bond br bond o1 o2"
            run(*ovs, *bridge.split(), "lacp=active", "bond_mode=balance-tcp", "other_config:lacp-time=fast")
            start(*at("o", "ovs-vswitchd", f"unix:{name}/db.sock"))
            file = place / "x.toml"
            file.write_text(config("m1", "m2"))
            start(*at("x", XOFF, "run", str(file)))
            wait_for_members(2, place / "log")
            run(*at("a", "ping", "-c", "3", "-W", "5", "10.9.0.2"))
            captures = []
            for device, node, way in (
                ("o1", "o", "in"),
                ("o2", "o", "in"),
                ("o1", "o", "out"),
                ("o2", "o", "out"),
                ("e", "a", "in"),
            ):
                captures.append(place / f"{device}-{way}.pcap")
                dump = f"tcpdump -i {device} -nn -U -B 65536 -s 64 -Q {way} -w {captures[-1]} udp portrange 9000-9001"
                start(*at(node, *dump.split()))
            time.sleep(2)
            before = len(started)
            start(*at("a", sys.executable, "-c", SEND, "10.9.0.2", str(PORTS["forth"]), str(SECONDS), str(RATE)))
            start(*at("b", sys.executable, "-c", SEND, "10.9.0.1", str(PORTS["back"]), str(SECONDS), str(RATE)))
            time.sleep(2)
            for members in (("m1",), ("m1", "m2")):
                file.write_text(config(*members))
                run(*at("x", XOFF, "reload"))
                time.sleep(3)
            wait_for_members(2, place / "log")
            [it.wait() for it in started[before:]]
            time.sleep(2)
            arrived = numbers(captures[0], PORTS["forth"]) | numbers(captures[1], PORTS["forth"])
            given = numbers(captures[2], PORTS["back"]) | numbers(captures[3], PORTS["back"])
            lost = given - numbers(captures[4], PORTS["back"])
            missing = set(range(max(arrived) + 1)) - arrived
            print(f"to Open vSwitch: {len(arrived)} frames, {len(missing)} lost")
            print(f"from Open vSwitch: {len(given)} frames, {len(lost)} lost")
            print(run(*at("x", XOFF, "status", "drops")), end="")
            if missing or lost:
                raise SystemExit(1)
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
                process.wait()
            for node in ("x", "o", "a", "b"):
                subprocess.run(["ip", "netns", "del", f"lacp-{node}"], check=False)


if __name__ == "__main__":
    main()
