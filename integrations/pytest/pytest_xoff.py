"""A network of hosts and switches for a test: `xoff lab` as a fixture.

    import pytest

    @pytest.mark.xoff_lab("lab.toml")
    def test_reaches(xoff_lab):
        assert "1 received" in xoff_lab.exec("h1", "ping", "-c1", "h2").stdout

The file's path is relative to the test's directory. The network starts before the test and is removed after it. The
test fails if a frame of a lossless class was lost, or if a loss cannot be excluded. With
`@pytest.mark.xoff_lab("lab.toml", lossless=False)` it does not; the account that `xoff_lab.down()` returns has the
losses. The environment variable XOFF is the path of the binary; default: `xoff` on the PATH.
"""

import json
import os
import subprocess

import pytest


class LabError(Exception):
    """A network that could not be started or stopped, or a program in it that failed."""


class Lab:
    """A running network."""

    def __init__(self, file):
        self.name, self.account, self.code = None, None, None
        self.name = self._xoff("up", str(file)).strip()

    @staticmethod
    def _command(*arguments):
        return [os.environ.get("XOFF", "xoff"), "lab", *arguments]

    def _xoff(self, *arguments):
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"xoff lab {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def command(self, node, *arguments):
        """Returns the command line that runs a program at a node, for `subprocess.Popen` with the environment `env()`."""
        return self._command("exec", node, "--", *map(str, arguments))

    def env(self):
        return {**os.environ, "XOFF_LAB": self.name}

    def exec(self, node, *arguments, check=True, **options):
        """Runs a program at a node and waits for its end, like `subprocess.run` with text output. `check`: it must
        succeed."""
        options = {"capture_output": True, "text": True, **options}
        done = subprocess.run(self.command(node, *arguments), env=self.env(), **options, check=False)
        if check and done.returncode != 0:
            output = "".join(filter(None, (done.stdout, done.stderr)))
            raise LabError(f"{node}: {' '.join(map(str, arguments))} ended with {done.returncode}: {output.strip()}")
        return done

    def popen(self, node, *arguments, **options):
        """Starts a program at a node. It is terminated when the network is removed."""
        return subprocess.Popen(self.command(node, *arguments), env=self.env(), **{"text": True, **options})

    def down(self):
        """Removes the network, and returns its account. Sets `code`, the exit code: 0 if no lossless frame was lost."""
        if self.account is None:
            done = subprocess.run(
                self._command("down", "--json", "--lab", self.name), capture_output=True, text=True, check=False
            )
            self.code = done.returncode
            try:
                self.account = json.loads(done.stdout)
            except ValueError:
                raise LabError(f"xoff lab down ended with {done.returncode}: {done.stderr.strip()}") from None
        return self.account


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "xoff_lab(file, lossless=True): network file of the fixture xoff_lab; lossless: fail the test if a lossless frame was or may have been lost",
    )


@pytest.fixture
def xoff_lab(request):
    """Yields the network of the test's mark `xoff_lab`, and removes it after the test."""
    mark = request.node.get_closest_marker("xoff_lab")
    if mark is None or len(mark.args) != 1:
        pytest.fail(
            'the fixture xoff_lab needs a mark with a network file: @pytest.mark.xoff_lab("lab.toml")', pytrace=False
        )
    lab = Lab(request.path.parent / mark.args[0])
    try:
        yield lab
    finally:
        account = lab.down()
    if mark.kwargs.get("lossless", True) and lab.code != 0:
        pytest.fail(
            f"the network was not lossless (exit code {lab.code}): {json.dumps(account['verdict'])}", pytrace=False
        )
