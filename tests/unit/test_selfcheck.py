"""When a link is as described, by what was measured of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.probes.flood import PACKET
from experiments.testbed.node import Node, Process
from experiments.testbed.selfcheck import Reading, check_link
from experiments.testbed.topology import Link
from tests.unit.test_traces import link_of
from tributary.settings.errors import CommandError


@pytest.mark.parametrize(
    ("what", "described", "measured", "fits"),
    [
        ("down_mbps", 100, 95.1, True),
        ("down_mbps", 100, 94.9, False),
        ("up_mbps", 100, 105.1, False),
        ("up_mbps", 1, 0.5, False),
        *(("rtt_ms", 40, measured, fits) for measured, fits in ((41.9, True), (42.1, False), (37.9, False))),
        *(("rtt_ms", 5, measured, fits) for measured, fits in ((5.9, True), (6.1, False), (3.9, False))),
    ],
)
def test_a_reading_fits_within_five_percent_or_what_wake_ups_take(
    what: str, described: float, measured: float, fits: bool
) -> None:
    assert Reading("wired", what, described, measured).fits(0.05) == fits


def test_what_is_not_judged_fits() -> None:
    assert Reading("wired", "down_mbps_in_part", 100, 10, judged=False).fits(0.05)


@dataclass(frozen=True)
class Emulated(Node):
    """Both ends of a link that is ``really`` so: its emulator adds a ping's own bits, and its queue holds all."""

    really: Link
    flood: dict[str, float] = field(default_factory=dict)

    def run(self, *arguments: str) -> str:
        if arguments[0] != "ping":
            self.flood["sent"], self.flood["seconds"] = map(float, arguments[-2:])
            return ""
        count, interval = (float(arguments[arguments.index(option) + 1]) for option in ("-c", "-i"))
        passing = [8 * 84 / way.rate.amount for way in (self.really.up, self.really.down)]
        waiting = max(0.0, max(passing) - interval)
        times = [self.really.rtt + sum(passing) + number * waiting for number in range(int(count))]
        return "\n".join(f"64 bytes from somewhere: time={1000 * each:.3f} ms" for each in times)

    def start(self, name: str, arguments: Sequence[str]) -> Process:
        way = self.really.down if name.endswith("down_mbps") else self.really.up
        silence = float(arguments[-1])
        return _Receiver(way.rate.amount, way.loss.fraction, silence, self.flood)  # type: ignore[return-value]


@dataclass
class _Receiver:
    """What arrives of a flood."""

    rate: float
    loss: float
    silence: float
    flood: dict[str, float]
    popen: object = field(default_factory=lambda: SimpleNamespace(wait=lambda **_: 0))

    @contextmanager
    def wait_until_ready(self) -> Iterator["_Receiver"]:
        yield self

    def report(self) -> dict[str, float]:
        between = 8 * PACKET / min(self.rate, self.flood["sent"] * (1 - self.loss))
        packets = min(self.flood["seconds"], 1000) // between
        return {"bits_per_second": 8 * PACKET / between if between < self.silence and packets > 20 else 0}


def checked(described: Link, really: Link) -> dict[str, float]:
    end = Emulated("none", Path("/"), really)
    return {reading.what: reading.described for reading in check_link(described, end, end, pauses=(0.0,))}


@pytest.mark.parametrize("rate", ["100mbit", "1mbit", "64kbit", "30kbit"])
def test_a_slow_link_may_take_the_time_that_a_packet_takes_to_pass(rate: str) -> None:
    """A ping's 84 bytes take 10 ms at 64 kbit/s, each way, and a packet of the flood a fifth of a second."""
    link = link_of(rate=rate, delay="10ms")
    assert checked(link, link)["rtt_ms"] == 20


def test_a_slow_link_has_no_longer_delay_than_that() -> None:
    with pytest.raises(CommandError, match=r"rtt_ms is 61\.00, described as 41\.00"):
        checked(link_of(rate="64kbit", delay="10ms"), link_of(rate="64kbit", delay="20ms"))


def test_a_flood_fills_the_queue_behind_what_is_lost() -> None:
    link = link_of(rate="10mbit", delay="10ms", loss="30%")
    assert checked(link, link)["down_mbps"] == 10
