"""The host's side of a guest's NICs: TAPs in this network namespace, and sockets for whole frames."""

import socket
import struct
import subprocess
import time
from pathlib import Path

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_AUXDATA = 263, 8
TAG_IS_VALID = 1 << 4
OUTGOING = 4

MAC_CONTROL = 0x8808
EXPERIMENTAL = 0x88B5
PAUSE_ADDRESS = bytes.fromhex("0180c2000001")


def run(*command):
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def silence():
    """Configures this namespace so that the kernel sends no frames of its own."""
    for key in ("all", "default"):
        path = Path(f"/proc/sys/net/ipv6/conf/{key}/disable_ipv6")
        if path.exists():
            path.write_text("1")
    run("ip", "link", "set", "lo", "up")


def add_tap(name, mtu=1500, queues=1, length=10000):
    """Makes a TAP that holds up to `length` frames for the guest."""
    many = ("multi_queue",) if queues > 1 else ()
    run("ip", "tuntap", "add", "dev", name, "mode", "tap", "vnet_hdr", *many)
    run("ip", "link", "set", name, "mtu", mtu, "txqueuelen", length, "up")


class Wire:
    """The far end of a guest's NIC, which receives frames sent here."""

    def __init__(self, device):
        self.device = device
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.bind((device, ETH_P_ALL))
        self.pauses = []

    def send(self, frame):
        while True:
            try:
                return self.socket.send(frame)
            except OSError as error:
                if error.errno != 105:  # no buffer space: the device's queue is full
                    raise
                time.sleep(0.002)

    def receive(self, within):
        """Returns the next frame except MAC control, which goes to `pauses`; `None` after `within` seconds."""
        end = time.monotonic() + within
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                frame, auxiliary, _, address = self.socket.recvmsg(65536, 64)
            except TimeoutError:
                return None
            if address[2] == OUTGOING:
                continue
            frame = with_tag(frame, auxiliary)
            if ethertype(frame) == MAC_CONTROL:
                self.pauses.append(frame)
            else:
                return frame
        return None

    def collect(self, count, within):
        """Returns up to `count` frames; ends after `within` seconds without one."""
        frames = []
        while len(frames) < count and (frame := self.receive(within)) is not None:
            frames.append(frame)
        return frames

    def drain(self):
        while self.receive(0.05) is not None:
            pass
        self.pauses.clear()

    def close(self):
        self.socket.close()


def with_tag(frame, auxiliary):
    """Returns the frame as received: the kernel removes the outer tag, and reports it separately."""
    for level, kind, data in auxiliary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, protocol = struct.unpack("=IIIHHHH", data[:20])
            if status & TAG_IS_VALID:
                return frame[:12] + struct.pack(">HH", protocol or 0x8100, tci) + frame[12:]
    return frame


def ethertype(frame):
    return int.from_bytes(frame[12:14], "big")


def address(number):
    return bytes([2, 0, 0, 0, 0, number])


def text(mac):
    return ":".join(f"{byte:02x}" for byte in mac)


def tagged(source, target, pcp, vlan, number, length=200):
    head = target + source + struct.pack(">HHH", 0x8100, pcp << 13 | vlan, EXPERIMENTAL)
    return filled(head, number, length)


def datagram(source, target, dscp, number, length=200):
    """Returns a UDP datagram of its own flow, with the IPv4 header's checksum and no others."""
    size = length - 14
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, dscp << 2, size, 0, 0, 64, 17, 0, b"\x0a\0\0" + source[5:], b"\x0a\0\0" + target[5:]
    )
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack(">H", 0xFFFF - (total & 0xFFFF) - (total >> 16)) + head[12:]
    udp = struct.pack(">HHHH", 1000, 1000, size - 20, 0)
    return filled(target + source + b"\x08\0" + head + udp, number, length)


def filled(head, number, length):
    """Returns the header with a body that differs between frames up to the last byte."""
    pattern = bytes((number * 7 + at) & 0xFF for at in range(251))
    body = struct.pack(">I", number) + pattern * (length // len(pattern) + 1)
    return head + body[: length - len(head)]


def pause(source, classes, quanta):
    """Returns a PFC frame."""
    vector = sum(1 << one for one in classes)
    times = b"".join(struct.pack(">H", quanta if one in classes else 0) for one in range(8))
    frame = PAUSE_ADDRESS + source + struct.pack(">HHH", MAC_CONTROL, 0x0101, vector) + times
    return frame + bytes(60 - len(frame))


def quanta(frame, one):
    """Returns a class's pause time in a PFC frame; `None` if the frame does not name the class."""
    opcode, vector = struct.unpack(">HH", frame[14:18])
    if opcode != 0x0101 or not vector >> one & 1:
        return None
    return struct.unpack(">H", frame[18 + 2 * one : 20 + 2 * one])[0]
