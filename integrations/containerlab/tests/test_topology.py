"""Tests that containerlab's topology equals the network of `xoff lab`: nodes, links, speeds and addresses.

Containerlab is not run: its file is compared with the other network.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent.parent
XOFF = os.environ.get("XOFF", "xoff")


def run(*arguments, **options):
    done = subprocess.run([XOFF, *map(str, arguments)], capture_output=True, text=True, **options, check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


@pytest.fixture
def lab():
    run("lab", "up", HERE / "lab.toml")
    yield lambda node, *command: run("lab", "exec", "--lab", "lossless", node, "--", *command)
    run("lab", "down", "--lab", "lossless")


@pytest.fixture(scope="module")
def topology():
    return yaml.safe_load((HERE / "lossless.clab.yml").read_text())["topology"]


def node_of(topology, name):
    return {**topology["defaults"], **topology["nodes"][name]}


def peers(topology):
    """Returns the node and interface at the other end of each of the switch's interfaces."""
    ends = [[end.split(":") for end in link["endpoints"]] for link in topology["links"]]
    return {ours[1]: theirs for ours, theirs in ends if ours[0] == "s1"}


def test_containerlab_can_start_every_node(topology):
    names = {end.split(":")[0] for link in topology["links"] for end in link["endpoints"]}
    assert names == set(topology["nodes"])
    ends = [end for link in topology["links"] for end in link["endpoints"]]
    assert len(set(ends)) == len(ends) and all(len(end.split(":")[1]) <= 15 for end in ends)
    for name in names:
        node = node_of(topology, name)
        assert (node["kind"], node["image"]) == ("linux", "xoff:latest")
        for bind in node.get("binds", []):
            assert (HERE / bind.split(":")[0]).is_file(), bind
        # Containers run commands of xoff.
        command = re.search(r"exec xoff (\w+) (.*)\'", node["cmd"]).groups()
        assert command[0] == ("run" if name == "s1" else "nic")
    # The switch must wait for its last interface.
    assert (
        topology["links"][-1]["endpoints"][0]
        == "s1:" + re.search(r"link show (\w+)", node_of(topology, "s1")["cmd"])[1]
    )


def test_topology_equals_the_network_of_xoff_lab(topology, lab):
    file = json.loads(run("check", "--elsewhere", "--json", HERE / "s1.toml"))
    status = json.loads(lab("s1", XOFF, "status", "--json"))
    ours = {port["name"]: (port["device"], port["speed_bits_per_second"]) for port in status["ports"]}
    theirs = {port["name"]: (port["device"], port["speed_bps"]) for port in file["ports"]}
    assert theirs == ours
    lossless = [
        [of["class"] for of in port["classes"] if of["lossless"]] for port in (file["ports"][0], status["ports"][0])
    ]
    assert lossless[0] == lossless[1] == [3]
    links = peers(topology)
    assert {port: node for port, (node, _) in links.items()} == {port: port for port in ours}
    for node, interface in links.values():
        host = node_of(topology, node)
        address = re.search(r"ip address add (\S+) dev (\S+)", host["exec"][0]).groups()
        devices = json.loads(lab(node, "ip", "-json", "address", "show", "dev", "eth0"))
        in_lab = [f"{of['local']}/{of['prefixlen']}" for of in devices[0]["addr_info"] if of["family"] == "inet"]
        assert ([address[0]], address[1]) == (in_lab, interface)
        agent = re.search(r"xoff nic --device (\S+) --speed (\S+)\'", host["cmd"]).groups()
        assert agent == (interface, "100M") and ours[node][1] == 100_000_000
