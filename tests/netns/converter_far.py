"""A long way between client and gateway, beside the cables of the native converter's world.

client 10.0.3.2 == far, 20 Mbit/s, 120 ms there and back == 10.0.3.1 gateway
"""

from collections.abc import Iterator
from contextlib import contextmanager

from experiments.testbed import links
from experiments.testbed.network import standing_nodes
from experiments.testbed.topology import Profile, Topology
from tests.netns.converter_world import World
from tributary.settings.files import check

_SETTINGS = {"rate": "20mbit", "delay": "60ms", "queue": 400}
_LINK = Topology.of(check({"links": {"far": _SETTINGS}}, Profile, "the long way")).links[0]
_NETWORK = "10.0.3.{}"
FAR_GATEWAY = _NETWORK.format(1)


@contextmanager
def far_link(world: World) -> Iterator[str]:
    """The link for the length of the block; yields the gateway's address on it."""
    with standing_nodes("conv-", "far:", world.directory) as made:
        links.connect(_LINK, world.client, made["far"], world.gateway, netem=links.kernel_has_netem(), seed=1)
        for end, number in ((world.gateway, 1), (world.client, 2)):
            end.ip("address", "add", f"{_NETWORK.format(number)}/24", "dev", "far")
        yield FAR_GATEWAY
