#!/usr/bin/python3
"""Example: four hosts send to one host at once in a lossless class, and every datagram arrives.

sudo XOFF=target/release/xoff python3 integrations/mininet/burst.py
"""

import os
import sys

from mininet.topo import SingleSwitchTopo

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from xoff_mininet import XoffNet

SENDERS, DATAGRAMS = 4, 4000
# DSCP 24 (TOS byte 24 << 2): class 3, which is lossless by default.
SEND = """
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 24 << 2)
for number in range(int(sys.argv[2])):
    out.sendto(number.to_bytes(4, 'big') + bytes(1396), (sys.argv[1], 5000))
"""
RECEIVE = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE: this program may be slower than the line
sock.bind(('', 5000))
print('bound', flush=True)
sock.settimeout(4)
wanted, seen = int(sys.argv[1]), set()
try:
    while len(seen) < wanted:
        data, sender = sock.recvfrom(2048)
        seen.add((sender, data[:4]))
except TimeoutError:
    pass
print(len(seen))
"""


def burst(net):
    """Runs the incast, and returns the numbers of sent and received datagrams."""
    # Avoid address resolution, during which a kernel queues only few packets (`unres_qlen_bytes`) and drops others.
    net.staticArp()
    *senders, receiver = net.hosts
    total = len(senders) * DATAGRAMS
    sink = receiver.popen(["python3", "-c", RECEIVE, str(total)])
    assert sink.stdout.readline() == b"bound\n"
    sources = [host.popen(["python3", "-c", SEND, receiver.IP(), str(DATAGRAMS)]) for host in senders]
    for source in sources:
        _, errors = source.communicate()
        assert source.returncode == 0, errors.decode()
    return total, int(sink.communicate()[0])


def main():
    net = XoffNet(SingleSwitchTopo(SENDERS + 1))
    net.start()
    try:
        print("{} datagrams sent, {} arrived".format(*burst(net)))
    finally:
        net.stop()
    print("verdicts:", net.verdicts())
    return max(net.verdicts().values())


if __name__ == "__main__":
    sys.exit(main())
