"""Forwarders between pairs of veth ends in the namespace `switch`.

Pair n forwards between s<2n-1> and s<2n>. `start` returns the process id, if any; the lab's scope ends the process.
`thread` matches the names of forwarding threads. `routes_packets` is true if frames have the router's MAC address.
"""

from benchmarks.process import run

XOFF_CONFIG = """
[switch]
http = false
log = "info"
workers = [{workers}]
"""

# Buffers as small as those of the others: lossless only without long stalls and with longer frames on average.
XOFF_LIKE_OTHERS = """
poll = "busy"
stall_budget = "50us"  # with this and
smallest_frame = 2560  # this, 2,180 frames in an RX ring; the others have 2,048

[defaults]
speed = "100G"  # more than any of them reaches: no other has a line rate to keep
"""

# Defaults, except for a core per worker (XOFF_CONFIG), as the others have: by default only isolated cores are pinned.
XOFF_BY_DEFAULT = """
[defaults]
speed = "10G"
"""

XOFF_PORT = """
[[port]]
name = "{device}"
device = "{device}"
"""

XOFF_STATION = """
[[fdb.static]]
mac = "{mac}"
port = "{device}"
"""


class Pair:
    """Two ports, the forwarding core, and the stations behind the second port."""

    def __init__(self, number, core, stations):
        self.one, self.two = f"s{2 * number - 1}", f"s{2 * number}"
        self.core, self.stations = core, stations


class Xoff:
    """A switch with bridging, eight queues per port, PFC for class 3, and one worker per pair."""

    thread = "^xoff-worker"
    routes_packets = False

    def __init__(self, binary, settings):
        self.binary, self.settings = binary, settings

    def start(self, lab, pairs):
        workers = (f'{{ core = {pair.core}, ports = ["{pair.one}", "{pair.two}"] }}' for pair in pairs)
        text = [XOFF_CONFIG.format(workers=", ".join(workers)), self.settings]
        for pair in pairs:
            text += [XOFF_PORT.format(device=device) for device in (pair.one, pair.two)]
            text += [XOFF_STATION.format(mac=mac, device=pair.two) for mac in pair.stations]
        process, _ = lab.start_switch(self.binary, "".join(text))
        return process.pid


class DescriptorLoop:
    """A loop without switching: frames received at one port leave by the other.

    Without `rings` the loop uses the crate xsk-rs directly; with `rings` it uses the traits of xoff's rings,
    implemented by xoff or by xsk-rs.
    """

    thread = "^bench$"
    routes_packets = False

    def __init__(self, binary, rings=None):
        self.command = [binary, "exchange", rings] if rings else [binary, "forward"]

    def start(self, lab, pairs):
        [pair] = pairs
        command = ["taskset", "--cpu-list", str(pair.core), *self.command, pair.one, pair.two]
        return lab.start(lab.switch, *command, ready="ready").pid


class Testpmd:
    """DPDK's example forwarder, from one port to the other without looking at frames."""

    thread = "^(dpdk|rte)-worker|^lcore-worker"
    routes_packets = False

    def __init__(self, main_core):
        self.main_core = main_core

    def start(self, lab, pairs):
        [pair] = pairs
        ports = [f"--vdev=net_af_xdp{n},iface={device}" for n, device in enumerate((pair.one, pair.two))]
        command = ["dpdk-testpmd", "--no-huge", "-m", "512", "--no-pci", "--file-prefix", lab.tag]
        command += ["-l", f"{pair.core},{self.main_core}", "--main-lcore", str(self.main_core), *ports, "--"]
        command += ["--forward-mode=io", "--nb-cores=1", "--auto-start", "--stats-period=3600"]
        command += ["--total-num-mbufs=16384"]
        return lab.start(lab.switch, *command, ready="packet forwarding - ports=2").pid


class OpenVswitch:
    """A learning bridge of the userspace datapath, with its own daemon and database."""

    thread = "^pmd"
    routes_packets = False

    def start(self, lab, pairs):
        [pair] = pairs
        home = lab.directory / "ovs"
        home.mkdir(exist_ok=True)
        for old in home.iterdir():
            old.unlink()
        env = {f"OVS_{name}": str(home) for name in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}
        database, remote, control = home / "conf.db", home / "db.sock", str(home / "ctl")
        run("ovsdb-tool", "create", str(database), "/usr/share/openvswitch/vswitch.ovsschema")
        command = ["ovsdb-server", str(database), f"--remote=punix:{remote}", f"--unixctl={home / 'db.ctl'}"]
        lab.start(lab.switch, *command, "--no-chdir", env=env)
        lab.wait_for("ovsdb-server", remote.exists)

        def vsctl(*command):
            run("ovs-vsctl", f"--db=unix:{remote}", *command)

        vsctl("--no-wait", "init")
        vsctl("--no-wait", "set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={1 << pair.core:#x}")
        pid = lab.start(lab.switch, "ovs-vswitchd", f"unix:{remote}", f"--unixctl={control}", "--no-chdir", env=env).pid
        lab.undo.callback(run, "ovs-appctl", "--timeout=15", "-t", control, "exit", "--cleanup")
        vsctl("--timeout=15", "add-br", "br-ovs", "--", "set", "bridge", "br-ovs", "datapath_type=netdev")
        for port in (pair.one, pair.two):
            vsctl("--timeout=15", "add-port", "br-ovs", port, "--", "set", "interface", port, "type=afxdp")
        for mac in pair.stations:
            run("ovs-appctl", "--timeout=15", "-t", control, "fdb/add", "br-ovs", pair.two, "0", mac)
        return pid


class KernelBridge:
    """The kernel's bridge, which runs in the sender's context on the sender's core."""

    thread = None
    routes_packets = False

    def start(self, lab, pairs):
        [pair] = pairs
        lab.ip(lab.switch, "link add br-kernel type bridge")
        lab.undo.callback(lab.ip, lab.switch, "link del br-kernel")
        for port in (pair.one, pair.two):
            lab.ip(lab.switch, f"link set {port} master br-kernel")
        for mac in pair.stations:
            run("bridge", "-n", lab.switch, "fdb", "replace", mac, "dev", pair.two, "master", "static")
        lab.ip(lab.switch, "link set br-kernel up")
