"""Measures each link of a testbed and compares it with its description: no experiment runs on a link that is off."""

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from experiments.testbed.build import Testbed
from experiments.testbed.node import Node
from experiments.testbed.topology import Direction, Link
from settings.failure import Exit, Failure

TOLERANCE = 0.05
_PAUSES = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0)  # seconds before each attempt at a link: a shared machine may stall so long
_PINGS, _PING_INTERVAL = 40, 0.01
_FLOOD_PORT, _FLOOD_SECONDS, _OVERLOAD = 5201, 0.5, 1.3


@dataclass(frozen=True)
class Reading:
    """One property of a link (``rtt_ms``, ``down_mbps`` or ``up_mbps``): as described, and as measured."""

    link: str
    what: str
    described: float
    measured: float

    @property
    def off(self) -> float:
        """By how much the measurement differs, as a share of the description; 0.05 is 5 %."""
        return abs(self.measured / self.described - 1)


def check_links(testbed: Testbed, pauses: Sequence[float] = _PAUSES) -> list[Reading]:
    """Measure every link; raises Failure (exit 1) that names the first one that is off by more than TOLERANCE.

    A link that is off is measured again: a busy machine disturbs one measurement, a wrong link spoils them all.
    """
    return [reading for link in testbed.topology.links for reading in _check(testbed, link, pauses)]


def _check(testbed: Testbed, link: Link, pauses: Sequence[float]) -> list[Reading]:
    for pause in pauses:
        time.sleep(pause)
        measured = list(_measure(testbed, link))
        wrong = [reading for reading in measured if reading.off > TOLERANCE]
        if not wrong:
            return measured
    raise _off(wrong[0])


def _off(reading: Reading) -> Failure:
    return Failure(
        Exit.WRONG_RESULT,
        f"link {reading.link}: {reading.what} is {reading.measured:.2f}, described as {reading.described:.2f}:"
        f" off by {reading.off:.0%}, at most {TOLERANCE:.0%} is allowed (is the machine busy?)",
    )


def as_json(readings: list[Reading]) -> list[dict[str, object]]:
    """``readings`` for a manifest."""
    return [asdict(reading) for reading in readings]


def _measure(testbed: Testbed, link: Link) -> Iterator[Reading]:
    if link.rtt > 0:
        yield Reading(link.name, "rtt_ms", 1000 * link.rtt, _rtt_ms(testbed.client, link))
    for what, direction, source, sink, address in (
        ("down_mbps", link.down, testbed.gateway, testbed.client, link.client4),
        ("up_mbps", link.up, testbed.client, testbed.gateway, link.gateway4),
    ):
        measured = _rate(f"{link.name}-{what}", direction, source, sink, str(address))
        yield Reading(link.name, what, direction.rate.amount / 1e6, measured / 1e6)


def _rtt_ms(client: Node, link: Link) -> float:
    """The median of some pings: a mean would count what ARP and a busy processor add."""
    printed = client.run(
        *("ping", "-n", "-c", str(_PINGS), "-i", str(_PING_INTERVAL), "-W", "2"),
        *("-I", str(link.client4), str(link.gateway4)),
    )
    times = sorted(float(found) for found in re.findall(r"time=([\d.]+) ms", printed))
    return times[len(times) // 2]


def _rate(name: str, direction: Direction, source: Node, sink: Node, address: str) -> float:
    flood = [sys.executable, "-m", "experiments.probes.flood"]
    with sink.start(f"flood-{name}", [*flood, "receive", address, str(_FLOOD_PORT)]).wait_until_ready() as receiver:
        offered = str(_OVERLOAD * direction.rate.amount)
        source.run(*flood, "send", address, str(_FLOOD_PORT), offered, str(_FLOOD_SECONDS))
        receiver.popen.wait(timeout=30)
        result = json.loads(receiver.output().splitlines()[-1])
    return float(result["bits_per_second"])
