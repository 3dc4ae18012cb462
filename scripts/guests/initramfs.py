"""A guest's only file system: busybox, a test's programs with their libraries, and the kernel's modules.

The kernel unpacks it into memory from an archive (cpio, Documentation/driver-api/early-userspace/buffer-format.rst).
"""

import lzma
import re
import stat
import subprocess
from pathlib import Path

# Runs each line received over a virtio port as a command, and sends its exit code, output length and output.
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /usr/bin /usr/sbin /sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ XOFF_GUEST=1
ulimit -n 65536
ulimit -l unlimited
ip link set lo up
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
load virtio_pci
load virtio_console
until (: 3<>/dev/vport0p1) 2>/dev/null; do mdev -s; sleep 0.1; done
exec 3<>/dev/vport0p1
echo ready >&3
while read -r line <&3; do
    echo "$line" | base64 -d >/tmp/command
    dash /tmp/command </dev/null >/tmp/output 2>&1 3>&-
    code=$?
    echo "$code $(stat -c %s /tmp/output)" >&3
    cat /tmp/output >&3
done
"""

# Loads modules that the kernel requests, if the archive has them.
MODPROBE = """#!/bin/busybox sh
[ ! -e "/modules/$3.needs" ] || exec /sbin/load "$3"
"""

LOAD = """#!/bin/busybox sh
for one in $(/bin/busybox cat "/modules/$1.needs"); do
    [ -d "/sys/module/$one" ] || /bin/busybox insmod "/modules/$one.ko" || [ -d "/sys/module/$one" ] || exit
done
"""

MODULES = (
    "virtio_pci", "virtio_console", "virtio_net", "igb", "e1000e", "e1000", "vmxnet3", "af_packet", "rdma_rxe", "ib_uverbs", "crc32_generic",
    "rdma_ucm", "sch_plug", "sch_prio", "sch_tbf", "sch_htb", "sch_fifo", "sch_ets", "sch_ingress", "cls_bpf", "cls_u32",
    "bonding", "cls_flower", "cls_matchall", "act_mirred", "act_bpf", "act_skbedit", "act_gact", "dummy", "veth", "veth",
)  # fmt: skip


class Initramfs:
    """A builder of the archive."""

    def __init__(self):
        self.entries = {}
        for directory in ("bin", "dev", "tmp"):
            self._directory(directory)
        for name, text in (("init", INIT), ("sbin/modprobe", MODPROBE), ("sbin/load", LOAD)):
            self.file(name, text.encode(), 0o755)

    def file(self, path, data, mode=0o644):
        for parent in reversed(Path(path).parents[:-1]):
            self._directory(str(parent))
        self.entries[path] = (stat.S_IFREG | mode, data)

    def program(self, path, packages, name=None, where="usr/bin"):
        """Adds a program and its libraries."""
        path = Path(path)
        self.file(f"{where}/{name or path.name}", stripped(path), 0o755)
        self._libraries(path, packages)

    def plugin(self, path, packages):
        """Adds a plugin that a program loads by its path, and the plugin's libraries."""
        top = packages.root if packages.root in path.parents else "/"
        self.file(str(path.relative_to(top)), stripped(path), 0o755)
        self._libraries(path, packages)

    def _libraries(self, path, packages):
        told = subprocess.run(
            ["ldd", path], capture_output=True, text=True, env=packages.environment(), check=False
        ).stdout
        for library in re.findall(r"(/\S+) \(0x", told):
            self.library(library)

    def library(self, path):
        """Adds a library under its requested name, where the loader searches first."""
        name = Path(path).name
        where = f"lib64/{name}" if name.startswith("ld-linux") else f"lib/x86_64-linux-gnu/{name}"
        if where not in self.entries:
            self.file(where, stripped(Path(path)), 0o755)

    def modules(self, kernel):
        """Adds the modules and, for each, the modules to load in order. Missing ones are built into the kernel."""
        paths = {path.name.split(".")[0].replace("-", "_"): path for path in kernel.modules.rglob("*.ko*")}
        needs, aliases = {}, {}

        def add(name):
            if name in needs or name not in paths:
                return
            data = paths[name].read_bytes()
            data = lzma.decompress(data) if paths[name].suffix == ".xz" else data
            found = re.search(rb"\0depends=([^\0]*)\0", data)
            below = [one.replace("-", "_") for one in found[1].decode().split(",") if one] if found else []
            needs[name] = below
            aliases[name] = [one.decode() for one in re.findall(rb"\0alias=([\w-]+)\0", data)]
            self.file(f"modules/{name}.ko", data)
            for one in below:
                add(one)

        def order(name):
            return [one for below in needs.get(name, []) for one in order(below)] + [name] if name in needs else []

        for name in MODULES:
            add(name)
            for known_as in (name, *aliases.get(name, [])):
                self.file(f"modules/{known_as}.needs", "\n".join(dict.fromkeys(order(name))).encode())

    def write(self, path):
        with Path(path).open("wb") as out:
            for number, (name, (mode, data)) in enumerate({**self.entries, "TRAILER!!!": (0, b"")}.items(), start=1):
                links = 2 if stat.S_ISDIR(mode) else 1
                fields = (number, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
                head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
                out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

    def _directory(self, path):
        for one in [*reversed(Path(path).parents[:-1]), Path(path)]:
            self.entries.setdefault(str(one), (stat.S_IFDIR | 0o755, b""))


def stripped(path):
    """Returns the file without symbols, which would use the guest's memory."""
    done = subprocess.run(["strip", "-o", "/dev/stdout", path], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 and done.stdout else path.read_bytes()
