"""A device between p1 and p2 that pauses port 1 of `xoff test` when a case pauses port 2, until after the case.

Prints "ready", and then the number of IPv4 frames that port 1 sent during the pause.
"""

import select
import socket
import struct
import time

ALL, MAC_CONTROL, IPV4, OUTGOING = 3, 0x8808, 0x0800, 4
# Frames sent before the XOFF arrive within the slack. At 10 Mb/s the XOFF would expire after 3.36 s.
SLACK_S, PAUSE_S = 0.3, 2.0


def pause(quanta):
    head = bytes.fromhex("0180c2000001020000000909") + struct.pack(">HHH", MAC_CONTROL, 0x0101, 0xFF)
    return head + struct.pack(">8H", *[quanta] * 8) + bytes(26)


def listen(device):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    port.bind((device, ALL))
    return port


def pauses(frame):
    """Returns whether a MAC control frame has a pause time."""
    return any(frame[18:34])


def main():
    one, two = (listen(device) for device in ("p1", "p2"))
    other = {one: two, two: one}
    print("ready", flush=True)
    begin, count = None, 0
    while begin is None or time.monotonic() < begin + PAUSE_S:
        for port in select.select([one, two], [], [], 0.01)[0]:
            frame, address = port.recvfrom(65536)
            if address[2] == OUTGOING:
                continue
            now = time.monotonic()
            (ethertype,) = struct.unpack(">H", frame[12:14])
            if ethertype == MAC_CONTROL:
                if port is two and begin is None and pauses(frame):
                    one.send(pause(0xFFFF))
                    begin = now
                continue
            if port is one and ethertype == IPV4 and begin is not None and now > begin + SLACK_S:
                count += 1
            other[port].send(frame)
    one.send(pause(0))
    print(count, flush=True)


main()
