"""Debian packages for the guests: QEMU, kernels, and programs that this machine lacks.

Packages are unpacked into a cache directory and not installed. apt uses its own sources, lists and archives there.
Dependencies that this machine has are taken from it.
"""

import os
import re
import subprocess
from pathlib import Path

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("bookworm", "bookworm-updates", "bookworm-backports", "trixie-backports")
PROGRAMS = ("qemu-system-x86", "busybox-static", "ethtool", "perftest", "ibverbs-providers", "ibverbs-utils")

# Suites by the name that --kernel takes. The last is of the next Debian, for newer drivers.
KERNELS = {"6.1": "bookworm", "6.12": "bookworm-backports", "newest": "trixie-backports"}

SETTINGS = """
Dir::Etc::SourceList "{apt}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "{apt}/preferences";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State::Lists "{apt}/lists";
Dir::Cache::Archives "{apt}/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Default-Release "bookworm";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Debug::NoLocking "true";
"""

# The next Debian provides only packages requested by version.
PREFERENCES = """
Package: *
Pin: release n=trixie-backports
Pin-Priority: -1
"""


def mirror():
    """Returns the URL of Debian 12 in this machine's apt sources."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    targets = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    places = [line.split()[0] for line in targets if line.endswith(" bookworm")]
    if not places:
        raise SystemExit("this machine's apt has no sources of Debian 12 (bookworm)")
    return places[0]


class Kernel:
    """An unpacked kernel."""

    def __init__(self, directory):
        self.image = next(directory.rglob("vmlinuz*"))
        self.modules = next(path for path in directory.rglob("modules/*") if (path / "kernel").is_dir())
        self.release = self.modules.name


class Packages:
    """The cache: `root` has programs and libraries in their installed places."""

    def __init__(self, directory):
        self.directory = Path(directory).resolve()
        self.root = self.directory / "root"
        self.apt = self.directory / "apt"

    def fetch(self, kernels):
        """Downloads missing packages; existing ones are not updated."""
        wanted = [name for name in kernels if not self._is_whole(self.directory / "kernels" / name)]
        if not wanted and self._is_whole(self.root):
            return
        self._set_up()
        if not self._is_whole(self.root):
            self._apt("install", "--download-only", "--yes", "--target-release", "bookworm-backports", *PROGRAMS)
            self._unpack((self.apt / "archives").glob("*.deb"), self.root)
        for name in wanted:
            self._fetch_kernel(name)

    def kernel(self, name):
        return Kernel(self.directory / "kernels" / name)

    def libraries(self):
        """Returns the directories of unpacked libraries."""
        return [self.root / top / "x86_64-linux-gnu" for top in ("usr/lib", "lib")]

    def environment(self):
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, self.libraries()))}

    def qemu(self):
        """Returns the command that runs QEMU."""
        share = self.root / "usr/share"
        firmware = [share / "qemu", share / "seabios", self.root / "usr/lib/ipxe/qemu"]
        paths = [argument for path in firmware for argument in ("-L", str(path))]
        return [str(self.root / "usr/bin/qemu-system-x86_64"), *paths]

    def program(self, name):
        """Returns the path of a program, unpacked or of this machine."""
        for top in (self.root, Path("/")):
            for directory in ("usr/sbin", "usr/bin", "sbin", "bin"):
                if (path := top / directory / name).is_file():
                    return path
        raise RuntimeError(
            f"there is no {name} on this machine; scripts/install-deps.sh --tests installs what is needed"
        )

    def _set_up(self):
        for part in ("lists/partial", "archives/partial"):
            (self.apt / part).mkdir(parents=True, exist_ok=True)
        (self.apt / "settings").write_text(SETTINGS.format(apt=self.apt))
        (self.apt / "preferences").write_text(PREFERENCES)
        debian = mirror()
        sources = "".join(f"deb [signed-by={KEYS}] {debian} {suite} main\n" for suite in SUITES)
        (self.apt / "sources.list").write_text(sources)
        self._apt("update")

    def _apt(self, *arguments, command="apt-get", directory=None):
        environment = {**os.environ, "APT_CONFIG": str(self.apt / "settings"), "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(
            [command, "--quiet", *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, cwd=directory, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{command} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _fetch_kernel(self, name):
        """Downloads the packages of the suite's newest kernel: its image, or image, modules and base."""
        versions = [
            line.split("|") for line in self._apt("madison", "linux-image-amd64", command="apt-cache").splitlines()
        ]
        version = next(version.strip() for _, version, source in versions if f" {KERNELS[name]}/" in source)
        todo, packages = ["linux-image-amd64"], set()
        while todo:
            package = todo.pop()
            packages.add(package)
            told = self._apt("show", f"{package}={version}", command="apt-cache")
            needs = re.search(r"^Depends: (.*)$", told, re.MULTILINE)
            of_it = re.findall(r"(linux-[a-z]+-[^ ,|]*amd64) \(=", needs[1]) if needs else []
            todo.extend(set(of_it) - packages)
        directory = self.apt / f"kernel-{name}"
        directory.mkdir(exist_ok=True)
        self._apt("download", *(f"{package}={version}" for package in sorted(packages)), directory=directory)
        self._unpack(directory.glob("*.deb"), self.directory / "kernels" / name)

    @staticmethod
    def _is_whole(directory):
        return (directory / ".whole").exists()

    @staticmethod
    def _unpack(archives, directory):
        directory.mkdir(parents=True, exist_ok=True)
        for archive in archives:
            subprocess.run(["dpkg-deb", "--extract", archive, directory], check=True)
            archive.unlink()
        (directory / ".whole").touch()
