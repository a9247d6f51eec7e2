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

from experiments.home.gateway import gateway_command
from tests.netns.router_world import SERVER_4, World, world
from tests.netns.world import eventually, in_namespace, needs, run

pytestmark = [pytest.mark.slow, needs("wg")]

# Interfaces of WireGuard meet in one folder of all namespaces.
PREFIX, INTERFACE = f"r{os.getpid()}-", f"k{os.getpid()}"
LINKS = f"""\
[wan.dsl]
interface = "dsl"
[wan.lte]
interface = "lte"
[probe]
interval = "1s"
timeout = "1s"
failures = 2
[tunnels]
prefix = "{PREFIX}"
"""
INSIDE = "10.84.0.1"
FIRST, SECOND = ["10.84.0.18", "10.84.0.19"], ["10.84.0.34", "10.84.0.35"]
"""The tunnels of both links, before a rotation and after."""


@dataclass(frozen=True)
class Pair:
    """The world, and the gateway's command in it."""

    world: World

    def gateway(self, *words: str) -> str:
        folder = self.world.directory
        where = ("--settings", str(folder / "gateway.toml"), "--state-directory", str(folder / "gateway"))
        return run(*in_namespace(self.world.provider, *gateway_command(*words), *where))

    def berlin(self) -> dict[str, Any]:
        (router,) = json.loads(self.gateway("routers", "--json"))["routers"]
        return dict(router)

    def has_subflows(self, addresses: list[str]) -> None:
        eventually(lambda: self.world.subflows() == addresses, 20)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with world(tmp_path) as built:
        (tmp_path / "gateway.toml").write_text(f'name = "{SERVER_4}"\ninterface = "{INTERFACE}"\n')
        pair = Pair(built)
        built.on(built.provider, "nft add table ip filter")
        built.on(built.provider, "nft add chain ip filter in { type filter hook input priority 0; }")
        for link in ("dsl", "lte"):
            built.on(built.provider, f"nft add rule ip filter in iifname isp-{link} meta l4proto != udp drop")
        try:
            pair.gateway("up")
            yield pair
        finally:
            pair.gateway("down")


@pytest.mark.smoke
def test_what_enrol_prints_brings_a_router_in_over_both_links_until_it_is_revoked(pair: Pair) -> None:
    printed = pair.gateway("enrol", "berlin")
    with pair.world.daemon(LINKS + printed):
        eventually(lambda: len(pair.berlin()["up"]) == 3, 20)
        assert {link["outside"].rpartition(":")[0] for link in pair.berlin()["up"]} <= {"10.1.0.2", "10.2.0.2"}
        with pair.world.transfer(INSIDE) as transfer:
            pair.has_subflows(FIRST)
            assert transfer.goes_on()
            pair.gateway("revoke", "berlin")
            with pytest.raises(AssertionError, match="not within 5"):
                transfer.goes_on()
            # It waits for what does not come.
            transfer.child.kill()
    assert json.loads(pair.gateway("routers", "--json"))["routers"] == []


def test_a_router_that_gets_its_new_table_goes_on_by_its_new_keys(pair: Pair) -> None:
    with pair.world.daemon(LINKS + pair.gateway("enrol", "berlin")), pair.world.transfer(INSIDE):
        pair.has_subflows(FIRST)
        renewed = pair.gateway("rotate", "berlin")
        pair.gateway("sync")
        assert pair.berlin()["rotating"]
    with pair.world.daemon(LINKS + renewed), pair.world.transfer(INSIDE) as transfer:
        pair.has_subflows(SECOND)
        pair.gateway("sync")
        assert not pair.berlin()["rotating"]
        assert transfer.goes_on()
