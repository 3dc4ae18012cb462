"""Builds what is measured: xoff, and the examples of its crates that generate load, with the profile of packages."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent


def xoff(options):
    """Returns the switch: that of `--xoff`, or one that is built after missing Debian packages are installed."""
    if options.xoff:
        return options.xoff
    install()
    cargo("build", "--profile", "dist", "--locked", "--quiet", "--package", "xoff")
    return str(target() / "dist/xoff")


def install():
    """Installs the Debian packages that are missing."""
    checked([str(SCRIPTS / "install-deps.sh"), "--bench"], stdout=sys.stderr)


def example(package, name):
    """Returns the example `name` of a crate. It is built apart from the switch, whose features thus stay its own."""
    cargo("build", "--profile", "dist", "--locked", "--quiet", "--package", package, "--example", name)
    return str(target() / "dist/examples" / name)


def generator():
    """Returns the program that generates, drops and loops frames, of a workspace of its own."""
    install()
    manifest = ["--manifest-path", "xdp/peer/Cargo.toml", "--target-dir", str(target())]
    cargo("build", "--profile", "dist", "--quiet", *manifest)
    return str(target() / "dist/bench")


def cargo(*arguments):
    """Runs cargo and returns its standard output. `find-cargo.sh` finds it under sudo, too."""
    script = 'source scripts/find-cargo.sh && exec cargo "$@"'
    return checked(["bash", "-c", script, "cargo", *arguments], stdout=subprocess.PIPE).stdout


def checked(command, stdout):
    """Runs a command in the root of the tree. Ends the process with status 2 where it fails: it has reported why."""
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, text=True, check=False)
    if done.returncode != 0:
        sys.exit(2)
    return done


def target():
    """Returns the directory of cargo's results."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
