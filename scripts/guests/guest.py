"""A virtual machine: QEMU's process, the command channel into the guest, and QEMU's monitor."""

import base64
import json
import os
import shlex
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

BOOT_WITHIN_S = 120
COMMAND_WITHIN_S = 120


class Output(NamedTuple):
    code: int
    text: str


def accelerator():
    """Returns QEMU's accelerator arguments. /dev/kvm is not sufficient for KVM inside another virtual machine."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    has_kvm = bool(flags & {"vmx", "svm"}) and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return ["-accel", "kvm", "-cpu", "host"] if has_kvm else ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]


class Guest:
    """A guest that runs until it is closed; QEMU also ends with this process."""

    def __init__(self, packages, kernel, initramfs, directory, name, devices, cores=2, megabytes=1024):
        self.name = name
        self.log = directory / f"{name}.console"
        channel, monitor = directory / f"{name}.channel", directory / f"{name}.monitor"
        command = [
            *packages.qemu(), *accelerator(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35", "-m", str(megabytes), "-smp", str(cores), "-name", name,
            "-kernel", kernel.image, "-initrd", initramfs,
            "-append", "console=ttyS0 panic=-1 quiet mitigations=off net.ifnames=0 random.trust_cpu=on no_timer_check rdinit=/init",
            "-serial", f"file:{self.log}", "-qmp", f"unix:{monitor},server=on,wait=off",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=channel,path={channel},server=on,wait=off",
            "-device", "virtserialport,chardev=channel", *devices,
        ]  # fmt: skip
        self.errors = (directory / f"{name}.qemu").open("w+")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, env=packages.environment(),
        )  # fmt: skip
        try:
            self.channel = self._connect(channel).makefile("rwb")
            self.monitor = self._connect(monitor).makefile("rwb")
            self.monitor.readline()
            self.ask("qmp_capabilities")
        except (ConnectionError, ValueError):
            self.close()
            raise RuntimeError(f"QEMU does not start: {self.last_words()}") from None
        except BaseException:
            self.close()
            raise

    def await_boot(self):
        line = self._within(BOOT_WITHIN_S, self.channel.readline)
        if line.strip() != b"ready":
            raise RuntimeError(f"guest {self.name} does not start: {self.last_words()}")
        return self

    def last_words(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:] + self.log.read_text(errors="replace")[-3000:]

    def run(self, command, within=COMMAND_WITHIN_S):
        """Runs a command in the guest's shell; returns its exit code and output."""
        self.channel.write(base64.b64encode(command.encode()) + b"\n")
        self.channel.flush()
        head = self._within(within, self.channel.readline)
        if not head:
            raise RuntimeError(f"guest {self.name} ended in {command!r}: {self.last_words()}")
        code, length = map(int, head.split())
        return Output(code, self.channel.read(length).decode(errors="replace"))

    def do(self, command, within=COMMAND_WITHIN_S):
        """Runs a command that must succeed; returns its output."""
        done = self.run(command, within)
        if done.code != 0:
            raise RuntimeError(f"guest {self.name}: {command}: {done.text.strip()}")
        return done.text

    def start(self, command, log):
        """Starts a background process; returns its id."""
        return int(self.do(f"{command} >{log} 2>&1 & echo $!"))

    def load(self, *modules):
        for module in modules:
            self.do(f"load {shlex.quote(module)}")

    def write(self, path, text):
        self.do(f"cat >{path} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")

    def ask(self, command, **arguments):
        """Runs a command of QEMU's monitor (QMP)."""
        self.monitor.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        self.monitor.flush()
        while True:
            answer = json.loads(self.monitor.readline())
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _connect(self, path):
        end = time.monotonic() + BOOT_WITHIN_S
        while time.monotonic() < end and self.process.poll() is None:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
            except OSError:
                connection.close()
                time.sleep(0.02)
                continue
            self.connections = [*getattr(self, "connections", []), connection]
            return connection
        raise RuntimeError(f"QEMU does not start: {self.last_words()}")

    def _within(self, seconds, read):
        self.connections[0].settimeout(seconds)
        try:
            return read()
        except TimeoutError:
            raise RuntimeError(f"guest {self.name} said nothing for {seconds} s: {self.last_words()}") from None
