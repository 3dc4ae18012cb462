"""Builds an archive for each kernel, with the binary under test, and starts guests from it."""

from guest import Guest
from initramfs import Initramfs

TOOLS = ("dash", "ip", "tc", "ethtool")


class Workshop:
    def __init__(self, packages, xoff, directory):
        self.packages, self.xoff, self.directory = packages, xoff, directory
        self.archives = {}

    def archive(self, kernel, programs=(), libraries=(), built=None):
        """Builds an archive. `built` maps places in the guest to programs built by cargo."""
        key = (kernel, programs)
        if key not in self.archives:
            made = Initramfs()
            made.program(self.packages.program("busybox"), self.packages, where="bin")
            for name in (*TOOLS, *programs):
                made.program(self.packages.program(name), self.packages)
            made.program(self.xoff, self.packages, name="xoff")
            for place, path in (built or {}).items():
                where, _, name = place.strip("/").rpartition("/")
                made.program(path, self.packages, name=name, where=where)
            for library in libraries:
                made.plugin(library, self.packages)
            made.file("etc/libibverbs.d/rxe.driver", b"driver rxe\n")
            made.modules(self.packages.kernel(kernel))
            path = self.directory / f"initramfs-{len(self.archives)}"
            made.write(path)
            self.archives[key] = path
        return self.archives[key]

    def start(self, kernel, name, devices, archive=None, **size):
        archive = archive or self.archive(kernel)
        return Guest(self.packages, self.packages.kernel(kernel), archive, self.directory, name, devices, **size)
