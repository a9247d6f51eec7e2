"""The throttler on a gateway of home routers: with the card's own policy it sees what is inside of the tunnels."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from image.firstboot.settings import Role
from tests.netns.gateway_world import INSIDE, World, world
from tests.netns.links_world import connection, serving_sizes
from tests.netns.world import asked, eventually, in_namespace, needs, ready, run
from tests.unit.image.firstboot.systems import facts, files_of
from tributary.api.places import THROTTLER

pytestmark = needs("wg", "nft", "tc")

PORT = 3128
DSL, LTE = "10.84.0.18", "10.84.0.19"
"""A router's addresses inside of its first two tunnels."""
RATE = 2_000_000


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[World]:
    """With a router that has two tunnels, and a server inside of them."""
    with world(tmp_path, converter_ports=[PORT]) as built:
        enrolment = built.enrol("berlin")
        assert [built.house.tunnel(enrolment, place) for place in (1, 2)] == [DSL, LTE]
        first, _ = built.house.made
        house = built.house.node
        house.ip("route", "add", f"{INSIDE}/32", "dev", first, "src", DSL)
        house.ip("mptcp", "endpoint", "add", LTE, "subflow")
        for node in (house, built.gate):
            node.ip("mptcp", "limits", "set", "subflow", "4", "add_addr_accepted", "4")
        eventually(lambda: built.house.pings(DSL, INSIDE) and built.house.pings(LTE, INSIDE))
        with serving_sizes(built.gate):
            yield built


def policy_of_the_card(gateway: World) -> str:
    """As firstboot writes it, for an interface that is called otherwise here."""
    files = files_of('public_name = "gateway.example.net"', facts(Role.GATEWAY))
    (text,) = (each.text for each in files if each.path.endswith("throttler.toml"))
    assert '"tributary"' in text
    return text.replace('"tributary"', f'"{gateway.interface}"')


@contextmanager
def throttled(gateway: World, source: str) -> Iterator[None]:
    policy = gateway.folder / "throttler.toml"
    policy.write_text(policy_of_the_card(gateway))
    command = ("-m", "throttler", "run", "--policy", str(policy), "--source", source)
    with ready(*in_namespace(gateway.gate.namespace, sys.executable, *command)):
        yield


def status(gateway: World) -> dict[str, Any]:
    return asked(gateway.gate.namespace, THROTTLER)


@pytest.mark.parametrize("source", ["kernel", "sniffer"])
def test_the_subflows_inside_of_the_tunnels_are_seen_and_one_link_is_throttled(gateway: World, source: str) -> None:
    with throttled(gateway, source), connection(INSIDE, gateway.house.node) as client:
        seen = eventually(lambda: [session for session in status(gateway)["sessions"] if len(session["subflows"]) == 2])
        assert {
            each["remote"].partition(":")[0]: (each["path"], bool(each["counted_by"])) for each in seen[0]["subflows"]
        } == {
            DSL: ("tunnels", True),
            LTE: ("tunnels", True),
        }
        # Of one router's links, by its address inside.
        rule = ("lte", "path=tunnels", f'clients=["{LTE}/32"]', f"rate={RATE}bit", "direction=both")
        run(*in_namespace(gateway.gate.namespace, sys.executable, "-m", "throttler", "set", *rule))
        for way, size in (("download", 3_000_000), ("upload", -3_000_000)):
            before, started = _of_class(gateway, way), time.monotonic()
            client.transfer(size)
            carried, took = _of_class(gateway, way) - before, time.monotonic() - started
            assert 0 < carried * 8 < RATE * took * 1.2 + 200_000, (way, carried, took)


def _of_class(gateway: World, way: str) -> int:
    """Bytes that the held class of one direction has sent."""
    (held,) = [each for each in status(gateway)["classes"] if each["direction"] == way]
    assert (held["rule"], held["device"]) == ("lte", gateway.interface if way == "download" else "tributary-up")
    return int(held["sent"])
