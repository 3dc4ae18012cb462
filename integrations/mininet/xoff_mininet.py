"""Mininet with lossless switches: `Switch`, `Host` and `Link` classes that run xoff.

    from mininet.topo import SingleSwitchTopo
    from xoff_mininet import XoffNet

    net = XoffNet(SingleSwitchTopo(3))
    net.start()
    net.pingAll()
    net.stop()
    print(net.verdicts())               # {'s1': 0}: nothing lossless was lost

or, without a script:

    mn --custom xoff_mininet.py --switch xoff --host xoff --link xoff --controller none --test pingall

Each switch is an `xoff run` in a namespace of its own, and each host runs `xoff nic`, which makes its kernel obey
pauses. A link has a speed, which is set at both ends. The environment variable XOFF is the path of the binary; default:
`xoff` on the PATH. See docs/integrations.md.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from mininet.link import Intf, Link
from mininet.log import error, info, warn
from mininet.net import Mininet
from mininet.node import Host, Switch

SPEED_MBPS = 100.0
MTU = 1500
# Maximum wait for a program, longer than it takes on a busy machine.
PATIENCE_S = 30.0


class XoffError(Exception):
    """A network element that cannot be created, or a program of it that failed."""


def xoff():
    """Returns the path of the binary."""
    name = os.environ.get("XOFF", "xoff")
    found = shutil.which(name)
    if found is None:
        raise XoffError(f"program {name!r} not found: put xoff on the PATH, or set XOFF to its path")
    return os.path.abspath(found)


def toml(table, path=""):
    """Formats a table of values, lists and tables as TOML. A list of tables becomes an array of tables (`[[name]]`)."""
    plain, below = [], []
    for key, value in table.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict):
            below.append(f"[{name}]\n{toml(value, name)}")
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            below.extend(f"[[{name}]]\n{toml(entry, name)}" for entry in value)
        else:
            plain.append(f"{key} = {json.dumps(value)}\n")
    return "".join(plain + below)


class Program:
    """A long-running command of xoff at a node. It ends when this process ends, even if that is killed."""

    def __init__(self, node, arguments, log, ready):
        self.name, self.log = f"{node.name}: xoff {arguments[0]}", log
        with open(log, "ab") as out:
            self.process = node.popen(
                ["setpriv", "--pdeathsig", "TERM", xoff(), *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            if self.process.poll() is not None:
                raise XoffError(f"{self.name} ended with {self.process.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.stop()
                raise XoffError(f"{self.name} is not ready after {PATIENCE_S:.0f} s:\n{self.output()}")
            time.sleep(0.02)

    def running(self):
        return self.process.poll() is None

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read().strip()

    def stop(self):
        """Terminates the program, and returns its exit code."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def ip(node, *arguments):
    """Runs `ip` at a node.

    Raises XoffError if it fails.
    """
    _, message, code = node.pexec(["ip", *arguments])
    if code != 0:
        raise XoffError(f"{node.name}: ip {' '.join(arguments)}: {message.strip()}")


class XoffIntf(Intf):
    """One end of an `XoffLink`."""

    def config(self, mtu=MTU, **params):
        result = Intf.config(self, **params)
        ip(self.node, "link", "set", self.name, "mtu", str(mtu))
        if not isinstance(self.node, Switch):
            # A veth sends frames without checksums and unsegmented, and the switch would forward these unchanged.
            self.node.pexec(["ethtool", "-K", self.name, "tx", "off", "tso", "off", "gro", "on"])
        return result

    def delete(self):
        # Mininet calls this for the interfaces of a deleted host; the other end of the link must go, too.
        if self.link:
            self.link.delete()


class XoffLink(Link):
    """A link with a speed, which is set at the switch's port and the host's agent.

    bw: Mb/s (default 100); mtu: maximum payload of a frame in bytes; port: more keys of the switch's `[[port]]`.
    """

    def __init__(self, node1, node2, bw=None, mtu=MTU, port=None, **params):
        for name in ("delay", "jitter", "loss", "max_queue_size", "use_tbf", "use_hfsc", "enable_ecn", "enable_red"):
            if params.pop(name, None):
                raise XoffError(
                    f"{node1}-{node2}: {name} is not supported: a lossless link has only a speed (bw) and an MTU (mtu). Queueing "
                    "disciplines such as netem have no effect here, because the switch sends by AF_XDP, and at a host `xoff nic` "
                    "is the queueing discipline. Remove it, or use `pipeline.delay`, `ecn_min` or `egress_max` of the switch "
                    "(XoffSwitch config=)"
                )
        self.speed = round((SPEED_MBPS if bw is None else float(bw)) * 1e6)
        if self.speed < 1_000_000:
            raise XoffError(f"{node1}-{node2}: bw={bw} is too slow: a link needs at least 1 Mb/s")
        self.mtu, self.port_keys = mtu, dict(port or {})
        self.nodes, self.deleted = (node1, node2), False
        self._parked = None
        self._take_parked(params)
        params.update(cls1=XoffIntf, cls2=XoffIntf, mtu=mtu)
        Link.__init__(self, node1, node2, **params)
        for node in self.nodes:
            if isinstance(node, XoffSwitch):
                node.link_added(self)
        if any(switch.running() for switch in self.switches()):
            for end in self.ends():
                if isinstance(end.node, XoffHost):
                    end.node.start_agent(end)

    def switches(self):
        return [node for node in self.nodes if isinstance(node, XoffSwitch)]

    def ends(self):
        return [end for end in (getattr(self, "intf1", None), getattr(self, "intf2", None)) if end]

    def _take_parked(self, params):
        """Takes an unused port of a running switch with the link's speed and MTU, if there is one."""
        for at, (switch, other) in enumerate((self.nodes, self.nodes[::-1])):
            if (
                isinstance(switch, XoffSwitch)
                and not isinstance(other, XoffSwitch)
                and not self.port_keys
                and params.get(f"port{at + 1}") is None
            ):
                number = switch.take_parked(self.speed, self.mtu)
                if number is not None:
                    self._parked = switch
                    params[f"port{at + 1}"] = number

    def makeIntfPair(self, intfname1, intfname2, addr1=None, addr2=None, node1=None, node2=None, deleteIntfs=True):
        if self._parked is None:
            return Link.makeIntfPair(intfname1, intfname2, addr1, addr2, node1, node2, deleteIntfs=deleteIntfs)
        ends = [(node1, intfname1, addr1), (node2, intfname2, addr2)]
        (_, port, _), (host, device, address) = ends if node1 is self._parked else ends[::-1]
        ip(self._parked, "link", "set", parked(port), "netns", str(host.pid), "name", device)
        if address:
            ip(host, "link", "set", device, "address", address)
        return None

    def delete(self):
        """Removes the link. A running switch keeps its port and veth pair for a later link."""
        if self.deleted:
            return
        self.deleted = True
        ends = self.ends()
        for end in ends:
            if isinstance(end.node, XoffHost):
                end.node.stop_agent(end)
        switches = [switch for switch in self.switches() if switch.running()]
        if len(switches) == 1 and len(self.switches()) == 1:
            port = next(end for end in ends if end.node is switches[0])
            host = next(end for end in ends if end.node is not switches[0])
            switches[0].park(port, host)
            again = []
        else:
            # A running switch whose port loses its device reports a failure, and the counters of the device are lost.
            again = switches
            for switch in again:
                warn(f"*** {switch.name} is restarted without {self}: {RESTART}\n")
                switch.halt()
            ip(ends[0].node, "link", "delete", ends[0].name)
        for end in ends:
            end.node.delIntf(end)
            end.link = None
        for switch in again:
            switch.launch()

    def stop(self):
        # Stop the switches first, because they report removed devices as failures.
        for switch in self.switches():
            switch.halt()
        self.delete()


RESTART = (
    "frames inside it and those that arrive meanwhile are lost, also lossless ones, and it must learn addresses again; "
    "its verdict so far is kept (`verdicts`)"
)


def parked(port):
    """Returns the name of the other end of an unused port's veth pair."""
    return f"{port}p"


class XoffSwitch(Switch):
    """`xoff run` in a namespace of its own.

    config: more keys of its configuration, as tables, such as {'class': {3: {'xoff': '200KB'}}}.
    spare: number of unused ports at start, for hosts that are added later; spare_bw: their speed in Mb/s.
    """

    def __init__(self, name, config=None, spare=2, spare_bw=SPEED_MBPS, dpid=None, **params):
        params["inNamespace"] = True
        Switch.__init__(self, name, dpid=dpid or "0", **params)
        self.controlIntf = None
        self.more, self.spare, self.spare_speed = dict(config or {}), spare, round(spare_bw * 1e6)
        self.program, self.codes = None, []
        # Speed and MTU by port number: of unused ports, and of all ports of the running switch.
        self.parked, self.known = {}, {}
        self.directory = tempfile.mkdtemp(prefix=f"xoff-{name}-")

    def running(self):
        return self.program is not None

    def connected(self):
        return self.running() and self.program.running()

    def defaultIntf(self):
        return None

    def newPort(self):
        taken = [*self.ports.values(), *self.parked]
        return max(taken) + 1 if taken else self.portBase

    def port_name(self, number):
        return f"{self.name}-eth{number}"

    def start(self, controllers=()):
        ip(self, "link", "set", "lo", "up")
        for _ in range(self.spare):
            number = self.newPort()
            port = self.port_name(number)
            ip(self, "link", "add", port, "type", "veth", "peer", "name", parked(port))
            ip(self, "link", "set", port, "up")
            self.parked[number] = (self.spare_speed, MTU)
        self.launch()

    def configuration(self):
        """Returns the switch's configuration as TOML."""
        tables = {name: value for name, value in self.more.items() if name != "port"}
        tables["switch"] = {"name": self.name, **tables.get("switch", {})}
        ports = []
        for number in sorted({*self.parked, *self.intfs}):
            name = self.port_name(number)
            if number in self.parked:
                (speed, mtu), keys = self.parked[number], {}
            else:
                link = self.intfs[number].link
                if not isinstance(link, XoffLink):
                    raise XoffError(
                        f"{name}: a port of xoff needs an XoffLink: addLink(.., cls=XoffLink), or Mininet(link=XoffLink)"
                    )
                name, speed, mtu, keys = self.intfs[number].name, link.speed, link.mtu, link.port_keys
            ports.append({"name": name, "device": name, "speed": str(speed), "mtu": mtu, **keys})
            self.known[number] = (speed, mtu)
        tables["port"] = ports
        return toml(tables)

    def launch(self):
        self.known = {}
        file = os.path.join(self.directory, "switch.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(self.configuration())
        log = os.path.join(self.directory, f"log-{len(self.codes)}")
        ready = lambda: self.pexec([xoff(), "status", "--json"])[2] == 0
        self.program = Program(self, ["run", file], log, ready)

    def status(self):
        """Returns the switch's status as parsed JSON."""
        status, message, code = self.pexec([xoff(), "status", "--json"])
        if code != 0:
            raise XoffError(f"{self.name}: {message.strip()}")
        return json.loads(status)

    def halt(self):
        """Stops the switch, and keeps its exit code."""
        if self.program is None:
            return
        program, self.program = self.program, None
        code = program.stop()
        self.codes.append(code)
        last = program.output().splitlines()[-1:]
        (info if code == 0 else error)(f"{self.name}: exit code {code}: {''.join(last)}\n")

    def restart(self):
        self.halt()
        self.launch()

    def link_added(self, link):
        """Restarts the running switch if it has no port for a new link."""
        unknown = [end for end in link.ends() if end.node is self and self.ports[end] not in self.known]
        if self.running() and unknown:
            warn(
                f"*** {self.name} is restarted with {unknown[0]}: it has no spare port of that speed and MTU. {RESTART}\n"
            )
            self.restart()

    def take_parked(self, speed, mtu):
        number = next((number for number in sorted(self.parked) if self.parked[number] == (speed, mtu)), None)
        if self.running() and number is not None:
            del self.parked[number]
            return number
        return None

    def park(self, port, host):
        """Sets the host's end of a link down and takes it back, so that the port only loses its link."""
        number = self.ports[port]
        ip(host.node, "link", "set", host.name, "down")
        ip(host.node, "link", "set", host.name, "netns", str(self.pid), "name", parked(port.name))
        self.parked[number] = self.known[number]

    def stop(self, deleteIntfs=True):
        self.halt()
        Switch.stop(self, deleteIntfs)
        for number in self.parked:
            ip(self, "link", "delete", self.port_name(number))
        self.parked = {}

    def terminate(self):
        self.halt()
        Switch.terminate(self)
        shutil.rmtree(self.directory, ignore_errors=True)


class XoffHost(Host):
    """A host that obeys pauses: an agent (`xoff nic`) runs on each of its `XoffLink`s.

    nic: more keys of the agent's configuration, such as {'lossless': [3, 4]}; False: no agent, so the host does not
    obey.
    """

    def __init__(self, name, nic=True, **params):
        Host.__init__(self, name, **params)
        self.nic = {} if nic is True else nic
        self.agents, self.directory = {}, tempfile.mkdtemp(prefix=f"xoff-{name}-")

    def config(self, **params):
        result = Host.config(self, **params)
        for intf in self.intfList():
            self.start_agent(intf)
        return result

    def start_agent(self, intf):
        """Starts an agent for an interface, and waits until it controls the interface."""
        if self.nic is False or intf in self.agents or not isinstance(intf.link, XoffLink):
            return
        keys = {"device": intf.name, "speed": str(intf.link.speed), "http": False, **self.nic}
        file = os.path.join(self.directory, f"{intf.name}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(toml({"nic": keys}))
        log = os.path.join(self.directory, f"{intf.name}.log")
        ready = lambda: QUEUES in self.pexec(["tc", "qdisc", "show", "dev", intf.name])[0]
        self.agents[intf] = Program(self, ["nic", file], log, ready)

    def stop_agent(self, intf):
        agent = self.agents.pop(intf, None)
        if agent is not None and (code := agent.stop()) != 0:
            error(f"{self.name}: `xoff nic` ended with {code}: {agent.output()}\n")

    def terminate(self):
        for intf in list(self.agents):
            self.stop_agent(intf)
        Host.terminate(self)
        shutil.rmtree(self.directory, ignore_errors=True)


# Handle of the queueing discipline that the agent installs.
QUEUES = " 786e: "


class XoffNet(Mininet):
    """Mininet with these classes as defaults, and without a controller."""

    def __init__(self, topo=None, switch=XoffSwitch, host=XoffHost, link=XoffLink, controller=None, **params):
        Mininet.__init__(self, topo, switch=switch, host=host, link=link, controller=controller, **params)

    def verdicts(self):
        """Returns the exit code of each stopped switch: 0: no lossless frame was lost, 1: some were, 3: a loss cannot be
        excluded. For a switch that was restarted, this is the first code that is not 0."""
        ended = [switch for switch in self.switches if isinstance(switch, XoffSwitch) and switch.codes]
        return {switch.name: next((code for code in switch.codes if code != 0), 0) for switch in ended}


# For `mn --custom`.
switches = {"xoff": XoffSwitch}
hosts = {"xoff": XoffHost}
links = {"xoff": XoffLink}
