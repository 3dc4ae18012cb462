"""Soft-RoCE in guests: two write to one as fast as possible, through a switch and through a kernel bridge.

    guest 1 -- TAP -- veth --\\
    guest 2 -- TAP -- veth -- xoff or bridge -- veth -- TAP -- guest 3

rdma_rxe counts its losses: frames out of sequence, and retransmissions. It has at most 128 unacknowledged packets per
queue pair, so a few queue pairs fit into any buffer; 16 do not. After its timeout (4.096 us x 2^u) it retransmits even
without a loss: u = 20 is four seconds, because guests without KVM may need one.
"""

import contextlib
import re
from pathlib import Path

from drivers import CLASS, drops
from host_switch import HostSwitch
from tap import MODEL, SNDBUF, add_veth, difference, host_drops, tie

from wire import add_tap, address, run, text

SENDERS, RECEIVER = (1, 2), 3
GUESTS = (*SENDERS, RECEIVER)
SPEED, RATE = "40M", "40mbit"
QUEUE_PAIRS, TIMEOUT, MESSAGE = 16, 20, 32768
SECONDS = 8
FIRST_PORT = 18515
DSCP = 8 * CLASS
PROGRAMS = ("rdma", "ib_write_bw")
BUFFER = 821_000  # of the bridge; equals a switch port's buffer for class 3

# Counters of losses; `ack_deferred` and packet counts are none.
LOSSES = (
    "out_of_seq_request",
    "rcvd_seq_err",
    "completer_retry_err",
    "retry_exceeded_err",
    "duplicate_request",
    "send_err",
)


def provider(packages):
    """Returns the soft-RoCE plugin of libibverbs, which it loads by path."""
    for top in (packages.root, Path("/")):
        if found := list((top / "usr/lib/x86_64-linux-gnu/libibverbs").glob("librxe-rdmav*.so")):
            return found[0]
    raise RuntimeError("there is no librxe-rdmav*.so: ibverbs-providers is missing")


@contextlib.contextmanager
def across_xoff(xoff, directory):
    """Ties each guest's TAP to a veth that is a port of the switch."""
    ports = {}
    for n in GUESTS:
        add_veth(f"vtap{n}", f"sw{n}")
        tie(f"tap{n}", f"vtap{n}")
        run("tc", "qdisc", "add", "dev", f"vtap{n}", "root", "tbf", "rate", RATE, "burst", 3200, "limit", 10_000_000)
        ports[f"guest{n}"] = (f"sw{n}", "auto")
    with HostSwitch(xoff, directory, SPEED, ports) as switch:
        yield switch
    for n in GUESTS:
        run("tc", "qdisc", "del", "dev", f"tap{n}", "clsact")
        run("ip", "link", "del", f"vtap{n}")


@contextlib.contextmanager
def across_a_bridge(*_):
    """Connects the TAPs to a kernel bridge with the switch's rate and buffer size for each guest."""
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "link", "set", "br0", "up")
    for n in GUESTS:
        run("ip", "link", "set", f"tap{n}", "master", "br0")
        run("tc", "qdisc", "add", "dev", f"tap{n}", "root", "tbf", "rate", RATE, "burst", 3200, "limit", BUFFER)
    yield None
    for n in GUESTS:
        run("tc", "qdisc", "del", "dev", f"tap{n}", "root")
    run("ip", "link", "del", "br0")


class Bench:
    def __init__(self, guests, xoff, directory):
        self.guests, self.xoff, self.directory = guests, xoff, directory

    def measure(self, across, with_agent):
        before, counted = host_drops(), self.counters()
        with across(self.xoff, self.directory) as switch:
            if with_agent:
                self.start_agents()
            try:
                rates = self.write()
            finally:
                if with_agent:
                    self.stop_agents()
            found = drops(switch.status()) if switch else {}
            told = switch.ports()["guest1"]["classes"][CLASS]["pause_sent"]["xoff"] if switch else 0
            code = switch.stop() if switch else None
            dropped = difference(host_drops(), before)
        losses = difference_of(self.counters(), counted)
        return {
            "mbps": rates,
            "rxe": losses,
            "told": told,
            "switch_drops": found,
            "host_drops": dropped,
            "exit_code": code,
        }

    def start_agents(self):
        for guest in self.guests.values():
            agent = f"(xoff nic --device eth0 --speed {SPEED}; echo $? >/tmp/nic.code) >/tmp/nic.log 2>&1 &"
            obeys = "for n in $(seq 300); do grep -q ' obeying ' /tmp/nic.log && exit; sleep 0.1; done; cat /tmp/nic.log; exit 1"
            guest.do(f"rm -f /tmp/nic.code; {agent} {obeys}")

    def stop_agents(self):
        for guest in self.guests.values():
            code = "[ -s /tmp/nic.code ] && exec test $(cat /tmp/nic.code) = 0"
            guest.do(f"killall -TERM xoff; for n in $(seq 100); do {code}; sleep 0.1; done; cat /tmp/nic.log; exit 1")

    def write(self):
        """Returns each sender's rate in Mb/s; `None` if it gave up."""
        receiver = self.guests[RECEIVER]
        for n in SENDERS:
            receiver.do(f"{command(n)} >/tmp/server{n} 2>&1 &")
        receiver.do("sleep 2")
        for n in SENDERS:
            self.guests[n].do(
                f"rm -f /tmp/code; ({command(n)} 10.0.0.{RECEIVER} >/tmp/writer 2>&1; echo $? >/tmp/code) &"
            )
        rates = {}
        for n in SENDERS:
            ended = f"for n in $(seq {(SECONDS + 60) * 5}); do [ -s /tmp/code ] && break; sleep 0.2; done"
            done = self.guests[n].run(f"{ended}; cat /tmp/writer; exec test $(cat /tmp/code) = 0")
            self.guests[n].run("killall ib_write_bw")
            found = re.findall(rf"^ *{MESSAGE} .*$", done.text, re.MULTILINE)
            rates[n] = round(float(found[-1].split()[3]) * 1000, 1) if done.code == 0 and found else None
        receiver.run("killall ib_write_bw")
        return rates

    def counters(self):
        told = {}
        for n, guest in self.guests.items():
            lines = guest.do("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep -H . *").splitlines()
            told[n] = {
                name: int(count) for name, _, count in (line.partition(":") for line in lines) if count.isdigit()
            }
        return told


def command(n):
    return (
        f"ib_write_bw --ib-dev rxe0 --gid-index 1 --port {FIRST_PORT + n} --qp {QUEUE_PAIRS} --qp-timeout {TIMEOUT} "
        f"--size {MESSAGE} --tx-depth 4 --mtu 1024 --tclass {DSCP << 2} --duration {SECONDS} --report_gbits --CPU-freq"
    )


def difference_of(now, before):
    return {
        f"guest {n} {name}": now[n][name] - before[n][name]
        for n in now
        for name in LOSSES
        if now[n].get(name, 0) > before[n].get(name, 0)
    }


@contextlib.contextmanager
def bench(start_guest, xoff, directory):
    with contextlib.ExitStack() as undo:
        guests = {}
        for n in GUESTS:
            add_tap(f"tap{n}")
            undo.callback(run, "ip", "link", "del", f"tap{n}")
            devices = list(MODEL.arguments(0, f"tap{n}", text(address(n))))
            devices = [one + f",sndbuf={SNDBUF}" if one.startswith("tap,") else one for one in devices]
            guests[n] = undo.enter_context(start_guest(f"roce{n}", devices))
        for n, guest in guests.items():
            guest.await_boot()
            guest.load("af_packet", MODEL.module, "rdma_rxe", "ib_uverbs")
            guest.do(
                f"ip address add 10.0.0.{n}/24 dev eth0; ip link set eth0 up; rdma link add rxe0 type rxe netdev eth0"
            )
            for other in GUESTS:
                if other != n:
                    guest.do(f"ip neighbour add 10.0.0.{other} lladdr {text(address(other))} dev eth0 nud permanent")
        yield Bench(guests, xoff, directory)


SCENES = {
    "across xoff, xoff nic in the guests": (across_xoff, True),
    "across xoff, nobody obeys": (across_xoff, False),
    "across a kernel bridge": (across_a_bridge, False),
}


def judge(seen, is_lossless):
    """Returns the broken promises."""
    is_clean = not seen["rxe"] and None not in seen["mbps"].values()
    if is_lossless and not (
        is_clean and not seen["switch_drops"] and not seen["host_drops"] and seen["exit_code"] == 0
    ):
        return [f"frames are lost, or sent again: {seen}"]
    if not is_lossless and is_clean:
        return [f"nothing is lost, though nobody was told to stop: {seen}"]
    return []
