"""A home with its gateway, all at work: what the demo shows, and what experiments measure."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from experiments.home.gateway import Gateway, gateway_at_work
from experiments.home.network import Network, serving, standing_network
from experiments.home.router import Router, router_at_work
from experiments.study.blueprint import Ground, Standing
from experiments.testbed.appliance import low_mark_obeyed
from experiments.testbed.build import reserved
from experiments.testbed.links import emulation
from experiments.testbed.topology import Profile, Topology
from tributary.kernel import process

PLAIN, WIREGUARD = "plain", "wireguard"
LEGS = (PLAIN, WIREGUARD)
"""How the router reaches the gateway, as the card's key ``leg`` has it."""


@dataclass(frozen=True)
class Household:
    """All of it."""

    network: Network
    gateway: Gateway
    router: Router


def household(
    profile: Profile, leg: str, many: int, *, shaped: bool = True, queue: int | None = None, share: float | None = None
) -> Ground[Household]:
    """A home on the first so ``many`` links of ``profile``, or on plain cables in their places.

    With a ``queue`` links hold so many packets, and with a ``share`` the router lets so much of what they carry pass.
    Raises CommandError as it begins to stand: exit 69 without wg(8), 75 if a link is off by more than the tolerance.
    """
    tunnels = leg == WIREGUARD
    links = Topology.of(profile).links[:many]
    if queue is not None:
        links = tuple(link.with_each_way(queue=queue) for link in links)

    @contextmanager
    def stands(name: str, seed: int, tolerance: float) -> Iterator[Standing[Household]]:
        if tunnels:
            process.require("wg")
        with reserved(name) as directory, ExitStack() as stack:
            obeyed = stack.enter_context(low_mark_obeyed())
            network = stack.enter_context(standing_network(f"trib-{name}", directory, links, shaped=shaped, seed=seed))
            readings = network.check(tolerance) if shaped else []
            stack.enter_context(serving(network.server))
            gateway = stack.enter_context(gateway_at_work(network, tunnels=tunnels))
            enrolment = gateway.enrol() if tunnels else None
            router = stack.enter_context(router_at_work(network, enrolment, share))
            emulated = emulation(*links) if shaped else "cables"
            yield Standing(Household(network, gateway, router), readings, emulated, obeyed)

    described = list(profile.model_dump(mode="json", exclude_none=True)["links"].items())[:many]
    given = {key: value for key, value in {"queue": queue, "share": share}.items() if value is not None}
    return Ground({"leg": leg, "links": dict(described), "shaped": shaped, **given}, stands)
