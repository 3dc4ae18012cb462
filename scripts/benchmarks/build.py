"""Builds xoff and the load generators among its crates' examples, with the profile of packages."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent


def xoff(options):
    """Returns the switch given by `--xoff`, or installs missing Debian packages and builds one."""
    if options.xoff:
        return options.xoff
    install()
    cargo("build", "--profile", "dist", "--locked", "--quiet", "--package", "xoff")
    return str(target() / "dist/xoff")


def install():
    """Installs the Debian packages that are missing."""
    checked([str(SCRIPTS / "install-deps.sh"), "--bench"], stdout=sys.stderr)


def example(package, name):
    """Builds and returns the example `name` of a crate. A separate build leaves the switch's features unchanged."""
    cargo("build", "--profile", "dist", "--locked", "--quiet", "--package", package, "--example", name)
    return str(target() / "dist/examples" / name)


def generator():
    """Builds and returns the program that generates, drops and loops frames, which has its own workspace."""
    install()
    manifest = ["--manifest-path", "xdp/peer/Cargo.toml", "--target-dir", str(target())]
    cargo("build", "--profile", "dist", "--quiet", *manifest)
    return str(target() / "dist/bench")


def cargo(*arguments):
    """Runs cargo, also under sudo, and returns its standard output."""
    script = 'source scripts/find-cargo.sh && exec cargo "$@"'
    return checked(["bash", "-c", script, "cargo", *arguments], stdout=subprocess.PIPE).stdout


def checked(command, stdout):
    """Runs a command in the root of the tree. Its failure ends the process with status 2; the command prints the reason."""
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, text=True, check=False)
    if done.returncode != 0:
        sys.exit(2)
    return done


def target():
    """Returns the directory of cargo's results."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
