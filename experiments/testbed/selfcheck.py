"""Measures each link of a testbed and compares it with its description: no experiment runs on a link that is off."""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from experiments.probes.flood import PACKET
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node, python
from experiments.testbed.profile import TOLERANCE
from experiments.testbed.topology import Direction, Link
from experiments.testbed.trace import Trace
from tributary.settings.errors import CommandError, Exit

WAKE_UPS_MS = 1.0
"""What a round trip may differ by in any case: two timers of the emulated link, and ping's own wake-up, are late.

On a virtual machine that is idle this was 0.6 ms, which is more than 5 % of a short link.
"""
_PAUSES = (0.0, 0.0, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before each attempt at a property of a link: a shared machine may stall so long."""
_PINGS, _PING_INTERVAL, _PING_BITS = 40, 0.01, 8 * 84
_FLOOD_PORT, _FLOOD_SECONDS, _OVERLOAD = 5201, 0.5, 1.3
_LEAST_PACKETS = 40  # of a flood: tbf(8) lets the first two through at once
_SILENCE, _SILENT_PACKETS = 0.3, 5  # seconds without a packet, and as many as would have come, after which it is over
_LEAST_ARRIVES = 0.05  # of a flood that is made larger for what the link loses
_LONGEST_FLOOD, _SETTLING, _PEAK = 10.0, 0.2, 0.1  # seconds


RTT, DOWN, UP = "rtt_ms", "down_mbps", "up_mbps"
_FIRST_RATE, _LAST_RATE, _MORE = 10e6, 20e9, 4  # bits per second, and times: what a link that nobody knows may have


@dataclass(frozen=True)
class Reading:
    """One property of a link (``rtt_ms``, ``down_mbps`` or ``up_mbps``): as described, and as measured.

    ``down_mbps_in_part`` and ``up_mbps_in_part`` are of a trace too long to be seen whole, and not judged. What is less
    by ``early``, or more by ``late``, is as described too.
    """

    link: str
    what: str
    described: float
    measured: float
    judged: bool = True
    early: float = 0.0
    late: float = 0.0

    @property
    def nearest(self) -> float:
        """What is nearest to the measurement of all that is as described."""
        return min(self.described + self.late, max(self.described - self.early, self.measured))

    @property
    def off(self) -> float:
        """By how much the measurement differs from that, as a share of it; 0.05 is 5 %."""
        return abs(self.measured / self.nearest - 1)

    def fits(self, tolerance: float) -> bool:
        """Whether it is not off by more than ``tolerance``; a round-trip time may be by ``WAKE_UPS_MS`` as well."""
        late = self.what == RTT and abs(self.measured - self.nearest) <= WAKE_UPS_MS
        return not self.judged or late or self.off <= tolerance


def check_links(testbed: Testbed, pauses: Sequence[float] = _PAUSES, tolerance: float = TOLERANCE) -> list[Reading]:
    """Measure every link; raises CommandError (exit 75) that names the first one that is off by more than
    ``tolerance``.

    What is off is measured again: a busy machine disturbs one measurement, a wrong link spoils them all.
    """
    ends = testbed.client, testbed.gateway
    return [reading for link in testbed.topology.links for reading in check_link(link, *ends, pauses, tolerance)]


def check_link(
    link: Link, client: Node, gateway: Node, pauses: Sequence[float] = _PAUSES, tolerance: float = TOLERANCE
) -> list[Reading]:
    """The same for one link, whose ends are ``client`` and ``gateway``."""
    return [_checked(measure, pauses, tolerance) for measure in _measurements(link, client, gateway)]


def _checked(measure: Callable[[], Reading], pauses: Sequence[float], tolerance: float) -> Reading:
    for pause in pauses:
        time.sleep(pause)
        reading = measure()
        if reading.fits(tolerance):
            return reading
    allowed = f"{tolerance:.0%} or {WAKE_UPS_MS:g} ms" if reading.what == RTT else f"{tolerance:.0%}"
    raise CommandError(
        Exit.IN_USE,
        f"link {reading.link}: {reading.what} is {reading.measured:.2f}, described as {reading.nearest:.2f}:"
        f" off by {reading.off:.0%}, at most {allowed} is allowed (is the machine busy?)",
    )


def as_json(readings: list[Reading]) -> list[dict[str, object]]:
    """``readings`` for a manifest."""
    return [asdict(reading) for reading in readings]


def _measurements(link: Link, client: Node, gateway: Node) -> Iterator[Callable[[], Reading]]:
    """What measures each property of a link, as often as it is called."""
    if link.rtt > 0:
        yield partial(_round_trip, client, link)
    for what, direction in ((DOWN, link.down), (UP, link.up)):
        yield partial(_rate, link, what, direction, _flood(link, what, client, gateway))


def _rate(link: Link, what: str, direction: Direction, flood: "_Flood") -> Reading:
    measured = flood.over_trace(direction.trace) if direction.trace else flood.over_rate(direction.rate.amount)
    whole = direction.trace is None or direction.trace.period <= _LONGEST_FLOOD
    return Reading(
        link.name,
        what if whole else f"{what}_in_part",
        direction.rate.amount / 1e6,
        measured / 1e6,
        judged=whole and link.judged(what),
    )


def measured_anew(link: Link, what: str, client: Node, gateway: Node) -> float:
    """A property of a link of which nothing is known: milliseconds, or Mbit/s of IP packets."""
    if what == RTT:
        times = _pings(client, link)
        return times[len(times) // 2]
    flood = _flood(link, what, client, gateway)
    supposed = _FIRST_RATE
    while (arrived := flood.over_rate(supposed)) > supposed and supposed < _LAST_RATE:
        supposed *= _MORE
    return arrived / 1e6


def _flood(link: Link, what: str, client: Node, gateway: Node) -> "_Flood":
    ends = (gateway, client, str(link.client4)) if what == DOWN else (client, gateway, str(link.gateway4))
    loss = (link.down if what == DOWN else link.up).loss.fraction
    return _Flood(f"flood-{link.name}-{what}", *ends, overload=_OVERLOAD / max(1 - loss, _LEAST_ARRIVES))


def _round_trip(client: Node, link: Link) -> Reading:
    """The median of some pings: a mean would count what ARP and a busy processor add.

    Each may have taken the time that its own bits take to pass: the emulator adds that, and tbf(8) lets them through.
    Where a trace makes most pings wait for their turn, it is the least of them. Jitter makes that one shorter; and it
    may have waited as well, for all pings are whole milliseconds apart, as are the turns of a trace at its best.
    """
    directions = (link.down, link.up)
    times = _pings(client, link)
    return Reading(
        link.name,
        RTT,
        1000 * link.rtt,
        times[0 if link.traced else len(times) // 2],
        judged=link.judged(RTT),
        early=1000 * sum(direction.jitter.seconds for direction in directions if link.traced),
        late=1000 * sum(map(_passing, directions)),
    )


def _passing(direction: Direction) -> float:
    """Seconds that a ping may take to pass, at most."""
    return direction.trace.turn(_PEAK) if direction.trace else _PING_BITS / direction.rate.amount


def _pings(client: Node, link: Link) -> list[float]:
    """Round-trip times in milliseconds, in ascending order; none waits for the one before."""
    interval = max(_PING_INTERVAL, *(2 * _passing(direction) for direction in (link.down, link.up)))
    printed = client.run(
        *("ping", "-n", "-c", str(_PINGS), "-i", f"{interval:.3f}", "-W", "2"),
        *("-I", str(link.client4), str(link.gateway4)),
    )
    return sorted(float(found) for found in re.findall(r"time=([\d.]+) ms", printed))


@dataclass(frozen=True)
class _Flood:
    """UDP at more than a link carries, from ``source`` to ``address`` at ``sink``; ``name`` is for the log.

    It is sent at ``overload`` times what the link carries: the link loses its share before its queue.
    """

    name: str
    source: Node
    sink: Node
    address: str
    overload: float

    def over_rate(self, bits_per_second: float) -> float:
        """The rate at which a short flood arrives, in IP bits per second."""
        passing = 8 * PACKET / bits_per_second
        seconds, silence = max(_FLOOD_SECONDS, _LEAST_PACKETS * passing), max(_SILENCE, _SILENT_PACKETS * passing)
        told = self._send(["receive", str(silence)], self.overload * bits_per_second, seconds)
        return float(told["bits_per_second"])

    def over_trace(self, trace: Trace) -> float:
        """The mean rate over whole periods of ``trace``, or over as much of one as time allows, in IP bits per second.

        A whole period carries the same wherever in the trace it begins, which the sender does not know. The link has to
        be busy at the trace's best moments as well.
        """
        seconds = min(_LONGEST_FLOOD, trace.period * math.ceil(_FLOOD_SECONDS / trace.period))
        received = ["arrivals", str(_SETTLING), str(seconds)]
        told = self._send(received, self.overload * trace.peak(_PEAK), _SETTLING + seconds + 1)
        return float(8 * sum(told["bytes"]) / seconds)

    def _send(self, received: list[str], bits_per_second: float, seconds: float) -> dict[str, Any]:
        """Flood for so long; returns what the receiver, told by its name and its own numbers, printed last."""
        at = (self.address, str(_FLOOD_PORT))
        with self.sink.probe("flood", received[0], *at, *received[1:], name=self.name) as receiver:
            self.source.run(*python("experiments.probes.flood", "send", *at, str(bits_per_second), str(seconds)))
            receiver.popen.wait(timeout=30 + seconds)
            return receiver.report()
