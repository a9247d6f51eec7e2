"""A home whose first link is slow to answer: sessions begin by the other one, and the first one joins."""

import os
import re
from collections.abc import Iterator

import pytest

from experiments.home.gateway import gateway_at_work
from experiments.home.network import Network, serving, standing_network
from experiments.home.router import Router, router_at_work
from experiments.home.traffic import downloading
from experiments.testbed.build import reserved
from experiments.testbed.topology import LinkSettings, Profile, Topology
from tests.netns.world import eventually, needs
from tributary.settings.units import Duration, PositiveRate

pytestmark = [pytest.mark.slow, needs("wg", "wireguard-go")]

SLOW = LinkSettings(rate=PositiveRate(20_000_000), delay=Duration.parse("60ms"))
QUICK = LinkSettings(rate=PositiveRate(20_000_000), delay=Duration.parse("10ms"))
PROBE = 'interval = "1s"'
_SUBFLOW = re.compile(r"([\d.]+)(?:%\S+)?:\d+ +\S+.*\n.*tcp-ulp-mptcp flags:(\w+)")
"""Its local address, and ss(8)'s letters for what it is: J, it has joined."""


@pytest.fixture(scope="module")
def home() -> Iterator[tuple[Network, Router]]:
    links = Topology.of(Profile(links={"dsl": SLOW, "lte": QUICK})).links
    name = f"quick{os.getpid()}"
    with (
        reserved(name) as directory,
        standing_network(f"trib-{name}", directory, links, shaped=True, seed=1) as network,
        serving(network.server),
        gateway_at_work(network, tunnels=True) as gateway,
        router_at_work(network, gateway.enrol(), probe=PROBE) as router,
    ):
        yield network, router


def subflows(router: Router) -> tuple[set[str], set[str]]:
    """The local addresses of the router's subflows to the gateway: of those that began sessions, and that joined."""
    known = _SUBFLOW.findall(router.node.run("ss", "-Htin", "state", "established", "dst", router.gateway))
    joined = {local for local, flags in known if "J" in flags}
    return {local for local, flags in known if "J" not in flags}, joined


def test_sessions_begin_by_the_link_that_answers_first(home: tuple[Network, Router]) -> None:
    network, router = home
    slow, quick = map(router.source, network.links)
    eventually(lambda: f"src {quick}" in router.node.ip("route", "get", router.gateway), 60)
    with downloading(network.device, 5):
        eventually(lambda: subflows(router) == ({quick}, {slow}), 5)
