"""Plain cables between three nodes, with the offloads that veth has by default: for what needs no delay.

    +--------+ path1            path1 +---------+ core             core +--------+
    |        |.2 ----- 10.1.1.0/24 .1 |         |.1 -- 203.0.113.0/24 .2|        |
    | client |                        | gateway |                       | server |
    |        |.2 ----- 10.1.2.0/24 .1 |         |                       |        |
    +--------+ path2            path2 +---------+                       +--------+

Whatever listens at the gateway does so at 10.1.1.1. Sessions stay on path1: nothing here has a second path's share in a
figure. The nodes and the cable to the server are a testbed's, whose one emulated link stands unused.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from experiments.testbed import native, network
from experiments.testbed.build import Testbed, standing
from experiments.testbed.node import Node, Process
from experiments.testbed.server import start_origin
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import check

CLIENTS = "10.1.0.0/16"
LISTENER = "10.1.1.1"
PATHS = ("path1", "path2")
SERVER = str(Topology.SERVER4)
ORIGIN, MPTCP_ORIGIN = f"{SERVER}:8080", f"{SERVER}:8081"
CLIENT_SIDE, SERVER_SIDE = "path1", "core"

_CABLES = """
client:path1 10.1.1.2/24 -- gateway:path1 10.1.1.1/24
client:path2 10.1.2.2/24 -- gateway:path2 10.1.2.1/24
"""
_JOIN = """
client: ip rule add from 10.1.2.2 lookup 102
client: ip route add default via 10.1.2.1 dev path2 table 102
client: ip mptcp endpoint add 10.1.2.2 dev path2 subflow
"""
_HUNG = "40"
"""Seconds; no single measurement takes that long."""
IDLE = check({"links": {"idle": {"rate": "1gbit"}}}, Profile, "the unused link")


def load(testbed: Testbed, *arguments: str) -> dict[str, Any]:
    """Run tributary-load on the client; returns what it told last. Raises CommandError if it failed or hung."""
    printed = testbed.client.run("timeout", _HUNG, *native.load(*arguments))
    told: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return told


def starts(testbed: Testbed, listens: str, times: int, command: Sequence[str]) -> tuple[float, ...]:
    """Milliseconds from the start of ``command`` on the gateway until the port that it ``listens`` at takes a
    connection, so many times.
    """
    measure = native.load("start", "--listens", listens, "--times", str(times), "--")
    return tuple(testbed.gateway.told(*measure, *command)["milliseconds"])


def offload_relay(node: Node, listens: str, to: str, devices: tuple[str, str], after: int) -> Process:
    """A relay on a node, ready, between two of its ``devices``, the client's first: it offloads a connection to the
    kernel once so many bytes of it have passed.
    """
    where = ("--listen", listens, "--to", to, "--client-device", devices[0], "--server-device", devices[1])
    command = [str(native.offload_relay()), *where, "--after", str(after)]
    return node.start("offload-relay", command).wait_until_ready()


@contextmanager
def laid_out(name: str) -> Iterator[Testbed]:
    """The nodes for the length of the block, with an origin on the server: for TCP, and for MPTCP as well."""
    with standing(name, IDLE) as testbed:
        lay(testbed)
        testbed.client.ip("route", "add", f"{SERVER}/32", "via", LISTENER, "dev", CLIENT_SIDE)
        make_room(testbed)
        testbed.server.sysctl(net__mptcp__enabled=1)  # for the direct connections; the listener ORIGIN stays TCP
        with start_origin(testbed.server, ORIGIN), start_origin(testbed.server, MPTCP_ORIGIN, "--mptcp"):
            yield testbed


def lay(testbed: Testbed) -> None:
    """The cables between client and gateway."""
    network.lay(_CABLES, {"client": testbed.client, "gateway": testbed.gateway})


def join_by_second(testbed: Testbed) -> None:
    """Let the client's sessions have a second subflow, from its address on the second path, which leaves by that."""
    network.lay(_JOIN, {"client": testbed.client})


def make_room(testbed: Testbed) -> None:
    """Limits that are there against misuse, and would bend the load: ports, and queues in front of listeners."""
    for node in (testbed.client, testbed.gateway, testbed.server):
        node.sysctl(net__core__somaxconn=65535, net__ipv4__tcp_max_syn_backlog=65535)
        node.sysctl(net__ipv4__ip_local_port_range="10000 65000", net__ipv4__tcp_tw_reuse=1)
