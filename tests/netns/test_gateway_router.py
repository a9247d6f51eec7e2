"""A home router's daemon and a gateway's tunnels, each as it is: enrolled, carried over both links, renewed, shut out.

The world is that of router_world.py; the provider is the gateway as well, and lets in only UDP outside of tunnels.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.home.gateway import Gateway
from tests.netns.router_world import BOTH, OFTEN, SERVER_4, World, world
from tests.netns.world import eventually, needs

pytestmark = [pytest.mark.slow, needs("wg")]

# Interfaces of WireGuard meet in one folder of all namespaces.
PREFIX, INTERFACE = f"r{os.getpid()}-", f"k{os.getpid()}"
LINKS = f"""\
[wan.dsl]
interface = "dsl"
[wan.lte]
interface = "lte"
[probe]
{OFTEN}[tunnels]
prefix = "{PREFIX}"
"""
INSIDE = "10.84.0.1"
TUNNELS = ["10.84.0.18", "10.84.0.19"]


@dataclass(frozen=True)
class Pair(World):
    """With the gateway's command."""

    def gateway(self, *words: str) -> str:
        return Gateway(self.nodes["provider"], INTERFACE).command(*words)

    def routers(self) -> list[dict[str, Any]]:
        return list(json.loads(self.gateway("routers", "--json"))["routers"])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with world(tmp_path) as built:
        (tmp_path / "gateway.toml").write_text(f'name = "{SERVER_4}"\ninterface = "{INTERFACE}"\n')
        pair = Pair(built.nodes, built.directory)
        pair.pass_only_udp()
        try:
            pair.gateway("up")
            yield pair
        finally:
            pair.gateway("down")


@pytest.mark.smoke
def test_what_enrol_prints_brings_a_router_in_over_both_links_until_it_is_revoked(pair: Pair) -> None:
    printed = pair.gateway("enrol", "berlin")
    with pair.daemon(LINKS + printed):
        eventually(lambda: len(pair.routers()[0]["up"]) == 3)
        assert {link["outside"].rpartition(":")[0] for link in pair.routers()[0]["up"]} <= set(BOTH)
        with pair.transfer(INSIDE) as transfer:
            pair.has_subflows(*TUNNELS)
            assert transfer.goes_on()
            pair.gateway("revoke", "berlin")
            with pytest.raises(AssertionError, match="not within 5"):
                transfer.goes_on(5.0)
    assert pair.routers() == []
