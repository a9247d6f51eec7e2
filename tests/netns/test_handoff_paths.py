from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.testbed.network import lay, standing_nodes
from tests.netns.handoff_world import LONG, SIZE, HandOff, answer, get, needs_tools, pattern
from tests.netns.world import eventually

pytestmark = needs_tools

_FAR = """
far:wide 10.7.9.2/24 -- middle:wide 10.7.9.1/24
far: ip route add default via 10.7.9.1
client:narrow 10.7.8.1/24 -- middle:narrow 10.7.8.2/24
client middle: ip link set narrow mtu 1300
middle: ip route add default via 10.7.8.1
client middle: sysctl -qw net.ipv4.ip_forward=1
client: ip route add 10.7.9.0/24 via 10.7.8.2
switch: ip route add 10.7.9.0/24 via 10.7.0.2
"""


@pytest.fixture
def far(handoff: HandOff, tmp_path: Path) -> Iterator[HandOff]:
    """The same, with a client that is two routers away, and with packets of 1300 bytes at most between them.

    far 10.7.9.2 ---- middle ---- 1300 bytes ---- the client's node ---- switch
    """
    nodes = handoff.nodes
    with standing_nodes("far-", _FAR, tmp_path, nodes) as beyond:
        handoff.restart("front", instead={"10.7.0.0/24": "10.7.0.0/16"})
        handoff.wait_for("a")
        nodes["far"] = beyond["far"]
        try:
            yield handoff
        finally:
            del nodes["far"]
            lay("switch: ip route delete 10.7.9.0/24\nclient: ip link delete narrow", nodes)


def test_a_back_end_hears_that_the_way_to_its_client_takes_shorter_packets(far: HandOff) -> None:
    before = len(far.outcomes("handed-over"))
    with far.connection("far") as client:
        for _ in range(2):
            get(client, "a", SIZE)
    eventually(lambda: len(far.outcomes("handed-over")) == before + 2)


@contextmanager
def asking_for_congestion_notification(handoff: HandOff) -> Iterator[None]:
    client = handoff.nodes["client"]
    client.sysctl(net__ipv4__tcp_ecn=1)
    try:
        yield
    finally:
        client.sysctl(net__ipv4__tcp_ecn=2)


def test_a_client_that_asks_for_congestion_notification_is_handed_over(handoff: HandOff) -> None:
    """The switch hides the request from the service, so ECN is not used."""
    with asking_for_congestion_notification(handoff), handoff.begun(f"a/{LONG}") as client:
        assert answer(client) == pattern("a", LONG)


def test_what_is_in_the_way_of_a_hand_over_is_counted_by_its_name(handoff: HandOff) -> None:
    """Here congestion notification, behind a switch whose table somebody has taken away."""
    handoff.nodes["switch"].run("nft", "delete", "table", "ip", "tributary-switch")
    with asking_for_congestion_notification(handoff), handoff.connection() as client:
        get(client, "a", 1000)
    assert 'tributary_converter_handoff_failures_total{reason="ecn"} 1' in handoff.metrics().splitlines()
