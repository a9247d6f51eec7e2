"""How long does it take from a join's third ACK to its enforcement?

Under load: a thousand joins a second, from the third ACK on the wire to the element in the throttler's map, with each
source of the throttler in turn. One at a time: from the third ACK to the first packet in the held class.
"""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from statistics import median, quantiles
from time import sleep

from experiments.bench import pair
from experiments.bench.result import Result, Series
from experiments.enforcement import watched
from experiments.fetch import fetch
from experiments.testbed.appliance import WIRED_SLOW, start_squid, start_throttler
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cables import PATHS
from experiments.testbed.profile import DEFAULT
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import PROXY_PORT, Profile
from tributary.settings.failure import Exit, Failure
from tributary.settings.files import load

_SOURCES = {"kernel": "kernel", "scapy": "sniffer"}
_PORT = 3128
RULES = """
[[rules]]
name = "joined-slow"
min_subflows = 2
path = "path2"
rate = "5mbit"
"""
_GRACE = 3.0
"""Seconds after the load that a late element gets."""


@dataclass(frozen=True)
class Load:
    """``joins`` a second for ``seconds``, so many of them by each session."""

    joins: int
    seconds: int
    by_session: int


_FULL, _QUICK = Load(joins=1000, seconds=30, by_session=8), Load(joins=100, seconds=5, by_session=4)


@dataclass(frozen=True)
class Measured:
    """Each join's Unix time and the seconds to its element, or None if it got none."""

    joins: tuple[tuple[float, float | None], ...]

    @property
    def missed(self) -> int:
        """How many joins got no element."""
        return sum(latency is None for _, latency in self.joins)

    @property
    def milliseconds(self) -> list[float]:
        """From third ACK to element, of the joins that got one."""
        return [1000 * latency for _, latency in self.joins if latency is not None]

    @property
    def per_second(self) -> float:
        """The rate that the joins came at."""
        first, last = self.joins[0][0], self.joins[-1][0]
        return (len(self.joins) - 1) / (last - first)

    @property
    def medians(self) -> tuple[float, ...]:
        """The milliseconds' median in each second of the load."""
        start = self.joins[0][0]
        seen = [(int(at - start), 1000 * latency) for at, latency in self.joins if latency is not None]
        return tuple(median(value for _, value in group) for _, group in groupby(seen, key=lambda each: each[0]))

    def values(self, name: str) -> dict[str, float]:
        """As a result tells it."""
        return {
            f"{name}_p50_ms": median(self.milliseconds),
            f"{name}_p99_ms": quantiles(self.milliseconds, n=100, method="inclusive")[98],
            f"{name}_joins": len(self.joins),
            f"{name}_missed": self.missed,
        }


def enforcement(quick: bool, say: Callable[[str], None]) -> Result:
    """Thirty seconds of 1,000 joins each by either source, and thirty single ones; five of 100, and five, if quick."""
    described = _QUICK if quick else _FULL
    measured = {name: _under_load(source, described, say) for name, source in _SOURCES.items()}
    single = _one_at_a_time(5 if quick else 30, say)
    return Result(
        series=(
            *(Series(f"{name}: median of each second", "ms", each.medians) for name, each in measured.items()),
            Series("join to first held packet", "ms", single),
        ),
        values={
            **{key: value for name, each in measured.items() for key, value in each.values(name).items()},
            "joins_per_second": min(each.per_second for each in measured.values()),
            "enforcement_p50_ms": median(single),
            "enforcement_max_ms": max(single),
        },
    )


def _under_load(source: str, described: Load, say: Callable[[str], None]) -> Measured:
    say(f"source {source}: {described.joins} joins a second for {described.seconds} s")
    with pair.pair(pair.NAME) as testbed, ExitStack() as stack:
        _make_room(testbed, described)
        stack.enter_context(pair.throttling(testbed, RULES, source))
        probe = [sys.executable, "-m", "experiments.probes.installs", PATHS[1], str(_PORT)]
        watching = stack.enter_context(testbed.gateway.start("installs", probe).wait_until_ready())
        generator = [sys.executable, "-m", "experiments.probes.join_load"]
        accept = [*generator, "accept", str(pair.LISTENER), str(_PORT)]
        stack.enter_context(testbed.gateway.start("accept", accept).wait_until_ready())
        sessions = str(described.joins / described.by_session)
        printed = testbed.client.run(
            *generator, "open", str(pair.LISTENER), str(_PORT), sessions, str(described.seconds)
        )
        sleep(_GRACE)
        watching.stop(seconds=60)
        return _read(watching.output(), json.loads(printed)["failed"])


def _make_room(testbed: Testbed, described: Load) -> None:
    """Limits that are there against misuse, and would bend the load."""
    for node in (testbed.client, testbed.gateway):
        node.sysctl(net__core__somaxconn=4096, net__ipv4__tcp_max_syn_backlog=8192, net__ipv4__tcp_syncookies=0)
    testbed.client.sysctl(net__ipv4__ip_local_port_range="10000 65000", net__ipv4__tcp_fin_timeout=5)
    pair.let_join(testbed, described.by_session)


def _read(output: str, failed: int) -> Measured:
    told = json.loads(output.splitlines()[-1])
    if told["lost"]:
        raise Failure(Exit.WRONG_RESULT, f"the probe lost {told['lost']} of its records: no figure can be trusted")
    if failed:
        raise Failure(Exit.WRONG_RESULT, f"{failed} sessions could not connect: the load was not as described")
    measured = Measured(tuple((at, latency) for at, latency in told["joins"]))
    if len(measured.milliseconds) < 2:
        seen = len(measured.joins)
        raise Failure(Exit.WRONG_RESULT, f"{seen} joins were seen, and nearly none was ever held")
    return measured


def _one_at_a_time(repetitions: int, say: Callable[[str], None]) -> tuple[float, ...]:
    """Milliseconds from the third ACK to the first held packet, in downloads that are throttled from their join on."""
    file = random_file(5_000_000, seed=1)
    times = []
    with standing(pair.NAME, load(DEFAULT, Profile)) as testbed:
        start_server(testbed, file.path.parent)
        start_squid(testbed)
        start_throttler(testbed, WIRED_SLOW)
        for repetition in range(repetitions):
            with watched(testbed) as held:
                fetch(testbed, "held", file, "wired", PROXY_PORT)
            times.append(held().milliseconds)
            say(f"join {repetition + 1}: {times[-1]:.1f} ms")
    return tuple(times)
