"""What an experiment runs on: links checked, server and converters started, as long as it needs them."""

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from experiments.testbed.appliance import low_mark_obeyed, start_converter, start_squid, start_steering, tune
from experiments.testbed.build import Testbed, standing
from experiments.testbed.selfcheck import Reading as LinkReading
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import FILES, start_server
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT, Profile, Topology
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

CONGESTION_CONTROL = "net.ipv4.tcp_congestion_control"
_ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
Stands = Callable[[str, Profile, int], AbstractContextManager[Testbed]]
"""A testbed of this name over these links, with a seed for what is emulated, for the length of a block."""
CONVERTERS = {"squid": PROXY_PORT, "native": NATIVE_PORT}

Built = TypeVar("Built")
Anything = TypeVar("Anything", covariant=True)


@dataclass(frozen=True)
class Standing(Generic[Anything]):
    """What was ``built``, and what a run has to know of it: how its ``links`` measured before the first reading, what
    emulates them, and whether subflows obey a low mark.
    """

    built: Anything
    links: list[LinkReading] = field(default_factory=list)
    emulation: str = "cables"
    low_mark_obeyed: bool = False


@dataclass(frozen=True)
class Ground(Generic[Built]):
    """What readings are taken on, before it stands. All of it is in what is ``described``: two that are equal are the
    same. It is ``standing`` for the length of a block, by a name, a seed, and by how much a link may be off: raises
    CommandError (exit 75) if one is off by more.
    """

    described: Mapping[str, object]
    standing: Callable[[str, int, float], AbstractContextManager[Standing[Built]]] = field(compare=False)

    def as_json(self) -> dict[str, object]:
        return dict(self.described)


@dataclass(frozen=True)
class TestbedBlueprint:
    """What a testbed is made from: its links, and whether both ends have the appliance's kernel settings.

    ``sysctls`` are further settings of the gateway's kernel, ``everywhere`` of client, gateway and server. All are made
    before anything listens: a connection's buffers begin as its listener's. ``subflows`` is how many further ones both
    ends allow, ``mtu`` the links' largest packet in bytes; None is the testbed's own. ``steered``: a throttler takes
    paths out of running sessions. ``stands`` makes it stand.
    """

    profile: Profile
    tuned: bool = True
    sysctls: Mapping[str, str] = field(default_factory=dict)
    everywhere: Mapping[str, str] = field(default_factory=dict)
    subflows: int | None = None
    mtu: int | None = None
    steered: bool = False
    stands: Stands = standing

    def as_json(self) -> dict[str, object]:
        links = self.profile.model_dump(mode="json", exclude_none=True)
        topology = Topology.of(self.profile)
        left_out = [link.name for link in topology.links[1:] if link not in topology.joining]
        swept = {
            "without_endpoint": left_out or None,
            "everywhere": dict(self.everywhere) or None,
            "subflows": self.subflows,
            "mtu": self.mtu,
            "steered": self.steered or None,
        }
        described = {"links": links, "tuned": self.tuned, "sysctls": dict(self.sysctls)}
        return described | {key: value for key, value in swept.items() if value is not None}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float) -> Iterator[Standing[Testbed]]:
        """The testbed, with everything that serves running."""
        with self.stands(name, self.profile, seed) as testbed, low_mark_obeyed() as obeyed:
            links = check_links(testbed, tolerance=tolerance)
            if self.tuned:
                tune(testbed)
            for key, value in self.sysctls.items():
                testbed.gateway.run("sysctl", "-q", "-w", f"{key}={value}")
            self._sweep(testbed)
            start_server(testbed, FILES)
            start_squid(testbed)
            start_converter(testbed)
            if self.steered:
                testbed.gateway.sysctl(net__mptcp__pm_type=1)
                start_steering(testbed)
            yield Standing(testbed, links, testbed.emulation, obeyed)

    def _sweep(self, testbed: Testbed) -> None:
        for node in (testbed.client, testbed.gateway, testbed.server):
            for key, value in self.everywhere.items():
                try:
                    node.run("sysctl", "-q", "-w", f"{key}={value}")
                except CommandError as failure:
                    raise _not_taken(key, value, node.run("cat", _ALLOWED)) from failure
        if self.subflows is not None:
            for node in (testbed.client, testbed.gateway):
                node.ip("mptcp", "limits", "set", "subflows", str(self.subflows))
        if self.mtu is not None:
            testbed.set_mtu(self.mtu)


Blueprint = Ground[Any] | TestbedBlueprint
"""What a point is measured on."""


def need_settings(blueprints: Iterable[Blueprint]) -> None:
    """Raise CommandError (exit 69) for the first setting of ``blueprints`` that no namespace of this machine takes."""
    testbeds = [each for each in blueprints if isinstance(each, TestbedBlueprint)]
    for key, value in sorted({setting for each in testbeds for setting in each.everywhere.items()}):
        tried = ["unshare", "--net", "sysctl", "-q", "-w", f"{key}={value}"]
        if subprocess.run(tried, capture_output=True, check=False).returncode:
            raise _not_taken(key, value, Path(_ALLOWED).read_text())


def need_captures(blueprints: Iterable[Blueprint]) -> None:
    """Raise CommandError unless what passes can be captured: exit 64 for what is no testbed, 69 without tcpdump(8)."""
    if not all(isinstance(each, TestbedBlueprint) for each in blueprints):
        raise CommandError(Exit.USAGE, "--pcap: accepted: for experiments on a testbed alone")
    process.require("tcpdump")


def _not_taken(key: str, value: str, allowed: str) -> CommandError:
    """``allowed`` are the congestion controls that namespaces may have."""
    hint = f": accepted in its namespaces: {allowed.strip()} (net.ipv4.tcp_allowed_congestion_control)"
    return CommandError(
        Exit.UNAVAILABLE, f"{key}={value}: this machine does not take it{hint if key == CONGESTION_CONTROL else ''}"
    )
