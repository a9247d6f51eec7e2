"""A home with its gateway, all at work: what the demo shows, and what experiments measure."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from experiments.home.gateway import Gateway, gateway_at_work
from experiments.home.network import Network, standing_network
from experiments.home.router import Router, router_at_work
from experiments.home.web import serving
from experiments.testbed.build import reserved
from experiments.testbed.selfcheck import Reading as LinkReading
from experiments.testbed.tolerance import TOLERANCE
from experiments.testbed.topology import Link, Profile, Topology
from tributary.settings.errors import CommandError, Exit

PLAIN, WIREGUARD = "plain", "wireguard"
LEGS = (PLAIN, WIREGUARD)
"""How the router reaches the gateway, as the card's key ``leg`` has it."""


@dataclass(frozen=True)
class Household:
    """All of it; ``links`` is how they measured before anything used them."""

    network: Network
    gateway: Gateway
    router: Router
    links: list[LinkReading]

    @property
    def emulation(self) -> str:
        return "netem" if self.network.netem else "link-emulator" if self.links else "cables"


@dataclass(frozen=True)
class HouseholdBlueprint:
    """The same before it stands: the first so ``many`` links of ``profile``, or plain cables in their places.

    With a ``queue`` links hold so many packets, and with a ``share`` the router lets so much of what they carry pass.
    """

    profile: Profile
    leg: str
    many: int
    shaped: bool = True
    queue: int | None = None
    share: float | None = None

    def as_json(self) -> dict[str, object]:
        links = self.profile.model_dump(mode="json", exclude_none=True)["links"]
        asked = {"queue": self.queue, "share": self.share}
        given = {key: value for key, value in asked.items() if value is not None}
        return {"leg": self.leg, "links": dict(list(links.items())[: self.many]), "shaped": self.shaped, **given}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Household]:
        """It, for the length of the block; raises CommandError: exit 69 without wg(8), 75 if a link is off by more than
        ``tolerance``.
        """
        if self.leg == WIREGUARD and shutil.which("wg") is None:
            raise CommandError(Exit.UNAVAILABLE, "not found: wg: scripts/setup installs it (wireguard-tools)")
        links, tunnels = tuple(map(self._queued, Topology.of(self.profile).links[: self.many])), self.leg == WIREGUARD
        with reserved(name) as directory, ExitStack() as stack:
            network = stack.enter_context(
                standing_network(f"trib-{name}", directory, links, shaped=self.shaped, seed=seed)
            )
            readings = network.check(tolerance) if self.shaped else []
            stack.enter_context(serving(network.server))
            gateway = stack.enter_context(gateway_at_work(network, tunnels=tunnels))
            enrolment = gateway.enrol() if tunnels else None
            router = stack.enter_context(router_at_work(network, enrolment, self.share))
            yield Household(network, gateway, router, readings)

    def _queued(self, link: Link) -> Link:
        if self.queue is None:
            return link
        return replace(link, down=replace(link.down, queue=self.queue), up=replace(link.up, queue=self.queue))
