"""Ordinary programs of four hosts, each as fast as its kernel lets it, into one host. To be run by `xoff lab run`.

    h1 .. h4 -- s1 -- h5: class 3 (DSCP 24), and with --lossy class 0 beside it

Prints a JSON object: for each class what was sent and received, datagrams lost or segments sent again, goodput, and how even the
shares of the four are (Jain's index).
"""

import argparse
import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

SENDERS = ("h1", "h2", "h3", "h4")
RECEIVER = "h5"
PORTS = {3: 7003, 0: 7000}
"""Of the classes; the DSCP is eight times the class."""
DATAGRAM = 1472
SILENCE_S = 1.0
"""What has not come by then, after the last program has ended, does not come."""
START_S = 1.5
"""What all programs have to start in, so that they begin together."""
SO_RCVBUFFORCE = 33
TCP_INFO_TOTAL_RETRANS = 100


def sink_udp(port):
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    sink.bind(("0.0.0.0", port))
    print("ready", flush=True)
    seen = {}
    ending = False
    while True:
        readable, _, _ = select.select([sink] if ending else [sink, sys.stdin], [], [], SILENCE_S if ending else None)
        if sink in readable:
            _, (host, _) = sink.recvfrom(2048)
            count(seen, host, DATAGRAM)
        elif ending:
            return seen
        else:
            ending = True  # the parent has closed our standard input


def sink_tcp(port):
    listener = socket.create_server(("0.0.0.0", port))
    print("ready", flush=True)
    seen = {}

    def read(connection, host):
        while data := connection.recv(1 << 16):
            count(seen, host, len(data))

    threads = []
    for _ in SENDERS:
        connection, (host, _) = listener.accept()
        threads.append(threading.Thread(target=read, args=(connection, host)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return seen


def count(seen, host, length):
    one = seen.setdefault(host, {"count": 0, "bytes": 0, "first": time.monotonic()})
    one["count"] += 1
    one["bytes"] += length
    one["last"] = time.monotonic()


def source(transport, congestion, klass, begin, seconds):
    kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
    out = socket.socket(socket.AF_INET, kind)
    if transport == "tcp" and congestion:
        out.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, (klass * 8) << 2)
    out.connect((os.environ[f"XOFF_{RECEIVER.upper()}_IPV4"], PORTS[klass]))
    data, sent, end = bytes(DATAGRAM), 0, begin + seconds
    time.sleep(max(0, begin - time.monotonic()))
    while time.monotonic() < end:
        sent += out.send(data)
    if transport == "udp":
        return {"sent": sent // DATAGRAM}
    out.shutdown(socket.SHUT_WR)
    out.recv(1)  # waits until the other end has read all and closed
    info = out.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 248)
    return {"sent": sent, "sent_again": struct.unpack_from("I", info, TCP_INFO_TOTAL_RETRANS)[0]}


def program(options, node, *role):
    command = [options.xoff, "lab", "exec", node, "--", sys.executable, __file__, *role]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ended(process):
    out, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)} ended with {process.returncode}")
    return json.loads(out.splitlines()[-1])


def judge(sent, received):
    totals = [received.get(os.environ[f"XOFF_{host.upper()}_IPV4"], {"count": 0, "bytes": 0}) for host in SENDERS]
    seen = [one for one in totals if one["bytes"]]
    lasted = max(one["last"] for one in seen) - min(one["first"] for one in seen)
    amounts = [one["bytes"] for one in totals]
    return {
        "sent": [one["sent"] for one in sent],
        "received": [one["count"] if "sent_again" not in sent[0] else one["bytes"] for one in totals],
        "sent_again": sum(one.get("sent_again", 0) for one in sent),
        "goodput_mbps": round(sum(amounts) * 8e-6 / lasted, 2),
        "jain": round(sum(amounts) ** 2 / len(amounts) / sum(amount**2 for amount in amounts), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", choices=("udp", "tcp"), default="udp")
    parser.add_argument("--congestion", metavar="NAME", help="congestion control of TCP, else the machine's own")
    parser.add_argument("--lossy", action="store_true", help="class 0 beside class 3, as fast")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--xoff", default="xoff", help="the binary")
    parser.add_argument("--role", choices=("sink", "source"), help=argparse.SUPPRESS)
    parser.add_argument("--class", dest="klass", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--begin", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "sink":
        return print(json.dumps({"udp": sink_udp, "tcp": sink_tcp}[options.transport](PORTS[options.klass])))
    if options.role == "source":
        sent = source(options.transport, options.congestion, options.klass, options.begin, options.seconds)
        return print(json.dumps(sent))

    classes = (3, 0) if options.lossy else (3,)
    congestion = ("--congestion", options.congestion) if options.congestion else ()
    common = lambda role, klass: ("--role", role, "--class", str(klass), "--transport", options.transport, *congestion,
                                  "--begin", str(begin), "--seconds", str(options.seconds))  # fmt: skip
    begin = 0
    with contextlib.ExitStack() as programs:
        start = lambda node, role, klass: programs.enter_context(program(options, node, *common(role, klass)))
        sinks = {klass: start(RECEIVER, "sink", klass) for klass in classes}
        for sink in sinks.values():
            if sink.stdout.readline() != "ready\n":
                sys.exit("a sink has not started")
        begin = time.monotonic() + START_S
        sources = {klass: [start(host, "source", klass) for host in SENDERS] for klass in classes}
        sent = {klass: [ended(one) for one in of] for klass, of in sources.items()}
        print(json.dumps({f"class_{klass}": judge(sent[klass], ended(sink)) for klass, sink in sinks.items()}))


if __name__ == "__main__":
    main()
