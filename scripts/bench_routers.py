"""What is compared by --routed: forwarders that route between the ports of a pair.

The generator's frames are for the router's address at the first port (`via`), flow n to 10.2.0.n, whose station is known at the second.
"""

import json

from bench_forwarders import XOFF_CONFIG, XOFF_PORT, OpenVswitch
from bench_lab import await_that, run

def address_of(lab, device):
    """The MAC address of a port."""
    [link] = json.loads(run("ip", "-n", lab.switch, "-j", "link", "show", device))
    return link["address"]


def configure(namespace, lab, pair, routes):
    """Gives a kernel addresses, stations, and so many routes beside them."""
    lines = [f"address add 10.1.255.1/16 dev {pair.one}", f"address add 10.2.255.1/16 dev {pair.two}"]
    lines += [
        f"neighbour replace 10.2.0.{int(mac[-2:], 16)} lladdr {mac} dev {pair.two} nud permanent" for mac in pair.stations
    ]
    lines += [f"route add 100.{n >> 8 & 255}.{n & 255}.{(n >> 16) * 64}/26 via 10.2.0.1 dev {pair.two}" for n in range(routes)]
    batch = lab.directory / "routes.batch"
    batch.write_text("\n".join(lines) + "\n")
    run("ip", "-n", namespace, "-batch", str(batch))
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1")


class RoutedXoff:
    """A switch whose ports are routed by the kernel of a namespace, with so many routes beside those that are used."""

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
        config = lab.directory / "xoff.toml"
        config.write_text(text)
        pid = lab.start(lab.switch, self.binary, "run", "--config", str(config), ready="running").pid
        configure(netns, lab, pair, self.routes)
        wanted = self.routes + len(pair.stations)

        def knows():
            status = json.loads(run(self.binary, "status", "--json", "--url", f"unix:{socket}"))
            return status["router"]["routes_v4"] >= wanted

        await_that("the switch to know all routes", knows)
        return pid


class KernelRouter:
    """The kernel's own routing: its work is done in the sender's context, on the sender's core."""

    thread = None
    routes_packets = True

    def start(self, lab, pairs):
        [pair] = pairs
        configure(lab.switch, lab, pair, 0)  # addresses and stations go with the devices


class RoutingOpenVswitch(OpenVswitch):
    """The userspace datapath, told by OpenFlow what a router does: addresses are rewritten, a hop is taken off."""

    routes_packets = True

    def start(self, lab, pairs):
        [pair] = pairs
        pid = super().start(lab, pairs)
        own = address_of(lab, pair.two)
        for mac in pair.stations:
            flow = f"ip,nw_dst=10.2.0.{int(mac[-2:], 16)},actions=mod_dl_src:{own},mod_dl_dst:{mac},dec_ttl,output:{pair.two}"
            run("ovs-ofctl", "add-flow", f"unix:{lab.directory}/ovs/br-ovs.mgmt", flow)
        return pid
