"""The testbed that an experiment runs on: links checked, server and converters started, as long as it needs them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.testbed.appliance import start_converter, start_squid, tune
from experiments.testbed.build import Testbed, standing
from experiments.testbed.selfcheck import Reading as LinkReading
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import FILES, start_server
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT, Profile

CONVERTERS = {"squid": PROXY_PORT, "native": NATIVE_PORT}


@dataclass(frozen=True)
class Ground:
    """What a testbed is made from: its links, and whether both ends have the appliance's kernel settings.

    ``sysctls`` are further settings of the gateway's kernel. All are made before anything listens: a connection's
    buffers begin as its listener's.
    """

    profile: Profile
    tuned: bool = True
    sysctls: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """For a manifest."""
        links = self.profile.model_dump(mode="json", exclude_none=True)
        return {"links": links, "tuned": self.tuned, "sysctls": dict(self.sysctls)}


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
        for key, value in ground.sysctls.items():
            testbed.gateway.run("sysctl", "-q", "-w", f"{key}={value}")
        start_server(testbed, FILES)
        start_squid(testbed)
        start_converter(testbed)
        yield Stage(testbed, links)
