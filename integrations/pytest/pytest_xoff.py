"""A network of hosts and switches for a test: `xoff lab` as a fixture.

    import pytest

    @pytest.mark.xoff_lab("lab.toml")
    def test_reaches(xoff_lab):
        assert "1 received" in xoff_lab.exec("h1", "ping", "-c1", "h2").stdout

The file is looked for beside the test. The network is up when the test begins and is taken down after it; where it lost
frames of a lossless class, or that cannot be known, the test fails. `@pytest.mark.xoff_lab("lab.toml", lossless=False)`
leaves that to the test, which finds the account by `xoff_lab.down()`. The binary is `xoff` of the PATH, or XOFF.
"""

import json
import os
import subprocess

import pytest


class LabError(Exception):
    """A network, or a program in it, that did not do what it was to do."""


class Lab:
    """A network that is up."""

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
        """The words that run a program at a node, for `subprocess.Popen`, with `env()`."""
        return self._command("exec", node, "--", *map(str, arguments))

    def env(self):
        return {**os.environ, "XOFF_LAB": self.name}

    def exec(self, node, *arguments, check=True, **options):
        """Runs a program at a node until it ends: `subprocess.run` with its output as text; `check`: it has to succeed."""
        options = {"capture_output": True, "text": True, **options}
        done = subprocess.run(self.command(node, *arguments), env=self.env(), **options, check=False)
        if check and done.returncode != 0:
            said = "".join(filter(None, (done.stdout, done.stderr)))
            raise LabError(f"{node}: {' '.join(map(str, arguments))} ended with {done.returncode}: {said.strip()}")
        return done

    def popen(self, node, *arguments, **options):
        """Starts a program at a node. What still runs when the network goes is ended with it."""
        return subprocess.Popen(self.command(node, *arguments), env=self.env(), **{"text": True, **options})

    def down(self):
        """Takes the network down, and returns its account; its exit code is `code`: 0 where nothing lossless was lost."""
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
        "xoff_lab(file, lossless=True): the network of the fixture xoff_lab, and whether it has to lose nothing",
    )


@pytest.fixture
def xoff_lab(request):
    """The network that the test's mark `xoff_lab` names."""
    mark = request.node.get_closest_marker("xoff_lab")
    if mark is None or len(mark.args) != 1:
        pytest.fail('the fixture xoff_lab needs a mark with its file: @pytest.mark.xoff_lab("lab.toml")', pytrace=False)
    lab = Lab(request.path.parent / mark.args[0])
    try:
        yield lab
    finally:
        account = lab.down()
    if mark.kwargs.get("lossless", True) and lab.code != 0:
        pytest.fail(
            f"the network was not lossless (exit code {lab.code}): {json.dumps(account['verdict'])}", pytrace=False
        )
