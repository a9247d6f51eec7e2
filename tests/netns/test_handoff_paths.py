"""Clients whose way takes shorter packets than their own device, or who ask for congestion notification."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.testbed.node import Node
from tests.netns.handoff_world import SIZE, HandOff, answer, needs_tools, pattern, request
from tests.netns.world import eventually, standing_nodes

pytestmark = needs_tools

NARROW, WIDE = "10.7.8", "10.7.9"


@pytest.fixture
def far(handoff: HandOff, tmp_path: Path) -> Iterator[HandOff]:
    """The same, with a client that is two routers away, and with packets of 1300 bytes at most between them.

    far 10.7.9.2 ---- middle ---- 1300 bytes ---- the client's node ---- switch
    """
    client, switch = handoff.network.nodes["client"], handoff.network.nodes["switch"]
    with standing_nodes("far-", ("middle", "far"), tmp_path) as (middle, far):
        _cable(client, middle, "narrow", NARROW, 1300)
        _cable(middle, far, "wide", WIDE, 1500)
        middle.ip("route", "add", "default", "via", f"{NARROW}.1")
        far.ip("route", "add", "default", "via", f"{WIDE}.1")
        client.ip("route", "add", f"{WIDE}.0/24", "via", f"{NARROW}.2")
        switch.ip("route", "add", f"{WIDE}.0/24", "via", handoff.network.address("client"))
        for node in (client, middle):
            node.sysctl(net__ipv4__ip_forward=1)
        handoff.processes.pop("front").stop()
        handoff.processes["front"] = handoff.network.start_front(instead={"10.7.0.0/24": "10.7.0.0/16"})
        eventually(lambda: handoff.is_handed("a/1"))
        handoff.network.nodes["far"] = far
        try:
            yield handoff
        finally:
            del handoff.network.nodes["far"]
            switch.ip("route", "delete", f"{WIDE}.0/24")
            client.ip("link", "delete", "narrow")


def _cable(left: Node, right: Node, name: str, net: str, mtu: int) -> None:
    left.ip("link", "add", name, "type", "veth", "peer", "name", name, "netns", right.namespace)
    for node, host in ((left, 1), (right, 2)):
        node.ip("address", "add", f"{net}.{host}/24", "dev", name)
        node.ip("link", "set", name, "mtu", str(mtu), "up")


def test_a_back_end_hears_that_the_way_to_its_client_takes_shorter_packets(far: HandOff) -> None:
    before = len(far.outcomes("handed-over"))
    with far.connection("far") as client:
        for _ in range(2):
            client.sendall(request(f"a/{SIZE}"))
            assert answer(client) == pattern("a", SIZE)
    eventually(lambda: len(far.outcomes("handed-over")) == before + 2)


@contextmanager
def asking_for_congestion_notification(handoff: HandOff) -> Iterator[None]:
    client = handoff.network.nodes["client"]
    client.sysctl(net__ipv4__tcp_ecn=1)
    try:
        yield
    finally:
        client.sysctl(net__ipv4__tcp_ecn=2)


def test_a_client_that_asks_for_congestion_notification_is_handed_over(handoff: HandOff) -> None:
    """The switch hides the request from the service, so ECN is not used."""
    with asking_for_congestion_notification(handoff), handoff.connection() as client:
        client.sendall(request(f"a/{20 * SIZE}"))
        eventually(handoff.at_back_ends)
        assert answer(client) == pattern("a", 20 * SIZE)


def test_what_is_in_the_way_of_a_hand_over_is_counted_by_its_name(handoff: HandOff) -> None:
    """Here congestion notification, behind a switch whose table somebody has taken away."""
    handoff.network.nodes["switch"].run("nft", "delete", "table", "ip", "tributary-switch")
    with asking_for_congestion_notification(handoff), handoff.connection() as client:
        client.sendall(request("a/1000"))
        assert answer(client) == pattern("a", 1000)
    metrics = handoff.network.nodes["front"].run("curl", "--silent", "http://127.0.0.1:9101/metrics")
    assert 'tributary_converter_handoff_failures_total{reason="ecn"} 1' in metrics.splitlines()
