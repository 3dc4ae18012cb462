"""Tests the fixture with pytest, which finds it by its entry point."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytest_plugins = ["pytester"]


@pytest.fixture
def installed(tmp_path):
    """Installs the package with pip, without network access, and returns the directory."""
    source, target = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for name in ("pyproject.toml", "pytest_xoff.py"):
        shutil.copy(HERE.parent / name, source)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            str(target),
            str(source),
        ],
        check=True,
        env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"},
    )
    return target


def outcomes(pytester, installed, test):
    for name in ("lab.toml", "lossy.toml"):
        shutil.copy(HERE / name, pytester.path)
    pytester.makepyfile(test)
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"],
        cwd=pytester.path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_network_exists_during_its_test_only(pytester, installed):
    output = outcomes(
        pytester,
        installed,
        """
        import pytest

        @pytest.mark.xoff_lab("lab.toml")
        def test_reaches(xoff_lab):
            assert "1 received" in xoff_lab.exec("h1", "ping", "-c1", "-W5", "h2").stdout
            assert xoff_lab.exec("h1", "false", check=False).returncode == 1
            account = xoff_lab.down()
            assert xoff_lab.code == 0 and account["verdict"]["promise"] == "kept"

        @pytest.mark.xoff_lab("lab.toml")
        def test_name_can_be_used_again(xoff_lab):
            assert xoff_lab.name == "pytest-xoff"

        def test_needs_a_file(xoff_lab):
            pass
    """,
    )
    assert "2 passed, 1 error" in output, output
    assert "needs a mark with a network file" in output, output
    listed = subprocess.run([os.environ["XOFF"], "lab", "list"], capture_output=True, text=True, check=False)
    assert "pytest-xoff" not in listed.stdout


def test_loss_in_the_network_fails_the_test(pytester, installed):
    output = outcomes(
        pytester,
        installed,
        '''
        import sys
        import pytest

        SEND = """
        import os, socket
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 24 << 2)
        for _ in range(4000):
            out.sendto(bytes(1400), (os.environ["XOFF_H3_IPV4"], 9))
        """.replace(chr(10) + "        ", chr(10))

        def overrun(lab):
            lab.exec("h3", "ping", "-c1", "-W5", "h1")
            senders = [lab.popen(host, sys.executable, "-c", SEND) for host in ("h1", "h2")]
            assert [sender.wait() for sender in senders] == [0, 0]

        @pytest.mark.xoff_lab("lossy.toml")
        def test_fails(xoff_lab):
            overrun(xoff_lab)

        @pytest.mark.xoff_lab("lossy.toml", lossless=False)
        def test_reads_the_account(xoff_lab):
            overrun(xoff_lab)
            assert xoff_lab.down()["verdict"]["promise"] == "not-kept"
    ''',
    )
    assert "2 passed, 1 error" in output, output
    assert "the network was not lossless (exit code 1)" in output, output
