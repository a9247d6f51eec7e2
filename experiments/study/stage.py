"""The testbed that an experiment runs on: links checked, server and converters started, as long as it needs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.testbed.appliance import start_converter, start_squid, tune
from experiments.testbed.build import Testbed, standing
from experiments.testbed.selfcheck import Reading as LinkReading
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import FILES, start_server
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT, Profile

CONVERTERS = {"squid": PROXY_PORT, "native": NATIVE_PORT}


@dataclass(frozen=True)
class Ground:
    """What a testbed is made from: its links, and whether both ends have the appliance's kernel settings."""

    profile: Profile
    tuned: bool = True

    def as_json(self) -> dict[str, object]:
        """For a manifest."""
        return {"links": self.profile.model_dump(mode="json", exclude_none=True), "tuned": self.tuned}


@dataclass(frozen=True)
class Stage:
    """A testbed with everything that serves running; ``links`` is how they measured before the first reading."""

    testbed: Testbed
    links: list[LinkReading]


@contextmanager
def set_up(name: str, ground: Ground, seed: int) -> Iterator[Stage]:
    """A stage for the length of the block; raises Failure (exit 1) if a link is not as described."""
    with standing(name, ground.profile, seed=seed) as testbed:
        links = check_links(testbed)
        if ground.tuned:
            tune(testbed)
        start_server(testbed, FILES)
        start_squid(testbed)
        start_converter(testbed)
        yield Stage(testbed, links)
