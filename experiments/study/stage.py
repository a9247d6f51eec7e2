"""The testbed that an experiment runs on: links checked, server and converters started, as long as it needs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.testbed.appliance import start_converter, start_squid
from experiments.testbed.build import Testbed, standing
from experiments.testbed.selfcheck import Reading as LinkReading
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import FILES, start_server
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT, Profile

CONVERTERS = {"squid": PROXY_PORT, "native": NATIVE_PORT}


@dataclass(frozen=True)
class Stage:
    """A testbed with everything that serves running; ``links`` is how they measured before the first reading."""

    testbed: Testbed
    links: list[LinkReading]


@contextmanager
def set_up(name: str, profile: Profile) -> Iterator[Stage]:
    """A stage for the length of the block; raises Failure (exit 1) if a link is not as described."""
    with standing(name, profile) as testbed:
        links = check_links(testbed)
        start_server(testbed, FILES)
        start_squid(testbed)
        start_converter(testbed)
        yield Stage(testbed, links)
