"""How long does it take from a join's third ACK to its enforcement?

Under load: a thousand joins a second, from the third ACK on the wire to the element in the throttler's map, with each
source of the throttler in turn. One at a time: from the third ACK to the first packet in the held class.
"""

from collections.abc import Sequence
from itertools import groupby
from statistics import median, quantiles
from time import sleep

from pydantic import Field

from experiments.bench import pair
from experiments.enforcement import watched
from experiments.fetch import fetch
from experiments.study.blueprint import Blueprint, TestbedBlueprint
from experiments.study.experiment import Count, Experiment, Repeat
from experiments.study.metrics import Metric
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed.appliance import WIRED_SLOW, start_throttler
from experiments.testbed.build import Testbed
from experiments.testbed.cables import PATHS, make_room
from experiments.testbed.node import python
from experiments.testbed.server import random_file, start_origin
from experiments.testbed.topology import PROXY_PORT, Profile
from tributary.settings.errors import CommandError, Exit

_SOURCES = {"kernel": "kernel", "scapy": "sniffer"}
_PORT = 3128
RULE = {"name": "joined-slow", "min_subflows": 2, "path": PATHS[1], "rate": "5mbit"}
_GRACE = 3.0
"""Seconds after the load that a late element gets."""


_SINGLE = "one at a time"


def summed_up(joins: Sequence[tuple[float, float | None]]) -> tuple[dict[str, float], list[float]]:
    """What each join's Unix time and the seconds to its element, None if it got none, come to; and the milliseconds'
    median in each second of the load. Pure; raises CommandError (exit 1) if nearly none got one.
    """
    held = [(at, 1000 * latency) for at, latency in joins if latency is not None]
    if len(held) < 2:
        raise CommandError(Exit.WRONG_RESULT, f"{len(joins)} joins were seen, and nearly none was ever held")
    (first, _), (last, _) = joins[0], joins[-1]
    milliseconds = [each for _, each in held]
    values = {
        "p50_ms": median(milliseconds),
        "p99_ms": quantiles(milliseconds, n=100, method="inclusive")[98],
        "joins": float(len(joins)),
        "missed": float(len(joins) - len(held)),
        "joins_per_second": (len(joins) - 1) / (last - first),
    }
    by_second = groupby(held, key=lambda each: int(each[0] - first))
    return values, [median(each for _, each in group) for _, group in by_second]


class Enforcement(Experiment):
    """``joins`` a second for ``seconds``, so many of them ``by_session``; and ``singles``, one at a time."""

    claim = "How soon is a join enforced, at 1,000 joins a second, by either source?"
    quick = {"joins": 100, "seconds": 5, "by_session": 4, "singles": 5}
    at = [{"joins": each} for each in (*_SOURCES, _SINGLE)]

    repeat: Repeat = 1
    joins: Count = 1000
    seconds: Count = 30
    by_session: int = Field(default=8, ge=1, le=8, description="a whole number of joins, 1 to 8")
    singles: Count = 30

    def blueprint(self, profile: Profile, point: Point) -> Blueprint:
        return TestbedBlueprint(profile, tuned=False) if point["joins"] == _SINGLE else pair.PAIR

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """``p50_ms`` and what else summed_up() gives; or ``p50_ms`` and ``most_ms`` of single joins."""
        if point["joins"] == _SINGLE:
            times = _one_at_a_time(testbed, self.singles)
            values = {"p50_ms": median(times), "most_ms": max(times)}
            return Reading(point, repetition, values, samples={"p50_ms": times})
        values, medians = summed_up(self._under_load(testbed, _SOURCES[point["joins"]]))
        return Reading(point, repetition, values, samples={"p50_ms": medians})

    def metrics(self, readings: Readings) -> list[Metric]:
        loads, single = {name: readings.at(joins=name) for name in _SOURCES}, readings.at(joins=_SINGLE)
        slowest = min(rate for load in loads.values() for rate in load.values("joins_per_second"))
        return [
            *(Metric(f"{name}: median of each second", load.samples("p50_ms"), "ms") for name, load in loads.items()),
            *(
                Metric(f"{name}_{value}", load.values(value))
                for name, load in loads.items()
                for value in ("p50_ms", "p99_ms", "joins", "missed")
            ),
            Metric("joins_per_second", [slowest]),
            Metric("enforcement_p50_ms", single.samples("p50_ms")),
            Metric("enforcement_max_ms", [max(single.values("most_ms"))]),
        ]

    def _under_load(self, testbed: Testbed, source: str) -> list[tuple[float, float | None]]:
        """What experiments.probes.installs tells of the joins."""
        make_room(testbed)
        testbed.gateway.sysctl(net__ipv4__tcp_syncookies=0)
        with (
            pair.joining(testbed, self.by_session),
            pair.throttling(testbed, RULE, source),
            testbed.gateway.probe("installs", PATHS[1], str(_PORT)) as watching,
            start_origin(testbed.gateway, f"{pair.LISTENER}:{_PORT}", "--mptcp"),
        ):
            load = (str(pair.LISTENER), str(_PORT), str(self.joins / self.by_session), str(self.seconds))
            failed = testbed.client.told(*python("experiments.probes.join_load", *load))["failed"]
            sleep(_GRACE)
            watching.stop(seconds=60)
            told = watching.report()
        if lost := told["lost"]:
            raise CommandError(Exit.WRONG_RESULT, f"the probe lost {lost} of its records: no figure can be trusted")
        if failed:
            raise CommandError(Exit.WRONG_RESULT, f"{failed} sessions could not connect: the load was not as described")
        return [(at, latency) for at, latency in told["joins"]]


def _one_at_a_time(testbed: Testbed, joins: int) -> list[float]:
    """Milliseconds from the third ACK to the first held packet, in downloads that are throttled from their join on."""
    file = random_file(5_000_000, seed=1)
    times = []
    with start_throttler(testbed, WIRED_SLOW):
        for _ in range(joins):
            with watched(testbed) as held:
                fetch(testbed, "held", file, "wired", PROXY_PORT)
            times.append(held().milliseconds)
    return times
