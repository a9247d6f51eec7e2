"""Where the converters are compared: plain cables between three nodes, with the offloads that veth has by default.

    +--------+ path1            path1 +---------+ core             core +--------+
    |        |.2 ----- 10.1.1.0/24 .1 |         |.1 -- 203.0.113.0/24 .2|        |
    | client |                        | gateway |                       | server |
    |        |.2 ----- 10.1.2.0/24 .1 |         |                       |        |
    +--------+ path2            path2 +---------+                       +--------+

Every contender listens at 10.1.1.1. Sessions stay on path1: nothing here has a second path's share in a figure. The
nodes and the cable to the server are a testbed's, whose one emulated link stands unused.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from experiments.bench import pair
from experiments.testbed.build import Testbed, standing
from experiments.testbed.native import Programs
from experiments.testbed.node import run
from experiments.testbed.topology import Profile, Topology
from settings.files import check

CLIENTS = "10.1.0.0/16"
LISTENER = str(pair.LISTENER)
SERVER = str(Topology.SERVER4)
ORIGIN, MPTCP_ORIGIN = f"{SERVER}:8080", f"{SERVER}:8081"
CLIENT_SIDE, SERVER_SIDE = "path1", "core"

_HUNG = "40"
"""Seconds; no single measurement takes that long."""
_IDLE = check({"links": {"idle": {"rate": "1gbit"}}}, Profile, "the benchmark's link")


@dataclass(frozen=True)
class Ground:
    """The nodes, and the programs that make traffic on them."""

    testbed: Testbed
    programs: Programs

    def load(self, *arguments: str) -> dict[str, Any]:
        """Run tributary-load on the client; returns what it told last. Raises Failure if it failed or hung."""
        printed = self.testbed.client.run("timeout", _HUNG, str(self.programs.load), *arguments)
        told: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return told


@contextmanager
def laid_out(programs: Programs) -> Iterator[Ground]:
    """The nodes for the length of the block, with an origin on the server: for TCP, and for MPTCP as well."""
    with standing(pair.NAME, _IDLE) as testbed:
        for number, path in enumerate(pair.PATHS, start=1):
            _cable(testbed, path, number)
        testbed.client.ip("route", "add", f"{SERVER}/32", "via", LISTENER, "dev", CLIENT_SIDE)
        _make_room(testbed)
        testbed.server.sysctl(net__mptcp__enabled=1)  # for the direct connections; the listener ORIGIN stays TCP
        origin = [str(programs.load), "origin", "--listen"]
        with (
            testbed.server.start("origin", [*origin, ORIGIN]).wait_until_ready(),
            testbed.server.start("mptcp-origin", [*origin, MPTCP_ORIGIN, "--mptcp"]).wait_until_ready(),
        ):
            yield Ground(testbed, programs)


def _cable(testbed: Testbed, path: str, number: int) -> None:
    client, gateway = testbed.client, testbed.gateway
    ends = ["name", path, "netns", client.namespace, "type", "veth", "peer", "name", path, "netns", gateway.namespace]
    run(["ip", "link", "add", *ends])
    for node, address in ((client, f"10.1.{number}.2/24"), (gateway, f"10.1.{number}.1/24")):
        node.ip("address", "add", address, "dev", path)
        node.ip("link", "set", path, "up")


def _make_room(testbed: Testbed) -> None:
    """Limits that are there against misuse, and would bend the load: ports, and queues in front of listeners."""
    for node in (testbed.client, testbed.gateway, testbed.server):
        node.sysctl(net__core__somaxconn=65535, net__ipv4__tcp_max_syn_backlog=65535)
        node.sysctl(net__ipv4__ip_local_port_range="10000 65000", net__ipv4__tcp_tw_reuse=1)
