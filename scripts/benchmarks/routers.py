"""Compares xoff as a router, with a few routes and with 100,000, with xoff as a bridge, the kernel's routing and
Open vSwitch, in one run, in turns.

Frames are for the router's address at the first port of a pair, flow n for 10.2.0.n behind the second port."""

import json

from benchmarks import arguments, comparison, forwarding
from benchmarks.forwarders import XOFF_CONFIG, XOFF_LIKE_OTHERS, XOFF_PORT, OpenVswitch, Xoff
from benchmarks.process import run

SUMMARY = "Compare xoff with other routers at full speed"
ROOT_FOR = forwarding.ROOT_FOR


def add_arguments(parser):
    forwarding.add_arguments(parser)
    arguments.add_xoff(parser)
    forwarding.add_modes(parser)


def main(options):
    forwarding.build_programs(options)
    forwarders = {
        "xoff": Xoff(options.xoff, XOFF_LIKE_OTHERS),
        "xoff_routed": RoutedXoff(options.xoff, XOFF_LIKE_OTHERS),
        "xoff_100k_routes": RoutedXoff(options.xoff, XOFF_LIKE_OTHERS, 100_000),
        "kernel_router": KernelRouter(),
        "ovs_router": RoutingOpenVswitch(),
    }
    return comparison.compare(options, forwarders)


def host_address(mac):
    """Returns the IPv4 address of the station with this MAC address."""
    return f"10.2.0.{int(mac[-2:], 16)}"


def configure(namespace, lab, pair, routes):
    """Configures a kernel with the ports' addresses, the stations as neighbours, and additional routes."""
    lines = [f"address add 10.1.255.1/16 dev {pair.one}", f"address add 10.2.255.1/16 dev {pair.two}"]
    for mac in pair.stations:
        lines.append(f"neighbour replace {host_address(mac)} lladdr {mac} dev {pair.two} nud permanent")
    for n in range(routes):
        network = f"100.{n >> 8 & 255}.{n & 255}.{(n >> 16) * 64}/26"
        lines.append(f"route add {network} via 10.2.0.1 dev {pair.two}")
    batch = lab.directory / "routes.batch"
    batch.write_text("\n".join(lines) + "\n")
    run("ip", "-n", namespace, "-batch", str(batch))
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1")


class RoutedXoff:
    """A switch whose ports are routed by the kernel of a namespace, with additional unused routes."""

    thread = "^xoff-worker"
    routes_packets = True

    def __init__(self, binary, settings, routes=0):
        self.binary, self.settings, self.routes = binary, settings, routes

    def start(self, lab, pairs):
        [pair] = pairs
        netns, socket = f"{lab.switch}-router", lab.directory / "xoff.sock"
        run("ip", "netns", "add", netns)
        lab.undo.callback(run, "ip", "netns", "del", netns)
        workers = f'{{ core = {pair.core}, ports = ["{pair.one}", "{pair.two}"] }}'
        text = XOFF_CONFIG.format(workers=workers).replace("http = false", f'http = "unix:{socket}"')
        text += self.settings + "routed = true\n" + f'\n[router]\nnetns = "{netns}"\n'
        text += "".join(XOFF_PORT.format(device=device) for device in (pair.one, pair.two))
        process, _ = lab.start_switch(self.binary, text)
        configure(netns, lab, pair, self.routes)
        wanted = self.routes + len(pair.stations)

        def has_routes():
            status = json.loads(run(self.binary, "status", "--json", "--url", f"unix:{socket}"))
            return status["router"]["routes_v4"] >= wanted

        lab.wait_for("all routes in the switch", has_routes)
        return process.pid


class KernelRouter:
    """The kernel's own routing, which runs in the sender's context on the sender's core."""

    thread = None
    routes_packets = True

    def start(self, lab, pairs):
        [pair] = pairs
        configure(lab.switch, lab, pair, 0)  # addresses and neighbours are removed with the devices


class RoutingOpenVswitch(OpenVswitch):
    """The userspace datapath with OpenFlow rules of a router: addresses are rewritten, the TTL is decremented."""

    routes_packets = True

    def start(self, lab, pairs):
        [pair] = pairs
        pid = super().start(lab, pairs)
        own = lab.mac_address(lab.switch, pair.two)
        for mac in pair.stations:
            actions = f"mod_dl_src:{own},mod_dl_dst:{mac},dec_ttl,output:{pair.two}"
            flow = f"ip,nw_dst={host_address(mac)},actions={actions}"
            run("ovs-ofctl", "add-flow", f"unix:{lab.directory}/ovs/br-ovs.mgmt", flow)
        return pid
