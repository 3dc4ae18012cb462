"""The sender and receiver of `scripts/bench load`: measures the delay of frames from one device to another at a steady
rate; or, with --wake CORE, the delay until a process runs that is woken at that rate.

Each frame carries the time of sending. The time of arrival is the kernel's own time stamp, from a ring that is read
afterwards: the receiver takes no CPU time meanwhile, and a delay ends where the frame reaches the receiver's device.
Prints one JSON object: the frames sent, the delay of each that arrived in nanoseconds, and the shares of a core that
sending and the threads of the process --watch took.
"""

import argparse
import json
import mmap
import os
import random
import signal
import socket
import struct
import time

from benchmarks.process import cpu_ns, threads

ETHERTYPE = 0x88B5  # for experiments; hosts ignore it
SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, TPACKET_V2 = 263, 5, 10, 1
SLOT, BLOCK = 256, 1 << 20
ARRIVED = 1  # TP_STATUS_USER
STAMP = struct.Struct("<QQ")  # number, nanoseconds
HEADER = 14
ARRIVES_WITHIN_S = 0.2


def ring(device, frames):
    """Returns a socket that stores the next `frames` frames of `device`, and its memory."""
    blocks = -(-frames * SLOT // BLOCK)
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    receiver.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
    request = struct.pack("IIII", BLOCK, blocks, SLOT, blocks * BLOCK // SLOT)
    receiver.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
    memory = mmap.mmap(receiver.fileno(), blocks * BLOCK)
    receiver.bind((device, ETHERTYPE))
    return receiver, memory


def delays(memory):
    """Returns the delay of each received frame in nanoseconds."""
    taken = []
    for at in range(0, len(memory), SLOT):
        status, _, _, mac, _, seconds, nanos = struct.unpack_from("<IIIHHII", memory, at)
        if not status & ARRIVED:
            break
        _, sent = STAMP.unpack_from(memory, at + mac + HEADER)
        taken.append(seconds * 1_000_000_000 + nanos - sent)
    return taken


def sender(device):
    """Returns the function that sends a frame from `device`."""
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    link.bind((device, 0))
    return link.send


def wake(core, count, gaps):
    """Wakes a process on `core` after each of the gaps. Returns the result of `send`, and each wake-up delay in
    nanoseconds."""
    # Written by the process: the number of its runs, then for each run the number of earlier wakes, and the time.
    memory, event, sent = mmap.mmap(-1, STAMP.size * (count + 1)), os.eventfd(0), []
    if (child := os.fork()) == 0:
        os.sched_setaffinity(0, {core})
        for ran in range(1, count + 1):
            wakes = os.eventfd_read(event)
            STAMP.pack_into(memory, STAMP.size * ran, wakes, time.clock_gettime_ns(time.CLOCK_REALTIME))
            STAMP.pack_into(memory, 0, ran, 0)
        os._exit(0)

    def out(frame):
        sent.append(STAMP.unpack_from(frame, HEADER)[1])
        os.eventfd_write(event, 1)

    try:
        time.sleep(ARRIVES_WITHIN_S)  # lets the process fall asleep
        spent = send(out, bytearray(HEADER + STAMP.size), gaps)
        time.sleep(ARRIVES_WITHIN_S)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    taken, stamps = [], iter(sent)
    for ran in range(1, STAMP.unpack_from(memory)[0] + 1):
        wakes, when = STAMP.unpack_from(memory, STAMP.size * ran)
        taken += [when - next(stamps) for _ in range(wakes)]
    return spent, taken


def send(out, frame, gaps):
    """Sends a frame after each of the gaps, spinning in between. Returns the total time and the time in `out`, ns."""

    def clock():
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    pack, in_send, begin = STAMP.pack_into, 0, clock()
    due = begin
    for number, gap in enumerate(gaps):
        due += gap
        now = clock()
        while now < due:
            now = clock()
        pack(frame, HEADER, number, now)
        out(frame)
        after = clock()
        in_send += after - now
        due = max(due, after - 1_000_000)  # makes up for at most a millisecond of delay
    return clock() - begin, in_send


def process_cpu_ns(pid):
    """Returns the CPU time of all threads of a process in nanoseconds; 0 for `None`."""
    return 0 if pid is None else cpu_ns(pid, threads(pid))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source")
    parser.add_argument("--sink")
    parser.add_argument("--dst", help="address")
    parser.add_argument("--src", help="address")
    parser.add_argument("--rate", type=float, required=True, help="frames a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--size", type=int, default=64, help="of a frame, with its FCS")
    parser.add_argument(
        "--gaps", choices=["even", "random"], default="even", help="random: as of many independent senders"
    )
    parser.add_argument("--watch", type=int, metavar="PID")
    parser.add_argument("--wake", type=int, metavar="CORE", help="no frames: how soon a process there wakes")
    parser.add_argument("--core", type=int, required=True)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    mean = 1e9 / options.rate
    count = max(1, round(options.rate * options.seconds))
    draw = random.Random(1).expovariate
    gaps = [round(mean if options.gaps == "even" else draw(1 / mean)) for _ in range(count)]
    if options.wake is not None:
        (took, in_send), taken = wake(options.wake, count, gaps)
        share = 0.0
    else:
        addresses = bytes.fromhex((options.dst + options.src).replace(":", ""))
        frame = bytearray(addresses + ETHERTYPE.to_bytes(2, "big")).ljust(options.size - 4, b"\0")
        _receiver, memory = ring(options.sink, count + count // 8 + 64)
        before = process_cpu_ns(options.watch)
        took, in_send = send(sender(options.source), frame, gaps)
        share = (process_cpu_ns(options.watch) - before) / took
        time.sleep(ARRIVES_WITHIN_S)
        taken = delays(memory)
    result = {
        "sent": count,
        "kpps": count / took * 1e6,
        "sending": in_send / took,
        "core_share": share,
        "delays": taken,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
